//! The making and unmaking of leases.
//!
//! Every change that takes something away gives its life a new lease ([`Scheduler::supersede`]):
//! the new one is stored in the slot, then the old one is closed, and only then is it decided which
//! blocks are free. A closed lease that pins keep from draining waits in its life's queue; what is
//! lost meanwhile under its hull waits with it. A lease leaves memory once it is out of the slot,
//! drained, out of the queue, and visible to nobody: its successor is published, or it was never
//! visible itself.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::collections::btree_map::Entry;
use std::ptr::NonNull;
use std::sync::Arc as StdArc;

use slab::Slab;

use super::Scheduler;
use crate::ids::{BlockId, RequestKey};
use crate::lease::{
    Cells, Ended, Extent, Held, History, Lease, NO_RECORD, NewLease, Patch, Reader, TableState,
};
use crate::reclaim::Batch;
use crate::recorder::{HeldAlone, Recorded};
use crate::storage::{Piece, Root, Tree, Version};
use crate::sync::{Arc, Ordering};
use crate::word::{Hull, Word};

/// A record of a lease, in [`Scheduler::leases`].
pub(super) type LeaseId = usize;
/// A record of a life, in [`Scheduler::lives`].
pub(super) type LifeId = usize;

/// One group's table of a live life.
pub(super) struct Table {
    pub(super) tree: Tree,
    pub(super) extent: Extent,
    pub(super) patch: Patch,
    /// The largest `since` of its positions, or more.
    pub(super) youngest: u64,
    /// Tokens committed when the newest lease was made.
    pub(super) floor: u64,
    /// A flight recorder is on: to readers all of it counts as patched, so that nothing is clear at
    /// a glance and every pin is taken where the recorder sees it.
    recorded: bool,
}

impl Table {
    pub(super) fn empty(recorded: bool) -> Table {
        Table {
            tree: Tree::EMPTY,
            extent: Extent { front: 0, len: 0 },
            patch: Patch::default(),
            youngest: 0,
            floor: 0,
            recorded,
        }
    }

    pub(super) fn state(&self) -> TableState {
        let Table { extent, youngest, recorded, .. } = *self;
        let patch = if recorded { Patch { lo: 0, hi: u32::MAX } } else { self.patch };
        TableState { extent, patch, youngest, root: self.tree.root }
    }
}

pub(super) struct Life {
    pub(super) key: RequestKey,
    pub(super) label: StdArc<str>,
    pub(super) live: bool,
    /// One a group while it lives, none afterwards.
    pub(super) tables: Vec<Table>,
    /// Tokens committed in all groups since the newest lease was made.
    pub(super) raised: u64,
    /// Closed leases that pins kept from draining, the oldest first. Those that have drained leave
    /// it only from the front, because what a younger one keeps may be covered by an older one too.
    pub(super) queue: VecDeque<LeaseId>,
    /// Its leases that are still in memory, linked through [`LeaseRecord::older`].
    pub(super) newest: Option<LeaseId>,
}

/// What the scheduler knows of a lease.
pub(super) struct LeaseRecord {
    pub(super) lease: *mut Lease,
    /// `None` for an exact hold.
    pub(super) life: Option<LifeId>,
    version: Version,
    opened: u64,
    /// The hull that its close returned; means nothing where it had no pins then.
    pub(super) hull: Hull,
    pub(super) closed: bool,
    /// The epoch that was published when pins began to be all that keeps it.
    pub(super) closed_at: u64,
    /// Closed, with pins out that have not been taken in yet.
    pub(super) undrained: bool,
    /// In its life's queue.
    pub(super) queued: bool,
    superseded: bool,
    /// No reader that begins now can find it: hidden, or its successor is published.
    unlinked: bool,
    /// Blocks that were lost under its hull.
    pub(super) kept: Vec<BlockId>,
    /// Storage that it is the newest lease to use.
    garbage: Vec<Piece>,
    older: Option<LeaseId>,
    younger: Option<LeaseId>,
}

impl LeaseRecord {
    /// Its word, as a number for people.
    pub(super) fn word(&self) -> Word {
        // Relaxed: it decides nothing.
        // SAFETY: alive while its record exists.
        Word(unsafe { (*self.lease).word.load(Ordering::Relaxed) })
    }
}

