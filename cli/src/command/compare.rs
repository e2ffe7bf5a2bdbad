//! The same requests under every policy, for a page that sets them side by side.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::report::{Compared, Report};
use crate::sim::replay::replay;
use crate::sim::settings::{Policy, Settings};
use crate::trace::Trace;

/// Requests that are compared at most.
const REQUESTS: usize = 1000;
/// Time that a policy gets at most.
const TIME: Duration = Duration::from_secs(20);

const POLICIES: [Policy; 3] = [Policy::Tenure, Policy::Mirror, Policy::Assert];

/// Replays the first requests of the trace under each policy; where these are all of them, `done` is
/// taken for its own. A policy whose replay fails is left out, and so is the rest after a stop;
/// `None` where nothing is left.
pub(super) fn policies(
    trace: &Trace,
    settings: &Settings,
    done: &Report,
    stop: &AtomicBool,
    bar: &ProgressBar,
) -> Option<Compared> {
    let requests = trace.requests.len().min(REQUESTS);
    let whole = requests == trace.requests.len();
    let mut first = trace.clone();
    first.requests.truncate(requests);
    let run = |policy: Policy| {
        if whole && policy == settings.policy {
            return Some(done.clone());
        }
        let settings = Settings { policy, record: None, ..settings.clone() };
        let start = Instant::now();
        let mut watch = |_| match stop.load(Ordering::Relaxed) || start.elapsed() > TIME {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        bar.set_message(format!("comparing: the first {requests} requests, policy {policy:?}"));
        let stopped = stop.load(Ordering::Relaxed);
        let outcome = (!stopped).then(|| replay(&first, &settings, &mut |_| {}, &mut watch));
        Some(Report::new(&first, &settings, &outcome?.ok()?))
    };
    let reports: Vec<Report> = POLICIES.into_iter().filter_map(run).collect();
    bar.finish_and_clear();
    (!reports.is_empty()).then_some(Compared { requests, reports })
}
