//! Shutting down: once it is drained no pin is out, and none is taken any more.

use loom::thread;
use loom_tests::{Memory, Tag, World, models, saw};
use tenure::{BlockId, Stale};

models! {
    begin_drain: all => ["pinned", "draining"],
    drain_two_pins: 4 => ["pinned", "draining"],
    drain_for_good: all => ["pinned", "draining"],
    drain_then_release: all => ["pinned", "draining"],
    drain_then_admit: all => ["draining"],
    drained_after_unpin: all => ["drained", "not yet"],
    drain_unpublished: all => ["pinned", "draining"],
}

/// What the owner of the pool does once it is drained.
fn tear_down(memory: &Memory, blocks: u32) {
    (0..blocks).for_each(|block| memory.write(BlockId(block), Tag::FOREIGN));
}

/// A pin is taken before the drain, and `drained` waits for it; or it is refused.
fn begin_drain() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || saver.save());
    world.scheduler.begin_drain();
    if world.scheduler.drained() {
        tear_down(&world.memory, 1);
    }
    reader.join().unwrap();
    assert!(world.scheduler.drained());
    world.end();
}

/// So are two on one lease.
fn drain_two_pins() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let readers = [saver.clone(), saver].map(|saver| thread::spawn(move || saver.save()));
    world.scheduler.begin_drain();
    if world.scheduler.drained() {
        tear_down(&world.memory, 1);
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// Who was refused because of the drain finds it in every answer from then on.
fn drain_for_good() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || match saver.pin() {
        Ok(_) => saw("pinned"),
        Err(refused) => {
            assert_eq!(refused, Stale::Draining.into());
            assert!(saver.index.is_draining());
            assert_eq!(saver.index.check(&saver.request), Err(Stale::Draining));
            saw("draining");
        }
    });
    world.scheduler.begin_drain();
    reader.join().unwrap();
    world.end();
}

/// A loss after the drain finds what the close of the drain has found, whatever the pins did since.
fn drain_then_release() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || saver.save());
    world.scheduler.begin_drain();
    world.release(key);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// A table that is made while draining is never pinned.
fn drain_then_admit() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..1);
    world.scheduler.begin_drain();
    let reader = thread::spawn(move || saver.save());
    world.truncate(key, 1);
    if world.scheduler.drained() {
        tear_down(&world.memory, 1);
    }
    reader.join().unwrap();
    world.end();
}

/// `drained` comes after whatever the last reader did.
fn drained_after_unpin() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let pin = saver.pin().unwrap();
    world.scheduler.begin_drain();
    let reader = thread::spawn(move || saver.finish(pin));
    if world.scheduler.drained() {
        tear_down(&world.memory, 1);
        saw("drained");
    } else {
        saw("not yet");
    }
    reader.join().unwrap();
    world.end();
}

/// A lease that no publish has made visible is closed like any other.
fn drain_unpublished() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || saver.save());
    world.truncate(key, 1);
    world.scheduler.begin_drain();
    if world.scheduler.drained() {
        tear_down(&world.memory, 1);
    }
    reader.join().unwrap();
    world.end();
}
