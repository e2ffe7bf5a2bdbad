//! Everything between two `index` lines: an index, what a connector keeps beside it, and the names
//! of the script.

use std::collections::HashMap;
use std::time::Instant;

use tenure::{
    BlockId, Config, ConfigError, Index, JobBudget, JobId, Offer, Outcome, Pin, Rank, RequestKey,
    SaveJobs, SaveRequest, SaveTracker, SaveTrackers, Scheduler, StepId,
};

use super::answer::{Answer, Refusal, ok};
use super::ast::{Command, IndexSpec};

/// A save or load of the script.
pub(super) struct Save {
    pub(super) request: SaveRequest,
    pub(super) offered: Option<Offered>,
}

/// The tracker that a save came from.
pub(super) struct Offered {
    pub(super) label: String,
    pub(super) offer: Offer,
    /// It was neither pinned nor settled yet, so its tokens are in flight for the plan alone.
    pub(super) planned: bool,
}

pub(super) struct World {
    pub(super) scheduler: Scheduler,
    pub(super) index: Index,
    pub(super) jobs: SaveJobs,
    pub(super) trackers: SaveTrackers,
    /// The newest life of each label.
    pub(super) labels: HashMap<String, RequestKey>,
    pub(super) saves: HashMap<String, Save>,
    pub(super) job_names: HashMap<String, JobId>,
    pub(super) steps: HashMap<String, StepId>,
    /// Scripts know no time: every job is opened at the same instant.
    pub(super) now: Instant,
}

impl World {
    pub(super) fn new(spec: &IndexSpec) -> Result<World, Refusal> {
        let mut config = Config::new(spec.blocks).track_commits(spec.commits);
        if let Some(null) = spec.null {
            config = config.null_block(BlockId(null));
        }
        if !spec.block_sizes.is_empty() {
            config = config.block_sizes(spec.block_sizes.iter().copied());
        }
        let (scheduler, index) = config.build().map_err(|error| match error {
            ConfigError::NullBlock { block, .. } => {
                Refusal::error(format_args!("unknown-block {block}"))
            }
            other => Refusal::error(other),
        })?;
        Ok(World {
            scheduler,
            index,
            jobs: SaveJobs::new(),
            trackers: SaveTrackers::new(),
            labels: HashMap::new(),
            saves: HashMap::new(),
            job_names: HashMap::new(),
            steps: HashMap::new(),
            now: Instant::now(),
        })
    }

    pub(super) fn run(&mut self, command: &Command) -> Answer {
        match command {
            // A fresh world is not made by the old one.
            Command::Index(_) => ok(),
            Command::Admit { label } => self.admit(label),
            Command::Assign { label, group, blocks } => self.assign(label, *group, blocks),
            Command::Share { label, group, blocks } => self.share(label, *group, blocks),
            Command::Commit { label, tokens } => self.commit(label, *tokens),
            Command::Vacate { label, group, positions } => self.vacate(label, *group, *positions),
            Command::Truncate { label, group, len } => self.truncate(label, *group, *len),
            Command::Replace { label, group, position, block } => {
                self.replace(label, *group, *position, *block)
            }
            Command::Preempt { label } => self.preempt(label),
            Command::Release { label } => self.release(label),
            Command::Invalidate { blocks } => self.invalidate(blocks),
            Command::StepBegin { step } => self.begin_step(step),
            Command::StepEnd { step } => self.end_step(step),
            Command::Publish => Ok(format!("epoch {}", self.scheduler.publish())),
            Command::Reset { force } => self.reset(*force),
            Command::Drain => {
                self.scheduler.begin_drain();
                ok()
            }
            Command::Plan(plan) => self.plan(plan),
            Command::Forge { plan, epoch } => self.forge(plan, *epoch),
            Command::Check { save } => self.check(save),
            Command::Replan { save } => self.replan(save),
            Command::Pin { save, job, ranks } => self.pin(save, job, ranks),
            Command::Complete { job, rank, failed } => {
                let outcome = if *failed { Outcome::Failed } else { Outcome::Done };
                self.complete(job, Rank(*rank), outcome)
            }
            Command::Force { job } => self.force(job),
            Command::Hold { blocks, job } => self.hold(blocks, job),
            Command::Jobs { max, blocks } => {
                let jobs = Some(usize::try_from(*max).unwrap_or(usize::MAX));
                self.jobs.set_budget(JobBudget { jobs, blocks: *blocks });
                ok()
            }
            Command::Track { label, end } => self.track(label, end.unwrap_or(u64::MAX)),
            Command::Next { save, label, upto } => self.next(save, label, upto.unwrap_or(u64::MAX)),
            Command::Abandon { save } => self.abandon(save),
            Command::Expect { query, .. } => self.query(query),
            Command::Audit => {
                self.scheduler.audit().map_err(|e| Refusal::error(format_args!("audit: {e}")))?;
                ok()
            }
        }
    }

    /// The newest life of a label, live or ended.
    pub(super) fn key(&self, label: &str) -> Result<RequestKey, Refusal> {
        let unknown = || Refusal::error(format_args!("unknown-label {label}"));
        self.labels.get(label).copied().ok_or_else(unknown)
    }

    /// The newest job of a name, pending or ended.
    pub(super) fn job(&self, name: &str) -> Result<JobId, Refusal> {
        self.job_names.get(name).copied().ok_or_else(|| Refusal::new("unknown-job"))
    }

    /// The tracker of a label.
    pub(super) fn tracker(&mut self, label: &str) -> Result<&mut SaveTracker, Refusal> {
        self.key(label)?;
        let none = || Refusal::error(format_args!("no-tracker {label}"));
        self.trackers.get_mut(label).ok_or_else(none)
    }

    pub(super) fn save(&self, name: &str) -> Result<&Save, Refusal> {
        self.saves.get(name).ok_or_else(|| Refusal::error(format_args!("unknown-save {name}")))
    }

    pub(super) fn job_name_is_free(&self, name: &str) -> Result<(), Refusal> {
        match self.job_names.get(name) {
            Some(&id) if self.jobs.is_pending(id) => {
                Err(Refusal::error(format_args!("job-open {name}")))
            }
            _ => Ok(()),
        }
    }

    /// The pin of a job, `None` where it has ended.
    pub(super) fn pin_of(&self, name: &str) -> Result<Option<&Pin>, Refusal> {
        Ok(self.jobs.pin_of(self.job(name)?).ok())
    }
}
