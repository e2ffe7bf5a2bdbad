//! Who has each block of the pool: plain memory of the one scheduler, 16 bytes a block.
//!
//! A block is free where nothing lists it, nothing holds it, and no open step may still write it.
//! Every event that takes one of these away ends in [`Blocks::settle`].

use std::collections::VecDeque;

use super::Released;
use crate::error::Error;
use crate::ids::{BlockId, RequestKey, StepId};

/// What is known of one block.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Table positions that list it.
    listed: u32,
    /// Leases and exact holds that keep it.
    held: u32,
    /// The slot of its one owner; where `SHARED`, the last node of its [`Arrivals`].
    owner: u32,
    /// `FENCE` bits: the newest step that was open when an owner last gave it up, 0 for none. The
    /// rest are flags.
    marks: u32,
}

/// The owner is a list of arrivals.
const SHARED: u32 = 1 << 31;
/// It is in the waiting list of an open step.
const WAITING: u32 = 1 << 30;
/// It was freed by a pin and not told yet.
const UNTOLD: u32 = 1 << 29;
const FENCE: u32 = UNTOLD - 1;

impl Record {
    fn is_free(self) -> bool {
        self.listed == 0 && self.held == 0 && self.marks & WAITING == 0
    }

    fn fence(self) -> u32 {
        self.marks & FENCE
    }
}

/// Who learns of a block that has become free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The call itself: its answer tells.
    Call,
    /// The end of a pin: [`reclaim`](crate::Scheduler::reclaim) tells.
    Pin,
}

/// A step that is on the device.
struct OpenStep {
    id: u64,
    /// Blocks that nothing lists or holds and that wait for its end (or were, and are owned again).
    waiting: Vec<BlockId>,
}

pub(super) struct Blocks {
    records: Vec<Record>,
    null_block: Option<BlockId>,
    free: u32,
    owned: u32,
    arrivals: Arrivals,
    /// In the order they were begun.
    steps: VecDeque<OpenStep>,
    last_step: u64,
    /// Freed by the call that is running.
    freed: Vec<BlockId>,
    /// Given up by the call that is running, and protected.
    now_held: u32,
    /// Those that pins protect.
    now_kept: Vec<BlockId>,
    /// How often leases and exact holds keep a block, over all blocks.
    kept: u64,
    /// Freed by pins; those still marked `UNTOLD` are to be told.
    untold: Vec<BlockId>,
    told: Vec<BlockId>,
}

