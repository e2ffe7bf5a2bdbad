//! Readers against each way in which a life loses what was planned.
//!
//! A reader that pins reads its own blocks, or it is refused for the right reason (`pin_`). One that
//! has pinned before reads its own blocks in any case, and what it protected comes back once
//! (`unpin_`). One that copies and checks afterwards never keeps a copy of foreign bytes (`check_`).

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use loom_tests::{World, models, saw};
use tenure::{Groups, PlanError, RequestKey, Stale};

models! {
    pin_release: all => ["pinned", "gone"],
    pin_vacate_front: all => ["pinned", "hole"],
    pin_refill_front: all => ["pinned", "hole"],
    pin_vacate_inside: all => ["pinned", "hole"],
    pin_truncate_regrow: all => ["pinned", "truncated", "reassigned"],
    pin_replace: all => ["pinned", "reassigned"],
    pin_preempt: all => ["pinned", "new-life"],
    pin_preempt_release: all => ["pinned", "new-life"],
    pin_slot_reuse: all => ["pinned", "gone"],
    pin_reset: all => ["pinned", "reset"],
    pin_invalidate: all => ["pinned", "not-committed"],
    pin_commit: all => ["pinned", "not-committed"],

    unpin_release: all => [],
    unpin_vacate_front: all => [],
    unpin_refill_front: all => [],
    unpin_vacate_inside: all => [],
    unpin_truncate_regrow: all => [],
    unpin_replace: all => [],
    unpin_preempt: all => [],
    unpin_preempt_release: all => [],
    unpin_slot_reuse: all => [],
    unpin_reset: all => [],
    unpin_invalidate: all => [],

    check_release: all => ["kept", "gone"],
    check_vacate_front: all => ["kept", "hole"],
    check_refill_front: all => ["kept", "hole"],
    check_vacate_inside: all => ["kept", "hole"],
    check_truncate_regrow: all => ["kept", "truncated", "reassigned"],
    check_replace: all => ["kept", "reassigned"],
    check_preempt: all => ["kept", "new-life"],
    check_preempt_release: all => ["kept", "new-life"],
    check_slot_reuse: all => ["kept", "gone"],
    check_reset: all => ["kept", "reset"],
    check_invalidate: all => ["kept", "not-committed"],
}

/// A life over blocks 0, 1 and 2 loses some of them.
type Loss = fn(&mut World, RequestKey);

fn release(world: &mut World, key: RequestKey) {
    world.release(key);
}

/// A window slides past a whole chunk of storage.
fn vacate_front(world: &mut World, key: RequestKey) {
    world.vacate(key, 0..2);
}

/// And a block comes back where the window was.
fn refill_front(world: &mut World, key: RequestKey) {
    world.vacate(key, 0..2);
    world.replace(key, 0, 3);
}

/// A hole further in, of which only the table's storage tells.
fn vacate_inside(world: &mut World, key: RequestKey) {
    world.vacate(key, 1..2);
}

/// A rejected speculation: the position is there again, with another block, and is not to be taken
/// for the planned one, published or not.
fn truncate_regrow(world: &mut World, key: RequestKey) {
    world.truncate(key, 2);
    world.assign(key, &[3]);
    world.publish();
}

fn replace(world: &mut World, key: RequestKey) {
    world.replace(key, 0, 3);
}

/// The life that follows has the label and the place of the planned one, and positions where it had
/// them.
fn preempt(world: &mut World, key: RequestKey) {
    let successor = world.preempt(key);
    world.assign(successor, &[3, 4, 5]);
}

/// Whatever becomes of the successor, the planned life was ended by a preemption.
fn preempt_release(world: &mut World, key: RequestKey) {
    let successor = world.preempt(key);
    world.release(successor);
    world.publish();
}

/// Another request lives where the planned one did, at positions where it had them.
fn slot_reuse(world: &mut World, key: RequestKey) {
    world.release(key);
    world.publish_request("s", &[3, 4, 5]);
}

/// A reset is to be named as such, and not as the end of the lives that it ends.
fn reset(world: &mut World, _: RequestKey) {
    world.reset_force();
}

