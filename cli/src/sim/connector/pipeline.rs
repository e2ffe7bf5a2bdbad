//! The connector over Tenure's save pipeline: trackers plan, `reconcile` pins, the ledger of jobs
//! hears from every rank.

use std::sync::Arc;
use std::time::Instant;

use tenure::{
    Completion, DropReason, GroupId, Groups, Index, JobBudget, JobId, Outcome, PlanError, Rank,
    SaveJobs, SaveTracker, SaveTrackers, Settled, Stale, StepRequest, StepSave, Warnings,
    reconcile,
};

use super::{Computed, Connector, NotPinned, Pinned, Plan, Planned, Reported};

/// A connector that pins, over an [`Index`].
pub struct Pipeline {
    index: Index,
    ranks: Vec<Rank>,
    trackers: SaveTrackers,
    tracked: bool,
    jobs: SaveJobs,
    warnings: Warnings,
}

impl Pipeline {
    /// A connector whose jobs end when all of `ranks` have reported, and hold at most `budget`
    /// blocks together. With `tracked` it offers what is not durable yet, and again what could not
    /// be saved; without, what it is told, once.
    pub fn new(index: Index, ranks: Vec<Rank>, tracked: bool, budget: Option<u64>) -> Pipeline {
        let mut jobs = SaveJobs::new();
        jobs.set_budget(JobBudget { blocks: budget, ..JobBudget::default() });
        Pipeline {
            index,
            ranks,
            trackers: SaveTrackers::new(),
            tracked,
            jobs,
            warnings: Warnings::new(),
        }
    }
}

impl Connector for Pipeline {
    fn follow(&mut self, label: &str, prompt_only: Option<u64>) {
        if self.tracked {
            let tracker = SaveTracker::new().end(prompt_only.unwrap_or(u64::MAX));
            self.trackers.track(label, tracker);
        }
    }

    fn plan(&mut self, computed: &Computed) -> Result<Option<Planned>, Stale> {
        let Computed { label, key, tokens, .. } = computed;
        let planned = match self.trackers.get_mut(label) {
            Some(tracker) => {
                tracker.skip(0..tokens.start);
                let offer = tracker.next(&self.index, *key, tokens.end);
                offer.map(|offer| offer.map(|offer| (offer.request, Some(offer.id))))
            }
            None => self
                .index
                .plan(*key, tokens.clone(), Groups::ALL)
                .map(|request| Some((request, None))),
        };
        match planned {
            Ok(planned) => Ok(planned.map(|(request, offer)| Planned {
                label: Arc::clone(label),
                tokens: request.tokens(),
                plan: Plan::Request(request, offer),
            })),
            Err(PlanError::Stale(stale)) => Err(stale),
            // An empty range has nothing to save; the index has the one group that is asked for.
            Err(_) => Ok(None),
        }
    }

    fn pin(&mut self, planned: Planned, now: Instant) -> Result<Pinned, NotPinned> {
        let Plan::Request(request, offer) = planned.plan else {
            return Err(NotPinned::Stale(Stale::EpochUnknown));
        };
        let ranks = self.ranks.clone();
        let save = Some(StepSave { request, offer, ranks, replan: false });
        let mut step = [StepRequest::<()> { label: planned.label, load: None, save }];
        let Pipeline { index, jobs, trackers, warnings, .. } = self;
        let mut done = reconcile(&mut step, Some(index), jobs, trackers, warnings, now);
        if let Some(mut pinned) = done.pinned.pop() {
            let of_group = |(group, blocks)| (group == GroupId(0)).then_some(blocks);
            return Ok(Pinned {
                job: pinned.job.to_bits(),
                tokens: pinned.request.tokens(),
                blocks: pinned.blocks.drain(..).find_map(of_group).unwrap_or_default(),
            });
        }
        Err(match (done.dropped.pop(), done.deferred.pop()) {
            (_, Some(deferred)) => NotPinned::Budget(deferred.budget),
            (Some(dropped), None) => match dropped.reason {
                DropReason::Stale(stale) => NotPinned::Stale(stale),
                DropReason::NoIndex => NotPinned::Stale(Stale::EpochUnknown),
            },
            (None, None) => NotPinned::Stale(Stale::EpochUnknown),
        })
    }

    fn complete(&mut self, job: u64, rank: Rank, outcome: Outcome) -> Reported {
        let job = JobId::from_bits(job);
        match self.jobs.complete(job, rank, outcome) {
            Completion::Last(outcome) => {
                self.trackers.job_ended(job, outcome);
                Reported::Last(outcome)
            }
            Completion::Pending(_) => Reported::Pending,
            _ => Reported::Ignored,
        }
    }

    fn force_end(&mut self, job: u64, now: Instant) -> bool {
        let job = JobId::from_bits(job);
        let forced = self.jobs.force_end(job, now).is_ok();
        if forced {
            self.trackers.job_ended(job, Settled::Forced);
        }
        forced
    }

    fn forget(&mut self, label: &str) -> Option<u64> {
        let tracker = self.trackers.untrack(label)?;
        Some(tracker.saved().map(|tokens| tokens.end - tokens.start).sum())
    }

    fn offers_again(&self) -> bool {
        self.tracked
    }

    fn pending(&self) -> usize {
        self.jobs.pending()
    }
}