/// What is left of a scheduler: everything that pins may still read.
pub(crate) type Estate = Batch;

/// Superseded leases that each call looks after, so that no publish has to: more than a call
/// supersedes on average.
const DUE_PER_CALL: usize = 4;

/// Retired leases that do not wait for the next publish to be sent off. Few under test
/// configurations, so that tests come this way.
const BATCH: usize = if cfg!(any(loom, tenure_small)) { 1 } else { 64 };

impl Scheduler {
    /// Takes in what pins have given back and what can be retired or reused. Every call begins so.
    pub(super) fn take_in(&mut self) {
        for lease in self.shared.drain.take() {
            self.taken(lease);
        }
        self.blocks.trim_untold();
        for _ in 0..DUE_PER_CALL {
            match self.due.front() {
                Some(&(id, opened)) if opened <= self.epoch.0 => {
                    self.due.pop_front();
                    self.leases[id].unlinked = true;
                    self.retire_if_done(id);
                }
                _ => break,
            }
        }
        if self.tended < self.epoch.0 || self.batch.leases.len() >= BATCH {
            self.tend();
        }
    }

    /// Once a step: sends off what was retired, and takes back what nobody reads any more.
    #[cold]
    fn tend(&mut self) {
        self.tended = self.epoch.0;
        if !self.batch.is_empty() {
            self.sent += 1;
            self.pieces_sent += self.batch.pieces.len();
            let batch = std::mem::replace(&mut self.batch, Batch::new());
            self.shared.reclaim.retire(Box::new(batch));
        } else if self.sent > 0 {
            self.shared.reclaim.nudge();
        }
        for mut batch in self.shared.reclaim.returned() {
            self.sent -= 1;
            self.pieces_sent -= batch.pieces.len();
            self.in_memory -= batch.leases.len();
            for lease in batch.leases.drain(..) {
                // SAFETY: the batch came back because nobody can reach what it lists any more.
                unsafe { self.pool.take_back_lease(lease) };
            }
            for piece in batch.pieces.drain(..) {
                // SAFETY: as above.
                unsafe { self.pool.take_back(piece) };
            }
        }
        self.note();
    }

    /// A lease that came off the drain stack.
    fn taken(&mut self, lease: *mut Lease) {
        self.taken_in += 1;
        // SAFETY: on the stack, so alive; its record is the scheduler's.
        if unsafe { (*lease).record.with(|record| *record) } == NO_RECORD {
            self.adopt(lease);
        } else {
            self.has_drained(lease);
        }
    }

    /// Takes in an exact hold that a narrowed pin has made for itself, and ends the pin that it was
    /// before. Not before the blocks are held: until then that pin protects them.
    fn adopt(&mut self, lease: *mut Lease) {
        // SAFETY: alive while one of its two pins, the scheduler's, is out. What it holds was
        // written before it was pushed.
        let held = unsafe { (*lease).held.as_ref() };
        let mut alone = None;
        let instead_of = held.map(|held| {
            for &block in &held.blocks {
                self.blocks.hold(block);
            }
            if let Some(Recorded { job, replaces, .. }) = held.recorded {
                alone =
                    Some(HeldAlone { job, replaces, blocks: held.blocks.to_vec(), ended: false });
            }
            held.instead_of
        });
        let id = self.record_hold(lease);
        for pinned in [instead_of, Some(lease)].into_iter().flatten() {
            // AcqRel: an unpin like any other, see `pin::give_back`.
            // SAFETY: alive while this pin is out.
            if unsafe { Word((*pinned).word.fetch_sub(Word::ONE_PIN, Ordering::AcqRel)) }.drains() {
                self.taken(pinned);
            }
        }
        if let Some(alone) = &mut alone {
            alone.ended = !self.leases.contains(id);
        }
        self.held_alone.extend(alone);
    }

