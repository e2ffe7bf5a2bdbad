//! A plain map of jobs, for the connectors that do without Tenure's.

use std::collections::HashMap;

use tenure::{Outcome, Rank};

use super::Reported;

/// Jobs that each keep a `P` until so many ranks have reported.
pub struct Ledger<P> {
    ranks: usize,
    jobs: HashMap<u64, Job<P>>,
    opened: u64,
}

struct Job<P> {
    _kept: P,
    reported: Vec<Rank>,
    failed: bool,
}

impl<P> Ledger<P> {
    /// No job yet.
    pub fn new(ranks: usize) -> Ledger<P> {
        Ledger { ranks, jobs: HashMap::new(), opened: 0 }
    }

    /// Opens a job, and names it.
    pub fn open(&mut self, kept: P) -> u64 {
        self.opened += 1;
        self.jobs.insert(self.opened, Job { _kept: kept, reported: Vec::new(), failed: false });
        self.opened
    }

    /// Takes in that a rank has ended its part of a job.
    pub fn complete(&mut self, job: u64, rank: Rank, outcome: Outcome) -> Reported {
        let Some(open) = self.jobs.get_mut(&job) else { return Reported::Ignored };
        if open.reported.contains(&rank) {
            return Reported::Ignored;
        }
        open.reported.push(rank);
        open.failed |= outcome == Outcome::Failed;
        if open.reported.len() < self.ranks {
            return Reported::Pending;
        }
        let outcome = if open.failed { Outcome::Failed } else { Outcome::Done };
        self.jobs.remove(&job);
        Reported::Last(outcome)
    }

    /// Ends a job whatever its ranks are doing. Answers `false` where it had ended.
    pub fn force_end(&mut self, job: u64) -> bool {
        self.jobs.remove(&job).is_some()
    }

    /// Jobs that have not ended.
    pub fn pending(&self) -> usize {
        self.jobs.len()
    }
}
