//! The figures of a replay as a page.

use super::Report;
use super::table::lowercase;
use crate::page::{
    Axis, Bar, Column, Line, Page, Scale, bars, columns, facts, lines, note, stacked, table,
};
use crate::sim::figures::Outcome;
use crate::sim::index::{IndexKind, Occupancy};
use crate::sim::series::Series;
use crate::sim::settings::Policy;
use crate::text::{count, duration, round_count, round_duration};

/// The same requests under several policies.
pub struct Compared {
    /// The first requests of the trace, so many of them.
    pub requests: usize,
    /// The figures under each policy.
    pub reports: Vec<Report>,
}

/// The page of a replay.
pub fn page(report: &Report, outcome: &Outcome, compared: Option<&Compared>) -> String {
    let mut page = Page::new("Tenure replay", &lead(report));
    page.wide("At a glance", &at_a_glance(report));
    page.section("Blocks over time", &blocks(report, outcome));
    page.section("Held blocks over time", &held(report, outcome));
    page.section("Saves by outcome", &saves(report));
    page.section("Why saves were refused", &refusals(report));
    page.section("Time of a step", &step_times(report, outcome));
    page.section("Time of a pin", &pin_times(report, &outcome.savers.pin_ns));
    if let Some(compared) = compared {
        page.wide("Policies compared", &policies(compared));
    }
    page.wide("Settings", &settings(report));
    page.html()
}

fn lead(report: &Report) -> String {
    let stopped = if report.interrupted { " Stopped before the end." } else { "" };
    format!(
        "{} ({}), {} blocks of {} tokens, policy {}, index {}, tenure {}.{stopped}",
        report.trace,
        report.format,
        count(report.blocks),
        count(report.settings.block_size),
        lowercase(&report.policy),
        lowercase(&report.index),
        env!("CARGO_PKG_VERSION"),
    )
}

fn at_a_glance(report: &Report) -> String {
    let none = |number: u64| Some(number == 0);
    let balanced = report.account.balanced;
    let books = if balanced { "balanced" } else { "not balanced" };
    let mut text = facts(&[
        ("Requests", count(report.requests), None),
        ("Steps", count(report.steps), None),
        ("Simulated time", format!("{:.0} s", report.simulated_seconds), None),
        ("Preemptions", count(report.preemptions), None),
        ("Saves completed", count(report.saves_completed), None),
        ("Blocks of wrong content", count(report.wrong_content), none(report.wrong_content)),
        ("Account of saves", books.to_owned(), Some(balanced)),
        ("Index's share of a step", format!("{:.1} %", report.index_share * 100.0), None),
    ]);
    for fault in report.faults() {
        text.push_str(&note(&format!("Found wrong: {fault}.")));
    }
    text
}

fn seconds(report: &Report, step: u64) -> f64 {
    step as f64 * report.settings.step_ms / 1000.0
}

fn time_axis(report: &Report) -> Axis {
    Axis::until("simulated seconds", report.simulated_seconds, round_count)
}

fn over_time(report: &Report, outcome: &Outcome, of: fn(Occupancy) -> u32) -> Vec<(f64, f64)> {
    let samples = outcome.timeline.samples().iter();
    samples.map(|at| (seconds(report, at.step), f64::from(of(at.blocks)))).collect()
}

fn blocks(report: &Report, outcome: &Outcome) -> String {
    let line = |name: &str, color, of| Line {
        name: name.to_owned(),
        points: over_time(report, outcome, of),
        color,
    };
    let states = [
        line("owned", 0, |blocks| blocks.owned),
        line("held", 1, |blocks| blocks.held),
        line("free", 8, |blocks| blocks.free),
    ];
    let y = Axis::over("blocks", Scale::Linear, [f64::from(report.blocks)], round_count);
    stacked(&time_axis(report), &y, &states, report.simulated_seconds)
        + &note(&format!(
            "{} samples, taken when a step had ended.",
            count(outcome.timeline.samples().len() as u64)
        ))
}

fn held(report: &Report, outcome: &Outcome) -> String {
    let points = over_time(report, outcome, |blocks| blocks.held);
    let y = Axis::over("blocks", Scale::Linear, points.iter().map(|point| point.1), round_count);
    let line = Line { name: "held".to_owned(), points, color: 1 };
    stacked(&time_axis(report), &y, &[line], report.simulated_seconds)
        + &note(&format!(
            "Blocks that no request owns and a pin or a running step protects. {} at most, at the end of \
             any step; {} when all had ended.",
            count(report.held_max),
            count(report.held_at_end)
        ))
}

