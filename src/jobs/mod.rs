//! Jobs: pins that somebody else reports about.
//!
//! A connector pins a planned save or load, tells its workers to move the bytes, and hears from
//! them later, in any order, more than once, or never. [`SaveJobs`] is its ledger of what is under
//! way: every pin gets an id before anyone outside can know of it, the set of ranks that must
//! report is fixed with it, and only the last report (or an explicit force) gives the pin back.
//! Whatever becomes of the request in between does not matter to its jobs.
//!
//! The ledger is plain memory of its owner. It reads no clock: calls that need the time take it.

mod answer;
mod job;
mod ledger;

pub use answer::{
    Completion, DrainReport, Forced, JobId, JobStats, NarrowError, NotPending, OpenJob, Outcome,
    Rank,
};
pub use ledger::{JobBudget, SaveJobs};
