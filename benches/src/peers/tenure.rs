//! Tenure, in the place of a peer.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure::{BlockId, Config, GroupId, Groups, Index, Pin, SaveRequest, Scheduler};

use super::{Peer, Table, capacity};

/// Pins what was planned once; every pin checks that ownership is unchanged.
#[derive(Clone)]
pub struct Tenure {
    index: Index,
    plans: Arc<[SaveRequest]>,
    /// No pin succeeds once it is gone.
    _scheduler: Arc<Mutex<Scheduler>>,
}

impl Peer for Tenure {
    const NAME: &'static str = "tenure";
    type Pin<'a> = Pin;

    fn build(tables: &[Table]) -> Result<Self, Box<dyn std::error::Error>> {
        let (mut scheduler, index) = Config::new(u32::try_from(capacity(tables))?).build()?;
        let mut keys = Vec::new();
        for (request, table) in tables.iter().enumerate() {
            let key = scheduler.admit(&format!("r{request}"))?;
            let blocks: Vec<BlockId> = table.iter().copied().map(BlockId).collect();
            scheduler.assign(key, GroupId(0), &blocks)?;
            keys.push((key, table.len() as u64 * 16));
        }
        scheduler.publish();
        let plan = |(key, tokens)| index.plan(key, 0..tokens, Groups::ALL);
        let plans = keys.into_iter().map(plan).collect::<Result<_, _>>()?;
        Ok(Tenure { index, plans, _scheduler: Arc::new(Mutex::new(scheduler)) })
    }

    #[inline]
    fn pin(&self, request: usize) -> Option<Pin> {
        self.index.pin(self.plans.get(request)?).ok()
    }
}
