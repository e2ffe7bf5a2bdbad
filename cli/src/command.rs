//! What each subcommand does, and the exit status that it ends with.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Cli, Command, ReplayArgs};
use crate::profile;
use crate::report::{Report, table};
use crate::scenario;
use crate::sim::figures::Progress;
use crate::sim::replay::{ReplayError, replay};
use crate::trace::{Trace, TraceError, synthetic};

/// All went well.
const OK: u8 = 0;
/// A check found something wrong.
const WRONG: u8 = 1;
/// Bad usage, or input that could not be read.
const BAD_INPUT: u8 = 2;

/// Does what the command line asks for, and answers the exit status.
pub fn run(cli: Cli) -> u8 {
    match cli.command {
        Command::Replay(args) => run_replay(&args),
        Command::Scenario { files } => scenario::run_files(&files, &mut io::stdout().lock()),
        Command::Profile(args) => match profile::run(&args) {
            Ok(()) => OK,
            Err(error) => complain(&*error, WRONG),
        },
    }
}

fn run_replay(args: &ReplayArgs) -> u8 {
    let trace = match load(args) {
        Ok(trace) => trace,
        Err(error) => return complain(&error, BAD_INPUT),
    };
    let settings = args.settings();
    let stop = stop_on_ctrl_c();
    let bar = progress_bar(args, trace.requests.len() as u64);
    let outcome = replay(&trace, &settings, &mut |progress| {
        show(&bar, progress);
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    bar.finish_and_clear();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error @ (ReplayError::Config(_) | ReplayError::Thread(_))) => {
            return complain(&error, BAD_INPUT);
        }
        Err(error) => return complain(&error, WRONG),
    };
    let mut report = Report::new(&trace, &settings, &outcome);
    if !args.list_missing {
        report.account.missing = None;
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(io::Error::from),
        false => Ok(table(&report)),
    };
    if let Err(error) = text.and_then(|text| writeln!(io::stdout(), "{text}")) {
        return complain(&error, WRONG);
    }
    let faults = report.faults();
    for fault in &faults {
        eprintln!("tenure: {fault}");
    }
    if faults.is_empty() { OK } else { WRONG }
}

fn load(args: &ReplayArgs) -> Result<Trace, TraceError> {
    let requests = args.requests.map(|requests| requests as usize);
    let Some(path) = &args.trace else {
        let requests = requests.unwrap_or(synthetic::DEFAULT_REQUESTS);
        return Ok(synthetic::generate(requests, args.seed));
    };
    let mut trace = Trace::read(path)?;
    trace.requests.truncate(requests.unwrap_or(usize::MAX));
    Ok(trace)
}

/// A flag that Ctrl-C raises; the second Ctrl-C ends the process.
fn stop_on_ctrl_c() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    // Where no handler can be installed, Ctrl-C just ends the process.
    let _installed = ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    stop
}

/// A progress bar on the terminal's error stream; hidden where there is none.
fn progress_bar(args: &ReplayArgs, requests: u64) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(requests);
    let template = "{bar:30} {human_pos}/{human_len} requests, {msg}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    if bar.is_hidden() {
        return;
    }
    let Progress { requests, steps, blocks } = progress;
    bar.set_position(requests);
    bar.set_message(format!("{steps} steps, {} owned, {} held", blocks.owned, blocks.held));
}

fn complain(error: &dyn std::error::Error, status: u8) -> u8 {
    eprintln!("tenure: {error}");
    status
}
