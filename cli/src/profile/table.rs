//! The report as tables for people.

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_FULL_CONDENSED};
use comfy_table::{Cell, CellAlignment, Table};

use super::contention::{Case, Contention, Quantiles};
use super::counters::Counters;
use super::goals::Goal;
use super::operations::ByNumber;
use super::peers;
use super::report::Report;
use crate::text::count;

/// Something of the report.
#[allow(clippy::large_enum_variant, reason = "a few, which live shortly")]
enum Part {
    Table(Table),
    Text(String),
}

impl From<Table> for Part {
    fn from(table: Table) -> Part {
        Part::Table(table)
    }
}

/// The report as text.
pub fn table(report: &Report, markdown: bool) -> String {
    let mut parts: Vec<Part> = vec![
        goals(&report.goals).into(),
        operations(report).into(),
        one_thread(report).into(),
        two_threads(report).into(),
        Part::Text(format!("Note: {}.", peers::NOTE)),
        memory(report).into(),
        counters(&report.counters),
    ];
    if let Some(contention) = &report.contention {
        parts.extend(cases(contention));
    }
    let style = if markdown { ASCII_MARKDOWN } else { UTF8_FULL_CONDENSED };
    let text = |part| match part {
        Part::Text(text) => text,
        Part::Table(mut table) => {
            table.load_style(style);
            table.to_string()
        }
    };
    parts.into_iter().map(text).collect::<Vec<_>>().join(if markdown { "\n\n" } else { "\n" })
}

fn goals(goals: &[Goal]) -> Table {
    let mut table = titled("work", &["goal", "measured", "unit", ""]);
    for Goal { work, at_most, measured, unit, met } in goals {
        let measured = measured.map_or("-".to_owned(), |measured| format!("{measured:.2}"));
        let met = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured here",
        };
        row(&mut table, work, [format!("<= {at_most}"), measured, (*unit).into(), met.into()]);
    }
    table
}

pub(super) fn operations(report: &Report) -> Table {
    let o = &report.operations;
    let mut table = titled("operation", &["ns", "rmw"]);
    let mut add = |name: &str, ns: f64| {
        row(&mut table, name, [decimals(ns), format!("{:.2}", ns / o.rmw_ns)]);
    };
    add("rmw: one uncontended atomic addition", o.rmw_ns);
    let numbered = |add: &mut dyn FnMut(&str, f64), what: &str, of: &str, by: &ByNumber| {
        for (number, &ns) in by {
            add(&format!("{what}, {number} {of}"), ns);
        }
    };
    numbered(&mut add, "pin + unpin", "blocks", &o.pin_unpin_ns);
    add("pin + unpin, each time another request", o.pin_in_turn_ns);
    add("pin + unpin, in a batch of 64", o.pin_batch_ns);
    add("check", o.check_ns);
    add("plan", o.plan_ns);
    numbered(&mut add, "view", "blocks", &o.view_ns);
    add("snapshot, built already", o.snapshot_cached_ns);
    add("snapshot, built anew (69 tables, 105,697 positions)", o.snapshot_built_ns);
    numbered(&mut add, "publish", "live requests", &o.publish_ns);
    add("admit", o.admit_ns);
    add("assign, a block", o.assign_ns);
    add("share, a block", o.share_ns);
    add("vacate, a position", o.vacate_ns);
    add("release, a block", o.release_ns);
    add("release, a block that is shared", o.release_shared_ns);
    numbered(&mut add, "truncate by 16 + regrow + publish", "positions", &o.truncate_regrow_ns);
    numbered(&mut add, "window slide + publish", "positions", &o.slide_ns);
    numbered(&mut add, "exact hold, given back", "blocks", &o.hold_ns);
    table
}

pub(super) fn one_thread(report: &Report) -> Table {
    let blocks: Vec<u32> = report.operations.pin_unpin_ns.keys().copied().collect();
    let mut table = blocks_table("pin + unpin, one thread, ns", &blocks);
    let cells = |by: &ByNumber| blocks.iter().map(|n| by.get(n).copied()).map(cell).collect();
    row_of(&mut table, "tenure", cells(&report.operations.pin_unpin_ns));
    for (name, by) in &report.peers.peers {
        row_of(&mut table, name, cells(by));
    }
    table
}

pub(super) fn two_threads(report: &Report) -> Table {
    let all = &report.peers.two_threads;
    let blocks: Vec<u32> =
        all.values().next().map(|by| by.same.keys().copied().collect()).unwrap_or_default();
    let mut table = blocks_table("... two threads, different / same request", &blocks);
    for (name, by) in all {
        let both = |n: &u32| {
            format!("{} / {}", cell(by.different.get(n).copied()), cell(by.same.get(n).copied()))
        };
        row_of(&mut table, name, blocks.iter().map(both).collect());
    }
    table
}

