//! One call per step over what a connector was about to send out.

#![allow(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]

mod at_random;
mod connector;
mod log;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::{
    BlockId, Budget, Completion, Config, DropReason, GroupId, Groups, JobBudget, Outcome, Rank,
    Reconciled, Role, SaveTracker, Stale, StepRequest, StepSave, Warnings,
};

use connector::{Connector, blocks, load, reasons, save};
use log::{Event, warned};

// The five cases of the vLLM fix (pull request 55839).

#[test]
fn whole_block_state_absent() {
    let mut c = Connector::new();
    let key = c.admit("r1", &[1, 2]);
    let mut step = [save("r1", c.offer("r1", key))];
    let events = warned(|| {
        let done = c.run_without_index(&mut step);
        assert_eq!(reasons(&done), [("r1", DropReason::NoIndex)]);
        assert!(done.pinned.is_empty() && done.deferred.is_empty());
    });
    assert_eq!(step[0].save, None);
    assert_eq!(c.jobs.pending(), 0);
    assert_eq!(c.in_flight("r1"), []);
    assert_eq!(c.trackers.get("r1").unwrap().watermark(), 0);
    let event = Event {
        reason: "no-index".into(),
        label: "r1".into(),
        suppressed: 0,
        message: "save dropped: there is no block state to check it against".into(),
    };
    assert_eq!(events, [event]);
}

#[test]
fn request_absent_from_the_block_state() {
    let mut c = Connector::new();
    let key = c.admit("r1", &[1, 2]);
    let other = c.admit("r2", &[3]);
    let mut step = [save("r1", c.offer("r1", key)), save("r2", c.offer("r2", other))];
    let _ = c.scheduler.release(key).unwrap();
    c.scheduler.publish();
    let events = warned(|| {
        let done = c.run(&mut step);
        assert_eq!(reasons(&done), [("r1", Stale::Gone.into())]);
        assert_eq!(done.pinned.len(), 1, "the next one in the list is none the worse");
        assert_eq!(blocks(&done.pinned[0]), [3]);
    });
    assert_eq!(step[0].save, None);
    assert!(step[1].save.is_some());
    assert_eq!(c.in_flight("r1"), []);
    assert_eq!(c.in_flight("r2"), vec![0..16]);
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].reason.as_str(), events[0].label.as_str()), ("gone", "r1"));
}

#[test]
fn load_only_metadata_survives_both() {
    let mut c = Connector::new();
    c.admit("r1", &[1]);
    let gone = c.admit("r2", &[2]);
    let _ = c.scheduler.release(gone).unwrap();
    let before = [load("r1"), load("r2"), load("never admitted")];
    let events = warned(|| {
        for has_index in [false, true] {
            let mut step = before.clone();
            assert_eq!(c.reconcile(&mut step, has_index), Reconciled::default());
            assert_eq!(step, before);
        }
    });
    assert_eq!(events, []);

    // What loads and saves keeps its load when its save is dropped.
    let key = c.admit("r3", &[3]);
    let both = StepRequest { load: Some("from the store"), ..save("r3", c.offer("r3", key)) };
    let mut step = [both];
    let _ = c.scheduler.release(key).unwrap();
    assert_eq!(c.run(&mut step).dropped.len(), 1);
    assert_eq!(step, [load("r3")]);
}

#[test]
fn each_warns_once_with_the_label() {
    let mut c = Connector::new();
    let keys = ["r1", "r2", "r3"].map(|label| (label, c.admit(label, &[label_block(label)])));
    let mut step: Vec<_> =
        keys.iter().map(|&(label, key)| save(label, c.offer(label, key))).collect();
    let mut again = step.clone();
    for (_, key) in keys {
        let _ = c.scheduler.release(key).unwrap();
    }
    let events = warned(|| {
        assert_eq!(c.run(&mut step).dropped.len(), 3);
        assert_eq!(c.run_without_index(&mut again).dropped.len(), 3);
    });
    let told: Vec<_> = events.iter().map(|e| (e.reason.as_str(), e.label.as_str())).collect();
    assert_eq!(told, [("gone", "r1"), ("no-index", "r1")]);
    assert_eq!((c.warnings.count("gone"), c.warnings.count("no-index")), (3, 3));
    assert_eq!(c.warnings.counts().collect::<Vec<_>>(), [("gone", 3), ("no-index", 3)]);
}

fn label_block(label: &str) -> u32 {
    label.trim_start_matches('r').parse().unwrap()
}

