//! Every refusal, as a typed value that names what was wrong.

use std::sync::Arc;

use thiserror::Error;

use crate::ids::{BlockId, GroupId, RequestKey, StepId};

/// A token or position range that is empty or reversed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the range {start}..{end} is empty or reversed")]
pub struct BadRange {
    /// Its start.
    pub start: u64,
    /// Its end, exclusive.
    pub end: u64,
}

/// Why a planned read is no longer (or not yet) allowed. Where several apply, the first in this
/// order is told, then the lowest group and position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
#[non_exhaustive]
pub enum Stale {
    /// The epoch was never published by this index: a future one, one more than 2^31 publishes
    /// old, or a request of another index.
    #[error("its epoch was never published by this index")]
    EpochUnknown,
    /// The index is shutting down and takes no new pins.
    #[error("the index is draining")]
    Draining,
    /// The index was reset at or after the planned epoch.
    #[error("the index was reset since it was planned")]
    Reset,
    /// The life was released (or never was).
    #[error("its request was released")]
    Gone,
    /// The life was ended by a preemption, whatever became of its successor.
    #[error("its request was preempted")]
    NewLife,
    /// The table is shorter than the range.
    #[error("the table of {group} is only {len} blocks long")]
    Truncated {
        /// The group whose table is short.
        group: GroupId,
        /// Its length, in positions.
        len: u32,
    },
    /// The position is a hole.
    #[error("position {position} of {group} is a hole")]
    Hole {
        /// The group.
        group: GroupId,
        /// The first such position of the range.
        position: u32,
    },
    /// The position shows a block that came there after the planned epoch.
    #[error("position {position} of {group} shows another block since")]
    Reassigned {
        /// The group.
        group: GroupId,
        /// The first such position of the range.
        position: u32,
    },
    /// A save over tokens that are not known to be written.
    #[error("only {committed} tokens are known to be written")]
    NotCommitted {
        /// The tokens known to be written, in the lowest group that has too few.
        committed: u64,
    },
}

impl Stale {
    /// How many reasons there are; [`ordinal`](Stale::ordinal) is below it.
    pub const COUNT: usize = 9;

    /// The reason's place in the order of telling, for counting by reason.
    pub const fn ordinal(&self) -> usize {
        match self {
            Stale::EpochUnknown => 0,
            Stale::Draining => 1,
            Stale::Reset => 2,
            Stale::Gone => 3,
            Stale::NewLife => 4,
            Stale::Truncated { .. } => 5,
            Stale::Hole { .. } => 6,
            Stale::Reassigned { .. } => 7,
            Stale::NotCommitted { .. } => 8,
        }
    }

    /// A short stable name: `epoch-unknown`, `draining`, `reset`, `gone`, `new-life`, `truncated`,
    /// `hole`, `reassigned` or `not-committed`.
    pub const fn name(&self) -> &'static str {
        Stale::NAMES[self.ordinal()]
    }

    /// The names of all reasons, by [`ordinal`](Stale::ordinal).
    pub const NAMES: [&'static str; Stale::COUNT] = [
        "epoch-unknown",
        "draining",
        "reset",
        "gone",
        "new-life",
        "truncated",
        "hole",
        "reassigned",
        "not-committed",
    ];
}

/// A limit that is reached for now: the request is valid and can be tried again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
#[non_exhaustive]
pub enum Budget {
    /// One version of the table already has 32,767 pins.
    #[error("the table already has 32767 pins")]
    Pins,
    /// As many jobs are open as the ledger allows.
    #[error("{max} jobs are open already")]
    Jobs {
        /// The limit.
        max: usize,
    },
    /// The open jobs would hold more distinct blocks than the ledger allows.
    #[error("the open jobs would hold more than {max} blocks")]
    Blocks {
        /// The limit.
        max: u64,
    },
}

