//! Everything at once for as long as the machine is free: savers, planners, readers of whole
//! pictures and a connector's ledger against a churning scheduler, a million operations a second.
//!
//! Every block carries a word that says whose it is ([`Tag`](world::Tag)); it is compared under
//! every pin. Where `tagged_memory` knows exactly what each plan must find, and so is slow, this
//! knows only what the word itself tells, and so is fast.
//!
//! Ignored by default. `TENURE_STRESS_SECONDS` (10), `TENURE_STRESS_THREADS` (6, the scheduler
//! included) and `TENURE_STRESS_SEED` (1) scale it:
//!
//! ```text
//! TENURE_STRESS_SECONDS=600 cargo test --release --test stress -- --ignored --nocapture
//! ```

#[path = "stress/churn.rs"]
mod churn;
#[path = "stress/completer.rs"]
mod completer;
#[path = "stress/looker.rs"]
mod looker;
#[allow(dead_code)] // shared with another test, which uses all of it
#[path = "tagged_memory/memory.rs"]
mod memory;
#[path = "stress/saver.rs"]
mod saver;
#[path = "stress/world.rs"]
mod world;

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tenure::{Config, Index, Pin, Scheduler};

use churn::Churn;
use completer::Completer;
use looker::Looker;
use saver::Saver;
use world::{BLOCK_SIZES, Scale, Tally, World};

/// Plans and pins on their way from one thread to another.
const ON_THE_WAY: usize = 64;

/// The tests of this file share the cores with nobody of their own.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "long"]
fn everything_at_once() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new(Scale::from_env());
    let (scheduler, index) = build(&world.scale);
    let mut churn = Churn::new(&world, scheduler);
    let began = Instant::now();
    let length = Duration::from_secs_f64(world::seconds() * 0.8);
    let memory_before = Resident::now();
    let (mut sum, leaked) = thread::scope(|scope| {
        let team = Team::start(scope, &world, &index);
        let _stop = StopAtTheEnd(&world);
        let (mut warm, mut steps) = (None, 0);
        // Miri's time runs ahead of what it executes.
        let goes_on = |steps| if cfg!(miri) { steps < 12 } else { began.elapsed() < length };
        while goes_on(steps) && !team.failed() {
            churn.step();
            steps += 1;
            if warm.is_none() && began.elapsed() > length / 4 {
                warm = Some(Resident::now());
            }
        }
        if let (Some(warm), false) = (warm, team.failed()) {
            warm.assert_still_about_the_same();
        }
        world.stop.store(true, Ordering::Relaxed);
        team.join()
    });
    sum.operations += churn.operations;
    let seconds = began.elapsed().as_secs_f64();

    let stats = index.stats();
    assert_eq!(stats.pins, sum.pinned);
    assert_eq!(stats.refused, sum.refused);
    assert_eq!(stats.over_budget, sum.over_budget);
    assert!(stats.snapshots <= sum.pictures);
    let retained = churn.account(leaked);
    assert_eq!(index.stats().held, 0);

    println!("{:?}, {seconds:.1} s", world.scale);
    println!("{sum:?}");
    println!("{retained}; {memory_before} before, {} now", Resident::now());
    println!(
        "stress: {} operations, {:.0} a second, no fault",
        sum.operations,
        sum.operations as f64 / seconds
    );
    for (what, count) in [
        ("pins", sum.pinned),
        ("refusals", sum.refused.iter().sum()),
        ("copies", sum.copies),
        ("copies refused", sum.copies_refused),
        ("narrowed pins", sum.narrowed),
        ("jobs", sum.jobs),
        ("panics", sum.panics),
        ("views", sum.views),
        ("pictures", sum.pictures),
    ] {
        assert!(count > 0 || cfg!(miri), "there were no {what}");
    }
}