fn pin_while(lose: Loss) {
    let mut world = World::new(6);
    let key = world.publish_request("r", &[0, 1, 2]);
    let saver = world.saver(key, 0..3);
    let reader = thread::spawn(move || saver.save());
    lose(&mut world, key);
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

fn pin_release() {
    pin_while(release);
}

fn pin_vacate_front() {
    pin_while(vacate_front);
}

fn pin_refill_front() {
    pin_while(refill_front);
}

fn pin_vacate_inside() {
    pin_while(vacate_inside);
}

fn pin_truncate_regrow() {
    pin_while(truncate_regrow);
}

fn pin_replace() {
    pin_while(replace);
}

fn pin_preempt() {
    pin_while(preempt);
}

fn pin_preempt_release() {
    pin_while(preempt_release);
}

fn pin_slot_reuse() {
    pin_while(slot_reuse);
}

fn pin_reset() {
    pin_while(reset);
}

/// A reader is refused once the content of a block is known to be bad, or it is counted: a block
/// that no pin is said to protect after that can be written anew by its owner.
fn pin_invalidate() {
    let mut world = World::tracking_commits(2);
    let key = world.publish_request("r", &[0, 1]);
    world.scheduler.commit(key, 2).unwrap();
    let saver = world.saver(key, 0..2);
    let blocks = saver.blocks();
    let reader = thread::spawn(move || saver.save());
    world.scheduler.invalidate(&blocks[1..]).unwrap();
    if world.scheduler.reclaimable_now(key).unwrap() == 2 {
        world.write(1);
    }
    reader.join().unwrap();
    world.end();
}

/// Whoever finds tokens committed finds them written.
fn pin_commit() {
    let mut world = World::tracking_commits(1);
    let key = world.publish_request("r", &[0]);
    let (index, memory) = (world.index.clone(), world.memory.clone());
    let reader = thread::spawn(move || match index.plan(key, 0..1, Groups::ALL) {
        Ok(request) => {
            let pin = index.pin(&request).unwrap();
            memory.read(pin.blocks()[0]);
            saw("pinned");
        }
        Err(PlanError::Stale(stale)) => saw(stale.name()),
        Err(other) => panic!("{other}"),
    });
    world.write(0);
    world.scheduler.commit(key, 1).unwrap();
    reader.join().unwrap();
    world.end();
}

fn unpin_while(lose: Loss) {
    let mut world = World::new(6);
    let key = world.publish_request("r", &[0, 1, 2]);
    let saver = world.saver(key, 0..3);
    let pin = saver.pin().unwrap();
    let reader = thread::spawn(move || {
        assert_eq!(pin.blocks(), saver.blocks());
        saver.finish(pin);
    });
    lose(&mut world, key);
    world.publish();
    world.reclaim();
    reader.join().unwrap();
    world.end();
}

fn unpin_release() {
    unpin_while(release);
}

fn unpin_vacate_front() {
    unpin_while(vacate_front);
}

fn unpin_refill_front() {
    unpin_while(refill_front);
}

fn unpin_vacate_inside() {
    unpin_while(vacate_inside);
}

fn unpin_truncate_regrow() {
    unpin_while(truncate_regrow);
}

fn unpin_replace() {
    unpin_while(replace);
}

fn unpin_preempt() {
    unpin_while(preempt);
}

fn unpin_preempt_release() {
    unpin_while(preempt_release);
}

fn unpin_slot_reuse() {
    unpin_while(slot_reuse);
}

fn unpin_reset() {
    unpin_while(reset);
}

/// The block that was found bad is written anew as soon as no pin protects it.
fn unpin_invalidate() {
    let mut world = World::tracking_commits(2);
    let key = world.publish_request("r", &[0, 1]);
    world.scheduler.commit(key, 2).unwrap();
    let saver = world.saver(key, 0..2);
    let pin = saver.pin().unwrap();
    let blocks = saver.blocks();
    let reader = thread::spawn(move || saver.finish(pin));
    world.scheduler.invalidate(&blocks[1..]).unwrap();
    if world.scheduler.reclaimable_now(key).unwrap() == 2 {
        world.write(1);
    }
    reader.join().unwrap();
    world.end();
}

/// The copied bytes are a flag here: whether the next owner has written the blocks that were lost.
fn check_while(world: &mut World, key: RequestKey, lose: Loss) {
    let foreign = Arc::new(AtomicBool::new(false));
    let (index, request, copied) =
        (world.index.clone(), world.saver(key, 0..3).request, foreign.clone());
    let reader = thread::spawn(move || {
        let copy_is_foreign = copied.load(Ordering::Relaxed);
        match index.check(&request) {
            Ok(()) => {
                assert!(!copy_is_foreign, "a copy of foreign bytes was kept");
                saw("kept");
            }
            Err(stale) => saw(Stale::name(&stale)),
        }
    });
    lose(world, key);
    foreign.store(true, Ordering::Release);
    reader.join().unwrap();
}

fn check(lose: Loss) {
    let mut world = World::new(6);
    let key = world.publish_request("r", &[0, 1, 2]);
    check_while(&mut world, key, lose);
    world.end();
}

fn check_release() {
    check(release);
}

fn check_vacate_front() {
    check(vacate_front);
}

fn check_refill_front() {
    check(refill_front);
}

fn check_vacate_inside() {
    check(vacate_inside);
}

fn check_truncate_regrow() {
    check(truncate_regrow);
}

fn check_replace() {
    check(replace);
}

fn check_preempt() {
    check(preempt);
}

fn check_preempt_release() {
    check(preempt_release);
}

fn check_slot_reuse() {
    check(slot_reuse);
}

fn check_reset() {
    check(reset);
}

fn check_invalidate() {
    let mut world = World::tracking_commits(3);
    let key = world.publish_request("r", &[0, 1, 2]);
    world.scheduler.commit(key, 3).unwrap();
    check_while(&mut world, key, |world, _| {
        world.scheduler.invalidate(&[tenure::BlockId(1)]).unwrap();
    });
    world.end();
}
