//! Tenure answers one question, from any thread, in a few nanoseconds: *may I still read the
//! KV-cache blocks I planned to read?*
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod drain;
mod error;
mod geometry;
mod ids;
mod index;
mod jobs;
mod lease;
mod pin;
mod reclaim;
mod reconcile;
mod request;
mod scheduler;
mod shared;
mod snapshot;
mod stats;
mod storage;
mod sync;
// The stand-in for reclamation has no tally of a thread's own.
#[cfg_attr(all(loom, not(crossbeam_loom)), allow(dead_code))]
mod tally;
mod tracker;
mod verdict;
mod warn;
mod word;

pub use config::{Config, ConfigError};
pub use error::{BadRange, Budget, Error, Holder, PlanError, Refused, Stale};
pub use geometry::Geometry;
pub use ids::{BlockId, Epoch, GroupId, Groups, IndexId, RequestKey, StepId};
pub use index::{Index, PinLoadError};
pub use jobs::{
    Completion, DrainReport, Forced, JobBudget, JobId, JobStats, NarrowError, NotPending, OpenJob,
    Outcome, Rank, SaveJobs,
};
pub use pin::Pin;
pub use reconcile::{
    DeferredSave, DropReason, DroppedSave, PinnedSave, Reconciled, StepRequest, StepSave, reconcile,
};
pub use request::{Kind, SaveRequest};
pub use scheduler::{AuditError, BlockState, Counts, Preempted, Released, Scheduler};
pub use snapshot::{Snapshot, TableView};
pub use stats::Stats;
pub use tracker::{Offer, OfferId, Role, SaveTracker, SaveTrackers, Settled};
pub use warn::Warnings;
