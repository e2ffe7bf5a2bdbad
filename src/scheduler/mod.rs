//! The scheduler's end: the one writer of the index.
//!
//! The calls are here. What they do is in `lives`, `tables` and `draining`; who has each block is in
//! `blocks`, the making and unmaking of leases in `versions`. All of it is plain memory: the shared
//! words are written in `versions` and by the few stores that append, commit and publish.

#![allow(unsafe_code)]

mod answers;
mod audit;
mod blocks;
mod draining;
mod lives;
mod recorded;
mod tables;
mod versions;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc as StdArc;

use slab::Slab;

pub use answers::{BlockState, Counts, Preempted, Released};
pub use audit::AuditError;
pub use draining::DrainingLease;
pub(crate) use versions::Estate;

use crate::error::{Error, Holder};
use crate::events;
use crate::geometry::{Geometry, GroupShape};
use crate::ids::{BlockId, Epoch, GroupId, RequestKey, StepId};
use crate::index::Index;
use crate::lease::{History, Lease};
use crate::pin::Pin;
use crate::reclaim::Batch;
use crate::recorder::{HeldAlone, Recorder};
use crate::shared::Shared;
use crate::stats::Gauged;
use crate::storage::{Pool, Version};
use crate::sync::Arc;
use blocks::Blocks;
use versions::{LeaseId, LeaseRecord, Life, LifeId, Table};

/// A place for one life at a time.
struct Slot {
    incarnation: u32,
    history: History,
    /// The life that lives here.
    life: Option<LifeId>,
    newest: Option<LeaseId>,
}

/// The one writer of an index: hands blocks to requests, takes them back, and publishes.
///
/// It can be sent to another thread but not cloned: every engine has one scheduler per block pool.
/// Its calls never wait for readers. Each first takes in what pins have given back since the last,
/// at a cost that grows with what there is to take in.
///
/// Dropping it ends the index: pins that are out keep their blocks readable, and no new one is
/// taken.
///
/// ```
/// use tenure::{BlockId, Config, GroupId};
/// let (mut scheduler, index) = Config::new(8).build()?;
/// let request = scheduler.admit("r1")?;
/// scheduler.assign(request, GroupId(0), &[BlockId(3), BlockId(5)])?;
/// scheduler.publish(); // now readers see it
/// assert_eq!(index.view(request)?.table(GroupId(0)), [Some(BlockId(3)), Some(BlockId(5))]);
/// assert_eq!(scheduler.release(request)?.freed(), [BlockId(3), BlockId(5)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scheduler {
    shared: Arc<Shared>,
    epoch: Epoch,
    draining: bool,
    blocks: Blocks,
    slots: Vec<Slot>,
    /// Slots in which nobody lives.
    vacant: Vec<u32>,
    labels: HashMap<StdArc<str>, RequestKey>,
    no_label: StdArc<str>,
    lives: Slab<Life>,
    leases: Slab<LeaseRecord>,
    /// Superseded leases and the epoch that makes their successors visible, in that order.
    due: VecDeque<(LeaseId, u64)>,
    /// The version of the lease made last.
    version: Version,
    /// Closed leases with pins that have not been taken in yet.
    undrained: usize,
    /// How many of them there are by the epoch at which they were closed.
    undrained_since: BTreeMap<u64, u32>,
    /// Leases that came off the drain stack.
    taken_in: u64,
    /// Pins that were given leases of their own and taken in, for the recorder.
    held_alone: Vec<HeldAlone>,
    /// Held blocks above which a warning is due, and whether there were as many when last noted.
    held_limit: Option<u32>,
    above_limit: bool,
    /// A drain was seen to be over.
    told_drained: bool,
    /// What was retired since a batch was last sent off.
    batch: Batch,
    /// Batches that are on their way, and the pieces of storage in them.
    sent: usize,
    pieces_sent: usize,
    /// The epoch at which that was last looked after.
    tended: u64,
    /// Leases that are allocated.
    in_memory: usize,
    pool: Pool,
}

