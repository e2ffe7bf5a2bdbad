//! Answers that are made of loads alone.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use loom_tests::{World, models, saw};
use tenure::{BlockId, Groups, Stale};

models! {
    check_handed_over: all => ["good", "thrown away"],
    check_learned_of_loss: all => ["checked", "gone"],
    check_append: all => ["checked"],
    check_drain: all => ["checked", "draining"],
    replan_after_append: all => ["replanned"],
    visible_tokens_commit: all => ["nothing", "one", "two"],
}

const GOOD: u32 = 1;
const FOREIGN: u32 = 2;

/// A copy that was made while another thread wrote the block, which the scheduler had handed over to
/// it after its release, is thrown away.
fn check_handed_over() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let content = Arc::new(AtomicU32::new(GOOD));
    let handed_over = Arc::new(AtomicU32::new(0));
    let (index, request, block) =
        (world.index.clone(), world.saver(key, 0..1).request, content.clone());
    let reader = thread::spawn(move || {
        let copy = block.load(Ordering::Relaxed);
        match index.check(&request) {
            Ok(()) => {
                assert_eq!(copy, GOOD, "a torn copy was kept");
                saw("good");
            }
            Err(_) => saw("thrown away"),
        }
    });
    let (block, theirs) = (content.clone(), handed_over.clone());
    let next = thread::spawn(move || {
        if theirs.load(Ordering::Acquire) == 1 {
            block.store(FOREIGN, Ordering::Release);
        }
    });
    assert_eq!(world.release(key).0, [0]);
    handed_over.store(1, Ordering::Release);
    reader.join().unwrap();
    next.join().unwrap();
    world.end();
}

/// Whoever has learned of a loss through synchronisation finds it in every answer.
fn check_learned_of_loss() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let lost = Arc::new(AtomicU32::new(0));
    let (index, request, learned) =
        (world.index.clone(), world.saver(key, 0..1).request, lost.clone());
    let reader = thread::spawn(move || {
        if learned.load(Ordering::Acquire) == 1 {
            assert_eq!(index.check(&request), Err(Stale::Gone));
            assert_eq!(index.plan(key, 0..1, Groups::ALL), Err(Stale::Gone.into()));
            assert_eq!(index.pin(&request).unwrap_err(), Stale::Gone.into());
            saw("gone");
        } else {
            saw("checked");
        }
    });
    world.release(key);
    lost.store(1, Ordering::Release);
    reader.join().unwrap();
    world.end();
}

/// A check is never refused because something was appended, holes included.
fn check_append() {
    let mut world = World::with_null(3);
    let key = world.publish_request("r", &[1]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || {
        saver.index.check(&saver.request).unwrap();
        saw("checked");
    });
    world.assign(key, &[0, 2]);
    world.publish();
    reader.join().unwrap();
    world.end();
}

/// Draining refuses a check like a pin; the table itself stays as it is.
fn check_drain() {
    let mut world = World::new(1);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || match saver.index.check(&saver.request) {
        Ok(()) => saw("checked"),
        Err(stale) => saw(stale.name()),
    });
    world.scheduler.begin_drain();
    reader.join().unwrap();
    world.end();
}

/// A request planned anew carries the epoch that it was judged at.
fn replan_after_append() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0]);
    let saver = world.saver(key, 0..1);
    let reader = thread::spawn(move || {
        let first = saver.index.replan(&saver.request).unwrap();
        let second = saver.index.replan(&first).unwrap();
        assert!(saver.request.epoch() <= first.epoch() && first.epoch() <= second.epoch());
        assert!(saver.index.pin(&second).is_ok());
        saw("replanned");
    });
    world.assign(key, &[1]);
    world.publish();
    reader.join().unwrap();
    world.end();
}

/// What a tracker is told can be saved is published and written.
fn visible_tokens_commit() {
    let mut world = World::tracking_commits(2);
    let key = world.publish_request("r", &[0]);
    let (index, memory) = (world.index.clone(), world.memory.clone());
    let reader = thread::spawn(move || {
        let (table, committed) = index.visible_tokens(key, Groups::ALL).unwrap();
        let ready = table.min(committed);
        for block in 0..ready as u32 {
            memory.read(BlockId(block));
        }
        saw(["nothing", "one", "two"][ready as usize]);
    });
    world.write(0);
    world.scheduler.commit(key, 1).unwrap();
    world.assign(key, &[1]);
    world.publish();
    world.scheduler.commit(key, 2).unwrap();
    reader.join().unwrap();
    world.end();
}
