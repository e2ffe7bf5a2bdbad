//! The ledger of jobs: who must report, what a report does, and what the budget lets in.

mod against_a_plain_ledger;

use std::time::{Duration, Instant};

use tenure::{
    BadRange, BlockId, Budget, Completion, Config, GroupId, Groups, Index, JobBudget, JobId, Kind,
    NarrowError, NotPending, Outcome, Rank, Refused, RequestKey, SaveJobs, SaveRequest, Scheduler,
    Stale,
};

const DONE: Outcome = Outcome::Done;
const FAILED: Outcome = Outcome::Failed;

/// An index with one published request `r1` over blocks 1 to `len`, 16 tokens each.
struct Engine {
    scheduler: Scheduler,
    index: Index,
    key: RequestKey,
    jobs: SaveJobs,
    start: Instant,
}

impl Engine {
    fn new(len: u32) -> Engine {
        let (mut scheduler, index) = Config::new(64).build().unwrap();
        let key = scheduler.admit("r1").unwrap();
        let blocks: Vec<BlockId> = (1..=len).map(BlockId).collect();
        scheduler.assign(key, GroupId(0), &blocks).unwrap();
        scheduler.publish();
        Engine { scheduler, index, key, jobs: SaveJobs::new(), start: Instant::now() }
    }

    fn plan(&self, tokens: std::ops::Range<u64>) -> SaveRequest {
        self.index.plan(self.key, tokens, Groups::ALL).unwrap()
    }

    fn pin(&mut self, request: &SaveRequest, ranks: &[u32]) -> Result<JobId, Refused> {
        self.pin_after(request, ranks, Duration::ZERO)
    }

    fn pin_after(
        &mut self,
        request: &SaveRequest,
        ranks: &[u32],
        since_start: Duration,
    ) -> Result<JobId, Refused> {
        let ranks = ranks.iter().map(|&rank| Rank(rank));
        self.jobs.pin(&self.index, request, ranks, self.start + since_start)
    }

    fn free(&mut self) -> u32 {
        self.scheduler.counts().free
    }
}

#[test]
fn only_the_last_report_gives_the_blocks_back() {
    let mut e = Engine::new(2);
    let job = e.pin(&e.plan(0..32), &[0, 1, 7]).unwrap();
    assert_eq!(e.scheduler.release(e.key).unwrap().held(), 2);

    assert_eq!(e.jobs.complete(job, Rank(7), DONE), Completion::Pending(2));
    assert_eq!(e.jobs.complete(job, Rank(7), FAILED), Completion::Duplicate);
    assert_eq!(e.jobs.complete(job, Rank(2), DONE), Completion::UnknownRank);
    assert_eq!(e.jobs.complete(job, Rank(0), DONE), Completion::Pending(1));
    assert_eq!(e.free(), 62);
    assert_eq!(e.jobs.complete(job, Rank(1), DONE), Completion::Last(DONE));
    assert_eq!(e.free(), 64);
    for rank in [0, 1, 2, 7] {
        assert_eq!(e.jobs.complete(job, Rank(rank), FAILED), Completion::AlreadyEnded);
    }
    e.scheduler.audit().unwrap();
}

#[test]
fn one_failed_part_fails_the_job_and_frees_like_success() {
    let mut e = Engine::new(1);
    let job = e.pin(&e.plan(0..16), &[0, 1]).unwrap();
    assert_eq!(e.jobs.complete(job, Rank(0), FAILED), Completion::Pending(1));
    assert_eq!(e.jobs.complete(job, Rank(1), DONE), Completion::Last(FAILED));
    assert_eq!(e.scheduler.pins(e.key), 0);
    assert_eq!((e.jobs.stats().done, e.jobs.stats().failed), (0, 1));
}

