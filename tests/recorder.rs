//! The flight recorder writes what happened, in order and in the words of scripts. That the scripts
//! answer the same is tested where they are run, with the command.

use tenure::{BlockId, Config, GroupId, Groups, Index, Recording, RequestKey, Scheduler, Stale};

const G0: GroupId = GroupId(0);

fn blocks(ids: impl IntoIterator<Item = u32>) -> Vec<BlockId> {
    ids.into_iter().map(BlockId).collect()
}

/// An index of 16 blocks of one token, and a published request over blocks `0..4`.
fn four(recording: Recording) -> (Scheduler, Index, RequestKey) {
    let config = Config::new(16).block_sizes([1]).record(recording);
    let (mut scheduler, index) = config.build().unwrap();
    let key = scheduler.admit("chat 1 #2").unwrap();
    scheduler.assign(key, G0, &blocks(0..4)).unwrap();
    scheduler.publish();
    (scheduler, index, key)
}

/// The lines since the first publish, without comments.
fn lines(index: &Index) -> Vec<String> {
    let script = index.recorder().unwrap().script();
    let lines = script.lines().skip_while(|line| !line.starts_with("expect free")).skip(1);
    lines.map(str::to_owned).collect()
}

#[test]
fn an_incident_is_told_in_order() {
    let (mut scheduler, index, key) = four(Recording::lines(1_000).labels(true));
    let save = index.plan(key, 0..4, Groups::ALL).unwrap();
    let load = index.plan_load(key, 1..2, Groups::ALL).unwrap();
    let pin = index.pin(&save).unwrap();
    let step = scheduler.begin_step();
    let next = scheduler.preempt(key).unwrap().successor;
    assert_eq!(index.pin(&load).unwrap_err(), Stale::NewLife.into());
    assert!(index.plan(next, 0..1, Groups::ALL).is_err());
    assert!(scheduler.assign(next, G0, &blocks([0])).is_err());
    drop(pin);
    let _ = scheduler.end_step(step).unwrap();
    assert_eq!(
        lines(&index),
        [
            "plan s1 chat%201%20%232 0..4 -> ok",
            "plan s2 chat%201%20%232 1..2 load -> ok",
            "pin s1 as j1 -> ok",
            "step begin a1 -> ok",
            "preempt chat%201%20%232 -> freed 0 held 4",
            "pin s2 as j0 -> stale new-life",
            "plan s0 chat%201%20%232 0..1 -> stale truncated 0",
            "assign chat%201%20%232 0 -> in-use 0",
            "complete j1 0 -> last",
            "step end a1 -> freed 4",
        ]
    );
}

#[test]
fn labels_are_neutral_unless_they_are_asked_for() {
    let (_scheduler, index, _) = four(Recording::lines(1_000));
    let script = index.recorder().unwrap().script();
    assert!(script.contains("admit r0.1 -> ok") && !script.contains("chat"), "{script}");
}

#[test]
fn a_pin_with_a_lease_of_its_own_is_a_hold() {
    let (mut scheduler, index, key) = four(Recording::lines(1_000));
    let mut pin = index.pin(&index.plan(key, 0..4, Groups::ALL).unwrap()).unwrap();
    assert_eq!(pin.blocks(), blocks(0..4));
    pin.narrow(1..3).unwrap();
    assert_eq!((pin.blocks(), pin.tokens()), (blocks(1..3), 1..3));
    assert_eq!(scheduler.release(key).unwrap().held(), 2);
    let pin = pin.with_note("late");
    assert_eq!(scheduler.draining()[0].note, Some("late"));
    drop(pin);
    assert_eq!(scheduler.reclaim(), blocks(1..3));
    assert_eq!(
        lines(&index)[2..],
        [
            "hold 1 2 as j2 -> ok",
            "complete j1 0 -> last",
            "release r0.1 -> freed 2 held 2",
            "hold 1 2 as j3 -> ok",
            "complete j2 0 -> last",
            "complete j3 0 -> last",
        ]
    );
}

#[test]
fn what_cannot_be_said_is_a_comment() {
    let (mut scheduler, index, key) = four(Recording::lines(1_000));
    assert!(scheduler.release(RequestKey::from_bits(77 << 32 | 5)).is_err());
    let _ = scheduler.release(key).unwrap();
    let again = scheduler.admit("chat 1 #2").unwrap();
    assert!(scheduler.release(key).is_err());
    assert!(scheduler.admit("chat 1 #2").is_err());
    let lines = lines(&index);
    assert!(lines[0].starts_with("# release life-77.5: "), "{lines:?}");
    assert_eq!(lines[1..3], ["release r0.1 -> freed 4 held 0", "admit r0.2 -> ok"]);
    // The name is another life's only where labels are kept.
    assert_eq!(lines[3], "release r0.1 -> already-released");
    assert_eq!(lines[4], "admit r0.2 -> already-live");
    assert!(scheduler.is_live(again));
}

#[test]
fn the_recording_is_bounded_and_begins_with_a_picture() {
    let (mut scheduler, index, key) = four(Recording::lines(100));
    let pin = index.pin(&index.plan(key, 0..2, Groups::ALL).unwrap()).unwrap();
    let _ = scheduler.vacate(key, G0, 0..1).unwrap();
    for turn in 0..2_000 {
        let other = scheduler.admit("other").unwrap();
        scheduler.assign(other, G0, &blocks([8 + turn % 4])).unwrap();
        scheduler.publish();
        let _ = scheduler.release(other).unwrap();
    }
    let script = index.recorder().unwrap().script();
    let count = script.lines().count();
    assert!((50..130).contains(&count), "{count} lines");
    let begin: Vec<&str> = script.lines().skip(1).take(7).collect();
    assert_eq!(
        begin[..6],
        [
            "index blocks 16 block-size 1",
            "admit r0.1",
            "assign r0.1 1",
            "share r0.1 1",
            "assign r0.1 2 3",
            "vacate r0.1 0..1",
        ]
    );
    assert!(begin[6].starts_with("admit r1."), "{begin:?}");
    assert!(script.contains("hold 0 as h1 -> ok"), "{script}");
    drop(pin);
}

#[test]
fn an_index_that_is_not_recorded_has_no_recorder() {
    let (scheduler, index) = Config::new(4).build().unwrap();
    assert!(scheduler.recorder().is_none() && index.recorder().is_none());
}

#[test]
fn recorded_pins_outlive_everything() {
    let (mut scheduler, index, key) = four(Recording::lines(100));
    let save = index.plan(key, 0..4, Groups::ALL).unwrap();
    let (first, mut second) = (index.pin(&save).unwrap(), index.pin(&save).unwrap());
    let hold = scheduler.hold(&blocks([1])).unwrap();
    let recorder = index.recorder().unwrap().clone();
    drop(scheduler);
    second.narrow(0..1).unwrap();
    drop(index);
    assert_eq!(first.blocks(), blocks(0..4));
    assert_eq!(second.blocks(), blocks(0..4), "nobody is there to give the rest back to");
    drop((first, second, hold));
    assert!(recorder.script().ends_with("complete j3 0 -> last\n"));
}
