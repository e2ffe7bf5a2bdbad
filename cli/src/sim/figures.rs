//! What was measured: of a step, and of a whole replay.

use std::ops::AddAssign;
use std::time::Duration;

use super::index::Occupancy;
use super::savers::Tally;
use super::series::Series;
use super::timeline::Timeline;

/// What one step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepFigures {
    /// Requests that were scheduled.
    pub requests: u64,
    /// Tokens that they compute.
    pub tokens: u64,
    /// New blocks that were assigned.
    pub assigned: u64,
    /// Calls that assigned them.
    pub assign_calls: u64,
    /// Blocks found by content, shared or taken from the free queue.
    pub found: u64,
    /// Requests that were released.
    pub releases: u64,
    /// Blocks that they listed.
    pub released: u64,
    /// Requests that were preempted.
    pub preemptions: u64,
    /// Tokens computed in vain by them.
    pub recomputed: u64,
}

impl AddAssign for StepFigures {
    fn add_assign(&mut self, other: StepFigures) {
        self.requests += other.requests;
        self.tokens += other.tokens;
        self.assigned += other.assigned;
        self.assign_calls += other.assign_calls;
        self.found += other.found;
        self.releases += other.releases;
        self.released += other.released;
        self.preemptions += other.preemptions;
        self.recomputed += other.recomputed;
    }
}

/// How far a replay is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Requests that have ended.
    pub requests: u64,
    /// Steps dispatched.
    pub steps: u64,
    /// The blocks by state.
    pub blocks: Occupancy,
}

/// What a replay measured.
#[derive(Default)]
pub struct Outcome {
    /// Requests that ran to their end.
    pub requests: u64,
    /// Requests too long for the pool.
    pub rejected: u64,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Steps that computed something.
    pub steps: u64,
    /// Steps in which requests waited and nothing could run: pins or steps had the blocks.
    pub stalled_steps: u64,
    /// The step at which the last request ended.
    pub end_step: u64,
    /// Requests preempted, counted once for each time.
    pub preemptions: u64,
    /// Tokens that were computed and forgotten by preemptions.
    pub recomputed: u64,
    /// What each step did.
    pub per_step: PerStep,
    /// Nanoseconds of the scheduler's thread in the index, per step.
    pub index_ns: Series,
    /// Nanoseconds of the scheduler's thread per step, without waiting for savers.
    pub step_ns: Series,
    /// Nanoseconds of the scheduler's thread per step outside of the index.
    pub rest_ns: Series,
    /// The blocks by state over time.
    pub timeline: Timeline,
    /// The most blocks that were held at the end of a step.
    pub held_max: u32,
    /// The blocks by state at the end.
    pub at_end: Occupancy,
    /// What the savers counted.
    pub savers: Tally,
    /// What the index found wrong with its books at the end.
    pub audit: Option<String>,
    /// Duration.
    pub wall: Duration,
}

/// What each step did, by step.
#[derive(Default)]
pub struct PerStep {
    /// Requests scheduled.
    pub requests: Series,
    /// Tokens computed.
    pub tokens: Series,
    /// Blocks assigned.
    pub assigned_blocks: Series,
    /// Calls that assigned them.
    pub assign_calls: Series,
    /// Blocks found by content.
    pub found_blocks: Series,
    /// Requests released.
    pub releases: Series,
    /// Blocks that they listed.
    pub released_blocks: Series,
    /// Saves that the scheduler gave to the savers.
    pub saves: Series,
    /// Blocks that they cover.
    pub pinned_blocks: Series,
}
