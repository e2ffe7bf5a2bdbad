//! Appending: it disturbs nobody, and nobody reads what is not there yet.

use loom::thread;
use loom_tests::{World, models, saw, shown};
use tenure::{Groups, PlanError, Stale};

models! {
    append_never_refuses: all => ["pinned"],
    grow_pin: all => ["listed"],
    grow_view: all => ["listed"],
    grow_plan: all => ["planned", "truncated"],
    grow_hole: all => ["planned", "truncated", "hole"],
    regrow_pin: all => ["listed"],
    regrow_retire: all => ["listed"],
}

/// A pin over what was planned is taken however the table grows: into new storage, by holes, by
/// whole steps.
fn append_never_refuses() {
    let mut world = World::with_null(4);
    let key = world.publish_request("r", &[1]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || saver.save());
    world.assign(key, &[2, 0]);
    world.publish();
    world.assign(key, &[3]);
    reader.join().unwrap();
    world.end();
}

/// A pin lists its blocks while the storage they lie in grows by whole levels.
fn grow_pin() {
    let mut world = World::new(5);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..2);
    let pin = saver.pin().unwrap();
    let reader = thread::spawn(move || {
        assert_eq!(pin.blocks(), saver.blocks());
        saw("listed");
        saver.finish(pin);
    });
    world.assign(key, &[2]);
    world.assign(key, &[3, 4]);
    reader.join().unwrap();
    world.end();
}

/// So does a look at the published table.
fn grow_view() {
    let mut world = World::new(5);
    let key = world.publish_request("r", &[0, 1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        assert_eq!(shown(&index.view(key).unwrap()), [Some(0), Some(1)]);
        saw("listed");
    });
    world.assign(key, &[2]);
    world.assign(key, &[3, 4]);
    reader.join().unwrap();
    world.end();
}

/// Nothing is planned before it is published, and what is planned is there.
fn grow_plan() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0]);
    let index = world.index.clone();
    let reader = thread::spawn(move || match index.plan(key, 0..3, Groups::ALL) {
        Ok(request) => {
            assert_eq!(request.epoch().0, 2);
            let pin = index.pin(&request).unwrap();
            assert_eq!(pin.blocks().iter().map(|block| block.0).collect::<Vec<_>>(), [0, 1, 2]);
            saw("planned");
        }
        Err(PlanError::Stale(Stale::Truncated { len: 1, .. })) => saw("truncated"),
        Err(other) => panic!("{other}"),
    });
    world.assign(key, &[1, 2]);
    world.publish();
    reader.join().unwrap();
    world.end();
}

/// A hole among what is appended is not planned over.
fn grow_hole() {
    let mut world = World::with_null(3);
    let key = world.publish_request("r", &[1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        match index.plan(key, 0..1, Groups::ALL) {
            Ok(_) => saw("planned"),
            Err(other) => panic!("{other}"),
        }
        match index.plan(key, 0..3, Groups::ALL).unwrap_err() {
            PlanError::Stale(Stale::Truncated { len: 1, .. }) => saw("truncated"),
            PlanError::Stale(Stale::Hole { position: 1, .. }) => saw("hole"),
            other => panic!("{other}"),
        }
    });
    world.assign(key, &[0, 2]);
    world.publish();
    reader.join().unwrap();
    world.end();
}

/// A pin lists its blocks while the path that leads to them is copied, because the versions before
/// still read what regrowth overwrites.
fn regrow_pin() {
    let mut world = World::new(4);
    let key = world.publish_request("r", &[0, 1, 2]);
    world.truncate(key, 1);
    let saver = world.saver(key, 0..1);
    let pin = saver.pin().unwrap();
    let reader = thread::spawn(move || {
        assert_eq!(pin.blocks(), saver.blocks());
        saw("listed");
        saver.finish(pin);
    });
    world.assign(key, &[3]);
    world.publish();
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A look at an old epoch goes on while the storage it reads is retired.
fn regrow_retire() {
    let mut world = World::new(4);
    let key = world.publish_request("r", &[0, 1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || {
        let view = index.view(key).unwrap();
        match (view.epoch.0, &shown(&view)[..]) {
            (1, [Some(0), Some(1)]) | (2, [Some(0), Some(2)]) | (3, [Some(0), Some(3)]) => {
                saw("listed");
            }
            half => panic!("half a step: {half:?}"),
        }
    });
    for block in [2, 3] {
        world.truncate(key, 1);
        world.assign(key, &[block]);
        world.publish();
        world.reclaim();
    }
    reader.join().unwrap();
    world.end();
}
