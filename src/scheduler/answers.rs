//! What the scheduler's calls answer.

use crate::ids::{BlockId, RequestKey};

/// What a call gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the freed blocks are told only here"]
pub struct Released<'a> {
    pub(super) freed: &'a [BlockId],
    pub(super) held: u32,
    pub(super) kept: &'a [BlockId],
}

impl<'a> Released<'a> {
    /// The blocks that became free by this call, each once. They can be assigned again at once.
    pub fn freed(&self) -> &'a [BlockId] {
        self.freed
    }

    /// How many blocks this call gave up that no request lists any more but that a pin or a step
    /// still protects. [`reclaim`](crate::Scheduler::reclaim) or
    /// [`end_step`](crate::Scheduler::end_step) will tell when they are free.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Those of the held blocks that a pin protects.
    pub(crate) fn kept(&self) -> &'a [BlockId] {
        self.kept
    }
}

/// What a preemption gave up, and the life that follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the freed blocks are told only here"]
pub struct Preempted<'a> {
    /// The life that goes on under the same label, with empty tables.
    pub successor: RequestKey,
    /// What the ended life gave up.
    pub released: Released<'a>,
}

/// The blocks of the pool, less the null block, by what has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Blocks that can be assigned.
    pub free: u32,
    /// Blocks that a live request lists.
    pub owned: u32,
    /// Blocks that no request lists and a pin or a step still protects.
    pub held: u32,
}

/// What has a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockState {
    /// It can be assigned.
    Free,
    /// A live request lists it.
    Owned,
    /// No request lists it; a pin or a step still protects it.
    Held,
}
