//! Measures the time that the scheduler's thread spends in an index.

use std::ops::Range;
use std::time::{Duration, Instant};

use tenure::{BlockId, Error, RequestKey};

use super::{BlockIndex, Occupancy};

/// An index that adds up the time spent in it.
///
/// One pair of clock readings goes around each call; where the scheduler has many like calls at
/// once (`commit`), around all of them. What a pair costs by itself is measured at the start and
/// taken off. Checks that no engine would make (`occupancy`, `audit`) are left out.
pub struct Timed<I> {
    index: I,
    spent: Duration,
    clock_cost: Duration,
}

impl<I: BlockIndex> Timed<I> {
    /// Measures `index` from now on.
    pub fn new(index: I) -> Timed<I> {
        Timed { index, spent: Duration::ZERO, clock_cost: clock_cost() }
    }

    /// The time spent since this was last asked.
    pub fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    fn timed<T>(&mut self, call: impl FnOnce(&mut I) -> T) -> T {
        let start = Instant::now();
        let answer = call(&mut self.index);
        self.spent += start.elapsed().saturating_sub(self.clock_cost);
        answer
    }
}

impl<I: BlockIndex> BlockIndex for Timed<I> {
    type Reader = I::Reader;
    type Step = I::Step;

    fn admit(&mut self, label: &str) -> Result<RequestKey, Error> {
        self.timed(|index| index.admit(label))
    }

    fn assign(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error> {
        self.timed(|index| index.assign(key, blocks))
    }

    fn assign_holes(&mut self, key: RequestKey, count: u32) -> Result<(), Error> {
        self.timed(|index| index.assign_holes(key, count))
    }

    fn share(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error> {
        self.timed(|index| index.share(key, blocks))
    }

    fn commit(&mut self, computed: &[(RequestKey, u64)]) -> Result<(), Error> {
        self.timed(|index| index.commit(computed))
    }

    fn vacate(
        &mut self,
        key: RequestKey,
        positions: Range<u32>,
        freed: &mut Vec<BlockId>,
    ) -> Result<(), Error> {
        self.timed(|index| index.vacate(key, positions, freed))
    }

    fn preempt(
        &mut self,
        key: RequestKey,
        freed: &mut Vec<BlockId>,
    ) -> Result<(RequestKey, u32), Error> {
        self.timed(|index| index.preempt(key, freed))
    }

    fn release(&mut self, key: RequestKey, freed: &mut Vec<BlockId>) -> Result<(), Error> {
        self.timed(|index| index.release(key, freed))
    }

    fn begin_step(&mut self) -> I::Step {
        self.timed(|index| index.begin_step())
    }

    fn end_step(&mut self, step: I::Step, freed: &mut Vec<BlockId>) -> Result<(), Error> {
        self.timed(|index| index.end_step(step, freed))
    }

    fn publish(&mut self) {
        self.timed(|index| index.publish())
    }

    fn reclaim(&mut self, freed: &mut Vec<BlockId>) {
        self.timed(|index| index.reclaim(freed))
    }

    fn occupancy(&mut self) -> Occupancy {
        self.index.occupancy()
    }

    fn audit(&mut self) -> Result<(), String> {
        self.index.audit()
    }

    fn reader(&self) -> I::Reader {
        self.index.reader()
    }
}

/// The median of what two clock readings with nothing between them show.
fn clock_cost() -> Duration {
    let mut costs: Vec<Duration> = (0..1001).map(|_| Instant::now().elapsed()).collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}
