//! `tenure profile`: what every operation costs, beside its goal and beside peers, and how it
//! holds up while threads contend.

mod args;
mod contention;
mod counters;
mod goals;
mod memory;
mod operations;
mod page;
mod peers;
mod plot;
mod report;
mod table;

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub use args::ProfileArgs;
use report::Report;

/// What can go wrong: a refusal by an index, or a file that cannot be written.
type Failure = Box<dyn std::error::Error>;

/// Measures, and prints the report.
///
/// # Errors
/// A refusal that a correct index does not give; output that cannot be written.
pub fn run(args: &ProfileArgs) -> Result<(), Failure> {
    let report = measure(args)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)?,
        false => table::table(&report, args.markdown),
    };
    writeln!(io::stdout(), "{text}")?;
    if let Some(file) = &args.report {
        fs::write(file, page::page(&report))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    if let Some(directory) = &args.svg {
        plot::write(&report, directory)?;
    }
    Ok(())
}

fn measure(args: &ProfileArgs) -> Result<Report, Failure> {
    let settings = args.contention();
    let contention_rounds = if args.quick { 0 } else { settings.runs() };
    let bar = progress_bar(args, args.rounds + args.peer_rounds() + contention_rounds);
    // First: later the process has memory that it can use again.
    bar.set_message("memory");
    let memory = memory::measure(args.memory_blocks)?;
    bar.set_message("operations");
    let operations = operations::measure(args.rounds, args.slice(), || bar.inc(1))?;
    bar.set_message("peers");
    let peers = peers::measure(args.peer_rounds(), args.slice(), || bar.inc(1))?;
    let counters = counters::measure()?;
    let mut contention = None;
    if !args.quick {
        bar.set_message("contention");
        contention = Some(contention::measure(&settings, || bar.inc(1))?);
    }
    bar.finish_and_clear();
    Ok(Report::new(operations, peers, memory, counters, contention))
}

/// A progress bar on the terminal's error stream; hidden where there is none.
fn progress_bar(args: &ProfileArgs, steps: usize) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}, {eta} left") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
