//! The report as a page.

use super::contention::{Case, Contention};
use super::goals::Goal;
use super::operations::ByNumber;
use super::peers;
use super::report::Report;
use super::table;
use crate::page::{self, Axis, Line, Page, Scale, facts, from_terminal, lines, note};
use crate::text::{duration, round_count, round_duration};

/// The page of a profile.
pub fn page(report: &Report) -> String {
    let lead = format!(
        "What every operation costs on this machine ({} cores, {}), tenure {}. rmw is one uncontended \
         atomic addition here: {}.{}",
        report.cores,
        report.architecture,
        env!("CARGO_PKG_VERSION"),
        duration(report.operations.rmw_ns),
        if cfg!(debug_assertions) { " Built for debugging: these times mean little." } else { "" }
    );
    let mut page = Page::new("Tenure profile", &lead);
    page.wide("At a glance", &at_a_glance(report));
    page.section("Goals", &goals(&report.goals));
    page.section("Operations", &from_terminal(&table::operations(report)));
    page.section("Pin and unpin of a whole table, one thread", &pin_unpin(report));
    page.section("Two threads at once", &two_threads(report));
    page.section("Memory", &from_terminal(&table::memory(report)));
    if let Some(contention) = &report.contention {
        for group in table::case_groups(contention) {
            let title = table::case_title(contention, group);
            page.section(&format!("A step: {title}"), &steps(contention, group));
        }
    }
    page.html()
}

fn at_a_glance(report: &Report) -> String {
    let o = &report.operations;
    let count = |met: bool| report.goals.iter().filter(|goal| goal.met == Some(met)).count();
    let (met, missed) = (count(true), count(false));
    let dearest = o.pin_unpin_ns.values().copied().fold(0.0, f64::max);
    facts(&[
        ("Goals met", format!("{met} of {}", met + missed), Some(missed == 0)),
        ("Pin and unpin, the dearest length", duration(dearest), None),
        ("Check", duration(o.check_ns), None),
        ("Plan", duration(o.plan_ns), None),
    ])
}

/// In fewer columns than on the terminal: it is what a phone shows first.
fn goals(goals: &[Goal]) -> String {
    let row = |goal: &Goal| {
        let measured = goal.measured.map_or("-".to_owned(), |measured| format!("{measured:.2}"));
        let met = match goal.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "-",
        };
        let figures = format!("{measured} / {} {}", goal.at_most, goal.unit);
        vec![goal.work.to_owned(), figures, met.to_owned()]
    };
    let rows: Vec<Vec<String>> = goals.iter().map(row).collect();
    page::table(&["work", "measured / goal", ""], &rows)
}

fn by_blocks(name: &str, color: usize, by: &ByNumber) -> Line {
    let points = by.iter().map(|(&blocks, &ns)| (f64::from(blocks), ns)).collect();
    Line { name: name.to_owned(), points, color }
}

fn pin_unpin(report: &Report) -> String {
    let mut all = vec![by_blocks("tenure", 0, &report.operations.pin_unpin_ns)];
    let peers = report.peers.peers.iter().zip(1..);
    all.extend(peers.map(|((name, by), color)| by_blocks(name, color, by)));
    let (x, y) = logarithmic(&all);
    lines(&x, &y, &all)
        + &note(&format!("Note: {}.", peers::NOTE))
        + &from_terminal(&table::one_thread(report))
}

fn two_threads(report: &Report) -> String {
    let by_peer = report.peers.two_threads.iter();
    // Tenure has its colour everywhere.
    let (tenure, others): (Vec<_>, Vec<_>) = by_peer.partition(|(name, _)| *name == "tenure");
    let ordered = tenure.into_iter().chain(others).zip(0..);
    let all: Vec<Line> =
        ordered.map(|((name, by), color)| by_blocks(name, color, &by.different)).collect();
    let (x, y) = logarithmic(&all);
    lines(&x, &y, &all)
        + &note("Each of two threads, on different requests; the table has both.")
        + &from_terminal(&table::two_threads(report))
}

fn logarithmic(all: &[Line]) -> (Axis, Axis) {
    let points = || all.iter().flat_map(|line| line.points.iter());
    let x = Axis::over("blocks", Scale::Log, points().map(|point| point.0), round_count);
    let y = Axis::over("time", Scale::Log, points().map(|point| point.1), round_duration);
    (x, y)
}

fn steps(contention: &Contention, group: &[Case]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for case in group {
        if !names.contains(&case.index) {
            names.push(case.index);
        }
    }
    let line = |(color, &name): (usize, &&str)| {
        let cases = group.iter().filter(|case| case.index == name);
        let point = |case: &Case| (case.setup.threads as f64, case.step_ns.p99_9 as f64);
        Line { name: name.to_owned(), points: cases.map(point).collect(), color }
    };
    let all: Vec<Line> = names.iter().enumerate().map(line).collect();
    let points = || all.iter().flat_map(|line| line.points.iter());
    let most = points().map(|point| point.0).fold(1.0, f64::max);
    let x = Axis::until("threads that pin", most, round_count);
    let y = Axis::over("time", Scale::Log, points().map(|point| point.1), round_duration);
    let remark = table::cores_note(contention).map(|text| note(&text)).unwrap_or_default();
    lines(&x, &y, &all)
        + &note("The 99.9th percentile of a step's time on the wall.")
        + &from_terminal(&table::case_table(contention, group))
        + &remark
}