    /// A closed lease has lost its last pin.
    fn has_drained(&mut self, lease: *mut Lease) {
        // SAFETY: alive while its record exists.
        let id = unsafe { (*lease).record.with(|record| *record) } as LeaseId;
        self.no_longer_undrained(self.leases[id].closed_at);
        let Some(life) = self.leases[id].life else {
            // An exact hold: in no slot, seen by no reader, and its pin has gone.
            self.leases.remove(id);
            self.in_memory -= 1;
            // SAFETY: as just said, nobody else has it. Leases are made as boxes.
            let lease = unsafe { Box::from_raw(lease) };
            for &block in lease.held.iter().flat_map(|held| &held.blocks) {
                self.blocks.let_go(block);
            }
            self.note();
            return;
        };
        self.leases[id].undrained = false;
        // Retiring the last lease of an ended life removes the life.
        while let Some(life) = self.lives.get_mut(life)
            && let Some(&first) = life.queue.front()
            && !self.leases[first].undrained
        {
            life.queue.pop_front();
            self.leases[first].queued = false;
            for block in std::mem::take(&mut self.leases[first].kept) {
                self.blocks.let_go(block);
            }
            self.retire_if_done(first);
        }
        self.note();
    }

    /// Makes a lease over exact blocks, with one pin out. Each block is named once and may be held.
    pub(super) fn hold_exactly(&mut self, blocks: Vec<BlockId>) -> NonNull<Lease> {
        for &block in &blocks {
            self.blocks.hold(block);
        }
        let held = Held {
            blocks: blocks.into(),
            narrowed: None,
            instead_of: std::ptr::null_mut(),
            reader: Reader::HOLD,
            recorded: self.shared.recorder.as_ref().map(Recorded::new),
        };
        let lease = self.pool.lease(Lease::new(NewLease {
            shared: Arc::as_ptr(&self.shared),
            word: Word::born_closed(1),
            before: std::ptr::null(),
            opened: self.epoch.0 + 1,
            label: self.no_label.clone(),
            record: NO_RECORD,
            key: RequestKey::from_bits(0),
            history: History::default(),
            ended: Ended::No,
            tables: &mut std::iter::empty(),
            held: Some(held),
        }));
        self.record_hold(lease.as_ptr());
        lease
    }

    fn record_hold(&mut self, lease: *mut Lease) -> LeaseId {
        self.in_memory += 1;
        let closed_at = self.now_undrained();
        let id = self.leases.insert(LeaseRecord {
            lease,
            life: None,
            version: 0,
            opened: 0,
            hull: Hull { lo: 0, hi: 0 },
            closed: true,
            closed_at,
            undrained: true,
            queued: false,
            superseded: false,
            unlinked: false,
            kept: Vec::new(),
            garbage: Vec::new(),
            older: None,
            younger: None,
        });
        // SAFETY: only the scheduler touches a lease's record.
        unsafe { (*lease).record.with_mut(|record| *record = id as u32) };
        id
    }

    /// One more lease that only pins keep. Answers since which epoch.
    fn now_undrained(&mut self) -> u64 {
        self.undrained += 1;
        *self.undrained_since.entry(self.epoch.0).or_default() += 1;
        self.epoch.0
    }

