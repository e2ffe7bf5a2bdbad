//! What else keeps a block from being handed out: exact holds, other owners, open steps.

use loom::thread;
use loom_tests::{World, models, saw};
use tenure::BlockId;

models! {
    exact_hold: all => ["early", "late"],
    exact_hold_scheduler_drop: all => [],
    exact_hold_and_pin: all => ["pinned", "gone"],
    shared_block: 4 => ["pinned", "gone"],
    step_end_unpin: all => ["step last", "pin last"],
    reclaimable_then_release: all => ["all", "none"],
    reclaimable_then_write: all => ["written", "in use"],
}

/// A hold over exact blocks keeps them after their request has ended.
fn exact_hold() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 1..2);
    let hold = world.scheduler.hold(&[BlockId(1)]).unwrap();
    assert_eq!(world.release(key), (vec![0], 1));
    let reader = thread::spawn(move || saver.finish(hold));
    let early = world.reclaim();
    reader.join().unwrap();
    saw(if early.is_empty() { "late" } else { "early" });
    assert_eq!(early.len() + world.reclaim().len(), 1);
    world.end();
}

/// It survives the scheduler like any pin.
fn exact_hold_scheduler_drop() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let hold = world.scheduler.hold(&[BlockId(0)]).unwrap();
    let reader = thread::spawn(move || saver.finish(hold));
    drop(world);
    reader.join().unwrap();
}

/// A block under a hold and under a pin waits for both.
fn exact_hold_and_pin() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let hold = world.scheduler.hold(&[BlockId(0)]).unwrap();
    let holder = saver.clone();
    let readers = [thread::spawn(move || holder.finish(hold)), thread::spawn(move || saver.save())];
    world.release(key);
    world.reclaim();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// A block of two requests is free when both have let go of it, and the pins on both.
fn shared_block() {
    let mut world = World::new(1);
    let first = world.admit("r");
    world.assign(first, &[0]);
    let second = world.admit("s");
    world.share(second, &[0]);
    world.publish();
    let readers = [first, second].map(|key| {
        let saver = world.saver(key, 0..1);
        thread::spawn(move || saver.save())
    });
    world.release(first);
    world.release(second);
    world.reclaim();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// A block that a step may still write and a reader still reads waits for both.
fn step_end_unpin() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let pin = saver.pin().unwrap();
    let step = world.scheduler.begin_step();
    assert_eq!(world.release(key), (vec![], 1));
    let reader = thread::spawn(move || saver.finish(pin));
    let (freed, _) = world.end_step(step);
    reader.join().unwrap();
    saw(if freed.is_empty() { "pin last" } else { "step last" });
    assert_eq!(freed.len() + world.reclaim().len(), 1);
    world.end();
}

/// What is said to be reclaimable is free when the request is released.
fn reclaimable_then_release() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..2);
    let pin = saver.pin().unwrap();
    let reader = thread::spawn(move || saver.finish(pin));
    let reclaimable = world.scheduler.reclaimable_now(key).unwrap();
    let (freed, _) = world.release(key);
    assert!(freed.len() >= reclaimable as usize);
    saw(if reclaimable == 2 { "all" } else { "none" });
    reader.join().unwrap();
    world.end();
}

/// What is said to be reclaimable is not being read, so its owner may as well write it.
fn reclaimable_then_write() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let pin = saver.pin().unwrap();
    let reader = thread::spawn(move || saver.finish(pin));
    if world.scheduler.reclaimable_now(key).unwrap() == 1 {
        world.write(0);
        saw("written");
    } else {
        saw("in use");
    }
    reader.join().unwrap();
    world.end();
}
