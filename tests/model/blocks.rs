//! The state of the pool's blocks, always found by looking.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure::{BlockId, BlockState, Counts, Error, Holder, RequestKey};

use super::Model;
use super::pins::Protection;

impl Model {
    pub fn state(&self, block: BlockId) -> BlockState {
        if self.is_owned(block) {
            BlockState::Owned
        } else if self.is_held_by_pin(block) || self.is_held_by_step(block) {
            BlockState::Held
        } else {
            BlockState::Free
        }
    }

    pub fn free_blocks(&self) -> BTreeSet<BlockId> {
        self.shape.pool().filter(|&block| self.state(block) == BlockState::Free).collect()
    }

    fn is_owned(&self, block: BlockId) -> bool {
        self.live().any(|life| life.lists(block))
    }

    fn is_held_by_pin(&self, block: BlockId) -> bool {
        let kept = self.lives.iter().flat_map(|life| &life.queue).any(|l| l.kept.contains(&block));
        let exact = self.pins.values().any(|pin| match &pin.protection {
            Protection::Exact(blocks) => blocks.contains(&block),
            Protection::Lease(_) => false,
        });
        kept || exact || self.ended_holds.iter().any(|blocks| blocks.contains(&block))
    }

    /// Whether a step is open that began before the block was given up. Fences of earlier stays are
    /// no trouble: the block became free when all the steps up to them had ended.
    fn is_held_by_step(&self, block: BlockId) -> bool {
        match self.fences.get(&block) {
            Some(fence) => self.steps.iter().any(|(step, _)| step <= fence),
            None => false,
        }
    }

    /// A call of the scheduler like any other, which takes in what pins have given back.
    pub fn audit(&mut self) {
        self.take_in();
    }

    pub fn counts(&self) -> Counts {
        let count = |state| self.shape.pool().filter(|&b| self.state(b) == state).count() as u32;
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
