//! A reader sees a whole step or nothing of it.

use loom::thread;
use loom_tests::{World, models, saw, shown};
use tenure::{BlockId, Groups, Pin, PlanError, Refused, Stale};

models! {
    view_publish: all => ["before", "after"],
    view_two_requests: all => ["neither", "second", "both"],
    view_intermediates: all => ["before", "after"],
    view_unpublished: all => ["before"],
    view_window: all => ["before", "after"],
    view_ended: all => ["before", "gone"],
    snapshot_publish: all => ["before", "after"],
    snapshot_slot_reuse: all => ["old", "neither", "new"],
    snapshot_reuse_same_step: all => ["old", "new"],
    plan_two_requests: 4 => ["neither", "second", "both"],
    plan_then_pin: all => ["before", "after", "truncated", "lost since", "regrown since"],
}

/// What was lost in a step shows until the step is published, what was gained from then on.
fn view_publish() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0, 1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let view = index.view(key).unwrap();
        match (view.epoch.0, &shown(&view)[..]) {
            (1, [Some(0), Some(1)]) => saw("before"),
            (2, [Some(0), Some(2)]) => saw("after"),
            half => panic!("half a step: {half:?}"),
        }
    });
    world.truncate(key, 1);
    world.assign(key, &[2]);
    world.publish();
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// Who has seen a step in one request sees it in the next.
fn view_two_requests() {
    let mut world = World::new(4);
    let first = world.publish_request("r", &[0]);
    let second = world.publish_request("s", &[1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let shown = [first, second].map(|key| shown(&index.view(key).unwrap()));
        match (&shown[0][..], &shown[1][..]) {
            ([Some(0)], [Some(1)]) => saw("neither"),
            ([Some(0)], [Some(3)]) => saw("second"),
            ([Some(0), Some(2)], [Some(3)]) => saw("both"),
            half => panic!("half a step: {half:?}"),
        }
    });
    world.assign(first, &[2]);
    world.replace(second, 0, 3);
    world.publish();
    reader.join().unwrap();
    world.end();
}

/// Versions that were made and superseded within a step are never seen, and never missed when they
/// are retired.
fn view_intermediates() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0, 1, 2]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let view = index.view(key).unwrap();
        match (view.epoch.0, &shown(&view)[..]) {
            (1, [Some(0), Some(1), Some(2)]) => saw("before"),
            (2, [None, Some(1)]) => saw("after"),
            half => panic!("half a step: {half:?}"),
        }
    });
    world.truncate(key, 2);
    world.vacate(key, 0..1);
    world.reclaim();
    world.publish();
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A rollback and regrowth that is not published shows nothing, although the newest version's
/// storage is written meanwhile.
fn view_unpublished() {
    let mut world = World::new(5);
    let key = world.publish_request("r", &[0, 1, 2]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        assert_eq!(shown(&index.view(key).unwrap()), [Some(0), Some(1), Some(2)]);
        saw("before");
    });
    world.truncate(key, 1);
    world.assign(key, &[3, 4]);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A window slides past whole chunks of storage, which the versions before it still show.
