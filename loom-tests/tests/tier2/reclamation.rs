//! What is retired is read to the end by whoever may read it, and then used again.
//!
//! A publish and the call after it send off what a step has retired; each further one helps the
//! epochs of the collector along, until it comes back and is made into something else.

use loom::thread;
use loom_tests::{World, models, saw, shown};

models! {
    lease_and_pin: 2 => ["pinned", "gone", "back", "kept"],
    lease_and_unpin: 2 => ["back", "kept"],
    lease_and_view: 2 => ["before", "after", "back", "kept"],
    storage_and_view: 2 => ["before", "after", "back", "kept"],
    storage_and_pin: 2 => ["listed", "back", "kept"],
    storage_and_old_pin: 2 => ["listed", "back", "kept"],
}

/// So many publishes bring back what nobody reads.
const ENOUGH: usize = 3;

fn come_back(world: &mut World, publishes: usize) {
    for _ in 0..publishes {
        world.publish();
        world.reclaim();
    }
    saw(if world.index.stats().retained == 0 { "back" } else { "kept" });
}

/// A reader pins a lease that is superseded, and retired.
fn lease_and_pin() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || saver.save());
    world.release(key);
    come_back(&mut world, 1);
    reader.join().unwrap();
    world.end();
}

/// A lease is retired once its last pin has ended, and used again.
fn lease_and_unpin() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let pin = saver.pin().unwrap();
    let reader = thread::spawn(move || {
        assert_eq!(pin.blocks(), saver.blocks());
        saver.finish(pin);
    });
    world.release(key);
    come_back(&mut world, ENOUGH);
    world.publish_request("s", &[1]);
    reader.join().unwrap();
    world.end();
}

/// A reader walks to a version that is retired and used again.
fn lease_and_view() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || match &shown(&index.view(key).unwrap())[..] {
        [Some(0), Some(1)] => saw("before"),
        [Some(0)] => saw("after"),
        other => panic!("{other:?}"),
    });
    world.truncate(key, 1);
    world.reclaim();
    come_back(&mut world, ENOUGH);
    reader.join().unwrap();
    world.end();
}

/// A reader copies out storage that is replaced, retired and used again.
fn storage_and_view() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0, 1]);
    let index = world.index.clone();
    let reader = thread::spawn(move || match &shown(&index.view(key).unwrap())[..] {
        [Some(0), Some(1)] => saw("before"),
        [Some(2), Some(1)] => saw("after"),
        other => panic!("{other:?}"),
    });
    world.replace(key, 0, 2);
    come_back(&mut world, ENOUGH);
    reader.join().unwrap();
    world.end();
}

/// A pin lists its blocks while the storage they lie in is replaced, retired and used again.
fn storage_and_pin() {
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
    come_back(&mut world, ENOUGH);
    reader.join().unwrap();
    world.end();
}

/// So does one on a version of the table that others have followed.
fn storage_and_old_pin() {
    let mut world = World::new(4);
    let key = world.publish_request("r", &[0, 1, 2]);
    let saver = world.saver(key, 0..3);
    let pin = saver.pin().unwrap();
    let reader = thread::spawn(move || {
        assert_eq!(pin.blocks(), saver.blocks());
        saw("listed");
        saver.finish(pin);
    });
    world.replace(key, 0, 3);
    come_back(&mut world, ENOUGH);
    reader.join().unwrap();
    world.end();
}