pub(super) fn memory(report: &Report) -> Table {
    let memory = &report.memory;
    let bytes = |bytes: Option<f64>| bytes.map_or("-".to_owned(), |bytes| format!("{bytes:.1}"));
    let mut table = titled("memory", &[""]);
    row(&mut table, "bytes a block of the pool", [bytes(memory.bytes_per_block)]);
    row(&mut table, "bytes a table position", [bytes(memory.bytes_per_position)]);
    row(&mut table, "versions that a step replaces", [count(memory.retired_per_step)]);
    row(&mut table, "most that waited, no reader", [count(memory.retained.no_reader)]);
    row(&mut table, "... a snapshot reader", [count(memory.retained.snapshot_reader)]);
    row(&mut table, "... 16 pins never given back", [count(memory.retained.sleeping_pins)]);
    table
}

fn counters(counters: &Counters) -> Part {
    match counters {
        Counters::Skipped(why) => Part::Text(format!("SKIPPED hardware counters: {why}")),
        Counters::Counted(by_operation) => {
            let mut table =
                titled("hardware counters, a call", &["cycles", "instructions", "cache misses"]);
            for (name, events) in by_operation {
                let cells = [events.cycles, events.instructions, events.cache_misses];
                row(&mut table, name, cells.map(|events| format!("{events:.2}")));
            }
            table.into()
        }
    }
}

fn cases(contention: &Contention) -> Vec<Part> {
    let tables = case_groups(contention).map(|group| case_table(contention, group).into());
    cores_note(contention).map(Part::Text).into_iter().chain(tables).collect()
}

/// What to heed where threads do not have a core each.
pub(super) fn cores_note(contention: &Contention) -> Option<String> {
    let Contention { cores, cases, .. } = contention;
    cases.iter().any(|case| case.more_threads_than_cores).then(|| {
        format!(
            "There are {cores} cores here. Rows marked * have more threads than that: their times \
             on the wall tell how threads were switched. What means something there is CPU time: \
             of a step, against the same step alone, and of a pin."
        )
    })
}

/// The cases of each load and pace.
pub(super) fn case_groups(contention: &Contention) -> impl Iterator<Item = &[Case]> {
    let same = |a: &Case, b: &Case| (a.setup.load, a.setup.paced) == (b.setup.load, b.setup.paced);
    contention.cases.chunk_by(same)
}

/// What cases of one load and pace are called.
pub(super) fn case_title(contention: &Contention, group: &[Case]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let pace = match first.setup.paced {
        true => format!("a step every {} us", contention.pace_us),
        false => "step after step".to_owned(),
    };
    format!("{}, {pace}", first.setup.load.title())
}

/// The cases of one load and pace.
pub(super) fn case_table(contention: &Contention, group: &[Case]) -> Table {
    let columns = [
        "index",
        "step us p50/p99/p99.9/max",
        "p99.9 x alone",
        "step CPU us",
        "CPU x alone",
        "pin ns p50/p99/p99.9",
        "pins/s",
        "CPU ns a pin",
    ];
    let mut table = titled(&case_title(contention, group), &columns);
    for case in group {
        let mark = if case.more_threads_than_cores { " *" } else { "" };
        row(&mut table, &format!("{} threads{mark}", case.setup.threads), cells(case));
    }
    table
}

fn cells(case: &Case) -> [String; 8] {
    let Quantiles { p50, p99, p99_9, max } = case.step_ns;
    let us = |ns: u64| decimals(ns as f64 / 1000.0);
    let pins = case.setup.threads > 0;
    let where_pinned = |text: String| if pins { text } else { "-".to_owned() };
    let pin = case.pin_ns;
    [
        case.index.to_owned(),
        [p50, p99, p99_9, max].map(us).join(" / "),
        format!("{:.2}", case.step_p99_9_against_alone),
        us(case.step_cpu_ns.p50),
        format!("{:.2}", case.step_cpu_against_alone),
        where_pinned([pin.p50, pin.p99, pin.p99_9].map(count).join(" / ")),
        where_pinned(count(case.pins_per_second as u64)),
        where_pinned(decimals(case.cpu_ns_per_pin)),
    ]
}

fn blocks_table(title: &str, blocks: &[u32]) -> Table {
    let columns: Vec<String> = blocks.iter().map(|&n| count(n)).collect();
    titled(title, &columns.iter().map(String::as_str).collect::<Vec<_>>())
}

fn titled(title: &str, columns: &[&str]) -> Table {
    let mut table = Table::new();
    let cells = columns.iter().map(|name| Cell::new(name).set_alignment(CellAlignment::Right));
    table.set_header([Cell::new(title)].into_iter().chain(cells));
    table
}

fn row<const N: usize>(table: &mut Table, title: &str, cells: [String; N]) {
    row_of(table, title, cells.into());
}

fn row_of(table: &mut Table, title: &str, cells: Vec<String>) {
    let cells = cells.into_iter().map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
    table.add_row([Cell::new(title)].into_iter().chain(cells));
}

fn cell(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), decimals)
}

/// As many digits as say something.
fn decimals(number: f64) -> String {
    match number {
        _ if number < 10.0 => format!("{number:.2}"),
        _ if number < 100.0 => format!("{number:.1}"),
        _ => count(number.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(decimals(0.456), "0.46");
        assert_eq!(decimals(12.34), "12.3");
        assert_eq!(decimals(1234.5), "1,235");
    }
}
