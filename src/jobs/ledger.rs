//! The ledger itself.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::answer::{
    Completion, DrainReport, Forced, JobId, JobStats, NarrowError, NotPending, OpenJob, Outcome,
    Rank,
};
use super::job::{Job, count_blocks};
use crate::error::{Budget, Refused, Stale};
use crate::events;
use crate::ids::{BlockId, GroupId};
use crate::index::Index;
use crate::pin::Pin;
use crate::request::SaveRequest;

/// What the pending jobs of a ledger may hold together. The default is no limit.
///
/// ```
/// use tenure::JobBudget;
/// let budget = JobBudget { jobs: Some(64), ..JobBudget::default() };
/// assert_eq!(budget.blocks, None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobBudget {
    /// The largest number of pending jobs.
    pub jobs: Option<usize>,
    /// The largest sum of their distinct blocks. A block that two jobs cover counts in both.
    pub blocks: Option<u64>,
}

/// A connector's ledger of the pins that workers report about.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Instant;
/// use tenure::{BlockId, Completion, Config, GroupId, Groups, Outcome, Rank, SaveJobs};
///
/// let (mut scheduler, index) = Config::new(8).build()?;
/// let request = scheduler.admit("r1")?;
/// scheduler.assign(request, GroupId(0), &[BlockId(1), BlockId(2)])?;
/// scheduler.publish();
///
/// let mut jobs = SaveJobs::new();
/// let save = index.plan(request, 0..32, Groups::ALL)?;
/// let job = jobs.pin(&index, &save, [Rank(0), Rank(1)], Instant::now())?;
///
/// assert_eq!(scheduler.release(request)?.held(), 2); // the job's blocks wait
/// assert_eq!(jobs.complete(job, Rank(1), Outcome::Done), Completion::Pending(1));
/// assert_eq!(jobs.complete(job, Rank(0), Outcome::Done), Completion::Last(Outcome::Done));
/// assert_eq!(jobs.complete(job, Rank(0), Outcome::Done), Completion::AlreadyEnded);
/// assert_eq!(scheduler.reclaim(), [BlockId(1), BlockId(2)]);
/// # Ok(()) }
/// ```
pub struct SaveJobs {
    pending: BTreeMap<JobId, Job>,
    /// Ids below it that are not pending have ended: no ended job has to be remembered.
    next: JobId,
    budget: JobBudget,
    /// The sum of `blocks` of the pending jobs; kept only while the budget limits it.
    blocks: u64,
    draining: bool,
    stats: JobStats,
}

impl Default for SaveJobs {
    fn default() -> SaveJobs {
        SaveJobs::new()
    }
}

impl SaveJobs {
    /// An empty ledger without a budget.
    pub fn new() -> SaveJobs {
        SaveJobs {
            pending: BTreeMap::new(),
            next: JobId::FIRST,
            budget: JobBudget::default(),
            blocks: 0,
            draining: false,
            stats: JobStats::default(),
        }
    }

    /// The limits as they are.
    pub fn budget(&self) -> JobBudget {
        self.budget
    }

    /// Sets the limits from now on. Jobs that are pending stay, even above them.
    pub fn set_budget(&mut self, budget: JobBudget) {
        self.budget = budget;
        self.blocks = 0;
        for job in self.pending.values_mut() {
            job.blocks = if budget.blocks.is_some() { job.count_blocks() } else { 0 };
            self.blocks += job.blocks;
        }
    }

    /// Pins what was planned and opens a job over it that ends when each of `ranks` has reported.
    /// A rank named twice counts once. With no rank at all nobody has anything to move: the job
    /// has ended, done, when this returns.
    ///
    /// Costs a pin and one entry of the ledger; with a budget on blocks also a walk over the
    /// request's blocks.
    ///
    /// # Errors
    /// [`Refused::Stale`] as [`Index::pin`] answers, also where there is no budget left, because
    /// waiting would not help; `Stale::Draining` too once the ledger [drains](SaveJobs::drain).
    /// [`Refused::Budget`] where the job would not fit now. A refused request leaves no trace but
    /// its count.
    pub fn pin(
        &mut self,
        index: &Index,
        request: &SaveRequest,
        ranks: impl IntoIterator<Item = Rank>,
        now: Instant,
    ) -> Result<JobId, Refused> {
        let pinned = self.room_for(index, request).and_then(|()| index.pin(request));
        match pinned {
            Ok(pin) => Ok(self.open(pin, ranks, now)),
            Err(refused) => {
                self.count_refused(&refused);
                Err(refused)
            }
        }
    }

    /// Opens a job over a pin that is already taken: an exact hold, or a pin made elsewhere. It
    /// counts in the budget and is never refused by it.
    pub fn open(&mut self, pin: Pin, ranks: impl IntoIterator<Item = Rank>, now: Instant) -> JobId {
        let id = self.next;
        self.next = id.next();
        self.stats.opened += 1;
        let blocks = if self.budget.blocks.is_some() { count_blocks(&pin) } else { 0 };
        let job = Job::new(pin, ranks, now, blocks);
        events::job_opened(id, &job.pin, job.left());
        if job.left() == 0 {
            self.stats.done += 1;
            events::job_ended(id, false);
        } else {
            self.blocks += blocks;
            self.pending.insert(id, job);
        }
        id
    }