    fn no_longer_undrained(&mut self, since: u64) {
        self.undrained -= 1;
        if let Entry::Occupied(mut count) = self.undrained_since.entry(since) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// The version that the next lease will be.
    pub(super) fn next_version(&self) -> Version {
        self.version + 1
    }

    /// The version of the lease that is newest in a life.
    pub(super) fn version_of(&self, life: LifeId) -> Version {
        self.lives[life].newest.map_or(0, |id| self.leases[id].version)
    }

    /// Makes a lease from what the life's tables are now, puts it in the slot, and closes the one
    /// before. Afterwards it is known which positions pins protect ([`protector`]).
    pub(super) fn supersede(&mut self, slot: u32, life: LifeId, ended: Ended) {
        self.version += 1;
        let opened = self.epoch.0 + 1;
        let before = self.slots[slot as usize].newest;
        let (link, hidden) = match before.map(|id| &self.leases[id]) {
            // Never visible at any epoch: linked past.
            // SAFETY: alive while its record exists.
            Some(record) if record.opened == opened => (unsafe { (*record.lease).before }, true),
            Some(record) => (record.lease.cast_const(), false),
            None => (std::ptr::null(), false),
        };
        let open = ended == Ended::No && !self.draining;
        let this = &mut self.lives[life];
        this.raised = 0;
        let id = self.leases.vacant_key();
        let lease = Lease::new(NewLease {
            shared: Arc::as_ptr(&self.shared),
            word: if open { Word::OPEN } else { Word::born_closed(0) },
            before: link,
            opened,
            label: this.label.clone(),
            record: id as u32,
            key: this.key,
            history: self.slots[slot as usize].history,
            ended,
            tables: &mut this.tables.iter().map(|table| Cells::new(table.state(), table.floor)),
            held: None,
        });
        let lease = self.pool.lease(lease).as_ptr();
        self.in_memory += 1;
        self.leases.insert(LeaseRecord {
            lease,
            life: Some(life),
            version: self.version,
            opened,
            hull: Hull { lo: 0, hi: 0 },
            closed: !open,
            closed_at: 0,
            undrained: false,
            queued: false,
            superseded: false,
            unlinked: false,
            kept: Vec::new(),
            garbage: Vec::new(),
            older: this.newest,
            younger: None,
        });
        if let Some(older) = this.newest.replace(id) {
            self.leases[older].younger = Some(id);
        }
        self.slots[slot as usize].newest = Some(id);
        self.shared.install(slot, lease);
        if let Some(before) = before {
            self.close(before);
            self.leases[before].superseded = true;
            if hidden {
                self.leases[before].unlinked = true;
                self.retire_if_done(before);
            } else {
                self.due.push_back((before, opened));
            }
        }
    }

    /// Closes a lease, at most once: no pin can be taken on it from here on. One that has pins out
    /// enters its life's queue.
    pub(super) fn close(&mut self, id: LeaseId) {
        let record = &mut self.leases[id];
        if std::mem::replace(&mut record.closed, true) {
            return;
        }
        // Release: pairs with the acquire load in `pin::take`: whoever finds the word closed finds
        // the successor in the slot. Acquire: pairs with the release half of every unpin before: what
        // those readers did happened before their blocks are handed out. An addition, because the
        // bit is 0 and this is wait-free everywhere.
        // SAFETY: alive while its record exists.
        let word = Word(unsafe { (*record.lease).word.fetch_add(Word::CLOSED, Ordering::AcqRel) });
        if word.pins() > 0 {
            record.hull = word.hull();
            record.undrained = true;
            record.queued = true;
            let life = record.life;
            self.leases[id].closed_at = self.now_undrained();
            if let Some(life) = life {
                self.lives[life].queue.push_back(id);
            }
        }
    }

    /// Storage that the newest lease of a life has stopped using, and that the leases from `user`
    /// on back may still use: goes with the newest of those that does.
    pub(super) fn dispose(&mut self, piece: Piece, user: Option<LeaseId>) {
        let mut user = user;
        // SAFETY: storage is alive until it has come back from reclamation.
        let born = unsafe { piece.born() };
        if user.is_some_and(|id| self.leases[id].version < born) {
            // What is below may be older.
            let mut parts = Vec::new();
            // SAFETY: as above.
            unsafe { piece.for_each(&mut |part| parts.push(part)) };
            for part in parts {
                self.dispose_part(part, user);
            }
        } else if let Some(id) = user.take() {
            self.leases[id].garbage.push(piece);
        } else {
            self.batch.pieces.push(piece);
        }
    }

    fn dispose_part(&mut self, part: Piece, user: Option<LeaseId>) {
        // SAFETY: storage is alive until it has come back from reclamation.
        let born = unsafe { part.born() };
        match user {
            Some(id) if self.leases[id].version >= born => self.leases[id].garbage.push(part),
            _ => self.batch.pieces.push(part),
        }
    }

    /// The lease before the newest one of a life, if it is still in memory.
    pub(super) fn older(&self, life: LifeId) -> Option<LeaseId> {
        self.lives[life].newest.and_then(|id| self.leases[id].older)
    }

    /// Retires a lease if nothing needs it any more.
    pub(super) fn retire_if_done(&mut self, id: LeaseId) {
        let record = &self.leases[id];
        if !(record.superseded && record.unlinked) || record.queued {
            return;
        }
        let LeaseRecord { lease, life, garbage, older, younger, .. } = self.leases.remove(id);
        if let Some(older) = older {
            self.leases[older].younger = younger;
        }
        match (younger, life) {
            (Some(younger), _) => self.leases[younger].older = older,
            (None, Some(life)) => self.lives[life].newest = older,
            (None, None) => {}
        }
        for piece in garbage {
            self.hand_on(piece, older);
        }
        self.batch.leases.push(lease);
        if let Some(life) = life
            && !self.lives[life].live
            && self.lives[life].newest.is_none()
        {
            self.lives.remove(life);
        }
    }

    /// Storage of a lease that is retired: to the next older one that uses it.
    fn hand_on(&mut self, piece: Piece, older: Option<LeaseId>) {
        if older.is_none() {
            self.batch.pieces.push(piece);
            return;
        }
        let mut parts = Vec::new();
        // SAFETY: storage is alive until it has come back from reclamation.
        unsafe { piece.for_each(&mut |part| parts.push(part)) };
        for part in parts {
            self.dispose_part(part, older);
        }
    }

    /// All that a life's tables are stored in, as garbage of its newest lease. To be called before
    /// the lease that ends the life is made.
    pub(super) fn dispose_tables(&mut self, life: LifeId) -> Vec<Table> {
        let tables = std::mem::take(&mut self.lives[life].tables);
        if let Some(newest) = self.lives[life].newest {
            let pieces = tables.iter().filter_map(|table| Piece::tree(table.tree.root));
            self.leases[newest].garbage.extend(pieces);
        }
        tables
    }

    /// Ends the scheduler's part: nobody can pin any more, and what pins still read is left to the
    /// shared state.
    pub(super) fn wind_up(&mut self) {
        self.shared.set_draining();
        let ids: Vec<LeaseId> = self.leases.iter().map(|(id, _)| id).collect();
        for &id in &ids {
            self.close(id);
        }
        for lease in self.shared.drain.take() {
            self.taken(lease);
        }
        // One count for each lease whose last unpin is still to come; that unpin finds the stack
        // closed and drops it.
        for _ in 0..self.undrained {
            std::mem::forget(self.shared.clone());
        }
        let mut counted = self.undrained;
        for lease in self.shared.drain.close() {
            // SAFETY: on the stack, so alive; its record is the scheduler's.
            if unsafe { (*lease).record.with(|record| *record) } == NO_RECORD {
                // Taking it in makes it one more; its unpin may come right then.
                std::mem::forget(self.shared.clone());
                counted += 1;
            }
            self.taken(lease);
        }
        for _ in self.undrained..counted {
            // SAFETY: one of the counts forgotten above, whose lease has drained since; the
            // scheduler's own keeps the state alive.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.shared)) };
        }
        let mut estate = std::mem::replace(&mut self.batch, Batch::new());
        for (_, life) in &self.lives {
            estate
                .pieces
                .extend(life.tables.iter().filter_map(|table| Piece::tree(table.tree.root)));
        }
        for (_, record) in &mut self.leases {
            estate.leases.push(record.lease);
            estate.pieces.append(&mut record.garbage);
        }
        self.shared.inherit(estate);
    }
}

/// The newest of a life's queued leases whose pins protect these grains.
pub(super) fn protector(
    queue: &VecDeque<LeaseId>,
    leases: &Slab<LeaseRecord>,
    grains: Hull,
) -> Option<LeaseId> {
    queue.iter().rev().copied().find(|&id| leases[id].hull.overlaps(grains))
}

/// The blocks that a table's storage lists at some positions, ascending.
///
/// # Safety
/// The storage is alive.
pub(super) unsafe fn listed(
    root: Root,
    positions: std::ops::Range<u32>,
    mut each: impl FnMut(u32, BlockId),
) {
    // SAFETY: the caller's; the scheduler knows what is below its own lengths.
    unsafe {
        root.for_each(positions, |position, entry| {
            if let Some(block) = entry.block {
                each(position, block);
            }
        });
    }
}
