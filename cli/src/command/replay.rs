//! `tenure replay`.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tenure::{Index, Recorder};
use thiserror::Error;

use super::{BAD_INPUT, INTERRUPTED, OK, WRONG, compare, complain};
use crate::args::ReplayArgs;
use crate::report::{Report, page, table};
use crate::sim::figures::{Outcome, Progress};
use crate::sim::index::IndexKind;
use crate::sim::replay::{ReplayError, replay};
use crate::sim::settings::Settings;
use crate::trace::{Trace, TraceError, synthetic};

/// Output that could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", file.display())]
struct NotWritten {
    file: PathBuf,
    source: io::Error,
}

/// An option that says nothing about this index.
#[derive(Debug, Error)]
#[error("{0} needs Tenure's index")]
struct NeedsTenure(&'static str);

pub(super) fn run(args: &ReplayArgs) -> u8 {
    if let Some(option) = needs_tenure(args) {
        return complain(&NeedsTenure(option), Some("leave out --index mutex"), BAD_INPUT);
    }
    let trace = match load(args) {
        Ok(trace) => trace,
        Err(error) => return complain(&error, Some(&hint(args, &error)), BAD_INPUT),
    };
    if let Err(error) =
        [&args.report, &args.record].into_iter().flatten().try_for_each(|file| probe(file))
    {
        let hint = "is there such a directory, and may it be written to?";
        return complain(&error, Some(hint), WRONG);
    }
    let settings = args.settings();
    let stop = stop_on_ctrl_c();
    let outcome = match measure(args, &trace, &settings, &stop) {
        Ok(outcome) => outcome,
        Err(status) => return status,
    };
    let mut report = Report::new(&trace, &settings, &outcome);
    if let Some(file) = &args.report {
        let compared = compare::policies(&trace, &settings, &report, &stop, &spinner(args));
        let page = page(&report, &outcome, compared.as_ref());
        if let Err(error) = write(file, &page) {
            return complain(&error, None, WRONG);
        }
    }
    if !args.list_missing {
        report.account.missing = None;
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(io::Error::from),
        false => Ok(table(&report)),
    };
    if let Err(error) = text.and_then(|text| writeln!(io::stdout(), "{text}")) {
        return complain(&error, None, WRONG);
    }
    let faults = report.faults();
    for fault in &faults {
        eprintln!("tenure: {fault}");
    }
    if faults.is_empty() { OK } else { WRONG }
}

/// The replay itself. Fails with the exit status, the error being told already.
fn measure(
    args: &ReplayArgs,
    trace: &Trace,
    settings: &Settings,
    stop: &AtomicBool,
) -> Result<Outcome, u8> {
    #[cfg(feature = "metrics")]
    let exporter = match args.metrics.map(super::metrics::Exporter::start).transpose() {
        Ok(exporter) => exporter,
        Err(error) => {
            let hint = "is the port taken? take another";
            return Err(complain(&error, Some(hint), BAD_INPUT));
        }
    };
    let bar = progress_bar(args, trace.requests.len() as u64);
    let mut recorder: Option<Recorder> = None;
    let mut begin = |index: &Index| {
        recorder = index.recorder().cloned();
        #[cfg(feature = "metrics")]
        if let Some(exporter) = &exporter {
            exporter.serve(index);
        }
    };
    let outcome = replay(trace, settings, &mut begin, &mut |progress| {
        show(&bar, progress);
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    bar.finish_and_clear();
    // Also where the replay failed: then it is wanted most.
    if let (Some(file), Some(recorder)) = (&args.record, &recorder)
        && let Err(error) = write(file, &recorder.script())
    {
        return Err(complain(&error, None, WRONG));
    }
    outcome.map_err(|error| match error {
        ReplayError::Config(_) => complain(&error, Some("take fewer --blocks"), BAD_INPUT),
        ReplayError::Thread(_) => complain(&error, Some("take fewer --savers"), BAD_INPUT),
        ReplayError::Disagreement { .. } if args.record.is_none() => {
            complain(&error, Some("--record FILE.tenure keeps the evidence"), WRONG)
        }
        _ => complain(&error, None, WRONG),
    })
}

fn needs_tenure(args: &ReplayArgs) -> Option<&'static str> {
    if args.index == IndexKind::Tenure {
        return None;
    }
    #[cfg(feature = "metrics")]
    if args.metrics.is_some() {
        return Some("--metrics");
    }
    args.record.is_some().then_some("--record")
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

fn hint(args: &ReplayArgs, error: &TraceError) -> String {
    let is_script = |path: &Path| path.extension().is_some_and(|extension| extension == "tenure");
    match &args.trace {
        Some(path) if is_script(path) => format!("tenure scenario {}", path.display()),
        _ if error.source().is_some() => "without a trace a workload is generated".to_owned(),
        _ => "traces are Mooncake JSON lines or the Azure LLM inference CSV".to_owned(),
    }
}

/// Finds out before a long run whether its output can be written.
fn probe(file: &Path) -> Result<(), NotWritten> {
    let opened = fs::OpenOptions::new().create(true).append(true).open(file);
    opened.map(|_| ()).map_err(|source| NotWritten { file: file.to_owned(), source })
}

fn write(file: &Path, text: &str) -> Result<(), NotWritten> {
    fs::write(file, text).map_err(|source| NotWritten { file: file.to_owned(), source })
}

/// A flag that Ctrl-C raises; the second Ctrl-C ends the process.
fn stop_on_ctrl_c() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    // Where no handler can be installed, Ctrl-C just ends the process.
    let _installed = ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
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

/// Says what goes on while nobody knows how long it takes.
fn spinner(args: &ReplayArgs) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}

fn show(bar: &ProgressBar, progress: Progress) {
    if bar.is_hidden() {
        return;
    }
    let Progress { requests, steps, blocks } = progress;
    bar.set_position(requests);
    bar.set_message(format!("{steps} steps, {} owned, {} held", blocks.owned, blocks.held));
}