// SAFETY: the raw pointers are to leases and storage that the scheduler alone writes and frees, in
// whatever thread it is.
unsafe impl Send for Scheduler {}

impl Scheduler {
    pub(crate) fn new(shared: Arc<Shared>) -> Scheduler {
        let blocks = Blocks::new(shared.geometry.blocks(), shared.geometry.null_block());
        let mut scheduler = Scheduler {
            shared,
            epoch: Epoch(0),
            draining: false,
            blocks,
            slots: Vec::new(),
            vacant: Vec::new(),
            labels: HashMap::new(),
            no_label: StdArc::from(""),
            lives: Slab::new(),
            leases: Slab::new(),
            due: VecDeque::new(),
            version: 0,
            undrained: 0,
            undrained_since: BTreeMap::new(),
            taken_in: 0,
            held_alone: Vec::new(),
            held_limit: None,
            above_limit: false,
            told_drained: false,
            batch: Batch::new(),
            sent: 0,
            pieces_sent: 0,
            tended: 0,
            in_memory: 0,
            pool: Pool::default(),
        };
        scheduler.note();
        scheduler
    }

    /// Begins the life of a request.
    ///
    /// # Errors
    /// [`Error::AlreadyLive`] where a request of this label lives; [`Error::TooManyRequests`].
    pub fn admit(&mut self, label: &str) -> Result<RequestKey, Error> {
        self.recorded(|s| s.admit_now(label), |log, answer| log.admit(label, answer))
    }

    /// Appends free blocks to a table. The null block makes a hole. Readers see them from the next
    /// publish on.
    ///
    /// Costs a few plain memory accesses a block.
    ///
    /// # Errors
    /// [`Error::InUse`] for a block that is not free or stands twice in `blocks`;
    /// [`Error::UnknownBlock`]; [`Error::TableFull`]; and, as for every call on a life,
    /// [`Error::AlreadyReleased`], [`Error::UnknownKey`] and [`Error::UnknownGroup`].
    pub fn assign(
        &mut self,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
    ) -> Result<(), Error> {
        self.recorded(
            |s| s.assign_now(key, group, blocks),
            |log, answer| log.append("assign", key, group, blocks, answer),
        )
    }

    /// Appends blocks that are in a tenancy already, owned or held. The null block makes a hole. A
    /// block may be listed several times. Readers see them from the next publish on.
    ///
    /// # Errors
    /// [`Error::NotOwned`] for a block that is free; [`Error::UnknownBlock`]; [`Error::TableFull`];
    /// [`Error::TooOftenUsed`]; and those of every call on a life (see
    /// [`assign`](Scheduler::assign)).
    pub fn share(
        &mut self,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
    ) -> Result<(), Error> {
        self.recorded(
            |s| s.share_now(key, group, blocks),
            |log, answer| log.append("share", key, group, blocks, answer),
        )
    }

    /// Names the first `tokens` tokens of a life as written, in all its groups at once. Takes effect
    /// at once; never lowers. Has no effect where the index does not track commits.
    ///
    /// # Errors
    /// [`Error::BeyondTable`] where the table of any group is shorter; and those of every call on
    /// a life (see [`assign`](Scheduler::assign)).
    pub fn commit(&mut self, key: RequestKey, tokens: u64) -> Result<(), Error> {
        self.recorded(|s| s.commit_now(key, tokens), |log, answer| log.commit(key, tokens, answer))
    }

