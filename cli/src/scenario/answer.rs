//! The words in which the library's answers are told.

use tenure::{BadRange, BlockId, Error, Released, Stale};

/// What a command answers: `Err` where it was refused. Both are the words of the language.
pub(super) type Answer = Result<String, Refusal>;

/// The words of a refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal(pub(super) String);

impl Refusal {
    pub(super) fn new(words: impl Into<String>) -> Refusal {
        Refusal(words.into())
    }

    /// Bad input: something named that is not there, or the like.
    pub(super) fn error(words: impl std::fmt::Display) -> Refusal {
        Refusal(format!("error {words}"))
    }
}

impl From<BadRange> for Refusal {
    fn from(_: BadRange) -> Refusal {
        Refusal::error("bad-range")
    }
}

pub(super) fn ok() -> Answer {
    Ok("ok".to_owned())
}

pub(super) fn released(released: &Released<'_>) -> String {
    format!("freed {} held {}", released.freed().len(), released.held())
}

/// Numbers of a script that no index reaches stand for the largest, which no pool or index here
/// has either.
pub(super) fn clamp(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn block_ids(blocks: &[u64]) -> Vec<BlockId> {
    blocks.iter().map(|&block| BlockId(clamp(block))).collect()
}

/// A refusal of the index. Where there are several groups it says which.
pub(super) fn stale(stale: &Stale, groups: u32) -> Refusal {
    let name = stale.name();
    let place = |group: &tenure::GroupId, number: u32| match groups {
        0 | 1 => format!(" {number}"),
        _ => format!(" {group} {number}"),
    };
    let rest = match stale {
        Stale::Truncated { group, len } => place(group, *len),
        Stale::Hole { group, position } | Stale::Reassigned { group, position } => {
            place(group, *position)
        }
        Stale::NotCommitted { committed } => format!(" {committed}"),
        _ => String::new(),
    };
    Refusal(format!("stale {name}{rest}"))
}

/// A refusal of the scheduler, with the numbers as the script wrote them.
pub(super) fn refused(error: &Error, group: u64, blocks: &[u64]) -> Refusal {
    match error {
        Error::AlreadyLive { .. } => Refusal::new("already-live"),
        Error::AlreadyReleased { .. } => Refusal::new("already-released"),
        Error::InUse { block, .. } => Refusal::new(format!("in-use {block}")),
        Error::NotOwned { block } => Refusal::new(format!("not-owned {block}")),
        Error::BeyondTable { .. } => Refusal::new("beyond-table"),
        Error::Busy { blocks } => Refusal::new(format!("busy {blocks}")),
        Error::Draining => Refusal::new("stale draining"),
        Error::BadRange(range) => Refusal::from(*range),
        Error::UnknownGroup { .. } => Refusal::error(format_args!("unknown-group g{group}")),
        Error::UnknownBlock { block, .. } => {
            let written = blocks.iter().find(|&&written| clamp(written) == block.0);
            let written = written.copied().unwrap_or(u64::from(block.0));
            Refusal::error(format_args!("unknown-block {written}"))
        }
        Error::NullBlock { block } => Refusal::error(format_args!("null-block {block}")),
        Error::TableFull { .. } => Refusal::error("table-full"),
        Error::TooManyRequests { .. } => Refusal::error("too-many-requests"),
        Error::TooOftenUsed { block } => Refusal::error(format_args!("too-often-used {block}")),
        other => Refusal::error(other),
    }
}