impl Blocks {
    pub(super) fn new(capacity: u32, null_block: Option<BlockId>) -> Blocks {
        Blocks {
            records: vec![Record::default(); capacity as usize],
            null_block,
            free: capacity - u32::from(null_block.is_some()),
            owned: 0,
            arrivals: Arrivals::default(),
            steps: VecDeque::new(),
            last_step: 0,
            freed: Vec::new(),
            now_held: 0,
            now_kept: Vec::new(),
            kept: 0,
            untold: Vec::new(),
            told: Vec::new(),
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.records.len() as u32
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn owned(&self) -> u32 {
        self.owned
    }

    pub(super) fn held(&self) -> u32 {
        self.capacity() - u32::from(self.null_block.is_some()) - self.free - self.owned
    }

    /// The block as a table shows it: `None` for the null block.
    pub(super) fn shown(&self, block: BlockId) -> Option<BlockId> {
        (Some(block) != self.null_block).then_some(block)
    }

    /// The first block as listed that lies outside the pool.
    pub(super) fn all_known(&self, blocks: &[BlockId]) -> Result<(), Error> {
        match blocks.iter().find(|block| block.index() >= self.records.len()) {
            Some(&block) => Err(Error::UnknownBlock { block, capacity: self.capacity() }),
            None => Ok(()),
        }
    }

    /// The first block as listed that is the null block.
    pub(super) fn none_null(&self, blocks: &[BlockId]) -> Result<(), Error> {
        match self.null_block.filter(|null| blocks.contains(null)) {
            Some(block) => Err(Error::NullBlock { block }),
            None => Ok(()),
        }
    }

    pub(super) fn is_free(&self, block: BlockId) -> bool {
        self.records[block.index()].is_free()
    }

    pub(super) fn is_owned(&self, block: BlockId) -> bool {
        self.records[block.index()].listed > 0
    }

    /// Table positions that list the block.
    pub(super) fn listings(&self, block: BlockId) -> u32 {
        self.records[block.index()].listed
    }

    /// Leases and exact holds that keep the block.
    pub(super) fn holds(&self, block: BlockId) -> u32 {
        self.records[block.index()].held
    }

    /// Whether so many listings or holds more can be counted.
    pub(super) fn has_room(&self, block: BlockId, more: usize) -> bool {
        let Record { listed, held, .. } = self.records[block.index()];
        // A listing may turn into a hold, so the two are counted together.
        u64::from(listed) + u64::from(held) + more as u64 <= u64::from(u32::MAX)
    }

    /// Begins to note what a call frees and gives up.
    pub(super) fn begin_call(&mut self) {
        self.freed.clear();
        self.now_held = 0;
        self.now_kept.clear();
    }

    /// What the call that is running has done.
    pub(super) fn outcome(&self) -> Released<'_> {
        Released { freed: &self.freed, held: self.now_held, kept: &self.now_kept }
    }

    /// How often leases and exact holds keep a block, over all blocks.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Free blocks become owned, all or none; the null block is passed over. Answers whether all
    /// were free, and none of them named twice.
    pub(super) fn assign(&mut self, blocks: &[BlockId], by: RequestKey) -> bool {
        let claimed = blocks.iter().take_while(|block| self.claim(**block)).count();
        let all = claimed == blocks.len();
        for &block in &blocks[..claimed] {
            if Some(block) != self.null_block {
                let record = &mut self.records[block.index()];
                if all {
                    *record = Record { listed: 1, held: 0, owner: by.slot(), marks: 0 };
                    self.free -= 1;
                    self.owned += 1;
                } else {
                    record.listed = 0;
                }
            }
        }
        all
    }

    /// Lists a free block for the time being.
    #[inline]
    fn claim(&mut self, block: BlockId) -> bool {
        match self.records.get_mut(block.index()) {
            Some(_) if Some(block) == self.null_block => true,
            Some(record) if record.is_free() => {
                record.listed = 1;
                true
            }
            _ => false,
        }
    }

    /// Whether every block is known, in a tenancy, and has room for all these listings; the null
    /// block is passed over.
    pub(super) fn can_share(&self, blocks: &[BlockId]) -> bool {
        blocks.iter().all(|block| {
            block.index() < self.records.len()
                && (Some(*block) == self.null_block
                    || (!self.is_free(*block) && self.has_room(*block, blocks.len())))
        })
    }

    /// A block in a tenancy gains a listing. `lives` tells which key lives in a slot, if any.
    #[inline]
    pub(super) fn share(
        &mut self,
        block: BlockId,
        by: RequestKey,
        lives: &impl Fn(u32) -> Option<RequestKey>,
    ) {
        let record = &mut self.records[block.index()];
        if record.listed == 0 {
            // A list that is still there belongs to owners that have all gone.
            if record.marks & SHARED != 0 {
                self.arrivals.free(record.owner);
                record.marks &= !SHARED;
            }
            record.owner = by.slot();
            self.owned += 1;
        } else {
            if record.marks & SHARED == 0 {
                let Some(first) = lives(record.owner) else { return };
                record.owner = self.arrivals.push(None, first);
                record.marks |= SHARED;
            }
            record.owner = self.arrivals.push(Some(record.owner), by);
            self.arrivals.tidy(&mut record.owner, record.listed + 1, lives);
        }
        record.listed += 1;
    }

    /// An owner gives up one listing. Where the whole life ends (`ending`), its arrivals may stay in
    /// the list until it is tidied.
    #[inline]
    pub(super) fn give_up(&mut self, block: BlockId, by: RequestKey, ending: bool) {
        let record = &mut self.records[block.index()];
        if record.listed != 1 || record.held != 0 || record.marks & (SHARED | WAITING) != 0 {
            return self.give_up_in_general(block, by, ending);
        }
        // What `give_up_in_general` and `settle` come to where nothing else has the block.
        record.listed = 0;
        self.owned -= 1;
        if let Some(newest) = self.steps.back_mut() {
            record.marks = record.marks & !FENCE | newest.id as u32 & FENCE | WAITING;
            newest.waiting.push(block);
            self.now_held += 1;
        } else {
            self.free += 1;
            self.freed.push(block);
        }
    }

    fn give_up_in_general(&mut self, block: BlockId, by: RequestKey, ending: bool) {
        let fence = self.steps.back().map_or(0, |step| step.id as u32 & FENCE);
        let record = &mut self.records[block.index()];
        record.listed -= 1;
        if fence != 0 {
            record.marks = record.marks & !FENCE | fence;
        }
        if record.listed > 0 {
            self.arrivals.remove(&mut record.owner, by, ending);
            return;
        }
        if record.marks & SHARED != 0 {
            self.arrivals.free(record.owner);
            record.marks &= !SHARED;
        }
        self.owned -= 1;
        if !self.settle(block, Cause::Call) {
            self.now_held += 1;
            if self.holds(block) > 0 {
                self.now_kept.push(block);
            }
        }
    }

    /// Protects a block from being handed out.
    pub(super) fn hold(&mut self, block: BlockId) {
        // `has_room` was asked where the listing or hold began that this one takes the place of; a
        // narrowed pin adds one, and each is a few dozen bytes that outlive it.
        self.records[block.index()].held += 1;
        self.kept += 1;
    }

    /// Ends one protection.
    pub(super) fn let_go(&mut self, block: BlockId) {
        self.records[block.index()].held -= 1;
        self.kept -= 1;
        self.settle(block, Cause::Pin);
    }

    /// Judges a block that has just lost an owner, a hold or a step. Answers whether it is free now.
    fn settle(&mut self, block: BlockId, cause: Cause) -> bool {
        let record = self.records[block.index()];
        if !record.is_free() {
            return false;
        }
        if let Some(at) = self.delayed_by(record) {
            self.records[block.index()].marks |= WAITING;
            self.steps[at].waiting.push(block);
            return false;
        }
        self.free += 1;
        match cause {
            Cause::Call => self.freed.push(block),
            Cause::Pin => {
                self.records[block.index()].marks |= UNTOLD;
                self.untold.push(block);
            }
        }
        true
    }

    /// The newest open step that may still write a block that was given up.
    fn delayed_by(&self, record: Record) -> Option<usize> {
        if record.fence() == 0 {
            return None;
        }
        // Only the low bits were kept. The step meant is the latest one with these bits that has
        // begun; were it an earlier one, the block would only wait longer than it must.
        let back = (self.last_step as u32).wrapping_sub(record.fence()) & FENCE;
        let fence = self.last_step.saturating_sub(u64::from(back));
        self.steps.iter().rposition(|step| step.id <= fence)
    }

    pub(super) fn begin_step(&mut self) -> StepId {
        self.last_step += 1;
        // The low bits of a step are never 0, which means none.
        if self.last_step as u32 & FENCE == 0 {
            self.last_step += 1;
        }
        self.steps.push_back(OpenStep { id: self.last_step, waiting: Vec::new() });
        StepId(self.last_step)
    }

    pub(super) fn end_step(&mut self, step: StepId) -> Result<(), Error> {
        let found = self.steps.binary_search_by_key(&step.0, |open| open.id);
        let Some((at, ended)) = found.ok().and_then(|at| Some((at, self.steps.remove(at)?))) else {
            return Err(Error::UnknownStep { step });
        };
        for block in ended.waiting {
            let record = &mut self.records[block.index()];
            record.marks &= !WAITING;
            // No older step is open, and a younger one delays only what was given up under it.
            if at == 0 && record.is_free() && record.fence() == step.0 as u32 & FENCE {
                self.free += 1;
                self.freed.push(block);
            } else {
                self.settle(block, Cause::Call);
            }
        }
        Ok(())
    }

    pub(super) fn a_step_is_open(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The blocks that pins have freed since this was last asked, each once, in that order.
    pub(super) fn tell(&mut self) -> &[BlockId] {
        self.told.clear();
        std::mem::swap(&mut self.told, &mut self.untold);
        let records = &mut self.records;
        self.told.retain(|block| {
            let record = &mut records[block.index()];
            let untold = record.marks & UNTOLD != 0;
            record.marks &= !UNTOLD;
            untold
        });
        &self.told
    }

    /// Keeps the list of what is untold from outgrowing the pool where nobody asks.
    pub(super) fn trim_untold(&mut self) {
        if self.untold.len() > self.records.len() {
            let still: Vec<BlockId> = self.tell().to_vec();
            for &block in &still {
                self.records[block.index()].marks |= UNTOLD;
            }
            self.untold = still;
        }
    }

    /// The lives that list the block, by order of arrival, each once.
    pub(super) fn owners(
        &self,
        block: BlockId,
        lives: &impl Fn(u32) -> Option<RequestKey>,
    ) -> Vec<RequestKey> {
        let record = self.records[block.index()];
        if record.listed == 0 {
            return Vec::new();
        }
        if record.marks & SHARED == 0 {
            return lives(record.owner).into_iter().collect();
        }
        let mut owners = self.arrivals.in_order(record.owner, lives);
        let mut seen = std::collections::HashSet::new();
        owners.retain(|owner| seen.insert(*owner));
        owners
    }

    /// Steps that are open, oldest first, with the blocks that are not free before they end.
    pub(super) fn fenced(&self) -> Vec<(StepId, Vec<BlockId>)> {
        let mut steps: Vec<_> =
            self.steps.iter().map(|step| (StepId(step.id), Vec::new())).collect();
        if !steps.is_empty() {
            let used = self.records.iter().enumerate().filter(|(_, record)| !record.is_free());
            for (block, record) in used {
                if let Some(at) = self.delayed_by(*record) {
                    steps[at].1.push(BlockId(block as u32));
                }
            }
        }
        steps
    }

    /// Steps that are open, oldest first, with the blocks that wait for them. For the audit.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &[BlockId]> {
        self.steps.iter().map(|step| &*step.waiting)
    }

    /// Whether the block is marked as waiting for a step. For the audit.
    pub(super) fn waits(&self, block: BlockId) -> bool {
        self.records[block.index()].marks & WAITING != 0
    }
}

/// The listings of blocks that more than one position lists: one node each, the latest first, in
/// one arena.
///
/// A life that ends does not search for its nodes: they count as gone from then on, and are dropped
/// when they outnumber the others. So ending a life costs the same however many share its blocks.
#[derive(Default)]
struct Arrivals {
    nodes: Vec<Arrival>,
    unused: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Arrival {
    by: RequestKey,
    /// The one before, if this is not the first.
    before: u32,
    /// How many there are up to this one.
    count: u32,
}

impl Arrivals {
    #[inline]
    fn push(&mut self, before: Option<u32>, by: RequestKey) -> u32 {
        let count = before.map_or(0, |at| self.nodes[at as usize].count) + 1;
        let arrival = Arrival { by, before: before.unwrap_or(u32::MAX), count };
        if let Some(at) = self.unused.pop() {
            self.nodes[at as usize] = arrival;
            return at;
        }
        self.nodes.push(arrival);
        (self.nodes.len() - 1) as u32
    }