    /// Makes holes: a sliding window lets go of its front. Takes effect at once. Holes among the
    /// positions give nothing up.
    ///
    /// Where everything before the range is a hole already, the cost does not grow with the table;
    /// elsewhere the chunks of the range are copied.
    ///
    /// # Errors
    /// [`Error::BadRange`] for a reversed range; [`Error::BeyondTable`]; and those of every call on
    /// a life (see [`assign`](Scheduler::assign)).
    pub fn vacate(
        &mut self,
        key: RequestKey,
        group: GroupId,
        positions: Range<u32>,
    ) -> Result<Released<'_>, Error> {
        let asked = positions.clone();
        self.recorded(
            |s| s.vacate_now(key, group, positions),
            |log, answer| log.vacate(key, group, &asked, answer),
        )
    }

    /// Shortens a table to `len` positions and what is committed of its group with it: a rollback.
    /// Takes effect at once. The cost grows with what is given up, not with the table.
    ///
    /// # Errors
    /// [`Error::BeyondTable`] where it is shorter already; and those of every call on a life (see
    /// [`assign`](Scheduler::assign)).
    pub fn truncate(
        &mut self,
        key: RequestKey,
        group: GroupId,
        len: u32,
    ) -> Result<Released<'_>, Error> {
        self.recorded(
            |s| s.truncate_now(key, group, len),
            |log, answer| log.truncate(key, group, len, answer),
        )
    }

    /// Puts a free block (or, by the null block, a hole) in the place of what a position shows, and
    /// lowers what is committed of its group to where it begins. The loss takes effect at once; the
    /// new block is visible from the next publish on. Copies one path of the table's storage, and,
    /// for a position of a vacated front, the chunks from there to the front.
    ///
    /// # Errors
    /// [`Error::BeyondTable`]; [`Error::InUse`]; [`Error::UnknownBlock`]; and those of every call on
    /// a life (see [`assign`](Scheduler::assign)).
    pub fn replace(
        &mut self,
        key: RequestKey,
        group: GroupId,
        position: u32,
        block: BlockId,
    ) -> Result<Released<'_>, Error> {
        self.recorded(
            |s| s.replace_now(key, group, position, block),
            |log, answer| log.replace(key, group, position, block, answer),
        )
    }

    /// Ends a life and begins its successor, with empty tables, under the same label. Takes effect
    /// at once.
    ///
    /// # Errors
    /// [`Error::AlreadyReleased`]; [`Error::UnknownKey`]; and, once in four billion preemptions of
    /// one slot, [`Error::TooManyRequests`] where no other slot is vacant.
    pub fn preempt(&mut self, key: RequestKey) -> Result<Preempted<'_>, Error> {
        self.recorded(|s| s.preempt_now(key), |log, answer| log.preempt(key, answer))
    }

    /// Ends a life. Takes effect at once. Costs a few plain memory accesses a block.
    ///
    /// # Errors
    /// [`Error::AlreadyReleased`]; [`Error::UnknownKey`].
    pub fn release(&mut self, key: RequestKey) -> Result<Released<'_>, Error> {
        self.recorded(|s| s.release_now(key), |log, answer| log.release(key, answer))
    }

    /// Takes the content of blocks for lost: lowers what is committed of every table that lists one,
    /// to where it first does. Takes effect at once, life by life. Has no effect where the index
    /// does not track commits. Costs a walk over the tables that list them.
    ///
    /// # Errors
    /// [`Error::UnknownBlock`]; [`Error::NullBlock`].
    pub fn invalidate(&mut self, blocks: &[BlockId]) -> Result<(), Error> {
        self.recorded(|s| s.invalidate_now(blocks), |log, answer| log.invalidate(blocks, answer))
    }

    /// Notes that a step was sent to the device: blocks given up from now on are not reusable until
    /// it has ended. Steps may end in any order.
    pub fn begin_step(&mut self) -> StepId {
        self.recorded(|s| s.begin_step_now(), |log, answer| log.begin_step(*answer))
    }

    /// Notes that a step has ended, and tells the blocks that waited for nothing else.
    ///
    /// # Errors
    /// [`Error::UnknownStep`] where it has ended already or was never begun.
    pub fn end_step(&mut self, step: StepId) -> Result<Released<'_>, Error> {
        self.recorded(|s| s.end_step_now(step), |log, answer| log.end_step(step, answer))
    }

    /// Makes everything since the last publish visible at once, over all requests. One atomic
    /// store, whatever has changed.
    #[inline]
    pub fn publish(&mut self) -> Epoch {
        if self.shared.recorder.is_some() {
            self.publish_recorded();
        } else {
            self.publish_now();
        }
        self.epoch
    }

    #[inline]
    fn publish_now(&mut self) {
        self.epoch.0 += 1;
        self.shared.publish(self.epoch);
    }

    /// The blocks that became free because pins ended, since this was last asked, each once. Every
    /// freed block is told exactly once: by the call that freed it, or here. Blocks that were
    /// assigned again meanwhile are left out.
    pub fn reclaim(&mut self) -> &[BlockId] {
        self.look();
        self.blocks.tell()
    }

    /// Holds exactly the listed blocks, whoever owns them: copy targets, a finished request's tail.
    /// Repeated blocks are held once.
    ///
    /// # Errors
    /// [`Error::UnknownBlock`]; [`Error::NullBlock`]; [`Error::Draining`]; [`Error::NotOwned`] for
    /// a free block; [`Error::TooOftenUsed`].
    pub fn hold(&mut self, blocks: &[BlockId]) -> Result<Pin, Error> {
        self.recorded(|s| s.hold_now(blocks), |log, answer| log.hold(blocks, answer))
    }

    /// Resets an index in which nothing is owned or held: ends the lives that are left (they are
    /// empty), and makes every request planned so far stale. Does not publish: until the next
    /// publish nothing can be planned.
    ///
    /// # Errors
    /// [`Error::Busy`] where blocks are owned or held.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.recorded(|s| s.reset_now(), |log, answer| log.reset(answer))
    }

    /// Resets the index whatever is owned or held: ends every life, and frees what no pin or step
    /// protects. Pins that are out stay out. Does not publish.
    pub fn reset_force(&mut self) -> Released<'_> {
        self.recorded(|s| s.reset_force_now(), |log, answer| log.reset_force(answer))
    }

    /// Begins to shut down: no new pin is taken from here on. The scheduler can go on.
    pub fn begin_drain(&mut self) {
        self.recorded(|s| s.begin_drain_now(), |log, _| log.drain())
    }

    /// Whether the index is draining and no pin is out any more.
    pub fn drained(&mut self) -> bool {
        self.look();
        let drained = self.draining && self.undrained == 0;
        if drained && !std::mem::replace(&mut self.told_drained, true) {
            events::drained(self.blocks.held());
        }
        drained
    }

    /// The leases that only pins keep, oldest first: what an operator looks at when blocks stay
    /// held. Pins that were given a [note](Pin::with_note) stand for themselves; pins over a live
    /// table that has lost nothing since are not in it.
    ///
    /// Costs a walk over all leases.
    ///
    /// ```
    /// use tenure::{BlockId, Config, GroupId, Groups};
    /// let (mut scheduler, index) = Config::new(8).build()?;
    /// let request = scheduler.admit("r1")?;
    /// scheduler.assign(request, GroupId(0), &[BlockId(3), BlockId(5)])?;
    /// scheduler.publish();
    /// let pin = index.pin(&index.plan(request, 0..32, Groups::ALL)?)?;
    /// let _ = scheduler.release(request)?;
    /// let lease = &scheduler.draining()[0];
    /// assert_eq!((lease.label.as_deref(), lease.pins), (Some("r1"), 1));
    /// assert_eq!(lease.blocks, [BlockId(3), BlockId(5)]);
    /// drop(pin);
    /// assert!(scheduler.draining().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn draining(&mut self) -> Vec<DrainingLease> {
        self.look();
        self.list_draining()
    }

    /// How many blocks would become free if the life were released now: those that no other life
    /// lists and no pin or step protects. Costs a walk over its tables.
    ///
    /// # Errors
    /// [`Error::AlreadyReleased`]; [`Error::UnknownKey`].
    pub fn reclaimable_now(&mut self, key: RequestKey) -> Result<u32, Error> {
        self.look();
        self.count_reclaimable(key)
    }

    /// Blocks by what has them.
    pub fn counts(&mut self) -> Counts {
        self.look();
        Counts { free: self.blocks.free(), owned: self.blocks.owned(), held: self.blocks.held() }
    }

    /// What has a block.
    ///
    /// # Errors
    /// [`Error::UnknownBlock`]; [`Error::NullBlock`].
    pub fn block_state(&mut self, block: BlockId) -> Result<BlockState, Error> {
        self.look();
        self.blocks.all_known(&[block])?;
        self.blocks.none_null(&[block])?;
        Ok(if self.blocks.is_owned(block) {
            BlockState::Owned
        } else if self.blocks.is_free(block) {
            BlockState::Free
        } else {
            BlockState::Held
        })
    }

    /// The lives that list a block, by order of arrival, each once. The null block has none.
    ///
    /// # Errors
    /// [`Error::UnknownBlock`].
    pub fn owners(&self, block: BlockId) -> Result<Vec<(RequestKey, StdArc<str>)>, Error> {
        self.blocks.all_known(&[block])?;
        let named = |key: RequestKey| Some((key, self.lives[self.life(key).ok()?].label.clone()));
        Ok(self.owners_of(block).into_iter().filter_map(named).collect())
    }

    /// Pins that are out over a life, also when it has ended; exact holds do not count. Costs
    /// a search for a life that has ended.
    pub fn pins(&mut self, key: RequestKey) -> u32 {
        self.look();
        self.pins_of(key)
    }

    fn pins_of(&self, key: RequestKey) -> u32 {
        let life = match self.life(key) {
            Ok(life) => Some(life),
            Err(_) => self.lives.iter().find(|(_, life)| life.key == key).map(|(id, _)| id),
        };
        let Some(life) = life.map(|id| &self.lives[id]) else { return 0 };
        let leases =
            life.queue.iter().copied().chain(life.newest.filter(|id| !life.queue.contains(id)));
        leases.map(|id| self.leases[id].word().pins()).sum()
    }

    /// Asks for a warning in the log when more blocks than this are held, once each time that the
    /// number rises above it; for none with `None`, which is how it begins.
    ///
    /// ```
    /// # use tenure::Config;
    /// let (mut scheduler, _index) = Config::new(60_000).build()?;
    /// scheduler.warn_held_above(Some(6_000));
    /// # Ok::<(), tenure::ConfigError>(())
    /// ```
    pub fn warn_held_above(&mut self, blocks: Option<u32>) {
        self.held_limit = blocks;
        self.above_limit = false;
        self.look();
        self.note();
    }

    /// The flight recorder, where the index has one.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.shared.recorder.as_ref()
    }

    /// The life that lives under a label.
    pub fn key_of(&self, label: &str) -> Option<RequestKey> {
        self.labels.get(label).copied()
    }

    /// The label of a live life.
    pub fn label(&self, key: RequestKey) -> Option<&str> {
        self.life(key).ok().map(|life| &*self.lives[life].label)
    }

    /// Whether a life has not ended.
    pub fn is_live(&self, key: RequestKey) -> bool {
        self.life(key).is_ok()
    }

    /// The positions of a table, holes included, published or not.
    ///
    /// # Errors
    /// Those of every call on a life (see [`assign`](Scheduler::assign)).
    pub fn len(&self, key: RequestKey, group: GroupId) -> Result<u32, Error> {
        Ok(self.table(self.life(key)?, group)?.extent.len)
    }

    /// The tokens of a group that are known to be written; where the index does not track commits,
    /// all that the table covers.
    ///
    /// # Errors
    /// Those of every call on a life (see [`assign`](Scheduler::assign)).
    pub fn committed(&self, key: RequestKey, group: GroupId) -> Result<u64, Error> {
        let life = self.life(key)?;
        let len = self.table(life, group)?.extent.len;
        Ok(if self.geometry().tracks_commits() {
            self.committed_of(life, group.index())
        } else {
            self.shape(group)?.tokens(len)
        })
    }

    /// The published epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A handle for readers.
    pub fn index(&self) -> Index {
        Index::new(self.shared.clone())
    }

    /// The index's pool, groups and block sizes.
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }
}

