//! What a connector keeps, and a step's metadata.

use std::sync::Arc;
use std::time::Instant;

use tenure::{
    BlockId, Config, DropReason, GroupId, Index, Offer, PinnedSave, Rank, Reconciled, RequestKey,
    SaveJobs, SaveTracker, SaveTrackers, Scheduler, StepRequest, StepSave, Warnings, reconcile,
};

/// What the connector of these tests loads; reconcile must hand it back as it was.
pub type Load = &'static str;

pub struct Connector {
    pub scheduler: Scheduler,
    pub index: Index,
    pub jobs: SaveJobs,
    pub trackers: SaveTrackers,
    pub warnings: Warnings,
    pub now: Instant,
}

impl Connector {
    pub fn new() -> Connector {
        let (scheduler, index) = Config::new(64).build().unwrap();
        Connector {
            scheduler,
            index,
            jobs: SaveJobs::new(),
            trackers: SaveTrackers::new(),
            warnings: Warnings::new(),
            now: Instant::now(),
        }
    }

    /// Admits and tracks a request over these blocks, and publishes it.
    pub fn admit(&mut self, label: &str, blocks: &[u32]) -> RequestKey {
        let key = self.scheduler.admit(label).unwrap();
        let blocks: Vec<BlockId> = blocks.iter().map(|&block| BlockId(block)).collect();
        self.scheduler.assign(key, GroupId(0), &blocks).unwrap();
        self.scheduler.publish();
        self.trackers.track(label, SaveTracker::new());
        key
    }

    pub fn offer(&mut self, label: &str, key: RequestKey) -> Offer {
        self.trackers.get_mut(label).unwrap().next(&self.index, key, u64::MAX).unwrap().unwrap()
    }

    pub fn run(&mut self, step: &mut [StepRequest<Load>]) -> Reconciled {
        self.reconcile(step, true)
    }

    pub fn run_without_index(&mut self, step: &mut [StepRequest<Load>]) -> Reconciled {
        self.reconcile(step, false)
    }

    pub fn reconcile(&mut self, step: &mut [StepRequest<Load>], has_index: bool) -> Reconciled {
        reconcile(
            step,
            has_index.then_some(&self.index),
            &mut self.jobs,
            &mut self.trackers,
            &mut self.warnings,
            self.now,
        )
    }

    pub fn in_flight(&self, label: &str) -> Vec<std::ops::Range<u64>> {
        self.trackers.get(label).unwrap().in_flight()
    }
}

pub fn save(label: &str, offer: Offer) -> StepRequest<Load> {
    StepRequest {
        label: Arc::from(label),
        load: None,
        save: Some(StepSave {
            request: offer.request,
            offer: Some(offer.id),
            ranks: vec![Rank(0), Rank(1)],
            replan: true,
        }),
    }
}

pub fn load(label: &str) -> StepRequest<Load> {
    StepRequest { label: Arc::from(label), load: Some("from the store"), save: None }
}

pub fn reasons(done: &Reconciled) -> Vec<(&str, DropReason)> {
    done.dropped.iter().map(|dropped| (dropped.label.as_ref(), dropped.reason)).collect()
}

pub fn blocks(pinned: &PinnedSave) -> Vec<u32> {
    pinned.blocks.iter().flat_map(|(_, blocks)| blocks.iter().map(|block| block.0)).collect()
}
