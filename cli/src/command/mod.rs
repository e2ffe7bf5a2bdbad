//! What each subcommand does, and the exit status that it ends with.

mod compare;
#[cfg(feature = "metrics")]
mod metrics;
mod replay;

use std::io::{self, Write};

use clap::CommandFactory;

use crate::args::{Cli, Command};
use crate::profile;
use crate::scenario;

/// All went well.
const OK: u8 = 0;
/// A check found something wrong.
const WRONG: u8 = 1;
/// Bad usage, or input that could not be read.
const BAD_INPUT: u8 = 2;
/// Ended by Ctrl-C before it could stop by itself, as shells put it.
const INTERRUPTED: u8 = 130;

/// Does what the command line asks for, and answers the exit status.
pub fn run(cli: Cli) -> u8 {
    match cli.command {
        Command::Replay(args) => replay::run(&args),
        Command::Scenario { files, quiet } => {
            scenario::run_files(&files, quiet, &mut io::stdout().lock())
        }
        Command::Profile(args) => match profile::run(&args) {
            Ok(()) => OK,
            Err(error) => complain(&*error, None, WRONG),
        },
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "tenure", &mut script);
            match io::stdout().write_all(&script) {
                Ok(()) => OK,
                Err(error) => complain(&error, None, WRONG),
            }
        }
    }
}

/// Tells an error in one line, with what could be done about it, and answers the exit status.
fn complain(error: &dyn std::error::Error, hint: Option<&str>, status: u8) -> u8 {
    match hint {
        Some(hint) => eprintln!("tenure: {error} (hint: {hint})"),
        None => eprintln!("tenure: {error}"),
    }
    status
}