/// The key of the life that lives in a slot.
fn living(slots: &[Slot], lives: &Slab<Life>, slot: u32) -> Option<RequestKey> {
    let life = slots.get(slot as usize)?.life?;
    lives.get(life).map(|life| life.key)
}

/// What the calls are made of.
impl Scheduler {
    fn begin(&mut self) {
        self.take_in();
        self.blocks.begin_call();
    }

    /// Begins a call that changes nothing but what it takes in.
    fn look(&mut self) {
        if self.shared.recorder.is_some() {
            self.take_in_between();
        }
        self.begin();
    }

    /// Brings the figures that [`Index::stats`] reads up to date.
    fn note(&mut self) {
        let held = self.blocks.held();
        self.shared.gauges.set(Gauged {
            free: self.blocks.free().into(),
            owned: self.blocks.owned().into(),
            held: held.into(),
            live: self.labels.len() as u64,
            draining: self.undrained as u64,
            draining_blocks: self.blocks.kept(),
            draining_since: match self.undrained_since.first_key_value() {
                Some((&since, _)) => since,
                None => Gauged::NOTHING_DRAINS,
            },
            retained: (self.in_memory - self.slots.len()) as u64,
            retained_pieces: (self.pieces_sent + self.batch.pieces.len()) as u64,
        });
        if let Some(limit) = self.held_limit
            && self.above_limit != (held > limit)
        {
            self.above_limit = !self.above_limit;
            events::held(self.above_limit, held, limit, self.undrained, self.epoch);
        }
    }