fn view_window() {
    let mut world = World::new(4);
    let key = world.publish_request("r", &[0, 1, 2]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let view = index.view(key).unwrap();
        match (view.epoch.0, &shown(&view)[..]) {
            (1, [Some(0), Some(1), Some(2)]) => saw("before"),
            (2, [None, None, Some(2), Some(3)]) => saw("after"),
            half => panic!("half a step: {half:?}"),
        }
    });
    world.vacate(key, 0..2);
    world.assign(key, &[3]);
    world.publish();
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A life shows until its end is published.
fn view_ended() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0]);
    let index = world.index.clone();
    let reader = thread::spawn(move || match index.view(key) {
        Ok(view) => {
            assert_eq!((view.epoch.0, &shown(&view)[..]), (1, &[Some(0)][..]));
            saw("before");
        }
        Err(stale) => {
            assert_eq!(stale, Stale::Gone);
            assert_eq!(index.epoch().0, 2);
            saw("gone");
        }
    });
    world.release(key);
    world.publish();
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A snapshot is of one epoch over all requests.
fn snapshot_publish() {
    let mut world = World::new(4);
    let first = world.publish_request("r", &[0]);
    let second = world.publish_request("s", &[1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let snapshot = index.snapshot();
        let shown = [first, second].map(|key| shown(snapshot.get(key).unwrap()));
        match (snapshot.epoch().0, &shown[0][..], &shown[1][..]) {
            (2, [Some(0)], [Some(1)]) => saw("before"),
            (3, [Some(0), Some(2)], [Some(3)]) => saw("after"),
            half => panic!("half a step: {half:?}"),
        }
    });
    world.assign(first, &[2]);
    world.replace(second, 0, 3);
    world.publish();
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A slow reader finds the life of its epoch behind a newer one in the same place.
fn snapshot_slot_reuse() {
    let mut world = World::new(2);
    let old = world.publish_request("r", &[0]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let snapshot = index.snapshot();
        let labels: Vec<&str> = snapshot.iter().map(|life| &*life.label).collect();
        match (snapshot.epoch().0, &labels[..]) {
            (1, ["r"]) => saw("old"),
            (2, []) => saw("neither"),
            (3, ["s"]) => saw("new"),
            other => panic!("{other:?}"),
        }
    });
    world.release(old);
    world.publish();
    world.publish_request("s", &[1]);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// So it does where one step has ended the old life and begun the new one.
fn snapshot_reuse_same_step() {
    let mut world = World::new(2);
    let old = world.publish_request("r", &[0]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let snapshot = index.snapshot();
        let lives: Vec<_> = snapshot.iter().map(|life| (&*life.label, shown(life))).collect();
        match (snapshot.epoch().0, &lives[..]) {
            (1, [("r", table)]) if table[..] == [Some(0)] => saw("old"),
            (2, [("s", table)]) if table[..] == [Some(1)] => saw("new"),
            other => panic!("{other:?}"),
        }
    });
    world.release(old);
    world.publish_request("s", &[1]);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// Who can plan a step in one request can plan it in the next.
fn plan_two_requests() {
    let mut world = World::new(4);
    let first = world.publish_request("r", &[0]);
    let second = world.publish_request("s", &[1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let planned = [first, second].map(|key| index.plan(key, 0..2, Groups::ALL));
        if let Ok(request) = planned[0] {
            assert_eq!(request.epoch().0, 3);
        }
        match planned.map(|plan| plan.is_ok()) {
            [false, false] => saw("neither"),
            [false, true] => saw("second"),
            [true, true] => saw("both"),
            [true, false] => panic!("half a step"),
        }
    });
    world.assign(first, &[2]);
    world.assign(second, &[3]);
    world.publish();
    reader.join().unwrap();
    world.end();
}

/// What a plan at an epoch pins is what that epoch showed.
fn plan_then_pin() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0, 1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let request = match index.plan(key, 0..2, Groups::ALL) {
            Ok(request) => request,
            Err(PlanError::Stale(stale)) => return saw(stale.name()),
            Err(other) => panic!("{other}"),
        };
        let answer = index.pin(&request);
        match (request.epoch().0, answer.as_ref().map(Pin::blocks).as_deref()) {
            (1, Ok([BlockId(0), BlockId(1)])) => saw("before"),
            (2, Ok([BlockId(0), BlockId(2)])) => saw("after"),
            (1, Err(Refused::Stale(Stale::Truncated { .. }))) => saw("lost since"),
            (1, Err(Refused::Stale(Stale::Reassigned { .. }))) => saw("regrown since"),
            other => panic!("{other:?}"),
        }
    });
    world.truncate(key, 1);
    world.assign(key, &[2]);
    world.publish();
    reader.join().unwrap();
    world.end();
}
