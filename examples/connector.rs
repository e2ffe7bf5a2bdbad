//! A connector: plans what is not durable yet, pins it just before the workers get it, and hears
//! back from them late, twice, or never.
//!
//! ```console
//! $ cargo run --release --example connector
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use tenure::{
    BlockId, Completion, Config, GroupId, JobId, Outcome, Rank, SaveJobs, SaveTracker,
    SaveTrackers, Settled, StepRequest, StepSave, Warnings, reconcile,
};

const GROUP: GroupId = GroupId(0);
const RANKS: [Rank; 2] = [Rank(0), Rank(1)];

fn main() -> Result<(), Box<dyn Error>> {
    let (mut scheduler, index) = Config::new(64).block_sizes([16]).build()?;
    let (mut jobs, mut trackers, mut warnings) =
        (SaveJobs::new(), SaveTrackers::new(), Warnings::new());
    let mut reports: VecDeque<(JobId, Rank, Outcome)> = VecDeque::new();
    let mut free: VecDeque<BlockId> = (0..64).map(BlockId).collect();

    let mut life = scheduler.admit("chat")?;
    trackers.track("chat", SaveTracker::new());
    let mut computed = 0;
    let mut planned: Vec<StepRequest<()>> = Vec::new();

    for step in 0..12 {
        free.extend(scheduler.reclaim());

        // In the middle of it all the request is preempted: what was planned for the old life is
        // stale, and its tokens are offered again under the new one.
        if step == 5 {
            let preempted = scheduler.preempt(life)?;
            free.extend(preempted.released.freed());
            println!("step {step}: preempted, {} blocks still read", preempted.released.held());
            (life, computed) = (preempted.successor, 0);
        }
        scheduler.assign(life, GROUP, &free.drain(..2).collect::<Vec<_>>())?;
        computed += 32;
        scheduler.publish();

        // What was planned in the step before goes out now, if it is still valid.
        let now = Instant::now();
        let done =
            reconcile(&mut planned, Some(&index), &mut jobs, &mut trackers, &mut warnings, now);
        for save in &done.pinned {
            println!("step {step}: job {} reads {:?}", save.job, save.blocks[0].1);
            // The first rank's report comes twice, the second one's a step later.
            reports.extend([
                (save.job, RANKS[0], Outcome::Done),
                (save.job, RANKS[0], Outcome::Done),
                (save.job, RANKS[1], Outcome::Done),
            ]);
        }
        for save in &done.dropped {
            println!(
                "step {step}: dropped tokens {:?}: {}",
                save.save.request.tokens(),
                save.reason
            );
        }

        // Plan the next tokens that are neither durable nor in flight.
        planned.clear();
        if let Some(tracker) = trackers.get_mut("chat")
            && let Some(offer) = tracker.next(&index, life, computed)?
        {
            planned.push(StepRequest {
                label: "chat".into(),
                load: None,
                save: Some(StepSave {
                    request: offer.request,
                    offer: Some(offer.id),
                    ranks: RANKS.to_vec(),
                    replan: false,
                }),
            });
        }

        // Some reports arrive.
        for (job, rank, outcome) in reports.drain(..reports.len().min(2)) {
            match jobs.complete(job, rank, outcome) {
                Completion::Last(outcome) => {
                    trackers.job_ended(job, outcome);
                }
                Completion::Pending(left) => println!("step {step}: job {job} waits for {left}"),
                other => println!("step {step}: job {job}, rank {}: {other:?}", rank.0),
            }
        }
    }

    // The request ends; its saves go on. What never reports is named, and ended on our word.
    let _ = scheduler.release(life)?;
    for (job, rank, outcome) in reports.drain(..).filter(|report| report.1 == RANKS[0]) {
        let _ = jobs.complete(job, rank, outcome);
    }
    let later = Instant::now() + Duration::from_secs(60);
    for job in jobs.overdue(Duration::from_secs(30), later) {
        println!("overdue: job {} of {:?} waits for {:?}", job.job, job.label, job.missing);
        let forced = jobs.force_end(job.job, later)?;
        println!("forced: it held {:?}", forced.blocks);
        trackers.job_ended(job.job, Settled::Forced);
    }
    scheduler.reclaim();
    let counts = scheduler.counts();
    println!("free {}, held {}", counts.free, counts.held);
    assert_eq!((counts.free, counts.held, jobs.pending()), (64, 0, 0));
    Ok(())
}
