//! The replay itself: a trace's requests arrive, the engine steps, the savers save.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use tenure::{ConfigError, Error, Index, Rank, Recording};
use thiserror::Error;

use super::connector::{Baseline, Computed, Connector, Mirror, Pipeline};
use super::engine::{Engine, Grown};
use super::figures::{Outcome, Progress, StepFigures};
use super::index::mutex::MutexIndex;
use super::index::tenure::TenureIndex;
use super::index::{BlockIndex, IndexKind, Timed};
use super::memory::DeviceMemory;
use super::request::Request;
use super::savers::{Message, Savers};
use super::settings::{Limits, Policy, Save, SaveRange, Settings};
use crate::trace::{Trace, TraceRequest};

/// Why a replay could not be brought to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The index cannot be as large as asked.
    #[error("the index cannot be built: {0}")]
    Config(#[from] ConfigError),
    /// The system gives no thread.
    #[error("cannot start a saver thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The index refused what the scheduler knows to be right.
    #[error("the index and the scheduler disagree at step {step}: {source}")]
    Disagreement {
        /// The step.
        step: u64,
        /// What the index answered.
        source: Error,
    },
    /// Blocks that nothing keeps are not free.
    #[error("at step {step} nothing runs, nothing is pinned, and the first request cannot start")]
    Stuck {
        /// The step.
        step: u64,
    },
    /// A saver thread has panicked.
    #[error("a saver thread has panicked")]
    SaverPanicked,
}

/// Replays a trace. `begin` gets the index before the first step, where it is Tenure's. `watch` is
/// told of the progress now and then, and may stop it.
///
/// # Errors
/// [`ReplayError`].
pub fn replay(
    trace: &Trace,
    settings: &Settings,
    begin: &mut dyn FnMut(&Index),
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, ReplayError> {
    let Limits { blocks, block_size, max_running, .. } = settings.limits;
    let ranks = settings.saves.ranks;
    match settings.index {
        IndexKind::Tenure => {
            let lives = u32::try_from(max_running).unwrap_or(u32::MAX);
            let recording = settings.record.map(Recording::lines);
            let index = TenureIndex::new(blocks, block_size, lives, recording)?;
            let reader = index.reader();
            begin(&reader);
            // Each saver has a ledger of its own, and so its part of the budget.
            let budget =
                settings.saves.budget.map(|all| all.div_ceil(settings.saves.savers as u64));
            let pipeline = || -> Box<dyn Connector> {
                let ranks = (0..ranks).map(Rank).collect();
                Box::new(Pipeline::new(reader.clone(), ranks, settings.tracked(), budget))
            };
            run(trace, settings, index, connector(settings, pipeline), watch)
        }
        IndexKind::Mutex => {
            let index = MutexIndex::new(blocks, block_size);
            let reader = index.reader();
            let baseline = || -> Box<dyn Connector> {
                Box::new(Baseline::new(reader.clone(), ranks as usize))
            };
            run(trace, settings, index, connector(settings, baseline), watch)
        }
    }
}

/// The connector of each saver: `guarded`, unless the policy is to go without.
fn connector(
    settings: &Settings,
    guarded: impl Fn() -> Box<dyn Connector>,
) -> impl FnMut() -> Box<dyn Connector> {
    move || match settings.policy {
        Policy::Mirror => Box::new(Mirror::new(settings.saves.ranks as usize)),
        Policy::Tenure | Policy::Assert => guarded(),
    }
}

fn run<I: BlockIndex>(
    trace: &Trace,
    settings: &Settings,
    index: I,
    connector: impl FnMut() -> Box<dyn Connector>,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, ReplayError> {
    let start = Instant::now();
    let memory = Arc::new(DeviceMemory::new(settings.limits.blocks));
    let savers = Savers::start(&settings.saves, &memory, connector)?;
    let engine = Engine::new(settings.limits, Timed::new(index), memory);
    let mut replay = Replay {
        settings,
        trace: &trace.requests,
        arrived: 0,
        engine,
        savers,
        step: 0,
        stuck: false,
        outcome: Outcome::default(),
        unrecorded: Unrecorded::default(),
        grown: Vec::new(),
        released: Vec::new(),
    };
    match replay.run(watch) {
        Ok(()) => replay.finish(start),
        Err(Stop::Index(source)) => Err(ReplayError::Disagreement { step: replay.step, source }),
        Err(Stop::Stuck) => Err(ReplayError::Stuck { step: replay.step }),
    }
}

/// A replay under way.
struct Replay<'a, I: BlockIndex> {
    settings: &'a Settings,
    trace: &'a [TraceRequest],
    /// How many requests have arrived.
    arrived: usize,
    engine: Engine<Timed<I>>,
    savers: Savers,
    step: u64,
    /// Whether nothing could run at the last step, and nothing will change that.
    stuck: bool,
    outcome: Outcome,
    unrecorded: Unrecorded,
    grown: Vec<Grown>,
    released: Vec<Request>,
}

/// What was done since the last step was recorded: one that computes something, and what came to
/// its end until the next such step.
#[derive(Default)]
struct Unrecorded {
    figures: StepFigures,
    saves: u64,
    pinned_blocks: u64,
    step_ns: u64,
    index_ns: u64,
}

enum Stop {
    Index(Error),
    Stuck,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Index(error)
    }
}

/// How often progress is told, in steps.
const WATCH_EVERY: u64 = 256;

/// Requests that wait in the engine's queue at most. The content of all their blocks is laid out
/// there, so a trace that comes too fast waits where it is.
const QUEUE: usize = 1024;