    fn walk(&self, last: u32) -> impl Iterator<Item = u32> {
        let mut left = self.nodes[last as usize].count;
        let mut at = last;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            left -= 1;
            let found = at;
            at = self.nodes[at as usize].before;
            Some(found)
        })
    }

    /// Who arrived and still lives, the first first.
    fn in_order(&self, last: u32, lives: &impl Fn(u32) -> Option<RequestKey>) -> Vec<RequestKey> {
        let mut found: Vec<_> = self.walk(last).map(|at| self.nodes[at as usize].by).collect();
        found.retain(|by| lives(by.slot()) == Some(*by));
        found.reverse();
        found
    }

    fn free(&mut self, last: u32) {
        let mut left = self.nodes[last as usize].count;
        let mut at = last;
        while left > 0 {
            self.unused.push(at);
            at = self.nodes[at as usize].before;
            left -= 1;
        }
    }

    /// Drops the nodes of ended lives where they are more than half.
    fn tidy(&mut self, last: &mut u32, listed: u32, lives: &impl Fn(u32) -> Option<RequestKey>) {
        const SLACK: u32 = 8;
        if self.nodes[*last as usize].count / 2 <= listed + SLACK {
            return;
        }
        let living = self.in_order(*last, lives);
        self.free(*last);
        let mut newest = None;
        for by in living {
            newest = Some(self.push(newest, by));
        }
        if let Some(newest) = newest {
            *last = newest;
        }
    }