#[test]
fn a_valid_table_replaces_stale_ids_without_a_warning() {
    let mut c = Connector::new();
    let key = c.admit("r1", &[1, 2]);
    let offer = c.offer("r1", key);
    let _ = c.scheduler.replace(key, GroupId(0), 1, BlockId(9)).unwrap();
    c.scheduler.publish();
    let mut step = [save("r1", offer)];
    let events = warned(|| {
        let done = c.run(&mut step);
        assert_eq!(blocks(&done.pinned[0]), [1, 9]);
        assert_eq!(done.pinned[0].request.epoch(), c.index.epoch());
        assert!(done.dropped.is_empty());
    });
    assert_eq!(events, []);
    assert_eq!(step[0].save.as_ref().unwrap().request.epoch(), c.index.epoch());

    // Where the caller cannot vouch for the new blocks, the save is dropped instead.
    let mut step = [save("r1", offer)];
    step[0].save.as_mut().unwrap().replan = false;
    let reassigned = Stale::Reassigned { group: GroupId(0), position: 1 };
    assert_eq!(reasons(&c.run(&mut step)), [("r1", reassigned.into())]);
}

// What else a step can hold.

#[test]
fn a_step_is_pinned_reported_and_durable() {
    let mut c = Connector::new();
    let (a, b) = (c.admit("r1", &[1, 2]), c.admit("r2", &[5]));
    let (first, second) = (c.offer("r1", a), c.offer("r2", b));
    let mut step = [save("r1", first), load("r3"), save("r2", second)];
    let done = c.run(&mut step);
    let pinned: Vec<_> = done.pinned.iter().map(|p| (p.label.as_ref(), blocks(p))).collect();
    assert_eq!(pinned, [("r1", vec![1, 2]), ("r2", vec![5])]);
    assert_eq!(done.pinned[0].request, first.request);

    let _ = c.scheduler.release(a).unwrap();
    let job = done.pinned[0].job;
    assert_eq!(c.jobs.complete(job, Rank(0), Outcome::Done), Completion::Pending(1));
    let last = c.jobs.complete(job, Rank(1), Outcome::Done);
    let Completion::Last(outcome) = last else { panic!("{last:?}") };
    assert!(c.trackers.job_ended(job, outcome));
    assert!(!c.trackers.job_ended(job, outcome), "once");
    assert_eq!(c.trackers.get("r1").unwrap().watermark(), 32);
    assert_eq!(c.scheduler.reclaim(), [BlockId(1), BlockId(2)]);

    let job = done.pinned[1].job;
    c.jobs.complete(job, Rank(1), Outcome::Failed);
    let last = c.jobs.complete(job, Rank(0), Outcome::Done);
    let Completion::Last(outcome) = last else { panic!("{last:?}") };
    assert!(c.trackers.job_ended(job, outcome));
    assert_eq!(c.trackers.get("r2").unwrap().watermark(), 0);
    assert_eq!(c.offer("r2", b).request.tokens(), 0..16, "offered again");
}

#[test]
fn what_is_over_budget_is_put_off_and_none_the_worse() {
    let mut c = Connector::new();
    c.jobs.set_budget(JobBudget { jobs: Some(1), blocks: None });
    let (a, b) = (c.admit("r1", &[1]), c.admit("r2", &[2]));
    let mut step = [save("r1", c.offer("r1", a)), save("r2", c.offer("r2", b))];
    let mut done = Reconciled::default();
    assert_eq!(warned(|| done = c.run(&mut step)), []);
    assert_eq!(done.deferred.len(), 1);
    assert_eq!(done.deferred[0].budget, Budget::Jobs { max: 1 });
    assert_eq!(step[1].save, None);
    assert_eq!(c.in_flight("r2"), vec![0..16]);

    c.jobs.force_end(done.pinned[0].job, c.now).unwrap();
    let deferred = done.deferred.remove(0);
    let mut step = [StepRequest { label: deferred.label, load: None, save: Some(deferred.save) }];
    assert_eq!(blocks(&c.run(&mut step).pinned[0]), [2]);
}

