//! Plans, jobs and trackers: what a connector does.

use tenure::{
    Completion, Epoch, GroupId, Groups, JobId, Kind, Outcome, PlanError, Rank, Refused,
    SaveRequest, SaveTracker, Settled, Stale,
};

use super::answer::{Answer, Refusal, block_ids, clamp, ok, refused, stale};
use super::ast::PlanSpec;
use super::world::{Offered, Save, World};

impl World {
    fn stale(&self, reason: &Stale) -> Refusal {
        stale(reason, self.index.geometry().groups())
    }

    /// The groups of a plan; all where none is listed.
    fn groups(&self, plan: &PlanSpec) -> Result<Groups, Refusal> {
        if plan.groups.is_empty() {
            return Ok(self.index.geometry().all_groups());
        }
        let groups = u64::from(self.index.geometry().groups());
        match plan.groups.iter().find(|&&group| group >= groups) {
            Some(group) => Err(Refusal::error(format_args!("unknown-group g{group}"))),
            None => Ok(plan.groups.iter().map(|&group| GroupId(clamp(group))).collect()),
        }
    }

    fn plan_refused(&self, error: &PlanError) -> Refusal {
        match error {
            PlanError::Stale(reason) => self.stale(reason),
            PlanError::BadRange { .. } => Refusal::error("bad-range"),
            PlanError::UnknownGroup { group } => {
                Refusal::error(format_args!("unknown-group {group}"))
            }
            other => Refusal::error(other),
        }
    }

    pub(super) fn plan(&mut self, plan: &PlanSpec) -> Answer {
        let key = self.key(&plan.label)?;
        let groups = self.groups(plan)?;
        let tokens = plan.tokens.start..plan.tokens.end;
        let planned = match plan.load {
            true => self.index.plan_load(key, tokens, groups),
            false => self.index.plan(key, tokens, groups),
        };
        let request = planned.map_err(|e| self.plan_refused(&e))?;
        self.set_save(&plan.save, Save { request, offered: None });
        ok()
    }

    pub(super) fn forge(&mut self, plan: &PlanSpec, epoch: u64) -> Answer {
        let key = self.key(&plan.label)?;
        let groups = self.groups(plan)?;
        let kind = if plan.load { Kind::Load } else { Kind::Save };
        let tokens = plan.tokens.start..plan.tokens.end;
        let index = self.index.id();
        let request = SaveRequest::from_parts(index, key, Epoch(epoch), tokens, groups, kind)?;
        self.set_save(&plan.save, Save { request, offered: None });
        ok()
    }

    pub(super) fn check(&self, name: &str) -> Answer {
        let request = self.save(name)?.request;
        self.index.check(&request).map_err(|reason| self.stale(&reason))?;
        ok()
    }

    pub(super) fn replan(&mut self, name: &str) -> Answer {
        let request = self.save(name)?.request;
        let renewed = self.index.replan(&request).map_err(|reason| self.stale(&reason))?;
        if let Some(save) = self.saves.get_mut(name) {
            save.request = renewed;
        }
        ok()
    }

    pub(super) fn track(&mut self, label: &str, end: u64) -> Answer {
        self.key(label)?;
        self.trackers.track(label, SaveTracker::new().end(end));
        ok()
    }

    pub(super) fn abandon(&mut self, name: &str) -> Answer {
        self.save(name)?;
        self.settle_plan(name, Settled::Abandoned);
        ok()
    }

    pub(super) fn next(&mut self, name: &str, label: &str, upto: u64) -> Answer {
        let key = self.key(label)?;
        let index = self.index.clone();
        match self.tracker(label)?.next(&index, key, upto) {
            Err(error) => Err(self.plan_refused(&error)),
            Ok(None) => Ok("nothing".to_owned()),
            Ok(Some(offer)) => {
                let tokens = offer.request.tokens();
                let offered = Some(Offered { label: label.to_owned(), offer, planned: true });
                self.set_save(name, Save { request: offer.request, offered });
                Ok(format!("ok {}..{}", tokens.start, tokens.end))
            }
        }
    }

    /// Gives a name to a save. The one that had it can no longer be pinned.
    fn set_save(&mut self, name: &str, save: Save) {
        self.settle_plan(name, Settled::Abandoned);
        self.saves.insert(name.to_owned(), save);
    }

    /// Tells the tracker of a save what became of the plan, unless a job has taken it over.
    fn settle_plan(&mut self, name: &str, outcome: Settled) {
        let Some(save) = self.saves.get_mut(name) else { return };
        let Some(offered) = &mut save.offered else { return };
        if offered.planned {
            self.trackers.settle(&offered.label, offered.offer.id, outcome);
            offered.planned = outcome == Settled::Budget;
        }
    }

    pub(super) fn pin(&mut self, name: &str, job: &str, ranks: &[u32]) -> Answer {
        let request = self.save(name)?.request;
        self.job_name_is_free(job)?;
        let ranks = ranks.iter().map(|&rank| Rank(rank));
        match self.jobs.pin(&self.index, &request, ranks, self.now) {
            Ok(id) => {
                self.job_names.insert(job.to_owned(), id);
                self.carry_out(name, id);
                ok()
            }
            Err(Refused::Stale(reason)) => {
                self.settle_plan(name, Settled::Stale);
                Err(self.stale(&reason))
            }
            Err(Refused::Budget(_)) => {
                self.settle_plan(name, Settled::Budget);
                Err(Refusal::new("refused budget"))
            }
        }
    }

    /// Ties a job to the offer that it carries out. A save can be pinned more than once, also after
    /// its tokens have been given up: each job puts them in flight for itself.
    fn carry_out(&mut self, name: &str, job: JobId) {
        let Some(save) = self.saves.get_mut(name) else { return };
        let Some(offered) = &mut save.offered else { return };
        let offer = match std::mem::take(&mut offered.planned) {
            true => Some(offered.offer),
            false => {
                let tracker = self.trackers.get_mut(&offered.label);
                tracker.and_then(|tracker| tracker.again(&offered.offer))
            }
        };
        if let Some(offer) = offer {
            self.trackers.note(job, &offered.label, offer.id);
        }
    }

    pub(super) fn complete(&mut self, name: &str, rank: Rank, outcome: Outcome) -> Answer {
        let id = self.job(name)?;
        Err(Refusal::new(match self.jobs.complete(id, rank, outcome) {
            Completion::Pending(left) => return Ok(format!("pending {left}")),
            Completion::Last(outcome) => {
                self.trackers.job_ended(id, outcome);
                return Ok("last".to_owned());
            }
            Completion::Duplicate => "duplicate",
            Completion::AlreadyEnded => "already-ended",
            Completion::UnknownRank => "unknown-rank",
            _ => "unknown-job",
        }))
    }

    pub(super) fn force(&mut self, name: &str) -> Answer {
        let id = self.job(name)?;
        self.jobs.force_end(id, self.now).map_err(|_| Refusal::new("already-ended"))?;
        self.trackers.job_ended(id, Settled::Forced);
        ok()
    }

    pub(super) fn hold(&mut self, blocks: &[u64], job: &str) -> Answer {
        self.job_name_is_free(job)?;
        let pin = self.scheduler.hold(&block_ids(blocks)).map_err(|e| refused(&e, 0, blocks))?;
        let id = self.jobs.open(pin, [Rank(0)], self.now);
        self.job_names.insert(job.to_owned(), id);
        ok()
    }
}