#[test]
fn a_job_needs_no_request_to_end() {
    let mut e = Engine::new(2);
    let old = e.pin(&e.plan(0..32), &[0]).unwrap();
    assert_eq!(e.scheduler.release(e.key).unwrap().held(), 2);
    e.key = e.scheduler.admit("r1").unwrap();
    e.scheduler.assign(e.key, GroupId(0), &[BlockId(9)]).unwrap();
    e.scheduler.publish();
    let new = e.pin(&e.plan(0..16), &[0]).unwrap();

    assert_eq!(e.jobs.complete(old, Rank(0), DONE), Completion::Last(DONE));
    assert!(e.jobs.is_pending(new));
    assert_eq!(e.scheduler.pins(e.key), 1);
    assert_eq!(e.scheduler.counts().held, 0);
}

#[test]
fn jobs_that_never_were_are_told_from_those_that_ended() {
    let mut e = Engine::new(1);
    assert_eq!(e.jobs.complete(JobId::from_bits(0), Rank(0), DONE), Completion::UnknownJob);
    assert_eq!(e.jobs.complete(JobId::from_bits(1), Rank(0), DONE), Completion::UnknownJob);
    let first = e.pin(&e.plan(0..16), &[0]).unwrap();
    let second = e.pin(&e.plan(0..16), &[0]).unwrap();
    assert!(first < second, "issued in order");
    assert_eq!(JobId::from_bits(first.to_bits()), first);

    e.jobs.complete(first, Rank(0), DONE);
    let ended = NotPending::AlreadyEnded(first);
    assert_eq!(e.jobs.force_end(first, e.start).unwrap_err(), ended);
    assert_eq!(e.jobs.ranks_left(first), Err(ended));
    let next = JobId::from_bits(second.to_bits() + 1);
    assert_eq!(e.jobs.complete(next, Rank(0), DONE), Completion::UnknownJob);
    assert_eq!(e.jobs.pin_of(next).err(), Some(NotPending::UnknownJob(next)));
    assert_eq!(e.jobs.complete(JobId::from_bits(u64::MAX), Rank(0), DONE), Completion::UnknownJob);
    assert!(e.jobs.is_pending(second));
}

#[test]
fn with_nobody_to_report_the_job_is_over_at_once() {
    let mut e = Engine::new(1);
    let job = e.pin(&e.plan(0..16), &[]).unwrap();
    assert_eq!(e.jobs.pending(), 0);
    assert_eq!(e.scheduler.pins(e.key), 0);
    assert_eq!(e.jobs.complete(job, Rank(0), DONE), Completion::AlreadyEnded);
    assert_eq!((e.jobs.stats().opened, e.jobs.stats().done), (1, 1));
}

#[test]
fn a_rank_named_twice_reports_once() {
    let mut e = Engine::new(1);
    let job = e.pin(&e.plan(0..16), &[3, 1, 3]).unwrap();
    assert_eq!(e.jobs.ranks_left(job).unwrap(), [Rank(1), Rank(3)]);
    assert_eq!(e.jobs.complete(job, Rank(3), DONE), Completion::Pending(1));
    assert_eq!(e.jobs.complete(job, Rank(1), DONE), Completion::Last(DONE));
}

#[test]
fn counts_stand_for_ranks_without_names() {
    let mut e = Engine::new(2);
    let a = e.pin(&e.plan(0..16), &[0, 1, 2, 3]).unwrap();
    let b = e.pin(&e.plan(16..32), &[0, 1]).unwrap();
    let never = JobId::from_bits(99);

    let answers = e.jobs.complete_counts([(a, 3, DONE), (b, 3, DONE), (never, 1, DONE)]);
    assert_eq!(
        answers,
        [
            (a, Completion::Pending(1)),
            (b, Completion::Exceeds { left: 2 }),
            (never, Completion::UnknownJob)
        ]
    );
    assert_eq!(e.jobs.complete_count(b, 0, FAILED), Completion::Pending(2));
    assert_eq!(e.jobs.complete_count(b, u32::MAX, FAILED), Completion::Exceeds { left: 2 });
    assert_eq!(e.jobs.complete_count(b, 2, DONE), Completion::Last(DONE), "nothing had failed");

    let open = e.jobs.overdue(Duration::ZERO, e.start);
    assert_eq!((open[0].left, open[0].missing.len()), (1, 4), "three reported, nobody knows who");
    assert_eq!(e.jobs.complete_count(a, 2, DONE), Completion::Exceeds { left: 1 });
    assert_eq!(e.jobs.complete_count(a, 1, FAILED), Completion::Last(FAILED));
    assert_eq!(e.jobs.complete_count(a, 1, DONE), Completion::AlreadyEnded);
    assert_eq!(e.jobs.stats().excess, 3);
}

