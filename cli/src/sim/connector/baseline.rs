//! The connector over any index that pins, with a plain ledger of jobs: what the mutex baseline
//! runs under. It plans what it is told, once.

use std::sync::Arc;
use std::time::Instant;

use tenure::{Outcome, PlanError, Rank, Refused, Stale};

use super::ledger::Ledger;
use super::{Computed, Connector, NotPinned, Pinned, Plan, Planned, Reported};
use crate::sim::index::Reader;

/// A connector that pins, over any [`Reader`].
pub struct Baseline<R: Reader> {
    reader: R,
    jobs: Ledger<R::Pin>,
}

impl<R: Reader> Baseline<R> {
    /// A connector whose jobs end when so many ranks have reported.
    pub fn new(reader: R, ranks: usize) -> Baseline<R> {
        Baseline { reader, jobs: Ledger::new(ranks) }
    }
}

impl<R: Reader> Connector for Baseline<R> {
    fn plan(&mut self, computed: &Computed) -> Result<Option<Planned>, Stale> {
        match self.reader.plan(computed.key, computed.tokens.clone()) {
            Ok(request) => Ok(Some(Planned {
                label: Arc::clone(&computed.label),
                tokens: request.tokens(),
                plan: Plan::Request(request, None),
            })),
            Err(PlanError::Stale(stale)) => Err(stale),
            // An empty range has nothing to save.
            Err(_) => Ok(None),
        }
    }

    fn pin(&mut self, planned: Planned, _now: Instant) -> Result<Pinned, NotPinned> {
        let Plan::Request(request, _) = planned.plan else {
            return Err(NotPinned::Stale(Stale::EpochUnknown));
        };
        let pin = self.reader.pin(&request).map_err(|refused| match refused {
            Refused::Stale(stale) => NotPinned::Stale(stale),
            Refused::Budget(budget) => NotPinned::Budget(budget),
        })?;
        let blocks = R::blocks(&pin);
        Ok(Pinned { job: self.jobs.open(pin), tokens: planned.tokens, blocks })
    }

    fn complete(&mut self, job: u64, rank: Rank, outcome: Outcome) -> Reported {
        self.jobs.complete(job, rank, outcome)
    }

    fn force_end(&mut self, job: u64, _now: Instant) -> bool {
        self.jobs.force_end(job)
    }

    fn pending(&self) -> usize {
        self.jobs.pending()
    }
}
