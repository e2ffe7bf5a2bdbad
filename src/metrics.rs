//! Statistics through the `metrics` facade, for whatever exporter the engine has installed.

use std::sync::Once;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::jobs::{JobStats, SaveJobs};
use crate::stats::Stats;

const BLOCKS: &str = "tenure_blocks";
const REQUESTS: &str = "tenure_live_requests";
const DRAINING: &str = "tenure_draining_leases";
const DRAINING_BLOCKS: &str = "tenure_draining_blocks";
const DRAINING_AGE: &str = "tenure_draining_age_epochs";
const RETAINED_LEASES: &str = "tenure_retained_leases";
const RETAINED_PIECES: &str = "tenure_retained_pieces";
const PUBLISHES: &str = "tenure_publishes_total";
const PINS: &str = "tenure_pins_total";
const REFUSED: &str = "tenure_refused_total";
const REPLANNABLE: &str = "tenure_refused_replannable_total";
const OVER_BUDGET: &str = "tenure_pins_over_budget_total";
const SNAPSHOTS: &str = "tenure_snapshots_total";

const JOBS_PENDING: &str = "tenure_jobs_pending";
const JOBS_OVERDUE: &str = "tenure_jobs_overdue";
const JOBS_OPENED: &str = "tenure_jobs_opened_total";
const JOBS_ENDED: &str = "tenure_jobs_ended_total";
const JOBS_REFUSED: &str = "tenure_jobs_refused_total";
const JOBS_STALE: &str = "tenure_jobs_stale_total";
const REPORTS_ODD: &str = "tenure_job_reports_unexpected_total";

/// Tells the installed recorder what the figures of [`publish_metrics`] and [`publish_job_metrics`]
/// are, once for each recorder. They do it themselves for the one that is installed when either is
/// first called.
pub fn describe_metrics() {
    describe_gauge!(
        BLOCKS,
        Unit::Count,
        "Blocks of the pool by state: free, owned by a live request, or held by pins and device steps alone."
    );
    describe_gauge!(REQUESTS, Unit::Count, "Live requests.");
    describe_gauge!(
        DRAINING,
        Unit::Count,
        "Closed table versions and exact holds that only pins keep."
    );
    describe_gauge!(DRAINING_BLOCKS, Unit::Count, "Blocks kept by draining leases.");
    describe_gauge!(
        DRAINING_AGE,
        Unit::Count,
        "Publishes since the oldest draining lease was closed."
    );
    describe_gauge!(RETAINED_LEASES, Unit::Count, "Leases that wait for reclamation.");
    describe_gauge!(
        RETAINED_PIECES,
        Unit::Count,
        "Pieces of table storage that wait for reclamation."
    );
    describe_counter!(PUBLISHES, Unit::Count, "Publishes of the block tables.");
    describe_counter!(PINS, Unit::Count, "Pins taken.");
    describe_counter!(
        REFUSED,
        Unit::Count,
        "Pins refused because ownership has changed, by reason."
    );
    describe_counter!(
        REPLANNABLE,
        Unit::Count,
        "Refused pins that would have been taken had they been planned anew."
    );
    describe_counter!(
        OVER_BUDGET,
        Unit::Count,
        "Pins refused because one table had all it can count."
    );
    describe_counter!(SNAPSHOTS, Unit::Count, "Snapshots of the whole table built.");
    describe_gauge!(JOBS_PENDING, Unit::Count, "Save jobs that wait for reports.");
    describe_gauge!(JOBS_OVERDUE, Unit::Count, "Save jobs found overdue.");
    describe_counter!(JOBS_OPENED, Unit::Count, "Save jobs opened.");
    describe_counter!(
        JOBS_ENDED,
        Unit::Count,
        "Save jobs ended, by outcome: done, failed or forced."
    );
    describe_counter!(
        JOBS_REFUSED,
        Unit::Count,
        "Saves put off because a budget was used up, by budget: jobs, blocks or pins."
    );
    describe_counter!(JOBS_STALE, Unit::Count, "Saves dropped as stale, by reason.");
    describe_counter!(
        REPORTS_ODD,
        Unit::Count,
        "Reports that changed nothing, by what was wrong with them."
    );
}

fn describe_once() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(describe_metrics);
}

