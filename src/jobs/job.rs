//! One pending job: its pin, and who has reported.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::answer::{Completion, JobId, OpenJob, Outcome, Rank};
use crate::pin::Pin;

pub(super) struct Job {
    pub(super) pin: Pin,
    opened: Instant,
    /// The ranks that have not reported by name, ascending.
    missing: Vec<Rank>,
    /// The ranks that have.
    reported: Vec<Rank>,
    /// Reports that came as mere counts: each stands for one of the missing ranks, nobody knows
    /// which. Always fewer than `missing` while the job is pending.
    unnamed: u32,
    failed: bool,
    /// A log was told that it is overdue.
    told_overdue: AtomicBool,
    /// The distinct blocks, where the ledger's budget has to know.
    pub(super) blocks: u64,
}

impl Job {
    pub(super) fn new(
        pin: Pin,
        ranks: impl IntoIterator<Item = Rank>,
        opened: Instant,
        blocks: u64,
    ) -> Job {
        let mut missing: Vec<Rank> = ranks.into_iter().collect();
        missing.sort_unstable();
        missing.dedup();
        Job {
            pin,
            opened,
            missing,
            reported: Vec::new(),
            unnamed: 0,
            failed: false,
            told_overdue: AtomicBool::new(false),
            blocks,
        }
    }

    /// How many reports are still to come; 0 is the end of the job.
    pub(super) fn left(&self) -> u32 {
        // At most one report per u32 rank, so the length only fails to fit for a set of all ranks.
        u32::try_from(self.missing.len()).unwrap_or(u32::MAX).saturating_sub(self.unnamed)
    }

    pub(super) fn missing(&self) -> &[Rank] {
        &self.missing
    }

    pub(super) fn report(&mut self, rank: Rank, outcome: Outcome) -> Completion {
        let Ok(place) = self.missing.binary_search(&rank) else {
            return match self.reported.contains(&rank) {
                true => Completion::Duplicate,
                false => Completion::UnknownRank,
            };
        };
        self.missing.remove(place);
        self.reported.push(rank);
        self.taken(outcome)
    }

    pub(super) fn report_count(&mut self, count: u32, outcome: Outcome) -> Completion {
        let left = self.left();
        if count > left {
            return Completion::Exceeds { left };
        }
        if count == 0 {
            return Completion::Pending(left);
        }
        self.unnamed += count;
        self.taken(outcome)
    }

    fn taken(&mut self, outcome: Outcome) -> Completion {
        self.failed |= outcome == Outcome::Failed;
        match self.left() {
            0 if self.failed => Completion::Last(Outcome::Failed),
            0 => Completion::Last(Outcome::Done),
            left => Completion::Pending(left),
        }
    }

    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.opened)
    }

    /// Whether this is the first time that it is found overdue.
    pub(super) fn is_news(&self) -> bool {
        // Relaxed: at worst a log is told twice.
        !self.told_overdue.swap(true, Ordering::Relaxed)
    }

    pub(super) fn describe(&self, job: JobId, now: Instant) -> OpenJob {
        OpenJob {
            job,
            label: self.pin.label(),
            key: self.pin.key(),
            kind: self.pin.kind(),
            tokens: self.pin.tokens(),
            age: self.age(now),
            missing: self.missing.clone(),
            left: self.left(),
            blocks: self.count_blocks(),
        }
    }

    pub(super) fn count_blocks(&self) -> u64 {
        count_blocks(&self.pin)
    }
}

/// The distinct blocks under a pin.
pub(super) fn count_blocks(pin: &Pin) -> u64 {
    pin.blocks().len() as u64
}
