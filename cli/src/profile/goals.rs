//! The goals, and how near the measurement came.

use serde::Serialize;

use super::contention::Contention;
use super::memory::Memory;
use super::operations::{ByNumber, Operations};

/// A goal beside what was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Goal {
    /// What it is about.
    pub work: &'static str,
    /// The most that it may be.
    pub at_most: f64,
    /// What it was; none where it cannot be measured here.
    pub measured: Option<f64>,
    /// What both are counted in.
    pub unit: &'static str,
    /// Whether the goal is met; none where that is not known.
    pub met: Option<bool>,
}

const RMW: &str = "rmw";
const TIMES: &str = "times";

/// All goals.
pub fn goals(
    operations: &Operations,
    memory: &Memory,
    contention: Option<&Contention>,
) -> Vec<Goal> {
    let rmw = |ns: f64| Some(ns / operations.rmw_ns);
    let o = operations;
    let largest = |by: &ByNumber| by.values().copied().reduce(f64::max).unwrap_or(f64::NAN);
    let retained = &memory.retained;
    let bound = f64::from(memory.retired_per_step);
    let churn = retained.no_reader as f64;
    vec![
        goal(
            "pin + unpin, the dearest of 1 to 100,000 blocks",
            4.0,
            rmw(largest(&o.pin_unpin_ns)),
            RMW,
        ),
        goal(
            "pin + unpin, the dearest length against 1 block",
            1.1,
            spread(&o.pin_unpin_ns),
            TIMES,
        ),
        goal("pin + unpin inside a batch", 2.5, rmw(o.pin_batch_ns), RMW),
        goal("check", 2.0, rmw(o.check_ns), RMW),
        goal("plan", 3.0, rmw(o.plan_ns), RMW),
        goal("publish, the dearest of 64 to 65,536 live", 0.5, rmw(largest(&o.publish_ns)), RMW),
        goal("publish, the dearest number against 64 live", 1.2, spread(&o.publish_ns), TIMES),
        goal("assign, a block", 1.0, rmw(o.assign_ns), RMW),
        goal("share, a block", 1.0, rmw(o.share_ns), RMW),
        goal("release, a block", 1.0, rmw(o.release_ns), RMW),
        goal(
            "step p99.9 with 16 pinning threads, against none",
            1.2,
            contention.and_then(|contention| contention.step_ratio(16)),
            TIMES,
        ),
        goal(
            "truncate + regrow, the longest against 1,024 blocks",
            1.2,
            growth(&o.truncate_regrow_ns),
            TIMES,
        ),
        goal("window slide, the longest against 1,024 blocks", 1.2, growth(&o.slide_ns), TIMES),
        goal("a block of the pool", 16.0, memory.bytes_per_block, "bytes"),
        goal("a table position", 10.0, memory.bytes_per_position, "bytes"),
        goal(
            "versions retained without readers, against those of one step",
            bound,
            Some(churn),
            "versions",
        ),
    ]
}

fn goal(work: &'static str, at_most: f64, measured: Option<f64>, unit: &'static str) -> Goal {
    Goal { work, at_most, measured, unit, met: measured.map(|measured| measured <= at_most) }
}

/// How many times the smallest number's time the dearest one takes.
fn spread(by: &ByNumber) -> Option<f64> {
    let first = by.values().next()?;
    Some(by.values().copied().fold(0.0, f64::max) / first)
}

/// How many times the time at 1,024 the largest number takes.
fn growth(by: &ByNumber) -> Option<f64> {
    Some(by.values().next_back()? / by.get(&1024)?)
}
