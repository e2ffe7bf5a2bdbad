//! What can be set of a replay.

use clap::ValueEnum;
use serde::Serialize;

use super::index::IndexKind;
use super::savers::SaveSettings;
use crate::trace::TraceRequest;

/// How savers treat the blocks that they read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// They pin them, and drop what is stale.
    Tenure,
    /// They read the blocks that the table showed when the save was planned, without a pin.
    Mirror,
    /// They pin them, and count as the engine's death whatever is stale.
    Assert,
}

/// Which tokens are saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Save {
    /// Those of prompts.
    Prefill,
    /// Generated ones too.
    All,
}

/// What each save of a request covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveRange {
    /// What is not saved yet; what could not be saved is offered again.
    New,
    /// The whole table.
    Whole,
}

/// All settings of a replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scheduler's.
    pub limits: Limits,
    /// Which index it runs over.
    pub index: IndexKind,
    /// How savers treat what they read.
    pub policy: Policy,
    /// Which tokens are saved.
    pub save: Save,
    /// What each save covers.
    pub save_range: SaveRange,
    /// The savers'.
    pub saves: SaveSettings,
    /// Arrivals come so many times faster than in the trace.
    pub speed: f64,
    /// Steps that savers may fall behind the scheduler before it waits for them.
    pub lag: u64,
    /// About how many lines of what happens are recorded, where it is recorded.
    pub record: Option<usize>,
}

impl Settings {
    /// Whether trackers decide what is saved. They plan over Tenure's index only.
    pub fn tracked(&self) -> bool {
        self.save_range == SaveRange::New
            && self.policy != Policy::Mirror
            && self.index == IndexKind::Tenure
    }

    /// The step at which a request arrives.
    pub fn arrival_step(&self, request: &TraceRequest) -> u64 {
        // A number of microseconds that is too large saturates.
        (request.arrival_us as f64 / self.speed).ceil() as u64 / self.saves.step_us
    }
}

/// The scheduler's settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks of the pool.
    pub blocks: u32,
    /// Tokens of a block.
    pub block_size: u32,
    /// Tokens that one step computes at most.
    pub token_budget: u32,
    /// Requests that run at once at most.
    pub max_running: usize,
    /// Tokens that attention looks back; everything before is given up.
    pub window: Option<u32>,
    /// Steps that are dispatched before the results of the first of them are taken in.
    pub in_flight: usize,
}

impl Limits {
    /// The most new blocks that a request has at once, of the `positions` that it will add.
    pub fn at_once(&self, positions: u32) -> u32 {
        let Some(window) = self.window else { return positions };
        // What a chunk looks back on, the chunk, and a block cut at either end.
        let tokens = window.saturating_add(self.token_budget);
        positions.min((tokens / self.block_size).saturating_add(2))
    }
}
