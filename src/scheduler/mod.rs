//! The scheduler's end: the one writer of the index.
//!
//! The calls are here; who has each block is in `blocks`, the making and unmaking of leases in
//! `versions`. All of it is plain memory: the shared words are written in `versions` and by the few
//! stores that append, commit and publish.

#![allow(unsafe_code)]

mod answers;
mod audit;
mod blocks;
mod versions;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc as StdArc;

use slab::Slab;

pub use answers::{BlockState, Counts, Preempted, Released};
pub use audit::AuditError;
pub(crate) use versions::Estate;

use crate::error::{BadRange, Error, Holder};
use crate::geometry::{Geometry, GroupShape};
use crate::ids::{BlockId, Epoch, GroupId, RequestKey, StepId};
use crate::index::Index;
use crate::lease::{Ended, History, Lease};
use crate::pin::{Pin, keep_first_of_each};
use crate::reclaim::Batch;
use crate::shared::Shared;
use crate::stats::Gauged;
use crate::storage::{Entry, Pool, Root, Version, Workshop};
use crate::sync::{Arc, Ordering};
use crate::word::Word;
use blocks::Blocks;
use versions::{LeaseId, LeaseRecord, Life, LifeId, Table, listed, protector};

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
    /// What was retired since a batch was last sent off.
    batch: Batch,
    /// Batches that are on their way.
    sent: usize,
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
        let scheduler = Scheduler {
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
            batch: Batch::new(),
            sent: 0,
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
        self.begin();
        if let Some((label, &key)) = self.labels.get_key_value(label) {
            return Err(Error::AlreadyLive { label: label.clone(), key });
        }
        let slot = self.vacant_slot()?;
        let key = self.open_life(slot, StdArc::from(label));
        self.note();
        Ok(key)
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
        self.begin();
        let life = self.life(key)?;
        self.room_for(life, group, blocks)?;
        if !self.blocks.assign(blocks, key) {
            return Err(self.not_assignable(life, blocks));
        }
        self.append(life, group, blocks);
        self.note();
        Ok(())
    }

    /// Why not all of these blocks could be assigned.
    #[cold]
    fn not_assignable(&self, life: LifeId, blocks: &[BlockId]) -> Error {
        if let Err(unknown) = self.blocks.all_known(blocks) {
            return unknown;
        }
        let mut seen = HashSet::new();
        let mut real = blocks.iter().filter(|block| self.blocks.shown(**block).is_some());
        if let Some(&block) = real.clone().find(|block| !self.blocks.is_free(**block)) {
            return self.in_use(block);
        }
        // All are free, so one stands twice.
        let block = real.find(|block| !seen.insert(**block)).or(blocks.first()).copied();
        let Life { key, label, .. } = &self.lives[life];
        let by = Holder::Request { key: *key, label: label.clone() };
        Error::InUse { block: block.unwrap_or(BlockId(0)), by }
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
        self.begin();
        let life = self.life(key)?;
        self.room_for(life, group, blocks)?;
        if !self.blocks.can_share(blocks) {
            return Err(self.not_shareable(blocks));
        }
        let (slots, lives) = (&self.slots, &self.lives);
        let living = |slot: u32| living(slots, lives, slot);
        for &block in blocks {
            if self.blocks.shown(block).is_some() {
                self.blocks.share(block, key, &living);
            }
        }
        self.append(life, group, blocks);
        self.note();
        Ok(())
    }

    /// Why not all of these blocks could be shared.
    #[cold]
    fn not_shareable(&self, blocks: &[BlockId]) -> Error {
        if let Err(unknown) = self.blocks.all_known(blocks) {
            return unknown;
        }
        let mut real = blocks.iter().filter(|block| self.blocks.shown(**block).is_some());
        if let Some(&block) = real.clone().find(|block| self.blocks.is_free(**block)) {
            return Error::NotOwned { block };
        }
        let full =
            real.find(|block| !self.blocks.has_room(**block, blocks.len())).or(blocks.first());
        Error::TooOftenUsed { block: full.copied().unwrap_or(BlockId(0)) }
    }

    /// Names the first `tokens` tokens of a life as written, in all its groups at once. Takes effect
    /// at once; never lowers. Has no effect where the index does not track commits.
    ///
    /// # Errors
    /// [`Error::BeyondTable`] where the table of any group is shorter; and those of every call on
    /// a life (see [`assign`](Scheduler::assign)).
    pub fn commit(&mut self, key: RequestKey, tokens: u64) -> Result<(), Error> {
        self.begin();
        let life = self.life(key)?;
        for (at, (shape, table)) in
            self.geometry().shapes().iter().zip(&self.lives[life].tables).enumerate()
        {
            let len = table.extent.len;
            if tokens > shape.tokens(len) {
                return Err(Error::BeyondTable { group: GroupId(at as u32), len, asked: tokens });
            }
        }
        if self.geometry().tracks_commits() && tokens > self.lives[life].raised {
            self.lives[life].raised = tokens;
            self.lease(life).raise(tokens);
        }
        Ok(())
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
        self.begin();
        let life = self.life(key)?;
        let table = self.table(life, group)?;
        let Range { start, end } = positions;
        if start > end {
            return Err(BadRange { start: start.into(), end: end.into() }.into());
        }
        let (extent, patch, root) = (table.extent, table.patch, table.tree.root);
        if end > extent.len {
            return Err(Error::BeyondTable { group, len: extent.len, asked: end.into() });
        }
        let lost = start.max(extent.front)..end.max(extent.front);
        let lists_any = |positions| {
            let mut any = false;
            // SAFETY: a live table's storage is alive.
            unsafe { listed(root, positions, |_, _| any = true) };
            any
        };
        if lists_any(lost.clone()) {
            let before = extent.front..start;
            let all_patched = patch.lo <= before.start && before.end <= patch.hi;
            let leading = before.is_empty() || (all_patched && !lists_any(before));
            self.change(life, group, lost.clone(), |table, workshop, published| {
                if leading {
                    table.extent.front = end;
                    table.patch = table.patch.within(end, table.extent.len);
                    table.tree.drop_front(end, table.extent.len, published, workshop);
                } else {
                    table.patch = table.patch.with(start, end);
                    table.tree.rebuild(table.extent.len, lost.clone(), workshop);
                    for position in lost.clone() {
                        // SAFETY: a live table's storage is alive.
                        if let Some(entry) = unsafe { table.tree.root.entry(position) } {
                            table.tree.overwrite(position, Entry { block: None, ..entry });
                        }
                    }
                }
            });
        }
        Ok(self.done())
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
        self.begin();
        let life = self.life(key)?;
        let extent = self.table(life, group)?.extent;
        if len > extent.len {
            return Err(Error::BeyondTable { group, len: extent.len, asked: len.into() });
        }
        if len < extent.len {
            self.lower_committed(life, group, len);
            self.change(life, group, len.max(extent.front)..extent.len, |table, _, _| {
                table.extent.len = len;
                table.extent.front = table.extent.front.min(len);
                table.patch = table.patch.within(0, len);
                table.tree.truncated(len);
                if len == 0 {
                    table.youngest = 0;
                } else if table.patch.is_empty()
                    // SAFETY: a live table's storage is alive.
                    && let Some(last) = unsafe { table.tree.root.entry(len - 1) }
                {
                    table.youngest = last.since;
                }
            });
        }
        Ok(self.done())
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
        self.begin();
        let life = self.life(key)?;
        let Table { extent, tree, .. } = self.table(life, group)?;
        let (extent, root) = (*extent, tree.root);
        self.blocks.all_known(&[block])?;
        if position >= extent.len {
            return Err(Error::BeyondTable { group, len: extent.len, asked: position.into() });
        }
        let shown = self.blocks.shown(block);
        if shown.is_some() && !self.blocks.is_free(block) {
            return Err(self.in_use(block));
        }
        // SAFETY: a live table's storage is alive.
        let before = unsafe { root.entry(position) }.filter(|_| position >= extent.front);
        if shown.is_none() && before.is_none_or(|entry| entry.block.is_none()) {
            return Ok(self.done());
        }
        self.blocks.assign(&[block], key);
        self.lower_committed(life, group, position);
        let lost = position..position + u32::from(position >= extent.front);
        self.change(life, group, lost, |table, workshop, _| {
            let filled = position..position + 1;
            let fresh = if position < extent.front { position..extent.front } else { filled };
            table.tree.restore(table.extent.len, fresh.clone(), workshop);
            for hole in fresh.clone().skip(1) {
                // SAFETY: a live table's storage is alive.
                if let Some(entry) = unsafe { table.tree.root.entry(hole) } {
                    table.tree.overwrite(hole, Entry { block: None, ..entry });
                }
            }
            table.tree.overwrite(position, Entry { block: shown, since: workshop.epoch });
            table.extent.front = table.extent.front.min(position);
            table.patch = table.patch.with(fresh.start, fresh.end);
            table.youngest = workshop.epoch;
        });
        Ok(self.done())
    }

    /// Ends a life and begins its successor, with empty tables, under the same label. Takes effect
    /// at once.
    ///
    /// # Errors
    /// [`Error::AlreadyReleased`]; [`Error::UnknownKey`]; and, once in four billion preemptions of
    /// one slot, [`Error::TooManyRequests`] where no other slot is vacant.
    pub fn preempt(&mut self, key: RequestKey) -> Result<Preempted<'_>, Error> {
        self.begin();
        let life = self.life(key)?;
        let worn_out = key.incarnation() == u32::MAX;
        let slot = if worn_out { self.vacant_slot()? } else { key.slot() };
        let label = self.lives[life].label.clone();
        let ended = self.end_life(life, Ended::Preempted, worn_out);
        let successor = self.open_life(slot, label);
        self.give_up_all(life, key, ended);
        Ok(Preempted { successor, released: self.done() })
    }

    /// Ends a life. Takes effect at once. Costs a few plain memory accesses a block.
    ///
    /// # Errors
    /// [`Error::AlreadyReleased`]; [`Error::UnknownKey`].
    pub fn release(&mut self, key: RequestKey) -> Result<Released<'_>, Error> {
        self.begin();
        let life = self.life(key)?;
        self.release_life(life);
        Ok(self.done())
    }

    fn release_life(&mut self, life: LifeId) {
        let key = self.lives[life].key;
        let ended = self.end_life(life, Ended::Released, true);
        if key.incarnation() < u32::MAX {
            self.vacant.push(key.slot());
        }
        self.give_up_all(life, key, ended);
    }

    /// Takes the content of blocks for lost: lowers what is committed of every table that lists one,
    /// to where it first does. Takes effect at once, life by life. Has no effect where the index
    /// does not track commits. Costs a walk over the tables that list them.
    ///
    /// # Errors
    /// [`Error::UnknownBlock`]; [`Error::NullBlock`].
    pub fn invalidate(&mut self, blocks: &[BlockId]) -> Result<(), Error> {
        self.begin();
        self.blocks.all_known(blocks)?;
        self.blocks.none_null(blocks)?;
        if !self.geometry().tracks_commits() {
            return Ok(());
        }
        let bad: HashSet<BlockId> = blocks.iter().copied().collect();
        let owners = bad.iter().flat_map(|&block| self.owners_of(block));
        for key in owners.collect::<HashSet<_>>() {
            if let Ok(life) = self.life(key) {
                self.invalidate_life(life, &bad);
            }
        }
        self.note();
        Ok(())
    }

    fn invalidate_life(&mut self, life: LifeId, bad: &HashSet<BlockId>) {
        let mut firsts = Vec::new();
        for (at, (table, shape)) in
            self.lives[life].tables.iter().zip(self.geometry().shapes()).enumerate()
        {
            let mut first = None;
            // SAFETY: a live table's storage is alive.
            unsafe {
                listed(table.tree.root, table.extent.front..table.extent.len, |position, block| {
                    if first.is_none() && bad.contains(&block) {
                        first = Some(position);
                    }
                });
            }
            firsts.extend(
                first
                    .filter(|&first| shape.tokens(first) < self.committed_of(life, at))
                    .map(|f| (at, f)),
            );
        }
        if firsts.is_empty() {
            return;
        }
        for (group, first) in firsts {
            self.lower_committed(life, GroupId(group as u32), first);
        }
        self.supersede(self.lives[life].key.slot(), life, Ended::No);
    }

    /// Notes that a step was sent to the device: blocks given up from now on are not reusable until
    /// it has ended. Steps may end in any order.
    pub fn begin_step(&mut self) -> StepId {
        self.begin();
        self.blocks.begin_step()
    }

    /// Notes that a step has ended, and tells the blocks that waited for nothing else.
    ///
    /// # Errors
    /// [`Error::UnknownStep`] where it has ended already or was never begun.
    pub fn end_step(&mut self, step: StepId) -> Result<Released<'_>, Error> {
        self.begin();
        self.blocks.end_step(step)?;
        Ok(self.done())
    }

    /// Makes everything since the last publish visible at once, over all requests. One atomic
    /// store, whatever has changed.
    #[inline]
    pub fn publish(&mut self) -> Epoch {
        self.epoch.0 += 1;
        self.shared.publish(self.epoch);
        self.epoch
    }

    /// The blocks that became free because pins ended, since this was last asked, each once. Every
    /// freed block is told exactly once: by the call that freed it, or here. Blocks that were
    /// assigned again meanwhile are left out.
    pub fn reclaim(&mut self) -> &[BlockId] {
        self.begin();
        self.blocks.tell()
    }

    /// How many blocks would become free if the life were released now: those that no other life
    /// lists and no pin or step protects. Costs a walk over its tables.
    ///
    /// # Errors
    /// [`Error::AlreadyReleased`]; [`Error::UnknownKey`].
    pub fn reclaimable_now(&mut self, key: RequestKey) -> Result<u32, Error> {
        self.begin();
        let life = self.life(key)?;
        if self.blocks.a_step_is_open() {
            return Ok(0);
        }
        // Acquire: pairs with the release half of unpins: what is told here as given back has been
        // given back when the life is released.
        let word = Word(self.lease(life).word.load(Ordering::Acquire));
        let pinned = (word.pins() > 0 && !word.is_closed()).then(|| word.hull());
        let mut count = 0;
        // Blocks that are listed more than once: how often by this life, and whether it can go.
        let mut repeated: HashMap<BlockId, (u32, bool)> = HashMap::new();
        for (at, shape) in self.geometry().shapes().iter().enumerate() {
            let table = &self.lives[life].tables[at];
            let each = |position, block| {
                let grains = shape.grains(position);
                let kept = self.blocks.holds(block) > 0
                    || pinned.is_some_and(|hull| hull.overlaps(grains))
                    || protector(&self.lives[life].queue, &self.leases, grains).is_some();
                if self.blocks.listings(block) == 1 {
                    count += u32::from(!kept);
                } else {
                    let (listings, free) = repeated.entry(block).or_insert((0, true));
                    *listings += 1;
                    *free &= !kept;
                }
            };
            // SAFETY: a live table's storage is alive.
            unsafe { listed(table.tree.root, table.extent.front..table.extent.len, each) };
        }
        let all = |(block, (listings, free)): (&BlockId, &(u32, bool))| {
            *free && *listings == self.blocks.listings(*block)
        };
        Ok(count + repeated.iter().filter(|&repeat| all(repeat)).count() as u32)
    }

    /// Holds exactly the listed blocks, whoever owns them: copy targets, a finished request's tail.
    /// Repeated blocks are held once.
    ///
    /// # Errors
    /// [`Error::UnknownBlock`]; [`Error::NullBlock`]; [`Error::Draining`]; [`Error::NotOwned`] for
    /// a free block; [`Error::TooOftenUsed`].
    pub fn hold(&mut self, blocks: &[BlockId]) -> Result<Pin, Error> {
        self.begin();
        self.blocks.all_known(blocks)?;
        self.blocks.none_null(blocks)?;
        if self.draining {
            return Err(Error::Draining);
        }
        if let Some(&block) = blocks.iter().find(|&&block| self.blocks.is_free(block)) {
            return Err(Error::NotOwned { block });
        }
        if let Some(&block) = blocks.iter().find(|&&block| !self.blocks.has_room(block, 1)) {
            return Err(Error::TooOftenUsed { block });
        }
        let mut blocks = blocks.to_vec();
        keep_first_of_each(&mut blocks);
        let lease = self.hold_exactly(blocks);
        self.note();
        // SAFETY: the lease was made with one pin, for this.
        Ok(unsafe { Pin::exact(lease) })
    }

    /// Resets an index in which nothing is owned or held: ends the lives that are left (they are
    /// empty), and makes every request planned so far stale. Does not publish: until the next
    /// publish nothing can be planned.
    ///
    /// # Errors
    /// [`Error::Busy`] where blocks are owned or held.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.begin();
        match self.blocks.owned() + self.blocks.held() {
            0 => {
                self.end_all();
                self.note();
                Ok(())
            }
            blocks => Err(Error::Busy { blocks }),
        }
    }

    /// Resets the index whatever is owned or held: ends every life, and frees what no pin or step
    /// protects. Pins that are out stay out. Does not publish.
    pub fn reset_force(&mut self) -> Released<'_> {
        self.begin();
        self.end_all();
        self.done()
    }

    fn end_all(&mut self) {
        // Before the first life ends, so that nobody is told `Gone` for what only this has ended.
        self.shared.set_reset_floor(Epoch(self.epoch.0 + 1));
        let live: Vec<LifeId> = self.slots.iter().filter_map(|slot| slot.life).collect();
        for life in live {
            self.release_life(life);
        }
    }

    /// Begins to shut down: no new pin is taken from here on. The scheduler can go on.
    pub fn begin_drain(&mut self) {
        self.begin();
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        // Before the first close: whoever finds a lease closed where it stands is told so.
        self.shared.set_draining();
        let newest: Vec<LeaseId> = self.slots.iter().filter_map(|slot| slot.newest).collect();
        for id in newest {
            self.close(id);
        }
        self.note();
    }

    /// Whether the index is draining and no pin is out any more.
    pub fn drained(&mut self) -> bool {
        self.begin();
        self.draining && self.undrained == 0
    }

    /// Blocks by what has them.
    pub fn counts(&mut self) -> Counts {
        self.begin();
        Counts { free: self.blocks.free(), owned: self.blocks.owned(), held: self.blocks.held() }
    }

    /// What has a block.
    ///
    /// # Errors
    /// [`Error::UnknownBlock`]; [`Error::NullBlock`].
    pub fn block_state(&mut self, block: BlockId) -> Result<BlockState, Error> {
        self.begin();
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
        self.begin();
        let life = match self.life(key) {
            Ok(life) => Some(life),
            Err(_) => self.lives.iter().find(|(_, life)| life.key == key).map(|(id, _)| id),
        };
        let Some(life) = life.map(|id| &self.lives[id]) else { return 0 };
        let leases =
            life.queue.iter().copied().chain(life.newest.filter(|id| !life.queue.contains(id)));
        // Relaxed: a number for people.
        // SAFETY: alive while its record exists.
        let pins =
            |id| Word(unsafe { (*self.leases[id].lease).word.load(Ordering::Relaxed) }).pins();
        leases.map(pins).sum()
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

    /// Brings the figures that [`Index::stats`] reads up to date.
    fn note(&self) {
        self.shared.gauges.set(Gauged {
            free: self.blocks.free().into(),
            owned: self.blocks.owned().into(),
            held: self.blocks.held().into(),
            live: self.labels.len() as u64,
            draining: self.undrained as u64,
            retained: (self.in_memory - self.slots.len()) as u64,
        });
    }

    fn done(&mut self) -> Released<'_> {
        self.note();
        let (freed, held) = self.blocks.outcome();
        Released { freed, held }
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

    fn vacant_slot(&mut self) -> Result<u32, Error> {
        if let Some(slot) = self.vacant.pop() {
            return Ok(slot);
        }
        let max = self.shared.max_requests();
        let slot = self.slots.len() as u32;
        if slot == max {
            return Err(Error::TooManyRequests { max });
        }
        self.slots.push(Slot {
            incarnation: 0,
            history: History::default(),
            life: None,
            newest: None,
        });
        self.shared.set_slots_used(slot + 1);
        Ok(slot)
    }

    /// Begins a life in a slot in which nobody lives.
    fn open_life(&mut self, slot: u32, label: StdArc<str>) -> RequestKey {
        let groups = self.geometry().groups();
        let place = &mut self.slots[slot as usize];
        place.incarnation += 1;
        let key = RequestKey::new(slot, place.incarnation);
        self.labels.insert(label.clone(), key);
        let life = self.lives.insert(Life {
            key,
            label,
            live: true,
            tables: (0..groups).map(|_| Table::EMPTY).collect(),
            raised: 0,
            queue: VecDeque::new(),
            newest: None,
        });
        self.slots[slot as usize].life = Some(life);
        self.supersede(slot, life, Ended::No);
        key
    }

    /// Ends a life: from here on it is `ended` for every pin. Answers its tables, whose blocks are
    /// still to be given up. Where no successor follows in the slot, a lease is made that says so.
    fn end_life(&mut self, life: LifeId, ended: Ended, last: bool) -> Vec<Table> {
        let key = self.lives[life].key;
        let label = self.lives[life].label.clone();
        self.labels.remove(&label);
        let tables = self.dispose_tables(life);
        if last {
            self.supersede(key.slot(), life, ended);
        }
        let place = &mut self.slots[key.slot() as usize];
        place.history = place.history.followed_by(ended);
        place.life = None;
        self.lives[life].live = false;
        tables
    }

    fn give_up_all(&mut self, life: LifeId, key: RequestKey, tables: Vec<Table>) {
        for (at, table) in tables.iter().enumerate() {
            let positions = table.extent.front..table.extent.len;
            self.give_up(life, key, GroupId(at as u32), table.tree.root, positions, true);
        }
    }

    /// Gives up what a table's storage shows at some positions. The lease that listed it is closed.
    fn give_up(
        &mut self,
        life: LifeId,
        key: RequestKey,
        group: GroupId,
        root: Root,
        positions: Range<u32>,
        ending: bool,
    ) {
        let Scheduler { shared, blocks, lives, leases, .. } = self;
        let Some(shape) = shared.geometry.shape(group) else { return };
        // A life whose leases have all gone has no pins.
        let queue = lives.get(life).map(|life| &life.queue).filter(|queue| !queue.is_empty());
        let each = |position, block| {
            if let Some(queue) = queue
                && let Some(id) = protector(queue, leases, shape.grains(position))
            {
                blocks.hold(block);
                leases[id].kept.push(block);
            }
            blocks.give_up(block, key, ending);
        };
        // SAFETY: where the storage is garbage now, it is alive until it has come back from
        // reclamation, which it is not sent to before the next call.
        unsafe { listed(root, positions, each) };
    }

    /// Changes a table in a way that takes something away: makes the new version, then gives up the
    /// blocks that the `lost` positions showed.
    fn change(
        &mut self,
        life: LifeId,
        group: GroupId,
        lost: Range<u32>,
        change: impl FnOnce(&mut Table, &mut Workshop<'_>, u64),
    ) {
        let key = self.lives[life].key;
        self.keep_committed(life);
        let version = self.next_version();
        let mut garbage = Vec::new();
        let table = &mut self.lives[life].tables[group.index()];
        let before = table.tree.root;
        let mut workshop = Workshop {
            version,
            epoch: self.epoch.0 + 1,
            pool: &mut self.pool,
            garbage: &mut garbage,
        };
        change(table, &mut workshop, self.epoch.0);
        let user = self.lives[life].newest;
        for piece in garbage {
            self.dispose(piece, user);
        }
        self.supersede(key.slot(), life, Ended::No);
        self.give_up(life, key, group, before, lost, false);
    }

    /// Refuses an append that the longest table has no room for.
    fn room_for(&self, life: LifeId, group: GroupId, blocks: &[BlockId]) -> Result<(), Error> {
        let len = self.table(life, group)?.extent.len;
        let max = self.shape(group)?.max_len();
        if blocks.len() > (max - len) as usize {
            return Err(Error::TableFull { group, max });
        }
        Ok(())
    }

    /// Writes blocks behind the end of a table and makes them readable. The null block is a hole.
    fn append(&mut self, life: LifeId, group: GroupId, blocks: &[BlockId]) {
        if blocks.is_empty() {
            return;
        }
        let version = self.version_of(life);
        let epoch = self.epoch.0 + 1;
        let mut garbage = Vec::new();
        let table = &mut self.lives[life].tables[group.index()];
        let mut workshop = Workshop { version, epoch, pool: &mut self.pool, garbage: &mut garbage };
        let len = table.extent.len;
        let pool = &self.blocks;
        table.tree.append(len, blocks.iter().map(|&block| pool.shown(block)), &mut workshop);
        let hole = |block: &BlockId| pool.shown(*block).is_none();
        if let Some(first) = blocks.iter().position(hole)
            && let Some(last) = blocks.iter().rposition(hole)
        {
            table.patch = table.patch.with(len + first as u32, len + last as u32 + 1);
        }
        table.extent.len = len + blocks.len() as u32;
        table.youngest = epoch;
        let state = table.state();
        self.lease(life).cells(group.index()).grow(state);
        let user = self.older(life);
        for piece in garbage {
            self.dispose(piece, user);
        }
    }

    /// The tokens of a group that are known to be written.
    fn committed_of(&self, life: LifeId, group: usize) -> u64 {
        let life = &self.lives[life];
        life.tables.get(group).map_or(0, |table| table.floor.max(life.raised))
    }

    /// Fixes what is committed as the floor of the lease that is about to be made.
    fn keep_committed(&mut self, life: LifeId) {
        let life = &mut self.lives[life];
        for table in &mut life.tables {
            table.floor = table.floor.max(life.raised);
        }
        life.raised = 0;
    }

    /// Lowers what is committed of a group to the first `positions` positions, from the lease on
    /// that is about to be made. Answers what is left.
    fn lower_committed(&mut self, life: LifeId, group: GroupId, positions: u32) -> u64 {
        self.keep_committed(life);
        let tokens = self.geometry().shape(group).map_or(0, |shape| shape.tokens(positions));
        match self.lives[life].tables.get_mut(group.index()) {
            Some(table) => {
                table.floor = table.floor.min(tokens);
                table.floor
            }
            None => 0,
        }
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
