//! The state of the pool's blocks, always found by looking.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure::{BlockId, BlockState, Counts, Error, Holder, RequestKey};

use super::Model;
use super::pins::Protection;

impl Model {
    pub fn state(&self, block: BlockId) -> BlockState {
        self.states()[&block]
    }

    /// Every block of the pool.
    pub fn states(&self) -> BTreeMap<BlockId, BlockState> {
        let (owned, protected) = (self.owned(), self.protected());
        let state = |block: &BlockId| match (owned.contains(block), protected.contains(block)) {
            (true, _) => BlockState::Owned,
            (false, true) => BlockState::Held,
            (false, false) => BlockState::Free,
        };
        self.shape.pool().map(|block| (block, state(&block))).collect()
    }

    pub fn free_blocks(&self) -> BTreeSet<BlockId> {
        let states = self.states();
        self.shape.pool().filter(|block| states[block] == BlockState::Free).collect()
    }

    /// What live requests list.
    fn owned(&self) -> BTreeSet<BlockId> {
        self.live().flat_map(|life| life.listed().map(|(_, _, block)| block)).collect()
    }

    /// What pins keep and open steps may still write, whoever lists it.
    fn protected(&self) -> BTreeSet<BlockId> {
        let kept = self.lives.iter().flat_map(|life| &life.queue).flat_map(|lease| &lease.kept);
        let exact = self.pins.values().flat_map(|pin| match &pin.protection {
            Protection::Exact(blocks) => blocks.as_slice(),
            Protection::Lease(_) => &[],
        });
        let ended = self.ended_holds.iter().flatten();
        // A fence of an earlier stay is no trouble: the block became free when all the steps up to
        // it had ended.
        let awaits_step = |fence| self.steps.iter().any(|(step, _)| step <= fence);
        let fenced = self.fences.iter().filter(|(_, fence)| awaits_step(fence));
        let fenced = fenced.map(|(block, _)| block);
        kept.chain(exact).chain(ended).chain(fenced).copied().collect()
    }

    /// A call of the scheduler like any other, which takes in what pins have given back.
    pub fn audit(&mut self) {
        self.take_in();
    }

    pub fn counts(&self) -> Counts {
        let states = self.states();
        let count = |state| states.values().filter(|&&other| other == state).count() as u32;
        Counts {
            free: count(BlockState::Free),
            owned: count(BlockState::Owned),
            held: count(BlockState::Held),
        }
    }

    pub fn block_state(&self, block: BlockId) -> Result<BlockState, Error> {
        self.known(block)?;
        self.not_null(block)?;
        Ok(self.state(block))
    }

    pub fn owners(&self, block: BlockId) -> Result<Vec<(RequestKey, Arc<str>)>, Error> {
        self.known(block)?;
        Ok(self.owners_of(block))
    }

    fn owners_of(&self, block: BlockId) -> Vec<(RequestKey, Arc<str>)> {
        let arrived = self.arrivals.iter().filter(|&&(listed, _)| listed == block);
        arrived.map(|&(_, key)| (key, self.life(key).expect("a life").label.clone())).collect()
    }

    pub(super) fn known(&self, block: BlockId) -> Result<(), Error> {
        if block.0 < self.shape.blocks {
            Ok(())
        } else {
            Err(Error::UnknownBlock { block, capacity: self.shape.blocks })
        }
    }

    pub(super) fn not_null(&self, block: BlockId) -> Result<(), Error> {
        if Some(block) == self.shape.null { Err(Error::NullBlock { block }) } else { Ok(()) }
    }

    pub(super) fn must_be_free(&self, block: BlockId) -> Result<(), Error> {
        let by = match self.state(block) {
            BlockState::Free => return Ok(()),
            BlockState::Held => Holder::Held,
            BlockState::Owned => {
                let (key, label) = self.owners_of(block).remove(0);
                Holder::Request { key, label }
            }
        };
        Err(Error::InUse { block, by })
    }

    pub(super) fn must_not_be_free(&self, block: BlockId) -> Result<(), Error> {
        if self.state(block) == BlockState::Free {
            return Err(Error::NotOwned { block });
        }
        Ok(())
    }
}