#[test]
fn names_and_counts_of_one_job_add_up() {
    let mut e = Engine::new(1);
    let job = e.pin(&e.plan(0..16), &[0, 1, 2]).unwrap();
    assert_eq!(e.jobs.complete(job, Rank(0), DONE), Completion::Pending(2));
    assert_eq!(e.jobs.complete_count(job, 1, DONE), Completion::Pending(1));
    assert_eq!(e.jobs.complete(job, Rank(0), DONE), Completion::Duplicate);
    assert_eq!(e.jobs.complete(job, Rank(2), DONE), Completion::Last(DONE));
}

#[test]
fn the_budget_on_jobs_lets_no_more_in() {
    let mut e = Engine::new(4);
    e.jobs.set_budget(JobBudget { jobs: Some(1), blocks: None });
    let save = e.plan(0..32);
    let job = e.pin(&save, &[0]).unwrap();
    let refused = Refused::Budget(Budget::Jobs { max: 1 });
    assert_eq!(e.pin(&save, &[0]), Err(refused));
    assert_eq!(e.scheduler.pins(e.key), 1, "nothing was pinned for it");
    assert_eq!(e.jobs.stats().refused_jobs, 1);
    e.jobs.complete(job, Rank(0), DONE);
    assert!(e.pin(&save, &[0]).is_ok());
}

#[test]
fn the_budget_on_blocks_counts_each_block_of_a_job_once() {
    let mut e = Engine::new(3);
    e.scheduler.share(e.key, GroupId(0), &[BlockId(1), BlockId(2)]).unwrap();
    e.scheduler.publish();
    e.jobs.set_budget(JobBudget { jobs: None, blocks: Some(5) });
    let all = e.plan(0..80); // 1 2 3 1 2
    let two = e.plan(48..80);
    let one = e.plan(0..16);
    let a = e.pin(&all, &[0]).unwrap();
    assert_eq!(e.jobs.blocks(), 3);
    assert_eq!(e.pin(&all, &[0]), Err(Refused::Budget(Budget::Blocks { max: 5 })));
    e.pin(&two, &[0]).unwrap();
    assert_eq!(e.jobs.blocks(), 5);
    assert_eq!(e.pin(&one, &[0]), Err(Refused::Budget(Budget::Blocks { max: 5 })));
    assert_eq!(e.jobs.stats().refused_blocks, 2);
    e.jobs.force_end(a, e.start).unwrap();
    assert_eq!(e.jobs.blocks(), 2);
    e.pin(&one, &[0]).unwrap();
}

#[test]
fn a_request_with_repeated_blocks_fits_by_its_distinct_ones() {
    let mut e = Engine::new(3);
    e.scheduler.share(e.key, GroupId(0), &[BlockId(1), BlockId(1)]).unwrap();
    e.scheduler.publish(); // 1 2 3 1 1
    e.jobs.set_budget(JobBudget { jobs: None, blocks: Some(2) });
    assert!(e.pin(&e.plan(0..48), &[0]).is_err());
    let job = e.pin(&e.plan(32..80), &[0]).unwrap();
    assert_eq!(e.jobs.blocks(), 2);
    e.jobs.complete(job, Rank(0), DONE);
    e.jobs.set_budget(JobBudget { jobs: None, blocks: Some(3) });
    assert!(e.pin(&e.plan(0..80), &[0]).is_ok());
}

