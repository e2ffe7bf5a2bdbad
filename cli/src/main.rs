//! The `tenure` command.

use std::process::ExitCode;

use clap::Parser;
use tenure_cli::args::Cli;

fn main() -> ExitCode {
    ExitCode::from(tenure_cli::run(Cli::parse()))
}