impl<I: BlockIndex> Replay<'_, I> {
    fn run(&mut self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<(), Stop> {
        loop {
            self.arrive();
            if self.engine.is_idle() {
                let Some(next) = self.trace.get(self.arrived) else { return Ok(()) };
                // Nobody is there: time passes until somebody comes.
                self.step = self.settings.arrival_step(next).max(self.step + 1);
                self.savers.step(self.step, self.settings.lag);
                continue;
            }
            self.do_step()?;
            let blocks = self.engine.index_mut().occupancy();
            self.outcome.held_max = self.outcome.held_max.max(blocks.held);
            self.outcome.timeline.record(self.step, blocks);
            if self.step.is_multiple_of(WATCH_EVERY) {
                let Outcome { requests, steps, .. } = self.outcome;
                if watch(Progress { requests, steps, blocks }).is_break() {
                    self.outcome.interrupted = true;
                    return Ok(self.engine.stop()?);
                }
            }
            self.step += 1;
            self.savers.step(self.step, self.settings.lag);
        }
    }

    fn arrive(&mut self) {
        while let Some(request) = self.trace.get(self.arrived)
            && self.settings.arrival_step(request) <= self.step
            && self.engine.waiting() < QUEUE
        {
            if !self.engine.arrive(self.arrived as u32, request) {
                self.outcome.rejected += 1;
            }
            self.arrived += 1;
        }
    }

    fn do_step(&mut self) -> Result<(), Stop> {
        let start = Instant::now();
        let dispatched = self.engine.dispatch()?;
        let spent = start.elapsed();
        if dispatched {
            self.record();
        }
        self.unrecorded.step_ns += spent.as_nanos() as u64;

        let start = Instant::now();
        let completes = self.engine.results_are_due(dispatched);
        if completes {
            self.engine.complete(&mut self.grown)?;
            self.tell_computed();
            self.engine.release_finished(&mut self.released)?;
            self.tell_ended();
        }
        self.unrecorded.step_ns += start.elapsed().as_nanos() as u64;
        self.unrecorded.figures += self.engine.take_figures();
        self.unrecorded.index_ns += self.engine.index_mut().take_spent().as_nanos() as u64;
        if dispatched || completes { Ok(()) } else { self.stall() }
    }

    /// Nothing could run, and nothing is in flight: the blocks are with the savers.
    fn stall(&mut self) -> Result<(), Stop> {
        self.outcome.stalled_steps += 1;
        let idle = self.savers.are_idle(self.step);
        if idle && self.stuck {
            return Err(Stop::Stuck);
        }
        self.stuck = idle;
        Ok(())
    }

    fn tell_computed(&mut self) {
        let block_size = self.settings.limits.block_size;
        for Grown { slot, from, to } in self.grown.drain(..) {
            let Some(request) = self.engine.request(slot) else { continue };
            let Some(key) = request.key else { continue };
            let to = match self.settings.save {
                Save::All => to,
                Save::Prefill => to.min(request.prompt / block_size),
            };
            let new = from.max(request.vacated)..to;
            let covered = match self.settings.save_range {
                SaveRange::New => new.clone(),
                SaveRange::Whole => request.vacated..to,
            };
            if new.is_empty() {
                continue;
            }
            self.unrecorded.saves += 1;
            self.unrecorded.pinned_blocks += covered.len() as u64;
            // A tracker is told of all that is there and knows what is new by itself.
            let told = if self.settings.tracked() { request.vacated..to } else { covered };
            let blocks = match self.settings.policy {
                Policy::Mirror => request.blocks.get(told.start as usize..told.end as usize),
                Policy::Tenure | Policy::Assert => None,
            };
            let token = |position: u32| u64::from(position) * u64::from(block_size);
            let computed = Computed {
                label: request.label.clone(),
                key,
                tokens: token(told.start)..token(told.end),
                blocks: blocks.unwrap_or_default().to_vec(),
            };
            let (number, prompt) = (request.number, request.prompt);
            let content = request.content.clone();
            self.savers.send(number, Message::Computed { number, computed, content, prompt });
        }
    }

    fn tell_ended(&mut self) {
        for Request { number, .. } in self.released.drain(..) {
            self.outcome.requests += 1;
            self.savers.send(number, Message::Ended { number });
        }
    }

    /// Records the step before, with all that came after it.
    fn record(&mut self) {
        let Unrecorded { figures, saves, pinned_blocks, step_ns, index_ns } =
            std::mem::take(&mut self.unrecorded);
        if figures.requests == 0 {
            // Before the first step nothing can have come to an end.
            return;
        }
        let outcome = &mut self.outcome;
        outcome.steps += 1;
        outcome.preemptions += figures.preemptions;
        outcome.recomputed += figures.recomputed;
        outcome.index_ns.record(index_ns);
        outcome.step_ns.record(step_ns);
        outcome.rest_ns.record(step_ns.saturating_sub(index_ns));
        let per_step = &mut outcome.per_step;
        per_step.requests.record(figures.requests);
        per_step.tokens.record(figures.tokens);
        per_step.assigned_blocks.record(figures.assigned);
        per_step.assign_calls.record(figures.assign_calls);
        per_step.found_blocks.record(figures.found);
        per_step.releases.record(figures.releases);
        per_step.released_blocks.record(figures.released);
        per_step.saves.record(saves);
        per_step.pinned_blocks.record(pinned_blocks);
    }

    fn finish(mut self, start: Instant) -> Result<Outcome, ReplayError> {
        self.record();
        self.outcome.end_step = self.step;
        self.outcome.savers = self.savers.finish(self.step).ok_or(ReplayError::SaverPanicked)?;
        self.engine.reclaim();
        let index = self.engine.index_mut();
        self.outcome.at_end = index.occupancy();
        self.outcome.audit = index.audit().err();
        self.outcome.wall = start.elapsed();
        Ok(self.outcome)
    }
}
