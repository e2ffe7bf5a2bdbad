//! Pins outlive what they were taken from.

use std::mem::ManuallyDrop;
use std::thread;

use tenure::{
    BlockId, Budget, Config, Error, GroupId, Groups, Index, Pin, Refused, RequestKey, Scheduler,
    Stale,
};

const G0: GroupId = GroupId(0);

fn blocks(ids: impl IntoIterator<Item = u32>) -> Vec<BlockId> {
    ids.into_iter().map(BlockId).collect()
}

/// An index of 16 blocks of one token, and a published request over blocks `0..8`.
fn eight() -> (Scheduler, Index, RequestKey) {
    let (mut scheduler, index) = Config::new(16).block_sizes([1]).max_requests(4).build().unwrap();
    let key = scheduler.admit("r").unwrap();
    scheduler.assign(key, G0, &blocks(0..8)).unwrap();
    scheduler.publish();
    (scheduler, index, key)
}

fn pin(index: &Index, key: RequestKey, tokens: std::ops::Range<u64>) -> Pin {
    index.pin(&index.plan(key, tokens, Groups::ALL).unwrap()).unwrap()
}

#[test]
fn a_pin_outlives_the_scheduler_and_every_handle() {
    let (scheduler, index, key) = eight();
    let (first, second) = (pin(&index, key, 0..3), pin(&index, key, 2..5));
    drop(scheduler);
    drop(index);
    assert_eq!(first.blocks(), blocks(0..3));
    drop(first);
    assert_eq!(second.blocks_of(G0), blocks(2..5));
    assert_eq!(second.label().as_deref(), Some("r"));
}

#[test]
fn pins_of_every_version_outlive_the_scheduler() {
    let (mut scheduler, index, key) = eight();
    let whole = pin(&index, key, 0..8);
    let _ = scheduler.truncate(key, G0, 4).unwrap();
    scheduler.assign(key, G0, &blocks(8..10)).unwrap();
    scheduler.publish();
    let regrown = pin(&index, key, 2..6);
    let held = scheduler.hold(&blocks([9, 1])).unwrap();
    let _ = scheduler.release(key).unwrap();
    let next = scheduler.admit("r").unwrap();
    scheduler.assign(next, G0, &blocks(10..12)).unwrap();
    scheduler.publish();
    let open = pin(&index, next, 0..2);
    drop(scheduler);
    assert_eq!(index.plan(next, 0..1, Groups::ALL), Err(Stale::Draining.into()));
    drop(index);
    assert_eq!(whole.blocks(), blocks(0..8));
    assert_eq!(regrown.blocks(), blocks([2, 3, 8, 9]));
    assert_eq!(held.blocks(), blocks([9, 1]));
    assert_eq!(open.blocks(), blocks(10..12));
    thread::spawn(move || drop(held)).join().unwrap();
    drop((open, whole));
    assert_eq!(regrown.blocks(), blocks([2, 3, 8, 9]));
}

#[test]
fn pins_end_while_the_scheduler_does() {
    for round in 0..if cfg!(miri) { 4 } else { 200 } {
        let (mut scheduler, index, key) = eight();
        let mut pins: Vec<Pin> = (0..6).map(|at| pin(&index, key, at..at + 2)).collect();
        pins.push(scheduler.hold(&blocks([1])).unwrap());
        if round % 2 == 0 {
            let _ = scheduler.release(key).unwrap();
        }
        let mut narrowed = pin_narrowed(&index, &mut scheduler);
        let enders: Vec<_> = pins.into_iter().map(|pin| thread::spawn(move || drop(pin))).collect();
        let narrower = thread::spawn(move || {
            if let Some(pin) = &mut narrowed {
                pin.narrow(1..2).unwrap();
            }
            drop(narrowed);
        });
        let handle = thread::spawn(move || drop(index));
        drop(scheduler);
        for thread in enders.into_iter().chain([narrower, handle]) {
            thread.join().unwrap();
        }
    }
}

fn pin_narrowed(index: &Index, scheduler: &mut Scheduler) -> Option<Pin> {
    let key = scheduler.admit("narrowed").unwrap();
    scheduler.assign(key, G0, &blocks(12..16)).unwrap();
    scheduler.publish();
    Some(pin(index, key, 0..4))
}

