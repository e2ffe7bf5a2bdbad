//! Tenure's index.

use std::ops::Range;

use tenure::{
    BlockId, Config, ConfigError, Error, GroupId, Groups, Index, Pin, PlanError, Recording,
    Refused, RequestKey, SaveRequest, Scheduler, StepId,
};

use super::{BlockIndex, Occupancy, Reader};

/// The one KV-cache group of the simulated model.
const GROUP: GroupId = GroupId(0);

/// Tenure's scheduler and a handle on its index.
pub struct TenureIndex {
    scheduler: Scheduler,
    index: Index,
    null: BlockId,
}

impl TenureIndex {
    /// An index over `blocks` blocks of `block_size` tokens, with commit tracking, for at most
    /// `requests` live requests; with a flight recorder where `recording` is given.
    ///
    /// # Errors
    /// [`ConfigError`] where the index cannot be that large.
    pub fn new(
        blocks: u32,
        block_size: u32,
        requests: u32,
        recording: Option<Recording>,
    ) -> Result<TenureIndex, ConfigError> {
        // The null block comes after all that the pool hands out.
        let null = BlockId(blocks);
        let mut config = Config::new(blocks.saturating_add(1))
            .null_block(null)
            .block_sizes([block_size])
            .track_commits(true)
            .max_requests(requests);
        if let Some(recording) = recording {
            config = config.record(recording);
        }
        let (scheduler, index) = config.build()?;
        Ok(TenureIndex { scheduler, index, null })
    }
}

impl BlockIndex for TenureIndex {
    type Reader = Index;
    type Step = StepId;

    fn admit(&mut self, label: &str) -> Result<RequestKey, Error> {
        self.scheduler.admit(label)
    }

    fn assign(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error> {
        self.scheduler.assign(key, GROUP, blocks)
    }

    fn assign_holes(&mut self, key: RequestKey, count: u32) -> Result<(), Error> {
        self.scheduler.assign(key, GROUP, &vec![self.null; count as usize])
    }

    fn share(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error> {
        self.scheduler.share(key, GROUP, blocks)
    }

    fn commit(&mut self, computed: &[(RequestKey, u64)]) -> Result<(), Error> {
        computed.iter().try_for_each(|&(key, tokens)| self.scheduler.commit(key, tokens))
    }

    fn vacate(
        &mut self,
        key: RequestKey,
        positions: Range<u32>,
        freed: &mut Vec<BlockId>,
    ) -> Result<(), Error> {
        freed.extend_from_slice(self.scheduler.vacate(key, GROUP, positions)?.freed());
        Ok(())
    }

    fn preempt(
        &mut self,
        key: RequestKey,
        freed: &mut Vec<BlockId>,
    ) -> Result<(RequestKey, u32), Error> {
        let preempted = self.scheduler.preempt(key)?;
        freed.extend_from_slice(preempted.released.freed());
        Ok((preempted.successor, preempted.released.held()))
    }

    fn release(&mut self, key: RequestKey, freed: &mut Vec<BlockId>) -> Result<(), Error> {
        freed.extend_from_slice(self.scheduler.release(key)?.freed());
        Ok(())
    }

    fn begin_step(&mut self) -> StepId {
        self.scheduler.begin_step()
    }

    fn end_step(&mut self, step: StepId, freed: &mut Vec<BlockId>) -> Result<(), Error> {
        freed.extend_from_slice(self.scheduler.end_step(step)?.freed());
        Ok(())
    }

    fn publish(&mut self) {
        self.scheduler.publish();
    }

    fn reclaim(&mut self, freed: &mut Vec<BlockId>) {
        freed.extend_from_slice(self.scheduler.reclaim());
    }

    fn occupancy(&mut self) -> Occupancy {
        let counts = self.scheduler.counts();
        Occupancy { free: counts.free, owned: counts.owned, held: counts.held }
    }

    fn audit(&mut self) -> Result<(), String> {
        self.scheduler.audit().map_err(|error| error.to_string())
    }

    fn reader(&self) -> Index {
        self.index.clone()
    }
}

impl Reader for Index {
    type Pin = Pin;

    fn plan(&self, key: RequestKey, tokens: Range<u64>) -> Result<SaveRequest, PlanError> {
        Index::plan(self, key, tokens, Groups::ALL)
    }

    fn pin(&self, save: &SaveRequest) -> Result<Pin, Refused> {
        Index::pin(self, save)
    }

    fn blocks(pin: &Pin) -> Vec<BlockId> {
        pin.blocks_of(GROUP)
    }
}
