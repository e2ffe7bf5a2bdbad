//! What a replay tells at its end.

mod page;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;
use tenure::Stale;

use crate::sim::figures::Outcome;
use crate::sim::index::IndexKind;
use crate::sim::savers::{Account, Missing};
use crate::sim::series::{Series, Summary, Times};
use crate::sim::settings::{Policy, Save, SaveRange, Settings};
use crate::trace::Trace;

pub use page::{Compared, page};
pub use table::table;

/// The figures of a replay, as `--json` prints them. `docs/replay.md` says what each means.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Report {
    pub policy: Policy,
    pub index: IndexKind,
    pub trace: String,
    pub format: String,
    pub settings: SettingsReport,
    pub interrupted: bool,

    pub requests: u64,
    pub rejected: u64,
    pub steps: u64,
    pub stalled_steps: u64,
    pub simulated_seconds: f64,
    pub preemptions: u64,
    pub recomputed_tokens: u64,

    pub saves_planned: u64,
    pub saves_completed: u64,
    pub saves_failed: u64,
    pub saves_forced: u64,
    pub retried: u64,
    pub over_budget: u64,
    pub blocks_saved: u64,
    pub stale: BTreeMap<&'static str, u64>,
    pub not_planned: BTreeMap<&'static str, u64>,
    pub wrong_content: u64,
    pub wrong_saves: u64,
    pub first_wrong_ms: Option<f64>,
    pub deaths: Deaths,
    pub completions: Completions,
    pub account: AccountReport,

    pub blocks: u32,
    pub held_max: u32,
    pub held_at_end: u32,
    pub free_at_end: u32,
    pub audit: Option<String>,

    pub per_step: BTreeMap<&'static str, Summary>,
    pub index_ns_per_step: Times,
    pub index_share: f64,
    pub step_ns: Times,
    pub pin_ns: Times,
    pub save_steps: Summary,
    pub wall_seconds: f64,
}

/// The settings that the figures depend on.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[allow(missing_docs)]
pub struct SettingsReport {
    pub block_size: u32,
    pub step_ms: f64,
    pub token_budget: u32,
    pub max_requests_running: usize,
    pub window: Option<u32>,
    pub in_flight: usize,
    pub speed: f64,
    pub seed: u64,
    pub save: Save,
    pub save_range: SaveRange,
    pub savers: usize,
    pub ranks: u32,
    pub pin_latency: String,
    pub store_latency: String,
    pub save_budget: Option<u64>,
    pub fail: f64,
    pub lose: f64,
    pub overdue: u64,
    pub lag: u64,
}

/// What should be durable, what is, and why the rest is not.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[allow(missing_docs)]
pub struct AccountReport {
    pub balanced: bool,
    #[serde(flatten)]
    pub account: Account,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<Missing>>,
}

/// What would have become of an engine that asserts that no save is stale.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Deaths {
    pub count: u64,
    pub first_ms: Option<f64>,
}

/// What was done to completion reports, and how many said nothing new.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Completions {
    pub lost: u64,
    pub late: u64,
    pub duplicated: u64,
    pub ignored: u64,
}

impl Report {
    /// The figures of a replay that has ended.
    pub fn new(trace: &Trace, settings: &Settings, outcome: &Outcome) -> Report {
        let saves = &settings.saves;
        let step_ms = saves.step_us as f64 / 1000.0;
        let ms = |step: u64| step as f64 * step_ms;
        let tally = &outcome.savers;
        let steps = &outcome.per_step;
        Report {
            policy: settings.policy,
            index: settings.index,
            trace: trace.name.clone(),
            format: trace.format.to_string(),
            settings: SettingsReport {
                block_size: settings.limits.block_size,
                step_ms,
                token_budget: settings.limits.token_budget,
                max_requests_running: settings.limits.max_running,
                window: settings.limits.window,
                in_flight: settings.limits.in_flight,
                speed: settings.speed,
                seed: saves.seed,
                save: settings.save,
                save_range: settings.save_range,
                savers: saves.savers,
                ranks: saves.ranks,
                pin_latency: saves.pin_latency.to_string(),
                store_latency: saves.store_latency.to_string(),
                save_budget: saves.budget,
                fail: saves.fail,
                lose: saves.lose,
                overdue: saves.overdue,
                lag: settings.lag,
            },
            interrupted: outcome.interrupted,

            requests: outcome.requests,
            rejected: outcome.rejected,
            steps: outcome.steps,
            stalled_steps: outcome.stalled_steps,
            simulated_seconds: ms(outcome.end_step) / 1000.0,
            preemptions: outcome.preemptions,
            recomputed_tokens: outcome.recomputed,

            saves_planned: tally.planned,
            saves_completed: tally.completed,
            saves_failed: tally.failed,
            saves_forced: tally.forced,
            retried: tally.retried,
            over_budget: tally.over_budget,
            blocks_saved: tally.blocks_saved,
            stale: by_reason(&tally.stale),
            not_planned: by_reason(&tally.not_planned),
            wrong_content: tally.wrong_blocks,
            wrong_saves: tally.wrong_stores,
            first_wrong_ms: tally.first_wrong_step.map(ms),
            deaths: Deaths { count: tally.all_stale(), first_ms: tally.first_stale_step.map(ms) },
            completions: Completions {
                lost: tally.disturbed.lost,
                late: tally.disturbed.late,
                duplicated: tally.disturbed.duplicated,
                ignored: tally.reports_ignored,
            },
            account: AccountReport {
                balanced: tally.account.is_balanced(),
                account: tally.account.clone(),
                missing: Some(tally.account.missing.clone()),
            },

            blocks: settings.limits.blocks,
            held_max: outcome.held_max,
            held_at_end: outcome.at_end.held,
            free_at_end: outcome.at_end.free,
            audit: outcome.audit.clone(),

            per_step: BTreeMap::from([
                ("requests", steps.requests.summary()),
                ("tokens", steps.tokens.summary()),
                ("assigned_blocks", steps.assigned_blocks.summary()),
                ("assign_calls", steps.assign_calls.summary()),
                ("found_blocks", steps.found_blocks.summary()),
                ("releases", steps.releases.summary()),
                ("released_blocks", steps.released_blocks.summary()),
                ("saves", steps.saves.summary()),
                ("pinned_blocks", steps.pinned_blocks.summary()),
            ]),
            index_ns_per_step: outcome.index_ns.times(),
            index_share: share(&outcome.index_ns, &outcome.step_ns),
            step_ns: outcome.step_ns.times(),
            pin_ns: tally.pin_ns.times(),
            save_steps: tally.store_steps.summary(),
            wall_seconds: outcome.wall.as_secs_f64(),
        }
    }

    /// What a run must not show, in words; empty where all is well. A connector that reads without
    /// a pin is expected to read wrong content.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.wrong_content > 0 && self.policy != Policy::Mirror {
            faults.push(format!("{} blocks of wrong content read under a pin", self.wrong_content));
        }
        if !self.account.balanced {
            faults.push("the account of saves does not balance".to_owned());
        }
        if self.free_at_end != self.blocks {
            faults.push(format!("{} of {} blocks free at the end", self.free_at_end, self.blocks));
        }
        faults.extend(self.audit.iter().map(|audit| format!("audit: {audit}")));
        faults
    }
}

fn by_reason(counts: &[u64; Stale::COUNT]) -> BTreeMap<&'static str, u64> {
    Stale::NAMES.into_iter().zip(counts.iter().copied()).collect()
}

fn share(part: &Series, whole: &Series) -> f64 {
    if whole.sum() == 0 { 0.0 } else { part.sum() as f64 / whole.sum() as f64 }
}