#[test]
#[ignore = "long"]
fn schedulers_that_end_in_the_middle() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    let length = Duration::from_secs_f64(world::seconds() * 0.2);
    let mut scale = Scale::from_env();
    scale.giant = scale.giant.min(100);
    let (mut runs, mut pins) = (0, 0);
    while runs == 0 || began.elapsed() < length {
        scale.seed += 1;
        let world = World::new(scale);
        let (scheduler, index) = build(&scale);
        let mut churn = Churn::new(&world, scheduler);
        let (sum, leaked) = thread::scope(|scope| {
            let team = Team::start(scope, &world, &index);
            let _stop = StopAtTheEnd(&world);
            let steps = if cfg!(miri) { 8 } else { 500 + scale.seed as usize % 40 * 100 };
            for _ in 0..steps {
                churn.step();
            }
            drop(churn);
            // The readers go on for a while.
            thread::sleep(Duration::from_micros(500));
            world.stop.store(true, Ordering::Relaxed);
            team.join()
        });
        assert_eq!(index.stats().pins, sum.pinned);
        drop(index);
        // Their blocks can be named after everything else has gone.
        assert!(leaked.iter().all(|pin| !pin.blocks().is_empty()));
        runs += 1;
        pins += sum.pinned;
    }
    println!("stress: {runs} schedulers ended in the middle, {pins} pins, no fault");
}

fn build(scale: &Scale) -> (Scheduler, Index) {
    Config::new(scale.blocks())
        .block_sizes(BLOCK_SIZES)
        .track_commits(true)
        .max_requests(scale.lives as u32 + 8)
        .build()
        .expect("a configuration that can be built")
}

type Outcome = (Tally, Vec<ManuallyDrop<Pin>>);

/// The threads beside the scheduler's.
struct Team<'scope> {
    members: Vec<ScopedJoinHandle<'scope, Outcome>>,
}

impl<'scope> Team<'scope> {
    /// One ledger, one reader of pictures, one planner for three savers, the rest savers; at least
    /// one of each.
    fn start<'env: 'scope>(
        scope: &'scope thread::Scope<'scope, 'env>,
        world: &'env World,
        index: &Index,
    ) -> Team<'scope> {
        let rest = world.scale.threads.saturating_sub(3);
        let planners = (rest / 4).max(1);
        let savers = rest.saturating_sub(planners).max(1);
        let mut seed = world.scale.seed.wrapping_mul(1000);
        let mut next_seed = || {
            seed += 1;
            seed
        };
        let (ledger, inbox) = sync_channel(ON_THE_WAY);
        let mut members = Vec::new();
        let (plans, queues): (Vec<_>, Vec<_>) =
            (0..savers).map(|_| sync_channel(ON_THE_WAY)).unzip();
        for queue in queues {
            let saver = Saver::new(world, index.clone(), next_seed());
            let ledger = ledger.clone();
            members.push(scope.spawn(move || saver.save(&queue, &ledger)));
        }
        for _ in 0..planners {
            let planner = Saver::new(world, index.clone(), next_seed());
            let plans = plans.clone();
            members.push(scope.spawn(move || (planner.plan_for(&plans), Vec::new())));
        }
        let looker = Looker::new(world, index.clone(), next_seed());
        members.push(scope.spawn(|| (looker.look(), Vec::new())));
        let completer = Completer::new(world, next_seed());
        members.push(scope.spawn(move || (completer.complete(&inbox), Vec::new())));
        Team { members }
    }

    fn failed(&self) -> bool {
        self.members.iter().any(ScopedJoinHandle::is_finished)
    }

    /// What they did, and the pins they leaked, so that leak checkers see them end.
    fn join(self) -> (Tally, Vec<Pin>) {
        let (mut sum, mut leaked) = (Tally::default(), Vec::new());
        for member in self.members {
            let (tally, pins) =
                member.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault));
            sum.add(&tally);
            leaked.extend(pins.into_iter().map(ManuallyDrop::into_inner));
        }
        (sum, leaked)
    }
}

/// Ends the threads in whatever way a run ends.
struct StopAtTheEnd<'w>(&'w World);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Memory of this process, in KiB; storage that is never given back would show here. Unknown where
/// the system does not tell.
#[derive(Clone, Copy)]
struct Resident(Option<u64>);

impl Resident {
    fn now() -> Resident {
        if cfg!(miri) {
            return Resident(None);
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Resident(line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()))
    }

    fn assert_still_about_the_same(self) {
        if let (Some(then), Some(now)) = (self.0, Resident::now().0) {
            assert!(now <= 2 * then + 65_536, "{then} KiB after the start, {now} KiB at the end");
        }
    }
}

impl std::fmt::Display for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(kib) => write!(f, "{kib} KiB resident"),
            None => f.write_str("unknown memory"),
        }
    }
}
