//! The options of `tenure replay`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::sim::index::IndexKind;
use crate::sim::latency::Latency;
use crate::sim::savers::SaveSettings;
use crate::sim::settings::{Limits, Policy, Save, SaveRange, Settings};

/// The largest pool that is simulated, in blocks.
const MAX_BLOCKS: u64 = 1 << 24;

/// The options of `tenure replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// A Mooncake JSONL or Azure CSV trace; without it a workload like a chat service's is
    /// generated
    pub trace: Option<PathBuf>,

    /// Blocks of the pool
    #[arg(long, value_name = "N", default_value_t = 60_000, help_heading = SCHEDULER,
        value_parser = range(1, MAX_BLOCKS))]
    pub blocks: u32,

    /// Tokens of a block
    #[arg(long, value_name = "TOKENS", default_value_t = 16, help_heading = SCHEDULER,
        value_parser = range(1, 1 << 16))]
    pub block_size: u32,

    /// Duration of a step in simulated milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30.0, help_heading = SCHEDULER,
        value_parser = within(0.001, 1e6))]
    pub step_ms: f64,

    /// Tokens that a step computes at most
    #[arg(long, value_name = "TOKENS", default_value_t = 8192, help_heading = SCHEDULER,
        value_parser = range(1, 1 << 24))]
    pub token_budget: u32,

    /// Requests that run at once at most
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = SCHEDULER,
        value_parser = range(1, 1 << 16))]
    pub max_requests_running: u32,

    /// Tokens that attention looks back; the blocks before are given up
    #[arg(long, value_name = "TOKENS", help_heading = SCHEDULER, value_parser = range(1, 1 << 24))]
    pub window: Option<u32>,

    /// Steps that are dispatched before the results of the first are taken in
    #[arg(long, value_name = "STEPS", default_value_t = 1, help_heading = SCHEDULER,
        value_parser = range(0, 64))]
    pub in_flight: u32,

    /// How many times faster than in the trace requests arrive
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, help_heading = WORKLOAD,
        value_parser = within(1e-3, 1e6))]
    pub speed: f64,

    /// Only the first N requests of the trace, or so many generated ones [default: all of a trace,
    /// 4000 generated]
    #[arg(long, value_name = "N", help_heading = WORKLOAD, value_parser = range(1, 10_000_000))]
    pub requests: Option<u32>,

    /// What all random numbers are drawn from
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = WORKLOAD)]
    pub seed: u64,

    /// Which index to run over
    #[arg(long, value_enum, default_value_t = IndexKind::Tenure, help_heading = SAVES)]
    pub index: IndexKind,

    /// How savers treat the blocks that they read
    #[arg(long, value_enum, default_value_t = Policy::Tenure, help_heading = SAVES)]
    pub policy: Policy,

    /// Which tokens are saved
    #[arg(long, value_enum, default_value_t = Save::All, help_heading = SAVES)]
    pub save: Save,

    /// What each save of a request covers
    #[arg(long, value_enum, default_value_t = SaveRange::New, help_heading = SAVES)]
    pub save_range: SaveRange,

    /// Threads that save
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = SAVES,
        value_parser = range(1, 256))]
    pub savers: u32,

    /// Ranks that each store their part of every save
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = SAVES,
        value_parser = range(1, 256))]
    pub ranks: u32,

    /// Steps from the plan of a save to its pin
    #[arg(long, value_name = "LATENCY", default_value = "uniform:0..3", help_heading = SAVES)]
    pub pin_latency: Latency,

    /// Steps that a rank takes to store its part
    #[arg(long, value_name = "LATENCY", default_value = "exp:8", help_heading = SAVES)]
    pub store_latency: Latency,

    /// Blocks that saves under way may pin together; what exceeds it waits. Not with --index mutex
    #[arg(long, value_name = "BLOCKS", help_heading = SAVES, value_parser = range64(1, MAX_BLOCKS))]
    pub save_budget: Option<u64>,

    /// Share of saves that fail in one rank
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = SAVES,
        value_parser = within(0.0, 1.0))]
    pub fail: f64,

    /// Share of completion reports that are lost, late or sent twice, a third each
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = SAVES,
        value_parser = within(0.0, 1.0))]
    pub lose: f64,

    /// Steps after the end of its last store when a save with a missing report is ended by force
    #[arg(long, value_name = "STEPS", default_value_t = 1000, help_heading = SAVES,
        value_parser = range64(1, 1_000_000_000))]
    pub overdue: u64,

    /// Steps that a saver thread may fall behind before the scheduler waits for it
    #[arg(long, value_name = "STEPS", default_value_t = 2, help_heading = SAVES,
        value_parser = range64(0, 1_000_000_000))]
    pub lag: u64,

    /// Print one JSON object instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Also write a page with charts, and what other policies do with the first requests
    #[arg(long, value_name = "FILE.html", help_heading = OUTPUT)]
    pub report: Option<PathBuf>,

    /// Also write what the scheduler and the pins did as a script, under neutral names, that `tenure
    /// scenario` runs again. Slows the replay down. Only with --index tenure
    #[arg(long, value_name = "FILE.tenure", help_heading = OUTPUT)]
    pub record: Option<PathBuf>,

    /// About how many of the last lines to record
    #[arg(long, value_name = "LINES", default_value_t = 200_000, help_heading = OUTPUT,
        value_parser = RangedU64ValueParser::<usize>::new().range(2..=100_000_000))]
    pub record_lines: usize,

    /// Serve the index's figures to Prometheus at this address while the replay runs. Only with
    /// --index tenure
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "ADDR:PORT", help_heading = OUTPUT)]
    pub metrics: Option<std::net::SocketAddr>,

    /// Also list every token range that should be durable and is not, with the reason
    #[arg(long, help_heading = OUTPUT)]
    pub list_missing: bool,

    /// Show no progress
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}

const SCHEDULER: &str = "Scheduler";
const WORKLOAD: &str = "Workload";
const SAVES: &str = "Saves";
const OUTPUT: &str = "Output";

impl ReplayArgs {
    /// The settings of the replay.
    pub fn settings(&self) -> Settings {
        Settings {
            limits: Limits {
                blocks: self.blocks,
                block_size: self.block_size,
                token_budget: self.token_budget,
                max_running: self.max_requests_running as usize,
                window: self.window,
                in_flight: self.in_flight as usize,
            },
            index: self.index,
            policy: self.policy,
            save: self.save,
            save_range: self.save_range,
            saves: SaveSettings {
                savers: self.savers as usize,
                ranks: self.ranks,
                pin_latency: self.pin_latency,
                store_latency: self.store_latency,
                budget: self.save_budget,
                fail: self.fail,
                lose: self.lose,
                overdue: self.overdue,
                prompts_only: self.save == Save::Prefill,
                block_size: self.block_size,
                step_us: ((self.step_ms * 1000.0).round() as u64).max(1),
                seed: self.seed,
            },
            speed: self.speed,
            lag: self.lag,
            record: self.record.as_ref().map(|_| self.record_lines),
        }
    }
}

fn range(least: u64, most: u64) -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(least..=most)
}

fn range64(least: u64, most: u64) -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(least..=most)
}

/// Parses a number between two others, both included.
fn within(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a number from {least} to {most}")),
    }
}