    /// Takes in that a rank has finished its part of a job, in whatever order and however late.
    pub fn complete(&mut self, job: JobId, rank: Rank, outcome: Outcome) -> Completion {
        self.settle(job, |open| open.report(rank, outcome))
    }

    /// Takes in that `count` more ranks of a job have finished, by an engine that does not say
    /// which. A count larger than what is left is refused as a whole; 0 changes nothing. Repeats
    /// can be told by name only, so use either names or counts for one job.
    pub fn complete_count(&mut self, job: JobId, count: u32, outcome: Outcome) -> Completion {
        self.settle(job, |open| open.report_count(count, outcome))
    }

    /// [`complete_count`](SaveJobs::complete_count) for every job of a list, in its order; each
    /// count stands for itself.
    pub fn complete_counts(
        &mut self,
        counts: impl IntoIterator<Item = (JobId, u32, Outcome)>,
    ) -> Vec<(JobId, Completion)> {
        counts
            .into_iter()
            .map(|(job, count, outcome)| (job, self.complete_count(job, count, outcome)))
            .collect()
    }

    /// Ends a pending job whatever its ranks are doing, and answers what it gave up. Its blocks can
    /// be reused at once: only for a caller who knows that no worker touches them any more.
    ///
    /// # Errors
    /// [`NotPending`] where there is nothing to end.
    pub fn force_end(&mut self, job: JobId, now: Instant) -> Result<Forced, NotPending> {
        let open = self.remove(job).ok_or_else(|| self.not_pending(job))?;
        self.stats.forced += 1;
        let forced = Forced { job: open.describe(job, now), blocks: open.pin.blocks() };
        events::job_forced(&forced.job);
        Ok(forced)
    }

    /// Gives back all of a job but the blocks that `tokens` touch, at the scheduler's next call.
    /// What was planned to save the rest must hear of it:
    /// [`SaveTracker::narrow`](crate::SaveTracker::narrow).
    ///
    /// # Errors
    /// [`NarrowError`]; the job is as it was.
    pub fn narrow(&mut self, job: JobId, tokens: Range<u64>) -> Result<(), NarrowError> {
        let not_pending = self.not_pending(job);
        let open = self.pending.get_mut(&job).ok_or(not_pending)?;
        open.pin.narrow(tokens)?;
        if self.budget.blocks.is_some() {
            let blocks = open.count_blocks();
            self.blocks = self.blocks - open.blocks + blocks;
            open.blocks = blocks;
        }
        Ok(())
    }

    /// The number of pending jobs.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The pending jobs, in the order they were opened.
    pub fn pending_ids(&self) -> impl Iterator<Item = JobId> {
        self.pending.keys().copied()
    }

    /// Whether a job is pending.
    pub fn is_pending(&self, job: JobId) -> bool {
        self.pending.contains_key(&job)
    }

    /// The pin of a pending job, for listing its blocks.
    ///
    /// # Errors
    /// [`NotPending`].
    pub fn pin_of(&self, job: JobId) -> Result<&Pin, NotPending> {
        self.pending.get(&job).map(|open| &open.pin).ok_or_else(|| self.not_pending(job))
    }

    /// The ranks of a pending job that have not reported by name, ascending.
    ///
    /// # Errors
    /// [`NotPending`].
    pub fn ranks_left(&self, job: JobId) -> Result<&[Rank], NotPending> {
        self.pending.get(&job).map(Job::missing).ok_or_else(|| self.not_pending(job))
    }

    /// The sum of the distinct blocks of the pending jobs.
    pub fn blocks(&self) -> u64 {
        match self.budget.blocks {
            Some(_) => self.blocks,
            None => self.pending.values().map(Job::count_blocks).sum(),
        }
    }

    /// The pending jobs that were opened `age` ago or earlier, oldest first. Looks at each pending
    /// job: the times at which they were opened need not ascend. A log is told of each job the first
    /// time that it is found here.
    pub fn overdue(&self, age: Duration, now: Instant) -> Vec<OpenJob> {
        let overdue = self.older_than(age, now);
        for job in &overdue {
            if self.pending.get(&job.job).is_some_and(Job::is_news) {
                events::job_overdue(job);
            }
        }
        overdue
    }

    fn older_than(&self, age: Duration, now: Instant) -> Vec<OpenJob> {
        let mut older: Vec<OpenJob> = self
            .pending
            .iter()
            .filter(|(_, open)| open.age(now) >= age)
            .map(|(&job, open)| open.describe(job, now))
            .collect();
        older.sort_by(|a, b| b.age.cmp(&a.age).then(a.job.cmp(&b.job)));
        older
    }

