//! The command line.

mod help;
mod replay;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::profile::ProfileArgs;

pub use replay::ReplayArgs;

/// A lock-free index of who owns which KV-cache block: what it does on request traces, in
/// scenario scripts, and how fast.
#[derive(Parser, Debug)]
#[command(name = "tenure", version, max_term_width = 100, after_help = help::TENURE)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the command does.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Replay a request trace through a simulated scheduler, with threads that save its blocks.
    #[command(after_help = help::REPLAY, args_override_self = true)]
    Replay(Box<ReplayArgs>),
    /// Run scenario scripts and report the first line of each whose answer differs.
    #[command(after_help = help::SCENARIO)]
    Scenario {
        /// The scripts
        #[arg(required = true)]
        files: Vec<PathBuf>,

        /// Print only what differs, and no summary
        #[arg(long, short)]
        quiet: bool,
    },
    /// Measure every operation beside its goal and its peers, and the index under contention.
    #[command(after_help = help::PROFILE, args_override_self = true)]
    Profile(Box<ProfileArgs>),
    /// Print a script that lets a shell complete this command's words.
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        for bad in [
            ["--blocks", "0"],
            ["--blocks", "99999999999999999999"],
            ["--speed", "0"],
            ["--speed", "nan"],
            ["--step-ms", "inf"],
            ["--fail", "1.5"],
            ["--savers", "0"],
            ["--store-latency", "soon"],
            ["--window", "0"],
        ] {
            let args = ["tenure", "replay"].iter().chain(&bad);
            assert!(Cli::try_parse_from(args).is_err(), "{bad:?}");
        }
    }
}