#[test]
fn a_leaked_pin_keeps_its_own_blocks_and_no_others() {
    let (mut scheduler, index, key) = eight();
    let leaked = ManuallyDrop::new(pin(&index, key, 2..4));
    assert_eq!(scheduler.release(key).unwrap().freed(), blocks([0, 1, 4, 5, 6, 7]));
    for round in 0..50 {
        let key = scheduler.admit("r").unwrap();
        scheduler.assign(key, G0, &blocks(4..12)).unwrap();
        scheduler.publish();
        drop(pin(&index, key, 0..8));
        let released = scheduler.release(key).unwrap();
        assert_eq!((released.freed().len(), released.held()), (8, 0), "round {round}");
    }
    assert_eq!(scheduler.counts().held, 2);
    scheduler.audit().unwrap();
    assert!(index.stats().retained < 16, "{:?}", index.stats());
    // Leaked for good it would, as documented, keep the shared state alive.
    drop((scheduler, index));
    drop(ManuallyDrop::into_inner(leaked));
}

#[test]
fn a_narrowed_pin_holds_exactly_what_is_left() {
    let (mut scheduler, index, key) = eight();
    let mut narrowed = pin(&index, key, 1..7);
    assert_eq!(scheduler.release(key).unwrap().held(), 6);
    assert!(narrowed.narrow(0..3).is_err());
    assert!(narrowed.narrow(3..3).is_err());
    assert_eq!(narrowed.blocks(), blocks(1..7));
    narrowed.narrow(3..6).unwrap();
    assert_eq!((narrowed.blocks(), narrowed.tokens()), (blocks(3..6), 3..6));
    assert_eq!(scheduler.reclaim(), blocks([1, 2, 6]));
    narrowed.narrow(5..6).unwrap();
    narrowed.narrow(5..6).unwrap();
    assert_eq!(narrowed.blocks_of(G0), blocks([5]));
    assert_eq!(scheduler.reclaim(), blocks([3, 4]));
    assert_eq!(scheduler.block_state(BlockId(5)), Ok(tenure::BlockState::Held));
    assert_eq!(narrowed.label().as_deref(), Some("r"));
    drop(narrowed);
    assert_eq!(scheduler.reclaim(), blocks([5]));
    scheduler.audit().unwrap();
}

#[test]
fn pins_narrowed_twice_between_two_calls_give_everything_back() {
    let (mut scheduler, index, key) = eight();
    let mut first = pin(&index, key, 0..8);
    let second = pin(&index, key, 6..8);
    let _ = scheduler.release(key).unwrap();
    first.narrow(0..6).unwrap();
    first.narrow(2..4).unwrap();
    // The other pin's lease still covers all of it: its hull cannot shrink while it is out.
    assert_eq!(scheduler.counts().held, 8);
    drop(second);
    assert_eq!(scheduler.counts().held, 2);
    drop(first);
    assert_eq!(scheduler.counts().free, 16);
    scheduler.audit().unwrap();
}

#[test]
fn a_pin_narrowed_after_the_scheduler_stays_whole() {
    let (scheduler, index, key) = eight();
    let mut pinned = pin(&index, key, 1..5);
    drop(scheduler);
    pinned.narrow(2..3).unwrap();
    assert_eq!((pinned.blocks(), pinned.tokens()), (blocks(1..5), 1..5));
}

#[test]
fn pins_over_several_groups_list_each_group() {
    let (mut scheduler, index) = Config::new(16).block_sizes([2, 4]).build().unwrap();
    let key = scheduler.admit("r").unwrap();
    scheduler.assign(key, GroupId(0), &blocks(0..6)).unwrap();
    scheduler.assign(key, GroupId(1), &blocks(8..11)).unwrap();
    scheduler.publish();
    let mut both = pin(&index, key, 2..9);
    assert_eq!(both.blocks_of(GroupId(0)), blocks(1..5));
    assert_eq!(both.blocks_of(GroupId(1)), blocks(8..11));
    both.narrow(4..8).unwrap();
    assert_eq!(both.blocks(), blocks([2, 3, 9]));
    assert_eq!(scheduler.release(key).unwrap().freed(), blocks([0, 1, 4, 5, 8, 10]));
}