#[test]
fn a_new_life_drops_the_save_and_offers_it_again() {
    let mut c = Connector::new();
    let old = c.admit("r1", &[1, 2]);
    let mut step = [save("r1", c.offer("r1", old))];
    let new = c.scheduler.preempt(old).unwrap().successor;
    c.scheduler.assign(new, GroupId(0), &[BlockId(7), BlockId(8)]).unwrap();
    c.scheduler.publish();
    assert_eq!(reasons(&c.run(&mut step)), [("r1", Stale::NewLife.into())]);
    let mut step = [save("r1", c.offer("r1", new))];
    assert_eq!(blocks(&c.run(&mut step).pinned[0]), [7, 8]);
}

#[test]
fn a_replan_that_fails_is_told_by_the_reason_of_the_plan() {
    let mut c = Connector::new();
    let key = c.admit("r1", &[1, 2]);
    let offer = c.offer("r1", key);
    let _ = c.scheduler.replace(key, GroupId(0), 1, BlockId(9)).unwrap();
    // Not published: the new block is not to be seen yet.
    let mut step = [save("r1", offer)];
    let reassigned = Stale::Reassigned { group: GroupId(0), position: 1 };
    assert_eq!(reasons(&c.run(&mut step)), [("r1", reassigned.into())]);
    assert_eq!(c.in_flight("r1"), []);
}

#[test]
fn several_groups_are_told_apart() {
    let (scheduler, index) = Config::new(64).block_sizes([16, 32]).build().unwrap();
    let mut c = Connector { scheduler, index, ..Connector::new() };
    let key = c.admit("r1", &[1, 2]);
    c.scheduler.assign(key, GroupId(1), &[BlockId(11)]).unwrap();
    c.scheduler.publish();
    let mut step = [save("r1", c.offer("r1", key))];
    let done = c.run(&mut step);
    assert_eq!(
        done.pinned[0].blocks,
        [(GroupId(0), vec![BlockId(1), BlockId(2)]), (GroupId(1), vec![BlockId(11)])]
    );
}

#[test]
fn a_save_that_nobody_has_to_report_is_durable_at_once() {
    let mut c = Connector::new();
    let key = c.admit("r1", &[1]);
    let mut step = [save("r1", c.offer("r1", key))];
    step[0].save.as_mut().unwrap().ranks.clear();
    assert_eq!(c.run(&mut step).pinned.len(), 1);
    assert_eq!(c.jobs.pending(), 0);
    assert_eq!(c.trackers.get("r1").unwrap().watermark(), 16);
}

#[test]
fn a_consumer_never_produces_a_save() {
    let mut c = Connector::new();
    let key = c.admit("r1", &[1, 2]);
    let tracker = c.trackers.track("r1", SaveTracker::new().role(Role::Consumer));
    assert_eq!(tracker.next(&c.index, key, u64::MAX), Ok(None));
}

#[test]
fn a_save_without_a_tracker_is_pinned_and_dropped_alike() {
    let mut c = Connector::new();
    let key = c.admit("r1", &[1]);
    c.trackers.untrack("r1");
    let request = c.index.plan(key, 0..16, Groups::ALL).unwrap();
    let plain = StepSave { request, offer: None, ranks: vec![Rank(0)], replan: false };
    let entry = StepRequest { label: Arc::from("r1"), load: None, save: Some(plain) };
    assert_eq!(c.run(&mut [entry.clone()]).pinned.len(), 1);
    let _ = c.scheduler.release(key).unwrap();
    assert_eq!(c.run(&mut [entry]).dropped.len(), 1);
}

// Warnings.

#[test]
fn at_most_one_warning_a_minute_with_what_was_suppressed() {
    let mut warnings = Warnings::new();
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let events = warned(|| {
        assert!(warnings.warn("gone", "r1", "dropped", at(0)));
        for second in [0, 1, 59] {
            assert!(!warnings.warn("gone", "r2", "dropped", at(second)));
        }
        assert!(warnings.warn("hole", "r3", "dropped", at(59)), "each reason has its own minute");
        assert!(warnings.warn("gone", "r4", "dropped", at(60)));
        assert!(!warnings.warn("gone", "r5", "dropped", at(119)));
        assert!(
            !warnings.warn("gone", "r5", "dropped", at(30)),
            "a clock that goes back is no minute"
        );
        assert!(warnings.warn("gone", "r6", "dropped", at(500)));
    });
    let told: Vec<_> = events.iter().map(|e| (e.label.as_str(), e.suppressed)).collect();
    assert_eq!(told, [("r1", 0), ("r3", 0), ("r4", 3), ("r6", 2)]);
    assert_eq!((warnings.count("gone"), warnings.count("hole")), (8, 1));
    assert_eq!(warnings.count("draining"), 0);
}
