//! A flight recorder: what the scheduler and the pins did, as a script that can be run again.
//!
//! While it is on, every call of the scheduler and every pin, its beginning and its end, is made and
//! noted under one lock, so that the script tells them in the order in which they took effect.
//! Readers come to it by the cold path: the tables of a recorded index count as patched all over
//! ([`TableState`](crate::lease::TableState)), so no request is clear at a glance. An index that is
//! not recorded knows nothing of all this but one test per call of the scheduler.

mod log;
mod segment;
mod words;

use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use log::Log;
pub(crate) use segment::{Checkpoint, CheckpointLife};

use crate::events;
use crate::geometry::Geometry;
use crate::ids::BlockId;
use crate::lease::Lease;

/// How an index is recorded: what [`Config::record`](crate::Config::record) takes.
///
/// ```
/// use tenure::{BlockId, Config, GroupId, Recording};
/// let (mut scheduler, index) = Config::new(8).record(Recording::lines(10_000)).build()?;
/// let request = scheduler.admit("chat-1")?;
/// scheduler.assign(request, GroupId(0), &[BlockId(3), BlockId(5)])?;
/// scheduler.publish();
///
/// let script = index.recorder().unwrap().script();
/// assert_eq!(
///     script.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
///     [
///         "index blocks 8 block-size 16",
///         "admit r0.1 -> ok",
///         "assign r0.1 3 5 -> ok",
///         "publish -> epoch 1",
///         "expect free 6",
///     ]
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it records nothing until it is given to a configuration"]
pub struct Recording {
    lines: usize,
    labels: bool,
    failed_audit: Option<PathBuf>,
}

impl Recording {
    /// Keeps about the last `lines` lines, never fewer than half as many. A script can begin after
    /// any publish, so nothing is dropped between two of them, however much happens there. Two
    /// scripts are kept up at a time, the younger to take the place of the older, so memory is for
    /// both, and for the tables that each begins with.
    pub fn lines(lines: usize) -> Recording {
        Recording { lines: lines.max(2), labels: false, failed_audit: None }
    }

    /// Whether requests keep their own labels in the script. Otherwise, and by default, they get
    /// neutral names, so that a script can be shown to others.
    pub fn labels(mut self, yes: bool) -> Recording {
        self.labels = yes;
        self
    }

    /// Writes the script to a file when [`Scheduler::audit`](crate::Scheduler::audit) finds an
    /// invariant broken. Without this the script is there for who asks.
    pub fn on_failed_audit(mut self, file: impl Into<PathBuf>) -> Recording {
        self.failed_audit = Some(file.into());
        self
    }
}

/// The flight recorder of an index, from [`Index::recorder`](crate::Index::recorder).
///
/// What it writes is a scenario script: `tenure scenario FILE` runs it and finds the same answers,
/// or tells the first that differs. It begins with the tables, holds and open steps as they were at
/// some publish, so it needs nothing from before. Lines that cannot be said in the language of
/// scripts, all of them refusals that changed nothing (of a plan from before its beginning, say), stand
/// in it as comments; [`Index::check`](crate::Index::check), snapshots and other mere looks are not
/// in it.
///
/// Recording is off unless [`Config::record`](crate::Config::record) asks for it. While it is on,
/// calls and pins wait for each other. Measured with 200 live requests of 256 blocks: a pin and its
/// end cost 0.5 to 0.9 microseconds instead of 17 nanoseconds, and a step that admits, assigns and
/// releases 256 blocks 33 to 60 microseconds (the more the fewer lines are kept) instead of 2.4.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    log: Mutex<Log>,
    failed_audit: Option<PathBuf>,
    /// The name of the next pin.
    next: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(settings: &Recording, geometry: &Geometry) -> Recorder {
        let log = Log::new(settings.lines, settings.labels, geometry);
        Recorder {
            shared: Arc::new(Shared {
                log: Mutex::new(log),
                failed_audit: settings.failed_audit.clone(),
                next: AtomicU64::new(1),
            }),
        }
    }

    /// Nothing else that is recorded happens while it is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Log> {
        // What a panicking thread has left is whole lines.
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> u64 {
        // Relaxed: only uniqueness matters.
        self.shared.next.fetch_add(1, Ordering::Relaxed)
    }

    /// What happened lately, as a script.
    pub fn script(&self) -> String {
        self.lock().script()
    }

    /// An audit has found something: keeps the evidence where it was asked to.
    pub(crate) fn audit_failed(&self, error: &dyn fmt::Display) {
        let Some(file) = &self.shared.failed_audit else { return };
        let script = format!("# the audit at the end found: {error}\n{}", self.script());
        events::recorded(file, std::fs::write(file, script));
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// How the recorder follows one pin.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) recorder: Recorder,
    /// The pin's name.
    pub(crate) job: u64,
    /// The name that it had before it was given a lease of its own.
    pub(crate) replaces: Option<u64>,
    /// The lease on which it keeps the real pin; null where it is the real pin.
    pub(crate) over: *mut Lease,
}

impl Recorded {
    pub(crate) fn new(recorder: &Recorder) -> Recorded {
        let recorder = recorder.clone();
        Recorded { job: recorder.next(), recorder, replaces: None, over: ptr::null_mut() }
    }

    /// What follows the same pin under a lease of its own.
    pub(crate) fn successor(&self) -> Recorded {
        Recorded { replaces: Some(self.job), ..Recorded::new(&self.recorder) }
    }
}

/// A pin that the scheduler has taken in under a lease of its own.
pub(crate) struct HeldAlone {
    pub(crate) job: u64,
    pub(crate) replaces: Option<u64>,
    pub(crate) blocks: Vec<BlockId>,
    /// It had ended by then.
    pub(crate) ended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "writes a file")]
    fn a_failed_audit_leaves_a_script_behind() {
        let file = std::env::temp_dir().join(format!("tenure-audit-{}", std::process::id()));
        let geometry = Geometry::new(8, Some(BlockId(0)), true, &[16, 32]).unwrap();
        let recorder = Recorder::new(&Recording::lines(10).on_failed_audit(&file), &geometry);
        recorder.audit_failed(&"two owners");
        let written = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            written,
            "# the audit at the end found: two owners\n\
             index blocks 8 null 0 block-size 16,32 commits\n"
        );
        // Where it is not asked for, or cannot be, an engine goes on.
        Recorder::new(&Recording::lines(10), &geometry).audit_failed(&"two owners");
        let nowhere = Recording::lines(10).on_failed_audit(file.join("nowhere"));
        Recorder::new(&nowhere, &geometry).audit_failed(&"two owners");
    }
}
