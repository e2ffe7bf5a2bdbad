//! The index under test behind one small interface: [`tenure`] or the way engines do
//! it today ([`mutex`]), with the same scheduler, savers and accounts around either.

pub mod mutex;
pub mod tenure;
mod timed;

use std::ops::Range;

use ::tenure::{BlockId, Error, PlanError, Refused, RequestKey, SaveRequest};
use clap::ValueEnum;
use serde::Serialize;

pub use timed::Timed;

/// Which index the replay runs over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// Tenure's lock-free index.
    Tenure,
    /// A mutex around a map of block tables and plain reference counts.
    Mutex,
}

/// How many blocks are in which state; they add up to the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// May be handed out.
    pub free: u32,
    /// Listed by a live request.
    pub owned: u32,
    /// Listed by no live request, but protected by a pin or an open step.
    pub held: u32,
}

/// What the scheduler asks of an index. Blocks that become free are appended to `freed`, each once
/// and in the order of the table that lost them.
///
/// A refusal means that the scheduler and the index disagree, except for the one that
/// [`share`](BlockIndex::share) tells.
pub trait BlockIndex {
    /// The handle that saver threads take pins through.
    type Reader: Reader;

    /// Names a dispatched device step.
    type Step: Copy;

    /// Begins the life of a request.
    fn admit(&mut self, label: &str) -> Result<RequestKey, Error>;

    /// Appends free blocks to a table.
    fn assign(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error>;

    /// Appends `count` positions without a block.
    fn assign_holes(&mut self, key: RequestKey, count: u32) -> Result<(), Error>;

    /// Appends blocks that are owned or held; [`Error::NotOwned`] where one has become free since.
    fn share(&mut self, key: RequestKey, blocks: &[BlockId]) -> Result<(), Error>;

    /// Notes, for each request, how many of its tokens are computed.
    fn commit(&mut self, computed: &[(RequestKey, u64)]) -> Result<(), Error>;

    /// Gives up positions of a table.
    fn vacate(
        &mut self,
        key: RequestKey,
        positions: Range<u32>,
        freed: &mut Vec<BlockId>,
    ) -> Result<(), Error>;

    /// Ends a life and begins an empty one under the same label. Answers the new life and how many
    /// blocks are not free yet because a pin or a step protects them.
    fn preempt(
        &mut self,
        key: RequestKey,
        freed: &mut Vec<BlockId>,
    ) -> Result<(RequestKey, u32), Error>;

    /// Ends a life.
    fn release(&mut self, key: RequestKey, freed: &mut Vec<BlockId>) -> Result<(), Error>;

    /// A device step is dispatched: blocks given up from now on are not free before it ends.
    fn begin_step(&mut self) -> Self::Step;

    /// A device step has ended.
    fn end_step(&mut self, step: Self::Step, freed: &mut Vec<BlockId>) -> Result<(), Error>;

    /// Makes what was gained visible to readers.
    fn publish(&mut self);

    /// Takes in what pins have given back.
    fn reclaim(&mut self, freed: &mut Vec<BlockId>);

    /// The blocks by state.
    fn occupancy(&mut self) -> Occupancy;

    /// Checks the index's own books.
    fn audit(&mut self) -> Result<(), String>;

    /// A handle for another thread.
    fn reader(&self) -> Self::Reader;
}

/// What a saver thread asks of an index.
pub trait Reader: Clone + Send + 'static {
    /// Keeps the pinned blocks from being handed out until it is dropped.
    type Pin: Send;

    /// Plans the save of a token range.
    fn plan(&self, key: RequestKey, tokens: Range<u64>) -> Result<SaveRequest, PlanError>;

    /// Pins the blocks of a planned save.
    fn pin(&self, save: &SaveRequest) -> Result<Self::Pin, Refused>;

    /// The pinned blocks, one per position.
    fn blocks(pin: &Self::Pin) -> Vec<BlockId>;
}
