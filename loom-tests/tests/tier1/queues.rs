//! What a pin protects through any number of later versions of its table, and what it does not.

use loom::thread;
use loom_tests::{World, models, saw};

models! {
    loss_outside_range: all => ["pinned"],
    two_losses_outside: all => ["pinned"],
    hull_of_the_pins_there_are: all => [],
    inherit: all => ["pinned", "gone"],
    inherit_chain: 4 => ["both", "first", "second", "none"],
    last_unpin_reclaim: all => ["early", "late"],
    retired_in_turn: all => ["pinned", "gone"],
}

/// What is lost outside the planned range is free at once, and the pin is never refused for it.
fn loss_outside_range() {
    let mut world = World::new(4);
    let key = world.publish_request("r", &[0, 1, 2, 3]);
    let saver = world.saver(key, 0..2);
    let reader = thread::spawn(move || saver.save());
    assert_eq!(world.truncate(key, 2), (vec![2, 3], 0));
    reader.join().unwrap();
    world.end();
}

/// Nor is it refused when the lease is superseded twice on its way.
fn two_losses_outside() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0, 1, 2]);
    let saver = world.saver(key, 1..2);
    let reader = thread::spawn(move || saver.save());
    assert_eq!(world.truncate(key, 2), (vec![2], 0));
    assert_eq!(world.vacate(key, 0..1), (vec![0], 0));
    reader.join().unwrap();
    world.end();
}

/// The range of a pin that has ended protects nothing: a pin that finds no other one sets the hull
/// anew.
fn hull_of_the_pins_there_are() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let savers = [world.saver(key, 0..1), world.saver(key, 1..2)];
    let [_, second] = savers.clone();
    let reader = thread::spawn(move || {
        drop(savers[0].pin().unwrap());
        savers[1].pin().unwrap()
    });
    world.reclaim();
    let pin = reader.join().unwrap();
    assert_eq!(world.vacate(key, 0..1), (vec![0], 0));
    assert_eq!(world.release(key), (vec![], 1));
    second.finish(pin);
    world.end();
}

/// A pin on a lease protects its blocks although they are lost through the lease after it.
fn inherit() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || saver.save());
    world.truncate(key, 1);
    world.release(key);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A block under pins on two leases waits for both, in whatever order they end.
fn inherit_chain() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..1);
    let first = saver.pin().unwrap();
    world.truncate(key, 1);
    let second = saver.pin().unwrap();
    let readers = [first, second].map(|pin| {
        let saver = saver.clone();
        thread::spawn(move || saver.finish(pin))
    });
    world.release(key);
    let pins = world.scheduler.pins(key);
    let freed = world.reclaim();
    match (pins, freed.len()) {
        (2, 0) => saw("both"),
        (1, 0) => saw("first"),
        (0, 0) => saw("second"),
        _ => saw("none"),
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// The scheduler learns of the last unpin at its next call, and not before it has happened.
fn last_unpin_reclaim() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..2);
    let pin = saver.pin().unwrap();
    assert_eq!(world.release(key), (vec![], 2));
    let reader = thread::spawn(move || saver.finish(pin));
    let early = world.reclaim();
    reader.join().unwrap();
    let late = world.reclaim();
    assert_eq!(early.len() + late.len(), 2);
    saw(if late.is_empty() { "early" } else { "late" });
    world.end();
}

/// A lease that a pin keeps outlives the publish of its successor, and the slot's next life.
fn retired_in_turn() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || saver.save());
    world.release(key);
    world.publish();
    world.reclaim();
    world.publish_request("s", &[1]);
    world.reclaim();
    reader.join().unwrap();
    world.reclaim();
    world.end();
}
