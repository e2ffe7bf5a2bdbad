//! Several readers on one lease, and the scheduler that closes it.

use loom::thread;
use loom_tests::{World, models, name, saw};

models! {
    two_pins_release: 4 => ["pinned", "gone"],
    two_ranges_release: 4 => ["both", "one", "none"],
    two_unpins_one_lease: all => ["held", "free"],
    refused_pin_and_last_unpin: all => ["pinned", "gone"],
    pin_batch_release: all => ["both", "one"],
}

/// Two readers take and give back pins on a lease while it is closed: whichever ends last, the
/// blocks come back once, after both.
fn two_pins_release() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let readers = [saver.clone(), saver].map(|saver| thread::spawn(move || saver.save()));
    world.release(key);
    world.reclaim();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// Pins over different ranges of one lease widen its hull: what the first protects stays protected
/// when the second comes and goes.
fn two_ranges_release() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let savers = [world.saver(key, 0..1), world.saver(key, 1..2)];
    let readers = savers.clone().map(|saver| thread::spawn(move || saver.pin().ok()));
    world.release(key);
    let pins = readers.map(|reader| reader.join().unwrap());
    saw(["none", "one", "both"][pins.iter().flatten().count()]);
    for (saver, pin) in savers.iter().zip(pins) {
        if let Some(pin) = pin {
            saver.finish(pin);
        }
    }
    world.end();
}

/// Of two readers that unpin a closed lease, the last one hands it back, and with it what the other
/// one did.
fn two_unpins_one_lease() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let readers = [saver.pin().unwrap(), saver.pin().unwrap()].map(|pin| {
        let saver = saver.clone();
        thread::spawn(move || saver.finish(pin))
    });
    let (_, held) = world.release(key);
    saw(if held == 1 { "held" } else { "free" });
    world.reclaim();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// A pin that comes too late leaves no trace on the lease that another reader drains meanwhile.
fn refused_pin_and_last_unpin() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let pin = saver.pin().unwrap();
    let last = saver.clone();
    let readers = [
        thread::spawn(move || last.finish(pin)),
        thread::spawn(move || saw(name(saver.pin().map(drop)))),
    ];
    world.release(key);
    world.reclaim();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    world.end();
}

/// Each request of a batch is pinned or refused for itself.
fn pin_batch_release() {
    let mut world = World::new(2);
    let kept = world.publish_request("r", &[0]);
    let lost = world.publish_request("s", &[1]);
    let savers = [world.saver(kept, 0..1), world.saver(lost, 0..1)];
    let reader = thread::spawn(move || {
        let mut pins = Vec::new();
        let requests = [savers[0].request, savers[1].request];
        savers[0].index.pin_batch(&requests, &mut pins);
        for (saver, pin) in savers.iter().zip(&pins) {
            if pin.is_ok() {
                saver.read();
            }
        }
        assert!(pins[0].is_ok());
        saw(if pins[1].is_ok() { "both" } else { "one" });
    });
    world.release(lost);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}