fn bar(name: &str, value: u64, color: usize) -> Bar {
    Bar { name: name.to_owned(), value: value as f64, text: count(value), color }
}

fn saves(report: &Report) -> String {
    let (stale, not_planned) = (report.stale.values().sum(), report.not_planned.values().sum());
    bars(&[
        bar("Saved by every rank", report.saves_completed, 2),
        bar("Stale when it was to be pinned", stale, 1),
        bar("Not planned: too late already", not_planned, 4),
        bar("Failed in a rank", report.saves_failed, 5),
        bar("Ended by force: a report never came", report.saves_forced, 3),
    ]) + &note(&format!(
        "{} saves planned, {} of them of tokens of which an earlier save had come to nothing; pins put off \
         for lack of budget {} times. {} of {} blocks that should be durable are.",
        count(report.saves_planned),
        count(report.retried),
        count(report.over_budget),
        count(report.account.account.durable_blocks),
        count(report.account.account.due_blocks),
    ))
}

fn refusals(report: &Report) -> String {
    let rows = |counts: &std::collections::BTreeMap<&'static str, u64>, color: usize| {
        let some = counts.iter().filter(|(_, saves)| **saves > 0);
        some.map(|(reason, &saves)| bar(reason, saves, color)).collect::<Vec<_>>()
    };
    let part = |title: &str, all: Vec<Bar>| match all.is_empty() {
        true => note(&format!("{title}: none.")),
        false => note(&format!("{title}:")) + &bars(&all),
    };
    part("When they were to be pinned", rows(&report.stale, 1))
        + &part("When they were to be planned", rows(&report.not_planned, 4))
}

const NINES: u32 = 4;

/// Quantiles as a curve, up to where there are measurements enough for them.
fn curve(name: &str, color: usize, series: &Series) -> Line {
    let known = (series.count().max(1) as f64).log10().min(f64::from(NINES));
    let places = (0..=40).map(|n| f64::from(n) / 40.0 * f64::from(NINES));
    let point = |nines: f64| (nines, series.quantile(1.0 - 10_f64.powf(-nines)) as f64);
    Line {
        name: name.to_owned(),
        points: places.filter(|&at| at <= known).map(point).collect(),
        color,
    }
}

fn times_row(name: &str, series: &Series) -> Vec<String> {
    let quantiles = [0.5, 0.9, 0.99, 0.999].map(|at| duration(series.quantile(at) as f64));
    std::iter::once(name.to_owned()).chain(quantiles).collect()
}

fn step_times(report: &Report, outcome: &Outcome) -> String {
    let parts = [
        ("with the index", 0, &outcome.step_ns),
        ("without its part", 2, &outcome.rest_ns),
        ("in the index", 1, &outcome.index_ns),
    ];
    let curves = parts.map(|(name, color, series)| curve(name, color, series));
    let values = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let y = Axis::over("time", Scale::Log, values, round_duration);
    let rows = parts.map(|(name, _, series)| times_row(name, series));
    lines(&Axis::of_quantiles("of all steps are not slower", NINES), &y, &curves)
        + &table(&["", "p50", "p90", "p99", "p99.9"], &rows)
        + &note(&format!(
            "The simulated scheduler's thread, without what it waits for savers; it does less than an engine's. \
             {:.1} % of its time is the index's.",
            report.index_share * 100.0
        ))
}

fn pin_times(report: &Report, series: &Series) -> String {
    let bounds = bounds(series.quantile(0.0), series.quantile(1.0));
    let counts = series.between(&bounds);
    let columns_of: Vec<Column> = (bounds.iter().zip(bounds.iter().skip(1)))
        .zip(&counts)
        .map(|((&from, &to), &value)| Column {
            from: from as f64,
            to: to as f64,
            value: value as f64,
        })
        .collect();
    let edges = bounds.iter().map(|&bound| bound as f64);
    let x = Axis::over("time of a pin", Scale::Log, edges, round_duration);
    let y = Axis::over("pins", Scale::Linear, counts.iter().map(|&pins| pins as f64), round_count);
    let with = match (report.index, report.policy) {
        (_, Policy::Mirror) => "This policy takes none: it is the books of the job alone.",
        (IndexKind::Tenure, _) => "With the books of its job and the list of its blocks.",
        (IndexKind::Mutex, _) => "Under the mutex, with the list of its blocks.",
    };
    columns(&x, &y, &columns_of)
        + &table(&["", "p50", "p90", "p99", "p99.9"], &[times_row("a pin", series)])
        + &note(with)
}

