//! What an unguarded connector does: it mirrors the block ids that the scheduler tells it, and
//! reads those blocks later, whoever has them then.

use std::sync::Arc;
use std::time::Instant;

use tenure::{Outcome, Rank, Stale};

use super::ledger::Ledger;
use super::{Computed, Connector, NotPinned, Pinned, Plan, Planned, Reported};

/// A connector that reads blocks without a pin.
pub struct Mirror {
    jobs: Ledger<()>,
}

impl Mirror {
    /// A connector whose jobs end when so many ranks have reported.
    pub fn new(ranks: usize) -> Mirror {
        Mirror { jobs: Ledger::new(ranks) }
    }
}

impl Connector for Mirror {
    fn plan(&mut self, computed: &Computed) -> Result<Option<Planned>, Stale> {
        Ok(Some(Planned {
            label: Arc::clone(&computed.label),
            tokens: computed.tokens.clone(),
            plan: Plan::Blocks(computed.blocks.clone()),
        }))
    }

    fn pin(&mut self, planned: Planned, _now: Instant) -> Result<Pinned, NotPinned> {
        let blocks = match planned.plan {
            Plan::Blocks(blocks) => blocks,
            Plan::Request(..) => Vec::new(),
        };
        Ok(Pinned { job: self.jobs.open(()), tokens: planned.tokens, blocks })
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
