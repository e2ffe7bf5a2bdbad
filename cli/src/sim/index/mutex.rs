//! The baseline: a mutex around a map of block tables, with a plain reference count per block, as
//! engines keep their books today. Every pin and unpin takes the mutex and touches every block.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure::{
    BadRange, BlockId, Epoch, Error, GroupId, Groups, Holder, IndexId, Kind, PlanError, Refused,
    RequestKey, SaveRequest, Stale,
};

use super::{BlockIndex, Occupancy, Reader};

const GROUP: GroupId = GroupId(0);
const ID: IndexId = IndexId(0);

/// A handle on the books; the scheduler has one, and so has every saver.
#[derive(Clone)]
pub struct MutexIndex {
    books: Arc<Mutex<Books>>,
}

impl MutexIndex {
    /// Books over `blocks` blocks of `block_size` tokens.
    pub fn new(blocks: u32, block_size: u32) -> MutexIndex {
        MutexIndex { books: Arc::new(Mutex::new(Books::new(blocks, block_size))) }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Books {
    block_size: u64,
    counts: Vec<Count>,
    occupancy: Occupancy,
    tables: HashMap<RequestKey, Table>,
    preempted: HashSet<RequestKey>,
    lives: u64,
    epoch: u64,
    steps: Steps,
    /// Freed by an unpin, and not told to the scheduler yet.
    given_back: Vec<BlockId>,
}

/// Who keeps a block, and the newest step that was open when its last owner gave it up.
#[derive(Clone, Copy, Default)]
struct Count {
    owners: u32,
    pins: u32,
    fence: u64,
    /// Whether it stands in [`Steps::waiting`].
    waiting: bool,
}

struct Table {
    label: Arc<str>,
    blocks: Vec<Option<BlockId>>,
    committed: u64,
}

/// The dispatched steps, which are numbered from 1, and the blocks that wait for one to end.
#[derive(Default)]
struct Steps {
    begun: u64,
    open: Vec<u64>,
    waiting: Vec<BlockId>,
}

impl Books {
    fn new(blocks: u32, block_size: u32) -> Books {
        Books {
            block_size: u64::from(block_size),
            counts: vec![Count::default(); blocks as usize],
            occupancy: Occupancy { free: blocks, ..Occupancy::default() },
            tables: HashMap::new(),
            preempted: HashSet::new(),
            lives: 0,
            epoch: 0,
            steps: Steps::default(),
            given_back: Vec::new(),
        }
    }

    fn admit(&mut self, label: Arc<str>) -> RequestKey {
        self.lives += 1;
        let key = RequestKey::from_bits(self.lives);
        self.tables.insert(key, Table { label, blocks: Vec::new(), committed: 0 });
        key
    }

    fn table(&mut self, key: RequestKey) -> Result<&mut Table, Error> {
        self.tables.get_mut(&key).ok_or(Error::AlreadyReleased { key })
    }

    fn count(&self, block: BlockId) -> Result<Count, Error> {
        let unknown = Error::UnknownBlock { block, capacity: self.counts.len() as u32 };
        self.counts.get(block.0 as usize).copied().ok_or(unknown)
    }

    /// Whether an open step may still write the block.
    fn fenced(&self, count: Count) -> bool {
        self.steps.open.first().is_some_and(|&oldest| oldest <= count.fence)
    }

    fn is_free(&self, count: Count) -> bool {
        count.owners == 0 && count.pins == 0 && !self.fenced(count)
    }

    /// Appends blocks of which each `expected` says that it may come; all or none.
    fn append(
        &mut self,
        key: RequestKey,
        blocks: &[BlockId],
        free: bool,
        refusal: impl Fn(BlockId) -> Error,
    ) -> Result<(), Error> {
        for &block in blocks {
            if self.is_free(self.count(block)?) != free {
                return Err(refusal(block));
            }
        }
        self.table(key)?.blocks.extend(blocks.iter().copied().map(Some));
        for &block in blocks {
            let count = &mut self.counts[block.0 as usize];
            count.owners += 1;
            if count.owners == 1 {
                let from = if free { &mut self.occupancy.free } else { &mut self.occupancy.held };
                *from -= 1;
                self.occupancy.owned += 1;
            }
        }
        Ok(())
    }

    fn give_up(&mut self, blocks: impl Iterator<Item = BlockId>, freed: &mut Vec<BlockId>) {
        let newest = self.steps.open.last().copied().unwrap_or(0);
        for block in blocks {
            let count = &mut self.counts[block.0 as usize];
            count.owners -= 1;
            count.fence = newest;
            let count = *count;
            if count.owners > 0 {
                continue;
            }
            self.occupancy.owned -= 1;
            self.occupancy.held += 1;
            if self.fenced(count) {
                self.wait(block);
            } else if count.pins == 0 {
                self.free(block, freed);
            }
        }
    }

    fn wait(&mut self, block: BlockId) {
        if !std::mem::replace(&mut self.counts[block.0 as usize].waiting, true) {
            self.steps.waiting.push(block);
        }
    }

    fn free(&mut self, block: BlockId, freed: &mut Vec<BlockId>) {
        self.occupancy.held -= 1;
        self.occupancy.free += 1;
        freed.push(block);
    }

    fn end_life(&mut self, key: RequestKey, freed: &mut Vec<BlockId>) -> Result<Table, Error> {
        let table = self.tables.remove(&key).ok_or(Error::AlreadyReleased { key })?;
        self.give_up(table.blocks.iter().copied().flatten(), freed);
        Ok(table)
    }

    fn end_step(&mut self, step: u64, freed: &mut Vec<BlockId>) {
        self.steps.open.retain(|&open| open != step);
        for block in std::mem::take(&mut self.steps.waiting) {
            let count = &mut self.counts[block.0 as usize];
            count.waiting = false;
            let count = *count;
            if self.is_free(count) {
                self.free(block, freed);
            } else if count.owners == 0 && self.fenced(count) {
                self.wait(block);
            }
        }
    }

    /// The planned blocks where all of them are still there: a table only grows or loses
    /// positions at its front, so a block that is still listed was so without interruption.
    fn planned(&self, key: RequestKey, tokens: Range<u64>) -> Result<Vec<BlockId>, Stale> {
        let Some(table) = self.tables.get(&key) else {
            return Err(if self.preempted.contains(&key) { Stale::NewLife } else { Stale::Gone });
        };
        let start = (tokens.start / self.block_size) as usize;
        let end = tokens.end.div_ceil(self.block_size) as usize;
        let Some(range) = table.blocks.get(start..end) else {
            return Err(Stale::Truncated { group: GROUP, len: table.blocks.len() as u32 });
        };
        if let Some(hole) = range.iter().position(Option::is_none) {
            return Err(Stale::Hole { group: GROUP, position: (start + hole) as u32 });
        }
        if table.committed < tokens.end {
            return Err(Stale::NotCommitted { committed: table.committed });
        }
        Ok(range.iter().copied().flatten().collect())
    }
}

impl BlockIndex for MutexIndex {
    type Reader = MutexIndex;
    type Step = u64;

    fn admit(&mut self, label: &str) -> Result<RequestKey, Error> {
        Ok(self.books().admit(label.into()))
    }

    fn assign(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error> {
        let in_use = |block| Error::InUse { block, by: Holder::Held };
        self.books().append(key, blocks, true, in_use)
    }

    fn assign_holes(&mut self, key: RequestKey, count: u32) -> Result<(), Error> {
        let mut books = self.books();
        let table = books.table(key)?;
        table.blocks.resize(table.blocks.len() + count as usize, None);
        Ok(())
    }

    fn share(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error> {
        self.books().append(key, blocks, false, |block| Error::NotOwned { block })
    }

    fn commit(&mut self, computed: &[(RequestKey, u64)]) -> Result<(), Error> {
        let mut books = self.books();
        for &(key, tokens) in computed {
            books.table(key)?.committed = tokens;
        }
        Ok(())
    }

    fn vacate(
        &mut self,
        key: RequestKey,
        positions: Range<u32>,
        freed: &mut Vec<BlockId>,
    ) -> Result<(), Error> {
        let mut books = self.books();
        let table = books.table(key)?;
        let len = table.blocks.len() as u32;
        let range = positions.start as usize..positions.end as usize;
        let Some(range) = table.blocks.get_mut(range) else {
            let asked = u64::from(positions.end);
            return Err(Error::BeyondTable { group: GROUP, len, asked });
        };
        let blocks: Vec<BlockId> = range.iter_mut().filter_map(Option::take).collect();
        books.give_up(blocks.into_iter(), freed);
        Ok(())
    }

    fn preempt(
        &mut self,
        key: RequestKey,
        freed: &mut Vec<BlockId>,
    ) -> Result<(RequestKey, u32), Error> {
        let mut books = self.books();
        let held = books.occupancy.held;
        let table = books.end_life(key, freed)?;
        let held = books.occupancy.held - held;
        books.preempted.insert(key);
        Ok((books.admit(table.label), held))
    }

    fn release(&mut self, key: RequestKey, freed: &mut Vec<BlockId>) -> Result<(), Error> {
        self.books().end_life(key, freed).map(drop)
    }

    fn begin_step(&mut self) -> u64 {
        let mut books = self.books();
        books.steps.begun += 1;
        let step = books.steps.begun;
        books.steps.open.push(step);
        step
    }

    fn end_step(&mut self, step: u64, freed: &mut Vec<BlockId>) -> Result<(), Error> {
        self.books().end_step(step, freed);
        Ok(())
    }

    fn publish(&mut self) {
        self.books().epoch += 1;
    }

    fn reclaim(&mut self, freed: &mut Vec<BlockId>) {
        freed.append(&mut self.books().given_back);
    }

    fn occupancy(&mut self) -> Occupancy {
        self.books().occupancy
    }

    fn audit(&mut self) -> Result<(), String> {
        let books = self.books();
        let mut owners = vec![0; books.counts.len()];
        for block in books.tables.values().flat_map(|table| table.blocks.iter().flatten()) {
            owners[block.0 as usize] += 1;
        }
        match books.counts.iter().zip(owners).position(|(count, owners)| count.owners != owners) {
            Some(block) => Err(format!("block {block} is counted wrongly")),
            None => Ok(()),
        }
    }

    fn reader(&self) -> MutexIndex {
        self.clone()
    }
}

impl Reader for MutexIndex {
    type Pin = MutexPin;

    fn plan(&self, key: RequestKey, tokens: Range<u64>) -> Result<SaveRequest, PlanError> {
        let books = self.books();
        books.planned(key, tokens.clone())?;
        SaveRequest::from_parts(ID, key, Epoch(books.epoch), tokens, Groups::ALL, Kind::Save)
            .map_err(|BadRange { start, end }| PlanError::BadRange { start, end })
    }

    fn pin(&self, save: &SaveRequest) -> Result<MutexPin, Refused> {
        let mut books = self.books();
        let blocks = books.planned(save.key(), save.tokens())?;
        for &block in &blocks {
            books.counts[block.0 as usize].pins += 1;
        }
        Ok(MutexPin { index: self.clone(), blocks })
    }

    fn blocks(pin: &MutexPin) -> Vec<BlockId> {
        pin.blocks.clone()
    }
}

/// Counts its blocks down when it is dropped.
pub struct MutexPin {
    index: MutexIndex,
    blocks: Vec<BlockId>,
}

impl Drop for MutexPin {
    fn drop(&mut self) {
        let mut books = self.index.books();
        let mut freed = std::mem::take(&mut books.given_back);
        for &block in &self.blocks {
            let count = &mut books.counts[block.0 as usize];
            count.pins -= 1;
            let count = *count;
            if books.is_free(count) {
                books.free(block, &mut freed);
            }
        }
        books.given_back = freed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(ids: impl IntoIterator<Item = u32>) -> Vec<BlockId> {
        ids.into_iter().map(BlockId).collect()
    }

    /// An index of 8 blocks of 16 tokens and a request that has computed blocks 0..4.
    fn started() -> (MutexIndex, RequestKey) {
        let mut index = MutexIndex::new(8, 16);
        let key = index.admit("a").unwrap();
        index.assign(key, &blocks(0..4)).unwrap();
        index.commit(&[(key, 64)]).unwrap();
        index.publish();
        (index, key)
    }

    #[test]
    fn a_pinned_block_comes_back_once_after_its_release() {
        let (mut index, key) = started();
        let save = index.plan(key, 0..32).unwrap();
        let (first, second) = (index.pin(&save).unwrap(), index.pin(&save).unwrap());
        let mut freed = Vec::new();
        index.release(key, &mut freed).unwrap();
        assert_eq!(freed, blocks(2..4));
        assert_eq!(index.occupancy(), Occupancy { free: 6, owned: 0, held: 2 });
        drop(first);
        freed.clear();
        index.reclaim(&mut freed);
        assert_eq!(freed, blocks([]));
        drop(second);
        index.reclaim(&mut freed);
        assert_eq!(freed, blocks(0..2));
        assert!(matches!(index.pin(&save), Err(Refused::Stale(Stale::Gone))));
        index.audit().unwrap();
    }

    #[test]
    fn a_block_given_up_during_a_step_waits_for_its_end_and_for_its_pins() {
        let (mut index, key) = started();
        let pin = index.pin(&index.plan(key, 0..16).unwrap()).unwrap();
        let step = index.begin_step();
        let mut freed = Vec::new();
        let (next, held) = index.preempt(key, &mut freed).unwrap();
        assert_eq!((freed.len(), held), (0, 4));
        index.end_step(step, &mut freed).unwrap();
        assert_eq!(freed, blocks(1..4));
        let other = index.admit("b").unwrap();
        assert!(matches!(index.share(other, &blocks([5])), Err(Error::NotOwned { .. })));
        index.share(other, &blocks([0])).unwrap();
        index.release(other, &mut freed).unwrap();
        drop(pin);
        freed.clear();
        index.reclaim(&mut freed);
        assert_eq!(freed, blocks([0]));
        assert!(matches!(index.plan(key, 0..16), Err(PlanError::Stale(Stale::NewLife))));
        assert!(matches!(index.plan(next, 0..16), Err(PlanError::Stale(Stale::Truncated { .. }))));
    }

    #[test]
    fn a_vacated_position_is_a_hole() {
        let (mut index, key) = started();
        let save = index.plan(key, 0..64).unwrap();
        let mut freed = Vec::new();
        index.vacate(key, 0..2, &mut freed).unwrap();
        assert_eq!(freed, blocks(0..2));
        let hole = Stale::Hole { group: GROUP, position: 0 };
        assert_eq!(index.pin(&save).err(), Some(Refused::Stale(hole)));
        assert!(index.plan(key, 32..64).is_ok());
    }
}