/// Bounds of columns around these values: eight to a factor of ten.
fn bounds(least: u64, most: u64) -> Vec<u64> {
    let first = ((least.max(1) as f64).log10() * 8.0).floor() as i32;
    let last = ((most.max(1) as f64).log10() * 8.0).floor() as i32 + 1;
    let mut bounds: Vec<u64> =
        (first..=last).map(|n| 10_f64.powf(f64::from(n) / 8.0).ceil() as u64).collect();
    bounds.dedup();
    bounds
}

/// What sets one policy apart from another.
fn compared_figures(report: &Report) -> [(&'static str, String); 8] {
    let after = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{:.2} s", ms / 1000.0));
    let (deaths, died) = match report.policy {
        Policy::Assert => (count(report.deaths.count), after(report.deaths.first_ms)),
        Policy::Tenure | Policy::Mirror => ("-".to_owned(), "-".to_owned()),
    };
    [
        ("saves planned", count(report.saves_planned)),
        ("stored by every rank", count(report.saves_completed)),
        ("dropped as stale", count(report.stale.values().sum::<u64>())),
        ("blocks of wrong content stored", count(report.wrong_content)),
        ("... first after", after(report.first_wrong_ms)),
        ("deaths of the engine", deaths),
        ("... first after", died),
        ("blocks held at most", count(report.held_max)),
    ]
}

fn policies(compared: &Compared) -> String {
    let mut head = vec![String::new()];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for report in &compared.reports {
        head.push(lowercase(&report.policy));
        let figures = compared_figures(report);
        if rows.is_empty() {
            rows.extend(figures.iter().map(|(name, _)| vec![(*name).to_owned()]));
        }
        for (row, (_, figure)) in rows.iter_mut().zip(figures) {
            row.push(figure);
        }
    }
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let wrong = |report: &Report| {
        let color = if report.wrong_content > 0 { 5 } else { 2 };
        bar(&lowercase(&report.policy), report.wrong_content, color)
    };
    let wrong: Vec<Bar> = compared.reports.iter().map(wrong).collect();
    let stopped = match compared.reports.iter().any(|report| report.interrupted) {
        true => " Not all of them came to their end in the time they had.",
        false => "",
    };
    table(&head, &rows)
        + &note("Blocks of wrong content stored under a valid key:")
        + &bars(&wrong)
        + &note(&format!(
            "Each policy over the first {} requests, with the settings below.{stopped} tenure pins a \
             save or drops it as stale; mirror reads the blocks that the table showed when the save was \
             planned, whoever has them by then; assert is an engine that dies of a stale save: it would \
             have died once for each one counted.",
            count(compared.requests as u64)
        ))
}

fn settings(report: &Report) -> String {
    let Ok(serde_json::Value::Object(settings)) = serde_json::to_value(&report.settings) else {
        return String::new();
    };
    let row = |(name, value): (&String, &serde_json::Value)| {
        let value = match value {
            serde_json::Value::Null => "-".to_owned(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        vec![name.replace('_', " "), value]
    };
    table(&["setting", "value"], &settings.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_cover_all_pins() {
        for (least, most) in [(0, 0), (1, 1), (95, 40_000), (u64::MAX >> 8, u64::MAX >> 4)] {
            let bounds = bounds(least, most);
            assert!(bounds.len() > 1 && bounds.is_sorted(), "{least}..{most}: {bounds:?}");
            assert!(bounds[0] <= least.max(1) && *bounds.last().unwrap() > most, "{least}..{most}");
        }
    }

    #[test]
    fn a_curve_ends_where_measurements_do() {
        let mut series = Series::default();
        (1..=1000).for_each(|value| series.record(value));
        let curve = curve("steps", 0, &series);
        assert_eq!(curve.points.last().map(|point| point.0), Some(3.0));
        assert_eq!(curve.points.first().map(|point| point.1), Some(1.0));
        assert!(curve.points.is_sorted_by(|a, b| a.1 <= b.1));
    }
}