    fn done(&mut self) -> Released<'_> {
        self.note();
        self.blocks.outcome()
    }

    /// The live life of a key.
    fn life(&self, key: RequestKey) -> Result<LifeId, Error> {
        let slot = self
            .slots
            .get(key.slot() as usize)
            .filter(|slot| (1..=slot.incarnation).contains(&key.incarnation()));
        let slot = slot.ok_or(Error::UnknownKey { key })?;
        slot.life
            .filter(|_| slot.incarnation == key.incarnation())
            .ok_or(Error::AlreadyReleased { key })
    }

    fn shape(&self, group: GroupId) -> Result<&GroupShape, Error> {
        self.geometry().shape(group).ok_or(Error::UnknownGroup { group })
    }

    fn table(&self, life: LifeId, group: GroupId) -> Result<&Table, Error> {
        self.lives[life].tables.get(group.index()).ok_or(Error::UnknownGroup { group })
    }

    /// The newest lease of a live life.
    fn lease(&self, life: LifeId) -> &Lease {
        let slot = self.lives[life].key.slot() as usize;
        let id = self.slots[slot].newest.unwrap_or_default();
        // SAFETY: alive while its record exists, and shared like any lease in a slot.
        unsafe { &*self.leases[id].lease }
    }

    fn owners_of(&self, block: BlockId) -> Vec<RequestKey> {
        self.blocks.owners(block, &|slot| living(&self.slots, &self.lives, slot))
    }

    fn in_use(&self, block: BlockId) -> Error {
        let by = match self.owners_of(block).first() {
            Some(&key) => {
                let label = self.label(key).map_or(self.no_label.clone(), StdArc::from);
                Holder::Request { key, label }
            }
            None => Holder::Held,
        };
        Error::InUse { block, by }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.wind_up();
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("id", &self.shared.id)
            .field("epoch", &self.epoch)
            .field("live", &self.labels.len())
            .field("free", &self.blocks.free())
            .field("owned", &self.blocks.owned())
            .field("held", &self.blocks.held())
            .finish()
    }
}