/// Why a pin was not taken. A refused pin leaves no trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum Refused {
    /// Ownership changed: this plan can never be pinned again.
    #[error("stale: {0}")]
    Stale(#[from] Stale),
    /// Valid, but not now.
    #[error("over budget: {0}")]
    Budget(#[from] Budget),
}

/// Why nothing could be planned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum PlanError {
    /// The token range is empty or reversed.
    #[error("the token range {start}..{end} is empty or reversed")]
    BadRange {
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// The index has no such group.
    #[error("the index has no group {group}")]
    UnknownGroup {
        /// The lowest unknown one.
        group: GroupId,
    },
    /// No group was named.
    #[error("no group is named")]
    NoGroup,
    /// A pin would be refused at the published epoch.
    #[error("stale: {0}")]
    Stale(#[from] Stale),
}

/// Who has a block that was expected to be free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Holder {
    /// A live request lists it.
    Request {
        /// Its key.
        key: RequestKey,
        /// Its label.
        label: Arc<str>,
    },
    /// No request lists it; a pin or a device step still protects it.
    Held,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Holder::Request { label, .. } => write!(f, "request {label:?}"),
            Holder::Held => f.write_str("a pin or a device step"),
        }
    }
}

/// Why a call of the scheduler was refused. A refused call changed nothing; of several bad blocks
/// it names the first as listed: unknown ones first, then the null block, then blocks in use or not
/// owned, then repeated ones.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A request of this label is live.
    #[error("a request labelled {label:?} is live already")]
    AlreadyLive {
        /// The label.
        label: Arc<str>,
        /// The live one's key.
        key: RequestKey,
    },
    /// The life was released or preempted before.
    #[error("the life {key} has ended already")]
    AlreadyReleased {
        /// The life.
        key: RequestKey,
    },
    /// The key was never issued by this index.
    #[error("the key {key} was never issued")]
    UnknownKey {
        /// The key.
        key: RequestKey,
    },
    /// The index has no such group.
    #[error("the index has no group {group}")]
    UnknownGroup {
        /// The group.
        group: GroupId,
    },
    /// The block lies outside the pool.
    #[error("block {block} lies outside the pool of {capacity}")]
    UnknownBlock {
        /// The block.
        block: BlockId,
        /// The number of blocks in the pool.
        capacity: u32,
    },
    /// The null block stands where a real one is needed.
    #[error("block {block} is the null block")]
    NullBlock {
        /// The null block.
        block: BlockId,
    },
    /// The block is not free, or stands twice in one call.
    #[error("block {block} is in use by {by}")]
    InUse {
        /// The block.
        block: BlockId,
        /// Who has it.
        by: Holder,
    },
    /// The block is free: only a block in a tenancy can be shared or held.
    #[error("block {block} is free")]
    NotOwned {
        /// The block.
        block: BlockId,
    },
    /// A length, position or token count lies past the end of the table.
    #[error("{asked} lies past the end of the table of {group}, which is {len} blocks long")]
    BeyondTable {
        /// The group.
        group: GroupId,
        /// The length of its table, in positions.
        len: u32,
        /// What was asked for: a position, a length, or a number of tokens.
        asked: u64,
    },
    /// A position range that is reversed.
    #[error(transparent)]
    BadRange(#[from] BadRange),
    /// The table would grow past the longest one that can be pinned.
    #[error("the table of {group} cannot grow past {max} blocks")]
    TableFull {
        /// The group.
        group: GroupId,
        /// The longest table, in positions.
        max: u32,
    },
    /// As many requests are live as the index was built for.
    #[error("{max} requests are live already")]
    TooManyRequests {
        /// The limit.
        max: u32,
    },
    /// The block is listed and held as often as can be counted.
    #[error("block {block} is listed or held too often to be counted")]
    TooOftenUsed {
        /// The block.
        block: BlockId,
    },
    /// Blocks are owned or held, so the index cannot be reset.
    #[error("{blocks} blocks are owned or held")]
    Busy {
        /// How many.
        blocks: u32,
    },
    /// The step was never begun, or has ended.
    #[error("step {step} is not open")]
    UnknownStep {
        /// The step.
        step: StepId,
    },
    /// The index is shutting down and takes no new pins.
    #[error("the index is draining")]
    Draining,
}
