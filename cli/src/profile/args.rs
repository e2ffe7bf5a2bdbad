//! The options of `tenure profile`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::contention::Settings;

/// The options of `tenure profile`.
#[derive(Args, Debug)]
pub struct ProfileArgs {
    /// Only one operation at a time: no contention, ends within a minute
    #[arg(long)]
    pub quick: bool,

    /// Rounds of which the median is told
    #[arg(long, value_name = "N", default_value_t = 51,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub rounds: usize,

    /// Time that each operation gets in a round, in microseconds of its own CPU time
    #[arg(long, value_name = "US", default_value_t = 500,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub slice_us: u64,

    /// Blocks of the pool whose memory is measured
    #[arg(long, value_name = "N", default_value_t = 1 << 22,
        value_parser = clap::value_parser!(u32).range(64..=1 << 26))]
    pub memory_blocks: u32,

    /// Numbers of threads that pin, one after another
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [0, 1, 2, 4, 8, 16],
        value_parser = RangedU64ValueParser::<usize>::new().range(0..=1024),
        help_heading = CONTENTION)]
    pub threads: Vec<usize>,

    /// Rounds in which each index runs each case once
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000),
        help_heading = CONTENTION)]
    pub case_rounds: usize,

    /// Time that a case runs in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150,
        value_parser = clap::value_parser!(u64).range(1..=60_000), help_heading = CONTENTION)]
    pub case_ms: u64,

    /// Time from one paced step to the next, in microseconds
    #[arg(long, value_name = "US", default_value_t = 500,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = CONTENTION)]
    pub pace_us: u64,

    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Also write a page with charts
    #[arg(long, value_name = "FILE.html", help_heading = OUTPUT)]
    pub report: Option<PathBuf>,

    /// Print tables in Markdown
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    pub markdown: bool,

    /// Also write plots to this directory
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub svg: Option<PathBuf>,

    /// Show no progress
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}

const CONTENTION: &str = "Contention";
const OUTPUT: &str = "Output";

impl ProfileArgs {
    /// The time of an operation in a round.
    pub fn slice(&self) -> Duration {
        Duration::from_micros(self.slice_us)
    }

    /// Peers are dearer, and told apart more easily.
    pub fn peer_rounds(&self) -> usize {
        self.rounds.div_ceil(3)
    }

    /// The settings of the contention profile. Without a case of no threads there would be
    /// nothing to compare with.
    pub fn contention(&self) -> Settings {
        let mut threads = self.threads.clone();
        threads.push(0);
        threads.sort();
        threads.dedup();
        Settings {
            threads,
            rounds: self.case_rounds,
            time: Duration::from_millis(self.case_ms),
            pace: Duration::from_micros(self.pace_us),
        }
    }
}