#[test]
fn a_budget_set_late_knows_what_is_open() {
    let mut e = Engine::new(4);
    let save = e.plan(0..48);
    let a = e.pin(&save, &[0]).unwrap();
    e.pin(&save, &[0]).unwrap();
    e.jobs.set_budget(JobBudget { jobs: None, blocks: Some(7) });
    assert_eq!(e.jobs.blocks(), 6);
    assert!(matches!(e.pin(&save, &[0]), Err(Refused::Budget(Budget::Blocks { max: 7 }))));
    e.jobs.complete(a, Rank(0), DONE);
    assert!(e.pin(&save, &[0]).is_ok());
    e.jobs.set_budget(JobBudget::default());
    assert_eq!(e.jobs.blocks(), 6);
}

#[test]
fn a_refusal_for_budget_leaves_no_hull_behind() {
    let mut e = Engine::new(4);
    e.jobs.set_budget(JobBudget { jobs: None, blocks: Some(2) });
    let front = e.plan(0..16);
    let back = e.plan(16..64);
    e.pin(&front, &[0]).unwrap();
    assert!(e.pin(&back, &[0]).is_err());
    let released = e.scheduler.release(e.key).unwrap();
    assert_eq!((released.freed().len(), released.held()), (3, 1));
}

#[test]
fn what_is_stale_is_told_so_even_without_budget() {
    let mut e = Engine::new(2);
    e.jobs.set_budget(JobBudget { jobs: Some(0), blocks: Some(0) });
    let save = e.plan(0..32);
    assert_eq!(e.pin(&save, &[0]), Err(Refused::Budget(Budget::Jobs { max: 0 })));
    let _ = e.scheduler.truncate(e.key, GroupId(0), 1).unwrap();
    let truncated = Stale::Truncated { group: GroupId(0), len: 1 };
    assert_eq!(e.pin(&save, &[0]), Err(truncated.into()));
    e.jobs.set_budget(JobBudget { jobs: None, blocks: Some(0) });
    assert_eq!(e.pin(&save, &[0]), Err(truncated.into()));
    assert_eq!(e.jobs.stats().stale[truncated.ordinal()], 2);
}

#[test]
fn holds_count_and_are_never_refused() {
    let mut e = Engine::new(4);
    e.jobs.set_budget(JobBudget { jobs: Some(1), blocks: Some(2) });
    let pin = e.scheduler.hold(&[BlockId(2), BlockId(3), BlockId(2)]).unwrap();
    let hold = e.jobs.open(pin, [Rank(0)], e.start);
    assert_eq!((e.jobs.pending(), e.jobs.blocks()), (1, 2));
    assert!(matches!(e.pin(&e.plan(0..16), &[0]), Err(Refused::Budget(_))));
    let pin = e.scheduler.hold(&[BlockId(4)]).unwrap();
    e.jobs.open(pin, [Rank(0)], e.start);
    assert_eq!(e.jobs.blocks(), 3);

    let open = e.jobs.overdue(Duration::ZERO, e.start);
    assert_eq!((open[0].kind, &open[0].label, open[0].key), (Kind::Hold, &None, None));
    let not_a_range = NarrowError::BadRange(BadRange { start: 0, end: 16 });
    assert_eq!(e.jobs.narrow(hold, 0..16), Err(not_a_range));
}

