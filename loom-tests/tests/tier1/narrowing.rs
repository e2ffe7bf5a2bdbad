//! A pin that gives back a part of its range: what is left is held without interruption, and the
//! rest comes back.

use loom::thread;
use loom_tests::{World, models, saw};
use tenure::BlockId;

models! {
    narrow_release: all => ["all held", "half free"],
    narrow_and_unpin: all => ["all held", "half free", "all free"],
    narrow_twice: all => ["three held", "two held", "one held"],
    narrow_beside_unpin: all => ["free", "held"],
    note_on_hold: all => ["early", "late"],
    narrow_live: all => ["kept"],
    narrow_drain: all => ["drained", "not yet"],
    narrow_scheduler_drop: all => [],
    narrow_twice_scheduler_drop: all => [],
    narrow_beside_scheduler_drop: all => [],
    narrow_after_scheduler_drop: all => [],
}

/// Of an ended request the part that stays is held, and the rest comes back, once.
fn narrow_release() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let [whole, part] = [world.saver(key, 0..2), world.saver(key, 1..2)];
    let mut pin = whole.pin().unwrap();
    assert_eq!(world.release(key), (vec![], 2));
    let reader = thread::spawn(move || {
        whole.read();
        pin.narrow(1..2).unwrap();
        assert_eq!(pin.blocks(), [BlockId(1)]);
        part.read();
        (part, pin)
    });
    let early = world.reclaim();
    saw(if early.is_empty() { "all held" } else { "half free" });
    let (part, pin) = reader.join().unwrap();
    let late = world.reclaim();
    assert_eq!([early, late].concat(), [0]);
    part.finish(pin);
    assert_eq!(world.reclaim(), [1]);
    world.end();
}

/// The part may be given back before the scheduler has taken it in, and while it does.
fn narrow_and_unpin() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let [whole, part] = [world.saver(key, 0..2), world.saver(key, 1..2)];
    let mut pin = whole.pin().unwrap();
    world.release(key);
    let reader = thread::spawn(move || {
        whole.read();
        pin.narrow(1..2).unwrap();
        part.finish(pin);
    });
    let early = world.reclaim();
    saw(["all held", "half free", "all free"][early.len()]);
    reader.join().unwrap();
    world.end();
}

/// A narrowed pin can be narrowed again, taken in or not.
fn narrow_twice() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0, 1, 2]);
    let [whole, part, last] =
        [world.saver(key, 0..3), world.saver(key, 1..3), world.saver(key, 1..2)];
    let mut pin = whole.pin().unwrap();
    world.release(key);
    let reader = thread::spawn(move || {
        whole.read();
        pin.narrow(1..3).unwrap();
        part.read();
        pin.narrow(1..2).unwrap();
        last.read();
        (last, pin)
    });
    let early = world.reclaim();
    saw(["three held", "two held", "one held"][early.len()]);
    let (last, pin) = reader.join().unwrap();
    world.reclaim();
    last.finish(pin);
    assert_eq!(world.reclaim(), [1]);
    world.end();
}

/// Another reader of the same lease unpins at the same time: whoever of the scheduler and the two
/// is last ends the lease, and what all of them did comes before its blocks are free.
fn narrow_beside_unpin() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let [whole, part] = [world.saver(key, 0..2), world.saver(key, 1..2)];
    let (mut pin, other) = (whole.pin().unwrap(), whole.pin().unwrap());
    world.release(key);
    let beside = whole.clone();
    let readers = [
        thread::spawn(move || beside.finish(other)),
        thread::spawn(move || {
            whole.read();
            pin.narrow(1..2).unwrap();
            part.finish(pin);
        }),
    ];
    let early = world.reclaim();
    saw(if early.is_empty() { "held" } else { "free" });
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// Saying what a hold is for puts another hold in its place.
fn note_on_hold() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let hold = world.scheduler.hold(&[BlockId(0)]).unwrap();
    world.release(key);
    let reader = thread::spawn(move || saver.finish(hold.with_note("copy")));
    let early = world.reclaim();
    saw(if early.is_empty() { "late" } else { "early" });
    reader.join().unwrap();
    assert_eq!(early.len() + world.reclaim().len(), 1);
    world.end();
}

/// A part of a pin on a live request outlives the request's own loss of it.
fn narrow_live() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let [whole, part] = [world.saver(key, 0..2), world.saver(key, 0..1)];
    let mut pin = whole.pin().unwrap();
    let reader = thread::spawn(move || {
        pin.narrow(0..1).unwrap();
        part.read();
        saw("kept");
        part.finish(pin);
    });
    world.vacate(key, 0..1);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

/// Narrowing neither hides a pin from `drained` nor makes it come true too late.
fn narrow_drain() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let [whole, part] = [world.saver(key, 0..2), world.saver(key, 1..2)];
    let mut pin = whole.pin().unwrap();
    world.scheduler.begin_drain();
    let reader = thread::spawn(move || {
        whole.read();
        pin.narrow(1..2).unwrap();
        part.finish(pin);
    });
    if world.scheduler.drained() {
        [0, 1].into_iter().for_each(|block| world.write(block));
        saw("drained");
    } else {
        saw("not yet");
    }
    reader.join().unwrap();
    assert!(world.scheduler.drained());
    world.end();
}

/// The scheduler ends while a pin is narrowed and given back.
fn narrow_scheduler_drop() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let mut pin = world.index.pin(&world.saver(key, 0..2).request).unwrap();
    let World { scheduler, index, .. } = world;
    drop(index);
    let reader = thread::spawn(move || {
        pin.narrow(1..2).unwrap();
        drop(pin);
    });
    drop(scheduler);
    reader.join().unwrap();
}

/// And while it is narrowed again.
fn narrow_twice_scheduler_drop() {
    let mut world = World::new(3);
    let key = world.publish_request("r", &[0, 1, 2]);
    let mut pin = world.index.pin(&world.saver(key, 0..3).request).unwrap();
    let World { scheduler, index, .. } = world;
    drop(index);
    let reader = thread::spawn(move || {
        pin.narrow(1..3).unwrap();
        pin.narrow(1..2).unwrap();
        drop(pin);
    });
    drop(scheduler);
    reader.join().unwrap();
}

/// And while another pin on the same lease ends.
fn narrow_beside_scheduler_drop() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let request = world.saver(key, 0..2).request;
    let mut pin = world.index.pin(&request).unwrap();
    let other = world.index.pin(&request).unwrap();
    let World { scheduler, index, .. } = world;
    drop(index);
    let readers = [
        thread::spawn(move || drop(other)),
        thread::spawn(move || {
            pin.narrow(1..2).unwrap();
            drop(pin);
        }),
    ];
    drop(scheduler);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// With no scheduler to give anything back to, a narrowed pin stays as it is.
fn narrow_after_scheduler_drop() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let mut pin = world.index.pin(&world.saver(key, 0..2).request).unwrap();
    let World { scheduler, index, .. } = world;
    drop(scheduler);
    let reader = thread::spawn(move || {
        pin.narrow(1..2).unwrap();
        assert_eq!((pin.tokens(), pin.blocks().len()), (0..2, 2));
        drop(pin);
    });
    drop(index);
    reader.join().unwrap();
}
