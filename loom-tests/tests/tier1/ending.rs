//! The scheduler ends, and the handles go, while pins are out: whoever comes last frees everything,
//! and nobody before.

use loom::thread;
use loom_tests::{World, models, name, saw};
use tenure::{Groups, Stale};

models! {
    scheduler_drop: all => [],
    scheduler_drop_alone: all => [],
    scheduler_drop_two_leases: 4 => [],
    scheduler_drop_one_lease: all => [],
    scheduler_drop_pin: all => ["pinned", "draining"],
    scheduler_drop_view: all => ["seen"],
    last_handle_drop: all => [],
    last_pins_drop: all => [],
}

/// The last unpin after the scheduler's end, while a handle lives on.
fn scheduler_drop() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..2);
    let pin = saver.pin().unwrap();
    let World { scheduler, index, .. } = world;
    let reader = thread::spawn(move || saver.finish(pin));
    drop(scheduler);
    assert_eq!(index.plan(key, 0..2, Groups::ALL), Err(Stale::Draining.into()));
    reader.join().unwrap();
}

/// The last unpin after the end of the scheduler and of every handle: it frees the shared state, but
/// not before the scheduler is done with it.
fn scheduler_drop_alone() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let pin = world.index.pin(&world.saver(key, 0..2).request).unwrap();
    let World { scheduler, index, .. } = world;
    drop(index);
    let reader = thread::spawn(move || {
        assert_eq!(pin.blocks().len(), 2);
        drop(pin);
    });
    drop(scheduler);
    reader.join().unwrap();
}

/// Each of the leases whose last unpin is still to come keeps the shared state, until it has come.
fn scheduler_drop_two_leases() {
    let mut world = World::new(2);
    let keys = [world.admit("r"), world.admit("s")];
    world.assign(keys[0], &[0]);
    world.assign(keys[1], &[1]);
    world.publish();
    let pins = keys.map(|key| world.index.pin(&world.saver(key, 0..1).request).unwrap());
    let World { scheduler, index, .. } = world;
    drop(index);
    let readers = pins.map(|pin| thread::spawn(move || drop(pin)));
    drop(scheduler);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// A lease keeps it until the last of its pins has ended.
fn scheduler_drop_one_lease() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let request = world.saver(key, 0..1).request;
    let pins = [world.index.pin(&request).unwrap(), world.index.pin(&request).unwrap()];
    let World { scheduler, index, .. } = world;
    drop(index);
    let readers = pins.map(|pin| thread::spawn(move || drop(pin)));
    drop(scheduler);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// A pin is taken before the scheduler has ended, and is good, or it is refused.
fn scheduler_drop_pin() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..2);
    let World { scheduler, index, memory, .. } = world;
    let reader = thread::spawn(move || {
        let pin = saver.pin();
        if let Ok(pin) = &pin {
            assert_eq!(pin.blocks(), saver.blocks());
        }
        saw(name(pin.map(drop)));
    });
    drop(scheduler);
    drop(index);
    reader.join().unwrap();
    drop(memory);
}

/// The published table can be looked at after the scheduler's end, and while it ends.
fn scheduler_drop_view() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    world.truncate(key, 1);
    let World { scheduler, index, .. } = world;
    let reader = thread::spawn(move || {
        assert_eq!(loom_tests::shown(&index.view(key).unwrap()), [Some(0), Some(1)]);
        saw("seen");
    });
    drop(scheduler);
    reader.join().unwrap();
}

/// The last handle and the last pin end at the same time, long after the scheduler.
fn last_handle_drop() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let pin = world.index.pin(&world.saver(key, 0..2).request).unwrap();
    let World { scheduler, index, .. } = world;
    drop(scheduler);
    let reader = thread::spawn(move || drop(pin));
    drop(index);
    reader.join().unwrap();
}

/// So do two pins on leases of their own.
fn last_pins_drop() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let request = world.saver(key, 0..1).request;
    let first = world.index.pin(&request).unwrap();
    world.truncate(key, 1);
    let second = world.index.pin(&request).unwrap();
    drop(world);
    let readers = [first, second].map(|pin| thread::spawn(move || drop(pin)));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}