#[test]
fn more_pins_than_can_be_counted_are_refused() {
    if cfg!(miri) {
        return;
    }
    let (mut scheduler, index, key) = eight();
    let plan = index.plan(key, 0..8, Groups::ALL).unwrap();
    let mut pins: Vec<Pin> = (0..32_767).map(|_| index.pin(&plan).unwrap()).collect();
    assert_eq!(index.pin(&plan).unwrap_err(), Refused::Budget(Budget::Pins));
    assert_eq!(scheduler.pins(key), 32_767);
    drop(pins.pop());
    pins.push(index.pin(&plan).unwrap());
    // A new version of the table counts anew.
    let _ = scheduler.truncate(key, G0, 7).unwrap();
    let shorter = index.plan(key, 0..7, Groups::ALL).unwrap();
    pins.push(index.pin(&shorter).unwrap());
    assert_eq!(scheduler.pins(key), 32_768);
    let _ = scheduler.release(key).unwrap();
    drop(pins);
    assert_eq!(scheduler.counts().free, 16);
    assert_eq!(index.stats().over_budget, 1);
}

#[test]
fn a_drain_takes_no_new_pin_and_waits_for_the_old() {
    let (mut scheduler, index, key) = eight();
    let plan = index.plan(key, 0..8, Groups::ALL).unwrap();
    let out = index.pin(&plan).unwrap();
    scheduler.begin_drain();
    assert_eq!(index.pin(&plan).unwrap_err(), Refused::Stale(Stale::Draining));
    assert_eq!(scheduler.hold(&blocks([0])).unwrap_err(), Error::Draining);
    assert!(!scheduler.drained());
    // What is lost now is still protected by the pin that was out before.
    assert_eq!(scheduler.truncate(key, G0, 2).unwrap().held(), 6);
    let late = scheduler.admit("late").unwrap();
    scheduler.assign(late, G0, &blocks([8])).unwrap();
    scheduler.publish();
    assert_eq!(index.plan(late, 0..1, Groups::ALL), Err(Stale::Draining.into()));
    drop(out);
    assert!(scheduler.drained());
    assert_eq!(scheduler.reclaim(), blocks(2..8));
    scheduler.audit().unwrap();
}

#[test]
fn a_pin_can_be_used_where_thread_locals_are_gone() {
    struct AtExit(Option<(Index, Pin)>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let (index, pin) = self.0.take().unwrap();
            assert_eq!(pin.blocks(), blocks(0..2));
            let again = index.plan(pin.key().unwrap(), 0..2, Groups::ALL).unwrap();
            assert_eq!(index.pin(&again).unwrap().blocks(), blocks(0..2));
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Option<AtExit>> = const { std::cell::RefCell::new(None) };
    }
    let (mut scheduler, index, key) = eight();
    let reader = index.clone();
    thread::spawn(move || {
        // Registered before the index's own thread-local, so destroyed after it.
        LAST.with(|last| *last.borrow_mut() = None);
        let pinned = pin(&reader, key, 0..2);
        LAST.with(|last| *last.borrow_mut() = Some(AtExit(Some((reader, pinned)))));
    })
    .join()
    .unwrap();
    assert_eq!(scheduler.release(key).unwrap().freed().len(), 8);
    assert_eq!(index.stats().pins, 2);
}

#[test]
fn a_pin_ends_long_after_its_slot_was_used_again() {
    let (mut scheduler, index) = Config::new(16).block_sizes([1]).max_requests(1).build().unwrap();
    let key = scheduler.admit("r").unwrap();
    scheduler.assign(key, G0, &blocks(0..3)).unwrap();
    scheduler.publish();
    let out = pin(&index, key, 0..2);
    assert_eq!(scheduler.release(key).unwrap().held(), 2);
    for life in 0..100 {
        let key = scheduler.admit(&format!("life {life}")).unwrap();
        scheduler.publish();
        let _ = scheduler.release(key).unwrap();
    }
    assert_eq!(scheduler.pins(key), 1);
    drop(out);
    assert_eq!(scheduler.reclaim(), blocks(0..2));
    assert_eq!(scheduler.pins(key), 0);
    scheduler.audit().unwrap();
}