/// Hands the figures of an index to the recorder that is installed for the `metrics` facade. Call
/// it as often as they should be fresh: once a second, or before each scrape.
///
/// `labels` go on every figure; where a process has several indices they tell them apart. Counters
/// are set, not added to, so each index needs labels of its own.
///
/// ```
/// # use tenure::Config;
/// let (_scheduler, index) = Config::new(60_000).build()?;
/// tenure::publish_metrics(&index.stats(), &[("rank", "0")]);
/// # Ok::<(), tenure::ConfigError>(())
/// ```
pub fn publish_metrics(stats: &Stats, labels: &[(&'static str, &str)]) {
    describe_once();
    let of = Labels(labels);
    for (state, blocks) in [("free", stats.free), ("owned", stats.owned), ("held", stats.held)] {
        set(BLOCKS, of.with("state", state), blocks);
    }
    set(REQUESTS, of.plain(), stats.live);
    set(DRAINING, of.plain(), stats.draining);
    set(DRAINING_BLOCKS, of.plain(), stats.draining_blocks);
    set(DRAINING_AGE, of.plain(), stats.draining_age);
    set(RETAINED_LEASES, of.plain(), stats.retained);
    set(RETAINED_PIECES, of.plain(), stats.retained_pieces);
    count(PUBLISHES, of.plain(), stats.epoch.0);
    count(PINS, of.plain(), stats.pins);
    for (reason, times) in stats.refused_by_reason() {
        count(REFUSED, of.with("reason", reason), times);
    }
    count(REPLANNABLE, of.plain(), stats.refused_but_replannable);
    count(OVER_BUDGET, of.plain(), stats.over_budget);
    count(SNAPSHOTS, of.plain(), stats.snapshots);
}

/// Hands the figures of a ledger to the recorder that is installed for the `metrics` facade.
/// `overdue` is the number of jobs that [`SaveJobs::overdue`] found. Otherwise like
/// [`publish_metrics`].
///
/// ```
/// use std::time::{Duration, Instant};
/// # use tenure::SaveJobs;
/// let jobs = SaveJobs::new();
/// let overdue = jobs.overdue(Duration::from_secs(30), Instant::now()).len();
/// tenure::publish_job_metrics(&jobs, overdue, &[("rank", "0")]);
/// ```
pub fn publish_job_metrics(jobs: &SaveJobs, overdue: usize, labels: &[(&'static str, &str)]) {
    describe_once();
    let of = Labels(labels);
    let JobStats {
        opened,
        done,
        failed,
        forced,
        refused_jobs,
        refused_blocks,
        refused_pins,
        stale,
        duplicates,
        already_ended,
        unknown_jobs,
        unknown_ranks,
        excess,
    } = jobs.stats();
    set(JOBS_PENDING, of.plain(), jobs.pending() as u64);
    set(JOBS_OVERDUE, of.plain(), overdue as u64);
    count(JOBS_OPENED, of.plain(), opened);
    for (outcome, times) in [("done", done), ("failed", failed), ("forced", forced)] {
        count(JOBS_ENDED, of.with("outcome", outcome), times);
    }
    let refused = [("jobs", refused_jobs), ("blocks", refused_blocks), ("pins", refused_pins)];
    for (budget, times) in refused {
        count(JOBS_REFUSED, of.with("budget", budget), times);
    }
    for (reason, times) in crate::error::Stale::NAMES.into_iter().zip(stale) {
        count(JOBS_STALE, of.with("reason", reason), times);
    }
    let odd = [
        ("duplicate", duplicates),
        ("already-ended", already_ended),
        ("unknown-job", unknown_jobs),
        ("unknown-rank", unknown_ranks),
        ("excess", excess),
    ];
    for (what, times) in odd {
        count(REPORTS_ODD, of.with("what", what), times);
    }
}

#[derive(Clone, Copy)]
struct Labels<'a>(&'a [(&'static str, &'a str)]);

impl Labels<'_> {
    fn plain(self) -> Vec<Label> {
        self.0.iter().map(|&(name, value)| Label::new(name, value.to_owned())).collect()
    }

    fn with(self, name: &'static str, value: &'static str) -> Vec<Label> {
        let mut labels = self.plain();
        labels.push(Label::from_static_parts(name, value));
        labels
    }
}

fn set(name: &'static str, labels: Vec<Label>, value: u64) {
    gauge!(name, labels).set(value as f64);
}

fn count(name: &'static str, labels: Vec<Label>, value: u64) {
    counter!(name, labels).absolute(value);
}