#[test]
fn overdue_jobs_are_found_whatever_the_order_of_opening() {
    let mut e = Engine::new(4);
    let seconds = Duration::from_secs;
    let young = e.pin_after(&e.plan(0..16), &[0], seconds(30)).unwrap();
    let old = e.pin_after(&e.plan(0..64), &[0, 1], seconds(0)).unwrap();
    let load = e.index.plan_load(e.key, 16..48, Groups::ALL).unwrap();
    let middle = e.pin_after(&load, &[4], seconds(20)).unwrap();
    let oldest = e.pin_after(&e.plan(0..16), &[0], seconds(0)).unwrap();
    e.jobs.complete(old, Rank(0), DONE);

    let now = e.start + seconds(40);
    let ids = |age| e.jobs.overdue(age, now).iter().map(|job| job.job).collect::<Vec<_>>();
    assert_eq!(ids(seconds(0)), [old, oldest, middle, young]);
    assert_eq!(ids(seconds(10)), [old, oldest, middle, young], "exactly so old is overdue");
    assert_eq!(ids(seconds(11)), [old, oldest, middle]);
    assert_eq!(ids(seconds(21)), [old, oldest]);
    assert_eq!(ids(seconds(41)), []);

    let open = e.jobs.overdue(seconds(15), now);
    assert_eq!(open[0].label.as_deref(), Some("r1"));
    assert_eq!(open[0].key, Some(e.key));
    assert_eq!((open[0].kind, open[0].tokens.clone()), (Kind::Save, 0..64));
    assert_eq!((open[0].age, open[0].blocks, open[0].left), (seconds(40), 4, 1));
    assert_eq!(open[0].missing, [Rank(1)]);
    assert_eq!((open[2].kind, open[2].tokens.clone(), open[2].blocks), (Kind::Load, 16..48, 2));
    assert_eq!(e.jobs.pending(), 4, "asking ends nothing");
}

#[test]
fn a_clock_that_goes_back_gives_no_age() {
    let mut e = Engine::new(1);
    e.pin_after(&e.plan(0..16), &[0], Duration::from_secs(9)).unwrap();
    assert_eq!(e.jobs.overdue(Duration::ZERO, e.start)[0].age, Duration::ZERO);
}

#[test]
fn force_tells_what_it_gave_up() {
    let mut e = Engine::new(3);
    let job = e.pin(&e.plan(0..48), &[0, 1]).unwrap();
    e.jobs.complete(job, Rank(1), DONE);
    assert_eq!(e.scheduler.release(e.key).unwrap().held(), 3);
    let forced = e.jobs.force_end(job, e.start + Duration::from_secs(90)).unwrap();
    assert_eq!(forced.blocks, [BlockId(1), BlockId(2), BlockId(3)]);
    assert_eq!((forced.job.job, forced.job.blocks), (job, 3));
    assert_eq!((forced.job.age, forced.job.left), (Duration::from_secs(90), 1));
    assert_eq!(forced.job.missing, [Rank(0)]);
    assert_eq!(e.scheduler.reclaim().len(), 3);
    assert_eq!(e.jobs.complete(job, Rank(0), DONE), Completion::AlreadyEnded);
    assert_eq!(e.jobs.stats().forced, 1);
}

#[test]
fn narrowing_gives_the_rest_back_exactly() {
    let mut e = Engine::new(6);
    e.jobs.set_budget(JobBudget { jobs: None, blocks: Some(6) });
    let job = e.pin(&e.plan(0..96), &[0]).unwrap();
    assert_eq!(e.scheduler.release(e.key).unwrap().held(), 6);
    e.jobs.narrow(job, 20..50).unwrap(); // touches the blocks 2, 3 and 4
    assert_eq!(e.scheduler.reclaim(), [BlockId(1), BlockId(5), BlockId(6)]);
    assert_eq!(e.jobs.blocks(), 3);
    assert_eq!(e.jobs.pin_of(job).unwrap().blocks(), [BlockId(2), BlockId(3), BlockId(4)]);

    let outside = NarrowError::BadRange(BadRange { start: 10, end: 50 });
    assert_eq!(e.jobs.narrow(job, 10..50), Err(outside));
    let empty = NarrowError::BadRange(BadRange { start: 30, end: 30 });
    assert_eq!(e.jobs.narrow(job, 30..30), Err(empty));
    e.jobs.narrow(job, 32..48).unwrap();
    assert_eq!(e.scheduler.reclaim(), [BlockId(2), BlockId(4)]);
    assert_eq!(e.jobs.complete(job, Rank(0), DONE), Completion::Last(DONE));
    assert_eq!(e.scheduler.reclaim(), [BlockId(3)]);
    let ended = NarrowError::NotPending(NotPending::AlreadyEnded(job));
    assert_eq!(e.jobs.narrow(job, 32..48), Err(ended));
    e.scheduler.audit().unwrap();
}

