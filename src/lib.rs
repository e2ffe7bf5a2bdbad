//! Tenure answers one question, from any thread, in a few nanoseconds: *may I still read the
//! KV-cache blocks I planned to read?*
//!
//! An LLM scheduler hands physical KV-cache blocks to requests and takes them back thousands of
//! times a second, while connectors save a request's blocks to an external store asynchronously.
//! Between the plan and the read, the request may finish, be preempted, be rolled back, slide its
//! window or come back under the same id, and the block may belong to someone else. Tenure makes the
//! stale save a cheap, typed, counted refusal, and makes a pinned block impossible to reuse until the
//! reader is done.
//!
//! * [`Scheduler`] is the one writer: it hands out blocks, takes them back, and publishes a whole
//!   step by one atomic store.
//! * [`Index`] is what everybody else has: it plans, pins, checks and looks, and never blocks anyone.
//! * [`Pin`] keeps blocks from being reused until it is dropped, whatever becomes of the rest.
//! * [`SaveJobs`], [`SaveTracker`] and [`reconcile`](reconcile()) are what a connector builds on.
//!
//! ```
//! use tenure::{BlockId, Config, GroupId, Groups, Refused, Stale};
//!
//! let (mut scheduler, index) = Config::new(60_000).build()?;
//!
//! // The scheduler's thread: hand out blocks, then make the step visible.
//! let request = scheduler.admit("chat-1")?;
//! scheduler.assign(request, GroupId(0), &[BlockId(17), BlockId(42)])?;
//! scheduler.publish();
//!
//! // A connector plans to save the first 32 tokens; a worker gets to it some time later.
//! let plan = index.plan(request, 0..32, Groups::ALL)?;
//! let pin = index.pin(&plan)?;
//! assert_eq!(pin.blocks(), [BlockId(17), BlockId(42)]);
//!
//! // Meanwhile the request ends. Its blocks wait for the reader ...
//! assert_eq!(scheduler.release(request)?.held(), 2);
//! drop(pin);
//! assert_eq!(scheduler.reclaim(), [BlockId(17), BlockId(42)]);
//!
//! // ... and whoever comes too late is told so.
//! assert_eq!(index.pin(&plan).unwrap_err(), Refused::Stale(Stale::Gone));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [`guide`] goes through the concepts, embedding, connectors, shutdown, and what happens when
//! things go wrong.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod drain;
#[cfg(feature = "serde")]
mod encode;
mod error;
mod events;
mod geometry;
pub mod guide;
mod ids;
mod index;
mod jobs;
mod lease;
#[cfg(feature = "metrics")]
mod metrics;
mod pin;
mod reclaim;
mod reconcile;
mod recorder;
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

#[cfg(feature = "metrics")]
pub use crate::metrics::{describe_metrics, publish_job_metrics, publish_metrics};
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
pub use recorder::{Recorder, Recording};
pub use request::{Kind, SaveRequest};
pub use scheduler::{
    AuditError, BlockState, Counts, DrainingLease, Preempted, Released, Scheduler,
};
pub use snapshot::{Snapshot, TableView};
pub use stats::Stats;
pub use tracker::{Offer, OfferId, Role, SaveTracker, SaveTrackers, Settled};
pub use warn::Warnings;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
