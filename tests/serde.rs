//! The stored form of saves, pictures and answers: it cannot change without these tests.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{from_str, json, to_value};
use tenure::{
    BlockId, Budget, Completion, Config, DropReason, Epoch, GroupId, Groups, Index, IndexId, JobId,
    JobStats, Kind, Outcome, PlanError, Rank, Refused, RequestKey, SaveRequest, Scheduler,
    Snapshot, Stale, Stats,
};

const SAVE: &str = r#"{"version":1,"index":"00000000000000ff","key":"3.1","epoch":7,"start":0,"end":48,"groups":[0,2],"kind":"save"}"#;

fn save() -> SaveRequest {
    let groups = [GroupId(0), GroupId(2)].into_iter().collect();
    let key = RequestKey::from_bits(3 << 32 | 1);
    SaveRequest::from_parts(IndexId(255), key, Epoch(7), 0..48, groups, Kind::Save).unwrap()
}

fn stored<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, form: &str) {
    assert_eq!(serde_json::to_string(value).unwrap(), form);
    assert_eq!(&from_str::<T>(form).unwrap(), value);
}

#[test]
fn a_save_request_is_stored_so() {
    stored(&save(), SAVE);
}

#[test]
fn a_save_request_of_another_form_is_refused() {
    for (from, to, why) in [
        (r#""version":1"#, r#""version":2"#, "version"),
        (r#""version":1,"#, "", "version"),
        (r#""kind":"save""#, r#""kind":"save","priority":3"#, "priority"),
        (r#""kind":"save""#, r#""kind":"evict""#, "evict"),
        (r#""kind":"save""#, r#""kind":"hold""#, "saves or loads"),
        (r#""end":48"#, r#""end":0"#, "empty or reversed"),
        (r#""start":0"#, r#""start":49"#, "empty or reversed"),
        (r#""start":0"#, r#""start":-1"#, "-1"),
        (r#"[0,2]"#, "[]", "names groups"),
        (r#"[0,2]"#, "[2,0]", "ascending"),
        (r#"[0,2]"#, "[0,0]", "ascending"),
        (r#"[0,2]"#, "[64]", "64"),
        (r#""00000000000000ff""#, r#""ff""#, "16 lower-case"),
        (r#""00000000000000ff""#, r#""+0000000000000ff""#, "16 lower-case"),
        (r#""00000000000000ff""#, r#""00000000000000FF""#, "16 lower-case"),
        (r#""00000000000000ff""#, "255", "16 lower-case"),
        (r#""3.1""#, r#""3""#, "a key like"),
        (r#""3.1""#, r#""03.1""#, "a key like"),
        (r#""3.1""#, r#""4294967296.1""#, "a key like"),
    ] {
        let form = SAVE.replacen(from, to, 1);
        assert_ne!(form, SAVE, "{from}");
        let error = from_str::<SaveRequest>(&form).unwrap_err().to_string();
        assert!(error.contains(why), "{form}: {error}");
    }
}

fn eight() -> (Scheduler, Index, RequestKey) {
    let (mut scheduler, index) = Config::new(8).block_sizes([4]).build().unwrap();
    let key = scheduler.admit("r1").unwrap();
    scheduler.assign(key, GroupId(0), &[BlockId(3), BlockId(5), BlockId(6)]).unwrap();
    let _ = scheduler.vacate(key, GroupId(0), 0..1).unwrap();
    scheduler.publish();
    (scheduler, index, key)
}

#[test]
fn a_stored_request_is_pinned_by_its_own_index_alone() {
    let (_scheduler, index, key) = eight();
    let stored = serde_json::to_string(&index.plan(key, 4..12, Groups::ALL).unwrap()).unwrap();
    let back: SaveRequest = from_str(&stored).unwrap();
    assert_eq!(index.pin(&back).unwrap().blocks(), [BlockId(5), BlockId(6)]);

    // Another rank, or this one after a restart: the same key, range and epoch.
    let (_again, another, same) = eight();
    assert_eq!(key, same);
    assert_eq!(another.pin(&back).unwrap_err(), Stale::EpochUnknown.into());
    assert_eq!(another.check(&back), Err(Stale::EpochUnknown));
    assert_eq!(another.replan(&back), Err(Stale::EpochUnknown));

    // The future.
    let future: SaveRequest = from_str(&stored.replace("\"epoch\":1", "\"epoch\":2")).unwrap();
    assert_eq!(index.pin(&future).unwrap_err(), Stale::EpochUnknown.into());
    // A group that the index has not.
    let groups: SaveRequest = from_str(&stored.replace("[0]", "[0,9]")).unwrap();
    assert_eq!(index.pin(&groups).unwrap_err(), Stale::EpochUnknown.into());
    // A life that never was.
    let never: SaveRequest = from_str(&stored.replace("\"0.1\"", "\"7.9\"")).unwrap();
    assert_eq!(index.pin(&never).unwrap_err(), Stale::Gone.into());
}

#[test]
fn a_snapshot_is_stored_so() {
    let (_scheduler, index, key) = eight();
    let snapshot = index.snapshot();
    let form = json!({
        "version": 1,
        "index": index.id().to_string(),
        "epoch": 1,
        "requests": [{"key": "0.1", "label": "r1", "tables": [[null, 5, 6]]}],
    });
    assert_eq!(to_value(&*snapshot).unwrap(), form);
    let back: Snapshot = serde_json::from_value(form.clone()).unwrap();
    assert_eq!((back.index(), back.epoch(), back.len()), (index.id(), Epoch(1), 1));
    assert_eq!(back.get(key), snapshot.get(key));
    assert_eq!(back.by_label("r1"), snapshot.by_label("r1"));
    assert_eq!(back.owners(BlockId(6)).len(), 1);

    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut form = form.clone();
        change(&mut form);
        serde_json::from_value::<Snapshot>(form).unwrap_err().to_string()
    };
    assert!(refused(&|form| form["version"] = json!(2)).contains("version 1"));
    assert!(refused(&|form| form["more"] = json!(0)).contains("more"));
    assert!(refused(&|form| form["requests"][0]["more"] = json!(0)).contains("more"));
    assert!(refused(&|form| form["requests"][0]["tables"][0][0] = json!(-4)).contains("-4"));
    let twice = |form: &mut serde_json::Value| {
        let request = form["requests"][0].clone();
        form["requests"].as_array_mut().unwrap().push(request);
    };
    assert!(refused(&twice).contains("listed twice"));
    let uneven = |form: &mut serde_json::Value| {
        let more = json!({"key": "1.1", "label": "r2", "tables": [[], []]});
        form["requests"].as_array_mut().unwrap().push(more);
    };
    assert!(refused(&uneven).contains("as many tables"));
}

#[test]
fn answers_are_stored_so() {
    let (group, position) = (GroupId(1), 2);
    for (stale, form) in [
        (Stale::EpochUnknown, r#""epoch-unknown""#),
        (Stale::Draining, r#""draining""#),
        (Stale::Reset, r#""reset""#),
        (Stale::Gone, r#""gone""#),
        (Stale::NewLife, r#""new-life""#),
        (Stale::Truncated { group, len: 3 }, r#"{"truncated":{"group":1,"len":3}}"#),
        (Stale::Hole { group, position }, r#"{"hole":{"group":1,"position":2}}"#),
        (Stale::Reassigned { group, position }, r#"{"reassigned":{"group":1,"position":2}}"#),
        (Stale::NotCommitted { committed: 32 }, r#"{"not-committed":{"committed":32}}"#),
    ] {
        stored(&stale, form);
        stored(&Refused::Stale(stale), &format!(r#"{{"stale":{form}}}"#));
        stored(&PlanError::Stale(stale), &format!(r#"{{"stale":{form}}}"#));
        stored(&DropReason::Stale(stale), &format!(r#"{{"stale":{form}}}"#));
        assert!(form.contains(stale.name()), "the name that metrics and scripts use");
    }
    stored(&Refused::Budget(Budget::Pins), r#"{"budget":"pins"}"#);
    stored(&Refused::Budget(Budget::Jobs { max: 4 }), r#"{"budget":{"jobs":{"max":4}}}"#);
    stored(&Refused::Budget(Budget::Blocks { max: 9 }), r#"{"budget":{"blocks":{"max":9}}}"#);
    stored(&PlanError::BadRange { start: 4, end: 4 }, r#"{"bad-range":{"start":4,"end":4}}"#);
    stored(&PlanError::UnknownGroup { group }, r#"{"unknown-group":{"group":1}}"#);
    stored(&PlanError::NoGroup, r#""no-group""#);
    stored(&DropReason::NoIndex, r#""no-index""#);
    for (answer, form) in [
        (Completion::Pending(3), r#"{"pending":3}"#),
        (Completion::Last(Outcome::Done), r#"{"last":"done"}"#),
        (Completion::Last(Outcome::Failed), r#"{"last":"failed"}"#),
        (Completion::Duplicate, r#""duplicate""#),
        (Completion::AlreadyEnded, r#""already-ended""#),
        (Completion::UnknownJob, r#""unknown-job""#),
        (Completion::UnknownRank, r#""unknown-rank""#),
        (Completion::Exceeds { left: 2 }, r#"{"exceeds":{"left":2}}"#),
    ] {
        stored(&answer, form);
    }
    stored(&(JobId::from_bits(7), Rank(2)), "[7,2]");
    assert!(from_str::<Stale>(r#""lost""#).is_err());
    assert!(from_str::<Stale>(r#"{"hole":{"group":1,"position":2,"more":3}}"#).is_err());
}

#[test]
fn statistics_are_stored_so() {
    let (mut scheduler, index, key) = eight();
    let save = index.plan(key, 4..12, Groups::ALL).unwrap();
    let pin = index.pin(&save).unwrap();
    let _ = scheduler.release(key).unwrap();
    assert!(index.pin(&save).is_err());
    index.snapshot();
    scheduler.publish();
    let stats = index.stats();
    let form = json!({
        "epoch": 2, "free": 6, "owned": 0, "held": 2, "live": 0,
        "draining": 1, "draining_blocks": 2, "draining_age": 1,
        "retained": stats.retained, "retained_pieces": stats.retained_pieces,
        "pins": 1, "refused": [0, 0, 0, 1, 0, 0, 0, 0, 0], "refused_but_replannable": 0,
        "over_budget": 0, "snapshots": 1,
    });
    assert_eq!(to_value(&stats).unwrap(), form);
    assert_eq!(serde_json::from_value::<Stats>(form.clone()).unwrap(), stats);
    let mut more = form;
    more["more"] = json!(0);
    assert!(serde_json::from_value::<Stats>(more).is_err());
    drop(pin);

    let jobs = json!({
        "opened": 0, "done": 0, "failed": 0, "forced": 0, "refused_jobs": 0, "refused_blocks": 0,
        "refused_pins": 0, "stale": [0, 0, 0, 0, 0, 0, 0, 0, 0], "duplicates": 0,
        "already_ended": 0, "unknown_jobs": 0, "unknown_ranks": 0, "excess": 0,
    });
    assert_eq!(to_value(JobStats::default()).unwrap(), jobs);
    assert_eq!(serde_json::from_value::<JobStats>(jobs).unwrap(), JobStats::default());
}
