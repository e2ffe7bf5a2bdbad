//! A scheduler's steps while other threads plan, pin, hold and unpin: Tenure, and the same work
//! under a mutex and under a read-write lock, in interleaved rounds.

mod contender;
mod run;
mod tally;

use std::time::Duration;

use serde::Serialize;
use tenure_benches::step::{MutexStore, RwLockStore, Sizes, TenureStore};

use super::Failure;
use super::report::cores;
use contender::Contender;
use run::run;
use tally::Tally;

pub use tally::Quantiles;

/// How the profile is taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Numbers of threads that pin, ascending; the first is 0.
    pub threads: Vec<usize>,
    /// Rounds in which each index runs each case once.
    pub rounds: usize,
    /// How long it runs it.
    pub time: Duration,
    /// From one paced step to the next.
    pub pace: Duration,
}

impl Settings {
    /// Runs in all.
    pub fn runs(&self) -> usize {
        self.rounds * Load::ALL.len() * 2 * self.threads.len() * 3
    }
}

/// What readers do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Pin whole tables of requests picked at random.
    DifferentRequests,
    /// Pin the first 248 blocks of the one request that grows with every step.
    OneHotRequest,
    /// Pin the first 64 blocks of requests picked at random, which all of them share.
    OneHotPrefix,
    /// As the first, while one more thread takes pictures of all tables.
    SnapshotReader,
    /// As the first, while one more thread pins and sleeps, 5 ms at a time.
    SleepingReader,
}

impl Load {
    /// All of them.
    pub const ALL: [Load; 5] = [
        Load::DifferentRequests,
        Load::OneHotRequest,
        Load::OneHotPrefix,
        Load::SnapshotReader,
        Load::SleepingReader,
    ];

    /// What tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Load::DifferentRequests => "different requests",
            Load::OneHotRequest => "one hot request",
            Load::OneHotPrefix => "one hot shared prefix",
            Load::SnapshotReader => "different requests and a snapshot reader",
            Load::SleepingReader => "different requests and a sleeping reader",
        }
    }

    fn sizes(self) -> Sizes {
        let shared_prefix = if self == Load::OneHotPrefix { 64 } else { 0 };
        Sizes { shared_prefix, ..Sizes::STEP }
    }

    /// Blocks that a pin covers.
    fn pinned(self) -> u32 {
        let sizes = self.sizes();
        if self == Load::OneHotPrefix { sizes.shared_prefix } else { sizes.prompt() }
    }

    /// Threads besides the scheduler's and those that pin.
    fn companions(self) -> usize {
        usize::from(matches!(self, Load::SnapshotReader | Load::SleepingReader))
    }
}

/// One case: a load, a number of threads, and whether the scheduler rests between steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Setup {
    /// What readers do.
    pub load: Load,
    /// Whether the scheduler rests between steps.
    pub paced: bool,
    /// Threads that pin.
    pub threads: usize,
}

/// What a case showed with one index.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Case {
    /// Which case.
    #[serde(flatten)]
    pub setup: Setup,
    /// Over which index.
    pub index: &'static str,
    /// Whether there were more threads than cores: then times on the wall, tails above all, tell
    /// how threads were switched, and CPU times are what to look at.
    pub more_threads_than_cores: bool,
    /// Steps that were timed.
    pub steps: u64,
    /// Time of a step on the wall.
    pub step_ns: Quantiles,
    /// CPU time of a step.
    pub step_cpu_ns: Quantiles,
    /// The median CPU time of a step, against that of the same index without readers.
    pub step_cpu_against_alone: f64,
    /// The 99.9th percentile of a step's time on the wall, against the same without readers.
    pub step_p99_9_against_alone: f64,
    /// Time on the wall of a plan and pin (the baselines do not plan).
    pub pin_ns: Quantiles,
    /// Pins that succeeded.
    pub pins: u64,
    /// Pins and plans that were refused: the request had ended.
    pub refused: u64,
    /// Pins that succeeded, all threads together.
    pub pins_per_second: f64,
    /// CPU time of the pinning threads for each pin and unpin.
    pub cpu_ns_per_pin: f64,
}

/// All cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Contention {
    /// Threads that can run at once here.
    pub cores: usize,
    /// Microseconds from one paced step to the next.
    pub pace_us: u64,
    /// By load, pace, threads and index.
    pub cases: Vec<Case>,
}

impl Contention {
    /// Tenure's step p99.9 with that many threads on different requests against none, unpaced;
    /// none where the threads do not have a core each.
    pub fn step_ratio(&self, threads: usize) -> Option<f64> {
        let setup = Setup { load: Load::DifferentRequests, paced: false, threads };
        let wanted = |case: &&Case| case.setup == setup && case.index == TenureStore::NAME;
        let case = self.cases.iter().find(wanted)?;
        (!case.more_threads_than_cores).then_some(case.step_p99_9_against_alone)
    }
}

/// Runs all cases over all indexes. `progress` is called after each run.
pub fn measure(settings: &Settings, mut progress: impl FnMut()) -> Result<Contention, Failure> {
    let mut setups = Vec::new();
    for load in Load::ALL {
        for paced in [false, true] {
            setups.extend(settings.threads.iter().map(|&threads| Setup { load, paced, threads }));
        }
    }
    let mut tallies: Vec<[Tally; 3]> = Vec::new();
    tallies.resize_with(setups.len(), Default::default);
    for _ in 0..settings.rounds {
        for (&setup, [tenure, mutex, rwlock]) in setups.iter().zip(&mut tallies) {
            run::<TenureStore>(setup, settings, tenure)?;
            progress();
            run::<MutexStore>(setup, settings, mutex)?;
            progress();
            run::<RwLockStore>(setup, settings, rwlock)?;
            progress();
        }
    }
    let mut cases = Vec::new();
    let names = [TenureStore::NAME, MutexStore::NAME, RwLockStore::NAME];
    // Each load and pace begins with the case of no threads.
    let mut alone: [(u64, u64); 3] = Default::default();
    for (setup, tallies) in setups.into_iter().zip(tallies) {
        for ((index, tally), alone) in names.into_iter().zip(tallies).zip(&mut alone) {
            let (step_ns, step_cpu_ns) = (tally.step.quantiles(), tally.step_cpu.quantiles());
            if setup.threads == 0 {
                *alone = (step_ns.p99_9, step_cpu_ns.p50);
            }
            let running = 1 + setup.threads + setup.load.companions();
            cases.push(Case {
                setup,
                index,
                more_threads_than_cores: running > cores(),
                steps: tally.step.count(),
                step_ns,
                step_cpu_ns,
                step_cpu_against_alone: ratio(step_cpu_ns.p50, alone.1),
                step_p99_9_against_alone: ratio(step_ns.p99_9, alone.0),
                pin_ns: tally.pin.quantiles(),
                pins: tally.pins,
                refused: tally.refused,
                pins_per_second: tally.pins as f64 / tally.wall.as_secs_f64().max(1e-9),
                cpu_ns_per_pin: tally.cpu.as_nanos() as f64 / tally.pins.max(1) as f64,
            });
        }
    }
    Ok(Contention { cores: cores(), pace_us: settings.pace.as_micros() as u64, cases })
}

fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}
