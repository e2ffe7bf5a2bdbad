//! Threads that plan, pin, check, look and unpin at random while a scheduler churns, over memory in
//! which every block carries a word of content.
//!
//! Each stay of a block outside the pool has a content of its own. It is poisoned the moment the
//! block is reported free. What a request must find is known from what was published at its
//! epoch, so a reader compares words, and no block id has to mean the same to both sides.
//!
//! `TENURE_STRESS_SECONDS` sets how long the tests run together, `TENURE_STRESS_SEED` where they
//! start.

#[path = "tagged_memory/churn.rs"]
mod churn;
#[path = "tagged_memory/memory.rs"]
mod memory;
#[path = "tagged_memory/reader.rs"]
mod reader;

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tenure::{Config, Stale};

use churn::Churn;
use memory::{Shape, World};
use reader::{Reader, Tally};

const READERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// The tests of this file share the cores with nobody of their own.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How a run ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Readers end their pins, then the scheduler accounts for every block.
    ReadersFirst,
    /// The scheduler drains while readers still try.
    Drain,
    /// The scheduler is dropped while pins are out.
    SchedulerFirst,
}

#[test]
fn one_group() {
    let shape = Shape { blocks: 400, block_sizes: vec![16], commits: false };
    run(&shape, End::ReadersFirst);
    run(&shape, End::Drain);
}

#[test]
fn two_groups_with_commits() {
    let shape = Shape { blocks: 600, block_sizes: vec![16, 24], commits: true };
    run(&shape, End::ReadersFirst);
    run(&shape, End::Drain);
}

#[test]
fn pins_outlive_the_scheduler() {
    let shape = Shape { blocks: 300, block_sizes: vec![4], commits: false };
    run(&shape, End::SchedulerFirst);
    run(&shape, End::SchedulerFirst);
}

/// There are six runs in this file.
fn time_for_one_run() -> Duration {
    let seconds = std::env::var("TENURE_STRESS_SECONDS").ok();
    let seconds = seconds.map_or(6.0, |s| s.parse().expect("TENURE_STRESS_SECONDS is a number"));
    Duration::from_secs_f64(seconds / 6.0)
}

fn seed() -> u64 {
    let seed = std::env::var("TENURE_STRESS_SEED").ok();
    seed.map_or(1, |seed| seed.parse().expect("TENURE_STRESS_SEED is a number"))
}

fn run(shape: &Shape, end: End) {
    // One that has failed does not stop the others.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (scheduler, index) = Config::new(shape.blocks)
        .block_sizes(shape.block_sizes.iter().copied())
        .track_commits(shape.commits)
        .build()
        .expect("a configuration that can be built");
    let world = World::new(shape.clone());
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..READERS).map(|_| channel()).unzip();
    let readers: Vec<Reader> = inboxes
        .into_iter()
        .enumerate()
        .map(|(at, inbox)| {
            let others = senders.iter().enumerate().filter(|&(other, _)| other != at);
            let others = others.map(|(_, sender)| sender.clone()).collect();
            let seed = seed().wrapping_mul(1000).wrapping_add(at as u64 + 1);
            Reader::new(&world, index.clone(), seed, inbox, others)
        })
        .collect();
    drop(index);
    let mut churn = Churn::new(&world, scheduler, seed(), senders);

    let tallies: Vec<Tally> = thread::scope(|scope| {
        let running: Vec<_> = readers.into_iter().map(|r| scope.spawn(|| r.run())).collect();
        let stop = world.stop_at_the_end();
        let failed = || running.iter().any(|reader| reader.is_finished());
        let uneventful = || world.copies_refused.load(Ordering::Relaxed) == 0;
        let (begun, enough) = (Instant::now(), time_for_one_run());
        // A machine that is busy with other things gets more time for something to happen.
        while !failed()
            && (begun.elapsed() < enough || (uneventful() && begun.elapsed() < PATIENCE))
        {
            churn.step();
        }
        if failed() {
            // Joining tells how.
        } else if end == End::Drain {
            world.winding_down.store(true, Ordering::Release);
            churn.drain(failed);
        } else if end == End::SchedulerFirst {
            drop(churn);
            thread::sleep(Duration::from_millis(20));
            drop(stop);
            return join(running);
        }
        drop(stop);
        let tallies = join(running);
        churn.account();
        tallies
    });
    assert!(world.copies_refused.into_inner() > 0, "nothing was lost under a copy");
    assert_something_happened(&tallies, end);
}

fn join(readers: Vec<thread::ScopedJoinHandle<'_, Tally>>) -> Vec<Tally> {
    readers
        .into_iter()
        .map(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect()
}

/// No wrong word was read, or a thread would have panicked; here it is made sure that words were
/// read at all, and refusals given.
fn assert_something_happened(tallies: &[Tally], end: End) {
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let refused = |stale: Stale| tallies.iter().map(|t| t.refused[stale.ordinal()]).sum::<u64>();
    println!("{tallies:#?}");
    assert!(sum(|t| t.pinned) > 0, "nothing was pinned");
    assert!(sum(|t| t.copied) > 0, "nothing was copied");
    assert!(sum(|t| t.handed_over) > 0 && sum(|t| t.narrowed) > 0 && sum(|t| t.pictures) > 0);
    assert!(refused(Stale::Gone) > 0 && refused(Stale::NewLife) > 0, "no life ended in time");
    assert_eq!(refused(Stale::EpochUnknown) + refused(Stale::Reset), 0);
    if end == End::Drain {
        assert!(refused(Stale::Draining) > 0, "nobody asked while the index was draining");
    }
}