#[test]
fn narrowing_one_job_leaves_the_other_its_blocks() {
    let mut e = Engine::new(4);
    let save = e.plan(0..64);
    let (a, b) = (e.pin(&save, &[0]).unwrap(), e.pin(&save, &[0]).unwrap());
    assert_eq!(e.scheduler.release(e.key).unwrap().held(), 4);
    e.jobs.narrow(a, 0..16).unwrap();
    assert_eq!(e.scheduler.reclaim(), []);
    e.jobs.complete(b, Rank(0), DONE);
    assert_eq!(e.scheduler.reclaim().len(), 3);
    e.jobs.complete(a, Rank(0), DONE);
    assert_eq!(e.scheduler.reclaim(), [BlockId(1)]);
}

#[test]
fn a_drain_tells_who_is_still_at_it() {
    let mut e = Engine::new(3);
    let save = e.plan(0..48);
    let job = e.pin(&save, &[0, 1]).unwrap();
    let seconds = Duration::from_secs;
    let deadline = e.start + seconds(10);

    let report = e.jobs.drain(deadline, e.start + seconds(4));
    assert!(!report.is_drained() && !report.is_overdue());
    assert_eq!((report.left, report.blocks()), (seconds(6), 3));
    assert_eq!(report.open[0].missing, [Rank(0), Rank(1)]);
    assert_eq!(e.pin(&save, &[0]), Err(Stale::Draining.into()), "nothing new");
    let foreign = Engine::new(3).plan(0..48);
    assert_eq!(e.pin(&foreign, &[0]), Err(Stale::EpochUnknown.into()), "comes before it");

    e.jobs.complete(job, Rank(0), DONE);
    let report = e.jobs.drain(deadline, e.start + seconds(11));
    assert!(report.is_overdue());
    assert_eq!(report.open[0].missing, [Rank(1)]);
    assert!(e.jobs.is_pending(job), "the deadline ends nothing");

    e.jobs.force_end(job, e.start + seconds(12)).unwrap();
    let report = e.jobs.drain(deadline, e.start + seconds(12));
    assert!(report.is_drained() && !report.is_overdue());
}

#[test]
fn loads_and_saves_of_one_request_stand_side_by_side() {
    let mut e = Engine::new(2);
    let load = e.index.plan_load(e.key, 16..32, Groups::ALL).unwrap();
    let save = e.pin(&e.plan(0..16), &[0]).unwrap();
    let load = e.pin(&load, &[0]).unwrap();
    assert_eq!(e.scheduler.pins(e.key), 2);
    assert_eq!(e.jobs.complete(load, Rank(0), FAILED), Completion::Last(FAILED));
    assert_eq!(e.scheduler.pins(e.key), 1);
    assert_eq!(e.jobs.complete(save, Rank(0), DONE), Completion::Last(DONE));
    assert_eq!(e.scheduler.pins(e.key), 0);
}

#[test]
fn dropping_the_ledger_gives_everything_back() {
    let mut e = Engine::new(2);
    e.pin(&e.plan(0..32), &[0]).unwrap();
    assert_eq!(e.scheduler.release(e.key).unwrap().held(), 2);
    drop(e.jobs);
    assert_eq!(e.scheduler.reclaim().len(), 2);
}
