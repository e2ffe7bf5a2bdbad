//! What is told to a log, through `tracing`: where something rare happens, and never where a pin is
//! taken, checked or given back.
//!
//! All events have the target `tenure`. Their names and fields stay as they are from version to
//! version:
//!
//! | name | level | when | fields |
//! |---|---|---|---|
//! | `life_opened` | DEBUG | a request is admitted, or goes on after a preemption | `key`, `label`, `epoch` |
//! | `life_ended` | DEBUG | a life is released or preempted | `key`, `label`, `epoch`, `how` (`released` or `preempted`) |
//! | `save_dropped` | DEBUG | a save was taken out of a step | `reason`, `label`, `start`, `end` (tokens), `planned` and `epoch` (where there is an index) |
//! | `warning` | WARN | the first drop of each reason, and then at most one a minute | `reason`, `label`, `suppressed` |
//! | `job_opened` | DEBUG | a job is opened | `job`, `label` (none for an exact hold), `kind`, `start`, `end`, `ranks` |
//! | `job_ended` | DEBUG | its last report came | `job`, `failed` |
//! | `job_forced` | WARN | it was ended by force | `job`, `label`, `ranks` (not heard of), `blocks` |
//! | `job_overdue` | WARN | it was first found overdue | `job`, `label`, `age_ms`, `ranks` (not heard of) |
//! | `held_above` | WARN | more blocks are held than the limit | `held`, `limit`, `draining` (leases), `epoch` |
//! | `held_below` | INFO | no longer | as above |
//! | `reset` | INFO | an index is reset | `epoch`, `forced`, `lives` (ended by it) |
//! | `draining` | INFO | an index begins to drain | `epoch`, `draining` (leases) |
//! | `drained` | INFO | it was first found drained | `held` (by steps) |
//! | `recorded` | WARN | an audit failed and the recording was written, or could not be | `file`, `error` (where it could not) |
//!
//! An event that nobody listens to costs a load and a branch.

use std::io;
use std::path::Path;

use tracing::{debug, info, warn};

use crate::ids::{Epoch, RequestKey};
use crate::jobs::{JobId, OpenJob};
use crate::lease::Ended;
use crate::pin::Pin;
use crate::reconcile::DroppedSave;

pub(crate) const TARGET: &str = "tenure";

pub(crate) fn life_opened(key: RequestKey, label: &str, epoch: Epoch) {
    debug!(name: "life_opened", target: TARGET, %key, label, epoch = epoch.0, "life opened");
}

pub(crate) fn life_ended(key: RequestKey, label: &str, epoch: Epoch, ended: Ended) {
    let how = if ended == Ended::Preempted { "preempted" } else { "released" };
    debug!(name: "life_ended", target: TARGET, %key, label, epoch = epoch.0, how, "life ended");
}

pub(crate) fn save_dropped(dropped: &DroppedSave, epoch: Option<Epoch>) {
    let request = &dropped.save.request;
    debug!(
        name: "save_dropped", target: TARGET,
        reason = dropped.reason.name(), label = &*dropped.label,
        start = request.tokens().start, end = request.tokens().end,
        planned = request.epoch().0, epoch = epoch.map(|epoch| epoch.0),
        "save dropped"
    );
}

pub(crate) fn warning(reason: &str, label: &str, suppressed: u64, what: &str) {
    warn!(name: "warning", target: TARGET, reason, label, suppressed, "{what}");
}

pub(crate) fn job_opened(job: JobId, pin: &Pin, ranks: u32) {
    if tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        let tokens = pin.tokens();
        debug!(
            name: "job_opened", target: TARGET,
            job = job.to_bits(), label = pin.label().as_deref(), kind = ?pin.kind(),
            start = tokens.start, end = tokens.end, ranks,
            "job opened"
        );
    }
}

pub(crate) fn job_ended(job: JobId, failed: bool) {
    debug!(name: "job_ended", target: TARGET, job = job.to_bits(), failed, "job ended");
}

pub(crate) fn job_forced(job: &OpenJob) {
    warn!(
        name: "job_forced", target: TARGET,
        job = job.job.to_bits(), label = job.label.as_deref(), ranks = ?job.missing,
        blocks = job.blocks,
        "job ended by force"
    );
}

pub(crate) fn job_overdue(job: &OpenJob) {
    warn!(
        name: "job_overdue", target: TARGET,
        job = job.job.to_bits(), label = job.label.as_deref(),
        age_ms = u64::try_from(job.age.as_millis()).unwrap_or(u64::MAX), ranks = ?job.missing,
        "job overdue"
    );
}

/// The number of held blocks has crossed the limit.
#[cold]
pub(crate) fn held(above: bool, held: u32, limit: u32, draining: usize, epoch: Epoch) {
    let epoch = epoch.0;
    if above {
        warn!(
            name: "held_above", target: TARGET, held, limit, draining, epoch,
            "more blocks are held than the limit"
        );
    } else {
        info!(
            name: "held_below", target: TARGET, held, limit, draining, epoch,
            "no more blocks are held than the limit"
        );
    }
}

pub(crate) fn reset(epoch: Epoch, forced: bool, lives: usize) {
    info!(name: "reset", target: TARGET, epoch = epoch.0, forced, lives, "index reset");
}

pub(crate) fn draining(epoch: Epoch, draining: usize) {
    info!(name: "draining", target: TARGET, epoch = epoch.0, draining, "index begins to drain");
}

pub(crate) fn drained(held: u32) {
    info!(name: "drained", target: TARGET, held, "index drained");
}

pub(crate) fn recorded(file: &Path, written: io::Result<()>) {
    let file = file.display();
    match written {
        Ok(()) => {
            warn!(name: "recorded", target: TARGET, %file, "an audit failed; recording written");
        }
        Err(error) => warn!(
            name: "recorded", target: TARGET, %file, %error,
            "an audit failed; recording could not be written"
        ),
    }
}
