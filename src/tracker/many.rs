//! The trackers of all requests, and which job belongs to which.

use std::collections::HashMap;
use std::sync::Arc;

use super::one::{OfferId, SaveTracker, Settled};
use crate::jobs::JobId;

/// A connector's trackers by label, and the offers that its pending jobs carry out.
///
/// A tracker follows its label, through preemption as well as through release and a later
/// admission, until it is removed or replaced.
///
/// ```
/// use tenure::{SaveTracker, SaveTrackers};
/// let mut trackers = SaveTrackers::new();
/// trackers.track("r1", SaveTracker::new().end(96));
/// assert_eq!(trackers.get("r1").map(SaveTracker::watermark), Some(0));
/// assert!(trackers.get("r2").is_none());
/// ```
#[derive(Debug, Default)]
pub struct SaveTrackers {
    by_label: HashMap<Arc<str>, SaveTracker>,
    jobs: HashMap<JobId, (Arc<str>, OfferId)>,
}

impl SaveTrackers {
    /// No tracker yet.
    pub fn new() -> SaveTrackers {
        SaveTrackers::default()
    }

    /// Starts to follow `label`. A tracker it had is gone with everything it knew; what its offers
    /// come to is told to nobody.
    pub fn track(&mut self, label: &str, tracker: SaveTracker) -> &mut SaveTracker {
        let entry = self.by_label.entry(Arc::from(label)).insert_entry(tracker);
        entry.into_mut()
    }

    /// Stops following `label`.
    pub fn untrack(&mut self, label: &str) -> Option<SaveTracker> {
        self.by_label.remove(label)
    }

    /// The tracker of `label`.
    pub fn get(&self, label: &str) -> Option<&SaveTracker> {
        self.by_label.get(label)
    }

    /// The tracker of `label`.
    pub fn get_mut(&mut self, label: &str) -> Option<&mut SaveTracker> {
        self.by_label.get_mut(label)
    }

    /// All trackers with their labels, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SaveTracker)> {
        self.by_label.iter().map(|(label, tracker)| (label.as_ref(), tracker))
    }

    /// Takes in what became of an offer before it was a job. Answers whether it was in flight.
    pub fn settle(&mut self, label: &str, offer: OfferId, outcome: Settled) -> bool {
        self.get_mut(label).is_some_and(|tracker| tracker.settle(offer, outcome))
    }

    /// Notes that a job carries out an offer made to `label`;
    /// [`reconcile`](crate::reconcile) does it for what it pins.
    pub fn note(&mut self, job: JobId, label: &str, offer: OfferId) {
        let label = match self.by_label.get_key_value(label) {
            Some((label, _)) => Arc::clone(label),
            None => Arc::from(label),
        };
        self.jobs.insert(job, (label, offer));
    }

    /// Takes in how a job ended: the outcome of its last report, or
    /// [`Settled::Forced`]. Answers whether it carried out an offer that was in flight.
    pub fn job_ended(&mut self, job: JobId, outcome: impl Into<Settled>) -> bool {
        match self.jobs.remove(&job) {
            Some((label, offer)) => self.settle(&label, offer, outcome.into()),
            None => false,
        }
    }
}