    /// Shuts the ledger down: from the first call on [`pin`](SaveJobs::pin) answers
    /// `Stale::Draining`, and each call tells what is still held and how far the deadline is.
    /// It waits for nothing and ends nothing; call it as reports come in.
    pub fn drain(&mut self, deadline: Instant, now: Instant) -> DrainReport {
        self.draining = true;
        DrainReport {
            open: self.older_than(Duration::ZERO, now),
            left: deadline.saturating_duration_since(now),
        }
    }

    /// Exact counts since the ledger was made.
    pub fn stats(&self) -> JobStats {
        self.stats
    }

    fn settle(&mut self, job: JobId, report: impl FnOnce(&mut Job) -> Completion) -> Completion {
        let answer = match self.pending.get_mut(&job) {
            Some(open) => report(open),
            None => match self.not_pending(job) {
                NotPending::AlreadyEnded(_) => Completion::AlreadyEnded,
                NotPending::UnknownJob(_) => Completion::UnknownJob,
            },
        };
        match answer {
            Completion::Pending(_) => {}
            Completion::Last(outcome) => {
                self.remove(job);
                events::job_ended(job, outcome == Outcome::Failed);
                match outcome {
                    Outcome::Done => self.stats.done += 1,
                    Outcome::Failed => self.stats.failed += 1,
                }
            }
            Completion::Duplicate => self.stats.duplicates += 1,
            Completion::AlreadyEnded => self.stats.already_ended += 1,
            Completion::UnknownJob => self.stats.unknown_jobs += 1,
            Completion::UnknownRank => self.stats.unknown_ranks += 1,
            Completion::Exceeds { .. } => self.stats.excess += 1,
        }
        answer
    }

    fn remove(&mut self, job: JobId) -> Option<Job> {
        let open = self.pending.remove(&job)?;
        self.blocks -= open.blocks;
        Some(open)
    }

    fn not_pending(&self, job: JobId) -> NotPending {
        match JobId::FIRST <= job && job < self.next {
            true => NotPending::AlreadyEnded(job),
            false => NotPending::UnknownJob(job),
        }
    }

    /// Judged before the pin is taken: a pin given back at once would still widen the hull of the
    /// life's pins, and so hold blocks that no job covers.
    fn room_for(&self, index: &Index, request: &SaveRequest) -> Result<(), Refused> {
        if self.draining {
            // The index's own reasons that come before it keep their place.
            return Err(match index.check(request) {
                Err(Stale::EpochUnknown) => Stale::EpochUnknown.into(),
                _ => Stale::Draining.into(),
            });
        }
        if let Some(max) = self.budget.jobs
            && self.pending.len() >= max
        {
            index.check(request)?;
            return Err(Budget::Jobs { max }.into());
        }
        let Some(max) = self.budget.blocks else { return Ok(()) };
        let room = max.saturating_sub(self.blocks);
        if positions(index, request) <= room {
            return Ok(());
        }
        index.check(request)?;
        match distinct_blocks(index, request)? <= room {
            true => Ok(()),
            false => Err(Budget::Blocks { max }.into()),
        }
    }

    fn count_refused(&mut self, refused: &Refused) {
        match refused {
            Refused::Stale(stale) => {
                if let Some(count) = self.stats.stale.get_mut(stale.ordinal()) {
                    *count += 1;
                }
            }
            Refused::Budget(Budget::Jobs { .. }) => self.stats.refused_jobs += 1,
            Refused::Budget(Budget::Blocks { .. }) => self.stats.refused_blocks += 1,
            Refused::Budget(_) => self.stats.refused_pins += 1,
        }
    }
}

impl fmt::Debug for SaveJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaveJobs")
            .field("pending", &self.pending.len())
            .field("budget", &self.budget)
            .field("draining", &self.draining)
            .finish_non_exhaustive()
    }
}

/// At most so many blocks does a request cover; fewer where one block stands at two positions.
fn positions(index: &Index, request: &SaveRequest) -> u64 {
    covered(index, request).map(|(_, positions)| positions.end - positions.start).sum()
}

/// How many distinct blocks a request covers that [`Index::check`] has just passed. What it covers
/// has not changed since its planned epoch, so the published table shows it.
fn distinct_blocks(index: &Index, request: &SaveRequest) -> Result<u64, Stale> {
    let view = index.view(request.key())?;
    let mut blocks: Vec<BlockId> = covered(index, request)
        .flat_map(|(group, positions)| {
            let start = usize::try_from(positions.start).unwrap_or(usize::MAX);
            let len = usize::try_from(positions.end - positions.start).unwrap_or(usize::MAX);
            view.table(group).iter().skip(start).take(len).flatten().copied()
        })
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    Ok(blocks.len() as u64)
}

fn covered<'a>(
    index: &'a Index,
    request: &SaveRequest,
) -> impl Iterator<Item = (GroupId, Range<u64>)> + 'a {
    let geometry = index.geometry();
    let (groups, tokens) = (request.groups(), request.tokens());
    geometry
        .all_groups()
        .iter()
        .filter(move |&group| groups.contains(group))
        .filter_map(move |group| Some((group, geometry.positions(group, tokens.clone())?)))
}
