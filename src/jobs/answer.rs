//! What is told to the ledger and what it answers.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::error::{BadRange, Stale};
use crate::ids::{BlockId, RequestKey};
use crate::request::Kind;

/// Names one job of a [`SaveJobs`](crate::SaveJobs). Ids are issued in order and never twice; an
/// id says nothing about the request, so a label or a peer's name can never be taken for one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    pub(super) const FIRST: JobId = JobId(1);

    pub(super) const fn next(self) -> JobId {
        JobId(self.0 + 1)
    }

    /// The id as a number, for sending it to a worker.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The id that [`to_bits`](JobId::to_bits) gave. A number that never was an id is answered
    /// with [`Completion::UnknownJob`].
    pub const fn from_bits(bits: u64) -> JobId {
        JobId(bits)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One worker that moves bytes: a rank of the engine's parallel group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct Rank(pub u32);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How a rank's part of a job, or the whole of it, went. A job is done when every part of it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Outcome {
    /// All bytes arrived.
    Done,
    /// They did not, or nobody knows.
    Failed,
}

/// The answer to a report of completion. Only [`Last`](Completion::Last) gives blocks back; no
/// report, however wrong, changes another job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
#[non_exhaustive]
pub enum Completion {
    /// Taken; so many reports are still to come.
    Pending(u32),
    /// The last one. The pin is given back, and this is how the job went: failed where any part of
    /// it failed.
    Last(Outcome),
    /// This rank has reported on the job before; its first report counts.
    Duplicate,
    /// The job has ended, by its last report or by force.
    AlreadyEnded,
    /// No job of this id was ever opened here.
    UnknownJob,
    /// The job does not wait for this rank.
    UnknownRank,
    /// A count of reports that is larger than what is left. Nothing of it was taken.
    Exceeds {
        /// How many reports the job still waits for.
        left: u32,
    },
}

/// A job that somebody asked about by its id, and that is not pending.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum NotPending {
    /// It has ended, by its last report or by force.
    #[error("job {0} has ended already")]
    AlreadyEnded(JobId),
    /// No job of this id was ever opened here.
    #[error("job {0} was never opened")]
    UnknownJob(JobId),
}

/// Why a job could not be narrowed. It is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NarrowError {
    /// The job is not pending.
    #[error(transparent)]
    NotPending(#[from] NotPending),
    /// The range is empty, reversed, or not inside the job's own. A hold over exact blocks has no
    /// token range to narrow.
    #[error(transparent)]
    BadRange(#[from] BadRange),
}

/// A pending job, for a report about what takes so long.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OpenJob {
    /// Its id.
    pub job: JobId,
    /// The label of the request it was opened for; `None` for a hold over exact blocks.
    pub label: Option<Arc<str>>,
    /// The life it was opened for; `None` for a hold over exact blocks.
    pub key: Option<RequestKey>,
    /// Save, load or hold.
    pub kind: Kind,
    /// The tokens it covers; `0..0` for a hold over exact blocks.
    pub tokens: Range<u64>,
    /// Time since it was opened.
    pub age: Duration,
    /// The ranks that have not reported by name, ascending.
    pub missing: Vec<Rank>,
    /// How many reports are still to come: fewer than there are `missing` ranks where some came as
    /// mere counts.
    pub left: u32,
    /// The number of distinct blocks it keeps from being reused.
    pub blocks: u64,
}

/// What an end by force gave up.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Forced {
    /// The job as it was.
    pub job: OpenJob,
    /// The distinct blocks it no longer protects, by group, then position.
    pub blocks: Vec<BlockId>,
}

/// What stands in the way of a shutdown.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DrainReport {
    /// The pending jobs, oldest first.
    pub open: Vec<OpenJob>,
    /// Time left until the deadline; zero once it has passed.
    pub left: Duration,
}

impl DrainReport {
    /// Whether no job is pending.
    pub fn is_drained(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether jobs are pending past the deadline. Nothing is done about them:
    /// [`SaveJobs::force_end`](crate::SaveJobs::force_end) is for whoever knows that no worker
    /// touches their blocks any more.
    pub fn is_overdue(&self) -> bool {
        !self.open.is_empty() && self.left.is_zero()
    }

    /// The sum of the distinct blocks of the pending jobs.
    pub fn blocks(&self) -> u64 {
        self.open.iter().map(|job| job.blocks).sum()
    }
}

/// Exact counts since the ledger was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct JobStats {
    /// Jobs opened. Each of them is pending or counted in `done`, `failed` or `forced`.
    pub opened: u64,
    /// Jobs whose last report came and none of whose parts failed.
    pub done: u64,
    /// Jobs whose last report came and some part of which failed.
    pub failed: u64,
    /// Jobs ended by force.
    pub forced: u64,
    /// Requests refused because as many jobs were open as the budget allows.
    pub refused_jobs: u64,
    /// Requests refused because the open jobs would have held too many blocks.
    pub refused_blocks: u64,
    /// Requests refused because the table had as many pins as can be counted.
    pub refused_pins: u64,
    /// Stale requests by [`Stale::ordinal`].
    pub stale: [u64; Stale::COUNT],
    /// Reports that repeated an earlier one.
    pub duplicates: u64,
    /// Reports about ended jobs.
    pub already_ended: u64,
    /// Reports about jobs that never were.
    pub unknown_jobs: u64,
    /// Reports by ranks that were not waited for.
    pub unknown_ranks: u64,
    /// Counts that were larger than what was left.
    pub excess: u64,
}