    /// Removes the latest arrival of a life; others stay. Where the life ends, not if that takes
    /// a search.
    fn remove(&mut self, last: &mut u32, by: RequestKey, ending: bool) {
        let latest = self.nodes[*last as usize];
        if latest.by == by {
            self.unused.push(*last);
            *last = latest.before;
            return;
        }
        if ending {
            return;
        }
        let later: Vec<u32> =
            self.walk(*last).take_while(|&at| self.nodes[at as usize].by != by).collect();
        if let Some(&after) = later.last()
            && later.len() < latest.count as usize
        {
            let found = self.nodes[after as usize].before;
            self.nodes[after as usize].before = self.nodes[found as usize].before;
            for at in later {
                self.nodes[at as usize].count -= 1;
            }
            self.unused.push(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32) -> RequestKey {
        RequestKey::new(slot, 1)
    }

    #[test]
    fn arrivals_keep_their_order_and_their_count() {
        let everyone = |slot| Some(key(slot));
        let mut blocks = Blocks::new(2, None);
        let block = BlockId(1);
        assert!(blocks.assign(&[block], key(0)));
        for slot in [1, 2, 1, 3] {
            blocks.share(block, key(slot), &everyone);
        }
        assert_eq!(blocks.owners(block, &everyone), [0, 1, 2, 3].map(key));
        blocks.give_up(block, key(1), false);
        assert_eq!(blocks.owners(block, &everyone), [0, 1, 2, 3].map(key));
        blocks.give_up(block, key(1), false);
        assert_eq!(blocks.owners(block, &everyone), [0, 2, 3].map(key));
        blocks.give_up(block, key(3), false);
        blocks.share(block, key(1), &everyone);
        assert_eq!(blocks.owners(block, &everyone), [0, 2, 1].map(key));
        blocks.give_up(block, key(0), false);
        blocks.give_up(block, key(2), false);
        assert_eq!(blocks.owners(block, &everyone), [key(1)]);
        blocks.give_up(block, key(1), false);
        assert_eq!((blocks.outcome().freed(), blocks.outcome().held()), (&[block][..], 0));
        assert_eq!(blocks.arrivals.unused.len(), blocks.arrivals.nodes.len());
    }

    #[test]
    fn a_hot_block_does_not_gather_the_dead() {
        let mut blocks = Blocks::new(1, None);
        let block = BlockId(0);
        blocks.assign(&[block], key(0));
        blocks.share(block, key(1), &|slot| (slot < 2).then_some(key(slot)));
        for slot in 2..10_000 {
            // Each ends when the next has arrived, so its own arrival is never the latest.
            let lives = |other| (other == 0 || other + 1 >= slot).then_some(key(other));
            blocks.share(block, key(slot), &lives);
            blocks.give_up(block, key(slot - 1), true);
            let lives = |other| (other == 0 || other == slot).then_some(key(other));
            assert_eq!(blocks.owners(block, &lives), [key(0), key(slot)]);
        }
        assert!(blocks.arrivals.nodes.len() < 64, "{}", blocks.arrivals.nodes.len());
    }

    #[test]
    fn a_step_whose_low_bits_have_come_round_still_delays() {
        let mut blocks = Blocks::new(1, None);
        blocks.last_step = u64::from(FENCE) - 1;
        let block = BlockId(0);
        blocks.assign(&[block], key(0));
        let first = blocks.begin_step();
        let second = blocks.begin_step();
        assert_eq!((first.0 as u32 & FENCE, second.0 as u32 & FENCE), (FENCE, 1));
        blocks.give_up(block, key(0), true);
        blocks.end_step(first).unwrap();
        assert_eq!((blocks.outcome().freed(), blocks.outcome().held()), (&[][..], 1));
        blocks.end_step(second).unwrap();
        assert_eq!((blocks.outcome().freed(), blocks.outcome().held()), (&[block][..], 1));
        assert_eq!(blocks.end_step(second), Err(Error::UnknownStep { step: second }));
    }

    #[test]
    fn a_refused_assign_loses_nothing_that_is_to_be_told() {
        let mut blocks = Blocks::new(2, None);
        let block = BlockId(1);
        blocks.assign(&[block], key(0));
        blocks.hold(block);
        blocks.give_up(block, key(0), true);
        blocks.let_go(block);
        assert!(!blocks.assign(&[block, block], key(0)));
        assert!(!blocks.assign(&[block, BlockId(2)], key(0)));
        assert_eq!(blocks.tell(), [block]);
        assert_eq!((blocks.free(), blocks.owned()), (2, 0));
    }

    #[test]
    fn what_nobody_asks_for_stays_bounded() {
        let mut blocks = Blocks::new(4, None);
        let block = BlockId(2);
        for _ in 0..100 {
            blocks.assign(&[block], key(0));
            blocks.hold(block);
            blocks.give_up(block, key(0), true);
            blocks.let_go(block);
            blocks.trim_untold();
            assert!(blocks.untold.len() <= 5);
        }
        assert_eq!(blocks.tell(), [block]);
        assert!(blocks.tell().is_empty());
    }
}
