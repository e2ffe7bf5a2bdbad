//! The figures as tables for people.

use std::fmt::Display;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use super::Report;
use crate::sim::savers::Missing;
use crate::sim::settings::Policy;
use crate::text::{count, duration};

/// The figures of a replay as text.
pub fn table(report: &Report) -> String {
    let parts = [run(report), per_step(report), saves(report), times(report)];
    let mut text = parts.map(|table| table.to_string()).join("\n");
    for Missing { request, from, to, cause } in report.account.missing.iter().flatten() {
        let cause = cause.unwrap_or("unexplained");
        text.push_str(&format!("\nmissing: request {request}, tokens {from}..{to}: {cause}"));
    }
    text
}

fn run(report: &Report) -> Table {
    let mut table = titled("replay", &[""]);
    row(&mut table, "trace", [format!("{} ({})", report.trace, report.format)]);
    let requests = match report.rejected {
        0 => count(report.requests),
        rejected => format!("{} and {} too long", count(report.requests), count(rejected)),
    };
    row(&mut table, "requests", [requests]);
    if report.interrupted {
        row(&mut table, "stopped", ["before the end".to_owned()]);
    }
    row(&mut table, "steps", [count(report.steps)]);
    row(&mut table, "simulated time", [format!("{:.1} s", report.simulated_seconds)]);
    row(&mut table, "preemptions", [count(report.preemptions)]);
    if report.preemptions > 0 {
        row(&mut table, "tokens recomputed", [count(report.recomputed_tokens)]);
    }
    row(&mut table, "blocks", [count(report.blocks)]);
    row(&mut table, "held at most", [count(report.held_max)]);
    row(&mut table, "free at the end", [count(report.free_at_end)]);
    table
}

fn per_step(report: &Report) -> Table {
    let mut table = titled("per step", &["mean", "p99", "max"]);
    let rows = [
        ("requests scheduled", "requests"),
        ("blocks assigned", "assigned_blocks"),
        ("... in calls", "assign_calls"),
        ("blocks found by content", "found_blocks"),
        ("requests released", "releases"),
        ("... with blocks", "released_blocks"),
        ("saves", "saves"),
        ("blocks covered by them", "pinned_blocks"),
    ];
    for (title, name) in rows {
        if let Some(figure) = report.per_step.get(name) {
            let mean = format!("{:.1}", figure.mean);
            row(&mut table, title, [mean, count(figure.p99), count(figure.max)]);
        }
    }
    table
}

fn saves(report: &Report) -> Table {
    let title = format!("saves, policy {}", lowercase(&report.policy));
    let mut table = titled(&title, &[""]);
    row(&mut table, "planned", [count(report.saves_planned)]);
    row(&mut table, "saved", [count(report.saves_completed)]);
    row(&mut table, "... blocks", [count(report.blocks_saved)]);
    for (&reason, &saves) in report.stale.iter().filter(|(_, saves)| **saves > 0) {
        row(&mut table, &format!("stale: {reason}"), [count(saves)]);
    }
    for (&reason, &saves) in report.not_planned.iter().filter(|(_, saves)| **saves > 0) {
        row(&mut table, &format!("not planned: {reason}"), [count(saves)]);
    }
    let others = [
        ("failed", report.saves_failed),
        ("ended by force", report.saves_forced),
        ("retried", report.retried),
        ("put off for lack of budget", report.over_budget),
        ("reports ignored", report.completions.ignored),
    ];
    for (title, saves) in others.into_iter().filter(|&(_, saves)| saves > 0) {
        row(&mut table, title, [count(saves)]);
    }
    row(&mut table, "blocks of wrong content", [count(report.wrong_content)]);
    if let Some(ms) = report.first_wrong_ms {
        row(&mut table, "... first after", [format!("{:.2} s", ms / 1000.0)]);
    }
    if report.policy == Policy::Assert {
        row(&mut table, "an asserting engine's deaths", [count(report.deaths.count)]);
        if let Some(ms) = report.deaths.first_ms {
            row(&mut table, "... first after", [format!("{:.2} s", ms / 1000.0)]);
        }
    }
    let account = &report.account.account;
    let due = format!("{} of {}", count(account.durable_blocks), count(account.due_blocks));
    row(&mut table, "blocks durable", [due]);
    for (&cause, &blocks) in &account.missing_blocks {
        row(&mut table, &format!("... missing: {cause}"), [count(blocks)]);
    }
    let balanced = if report.account.balanced { "balanced" } else { "NOT BALANCED" };
    row(&mut table, "account", [balanced.to_owned()]);
    table
}

fn times(report: &Report) -> Table {
    let title = format!("time, index {}", lowercase(&report.index));
    let mut table = titled(&title, &["mean", "p50", "p99", "p99.9"]);
    let rows = [
        ("index, per step", &report.index_ns_per_step),
        ("scheduler, per step", &report.step_ns),
        ("a pin, with its books", &report.pin_ns),
    ];
    for (title, times) in rows {
        let quantiles = [times.mean, times.p50 as f64, times.p99 as f64, times.p999 as f64];
        row(&mut table, title, quantiles.map(duration));
    }
    let share = format!("{:.1} %", report.index_share * 100.0);
    row(&mut table, "index's share", [share]);
    row(&mut table, "wall time", [format!("{:.2} s", report.wall_seconds)]);
    table
}

fn titled(title: &str, columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let columns = columns.iter().map(aligned);
    table.set_header(std::iter::once(Cell::new(title)).chain(columns));
    table
}

fn row<const N: usize>(table: &mut Table, title: &str, values: [String; N]) {
    table.add_row(std::iter::once(Cell::new(title)).chain(values.map(aligned)));
}

fn aligned(value: impl Display) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

pub(super) fn lowercase(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
