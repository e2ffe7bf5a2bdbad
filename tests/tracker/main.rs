//! What a tracker offers, and what becomes of it.

#![allow(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]

mod at_random;

use std::ops::Range;

use tenure::{
    BadRange, BlockId, Config, GroupId, Groups, Index, Offer, PlanError, RequestKey, Role,
    SaveTracker, SaveTrackers, Scheduler, Settled, Stale,
};

const ANY: u64 = u64::MAX;

struct Engine {
    scheduler: Scheduler,
    index: Index,
    key: RequestKey,
    next_block: u32,
}

impl Engine {
    /// A request `r1` with a published table of `len` blocks of 16 tokens.
    fn new(len: u32) -> Engine {
        Engine::of(Config::new(256), len)
    }

    fn of(config: Config, len: u32) -> Engine {
        let (mut scheduler, index) = config.build().unwrap();
        let key = scheduler.admit("r1").unwrap();
        let mut engine = Engine { scheduler, index, key, next_block: 0 };
        engine.grow(0, len);
        engine.scheduler.publish();
        engine
    }

    fn grow(&mut self, group: u32, len: u32) {
        let blocks: Vec<BlockId> = (self.next_block..self.next_block + len).map(BlockId).collect();
        self.next_block += len;
        self.scheduler.assign(self.key, GroupId(group), &blocks).unwrap();
    }

    fn preempt(&mut self) {
        self.key = self.scheduler.preempt(self.key).unwrap().successor;
    }

    fn next(&self, tracker: &mut SaveTracker, upto: u64) -> Option<Offer> {
        tracker.next(&self.index, self.key, upto).unwrap()
    }
}

fn tokens(offer: Option<Offer>) -> Option<Range<u64>> {
    offer.map(|offer| offer.request.tokens())
}

#[test]
fn offers_are_whole_blocks_up_to_what_is_computed() {
    let e = Engine::new(4);
    let mut t = SaveTracker::new();
    assert_eq!(tokens(e.next(&mut t, 15)), None);
    assert_eq!(tokens(e.next(&mut t, 16)), Some(0..16));
    assert_eq!(tokens(e.next(&mut t, 47)), Some(16..32));
    assert_eq!(tokens(e.next(&mut t, 47)), None);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(32..64));
    assert_eq!(t.in_flight(), [0..16, 16..32, 32..64]);
    assert_eq!(t.watermark(), 0);
}

#[test]
fn nothing_is_offered_past_the_end_of_the_prompt() {
    let e = Engine::new(4);
    let mut t = SaveTracker::new().end(40);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(0..32));
    assert_eq!(tokens(e.next(&mut t, ANY)), None);
}

#[test]
fn nothing_is_offered_past_what_is_published_or_committed() {
    let mut e = Engine::of(Config::new(64).track_commits(true), 2);
    let mut t = SaveTracker::new();
    assert_eq!(tokens(e.next(&mut t, ANY)), None);
    e.scheduler.commit(e.key, 20).unwrap();
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(0..16));
    e.grow(0, 2);
    e.scheduler.commit(e.key, 64).unwrap();
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(16..32), "the rest is not published");
    e.scheduler.publish();
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(32..64));
}

#[test]
fn whole_blocks_are_whole_in_every_group() {
    let mut e = Engine::of(Config::new(64).block_sizes([16, 24]), 6);
    e.grow(1, 3);
    e.scheduler.publish();
    let mut t = SaveTracker::new();
    let offer = e.next(&mut t, ANY).unwrap();
    assert_eq!(offer.request.tokens(), 0..48);
    assert!(offer.request.groups().contains(GroupId(1)));
    e.grow(1, 1);
    e.scheduler.publish();
    assert_eq!(tokens(e.next(&mut t, 95)), None);
    assert_eq!(tokens(e.next(&mut t, 96)), Some(48..96));
}

#[test]
fn what_a_window_left_behind_is_skipped() {
    let mut e = Engine::new(6);
    let mut t = SaveTracker::new();
    let a = e.next(&mut t, 32).unwrap();
    let _released = e.scheduler.vacate(e.key, GroupId(0), 0..3).unwrap();
    e.scheduler.publish();
    t.settle(a.id, Settled::Stale);
    let hole = Stale::Hole { group: GroupId(0), position: 0 };
    assert_eq!(t.next(&e.index, e.key, ANY), Err(PlanError::Stale(hole)));

    t.skip(0..48);
    assert_eq!((t.watermark(), t.saved().count()), (48, 0));
    let b = e.next(&mut t, 80).unwrap();
    assert_eq!(b.request.tokens(), 48..80);
    assert_eq!(t.watermark(), 48);
    t.settle(b.id, Settled::Failed);
    let b = e.next(&mut t, ANY).unwrap();
    assert_eq!(b.request.tokens(), 48..96, "what failed is no less offered again");
    t.settle(b.id, Settled::Saved);
    assert_eq!((t.watermark(), t.saved().collect::<Vec<_>>()), (96, vec![48..96]));
    assert_eq!(t.skipped().collect::<Vec<_>>(), [0..48]);
}

#[test]
fn a_block_of_which_some_tokens_are_skipped_is_not_offered() {
    let e = Engine::new(5);
    let mut t = SaveTracker::new();
    t.skip(20..21);
    t.skip(30..30);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(0..16));
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(32..80));
    t.skip(0..u64::MAX);
    assert_eq!((tokens(e.next(&mut t, ANY)), t.watermark()), (None, u64::MAX));

    let mut e = Engine::of(Config::new(64).block_sizes([16, 24]), 6);
    e.grow(1, 4);
    e.scheduler.publish();
    let mut t = SaveTracker::new();
    t.skip(0..16);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(48..96), "blocks are whole in every group");
}

#[test]
fn what_is_durable_or_in_flight_stays_so_when_it_is_skipped() {
    let e = Engine::new(3);
    let mut t = SaveTracker::new();
    let a = e.next(&mut t, 16).unwrap();
    let b = e.next(&mut t, 32).unwrap();
    t.settle(a.id, Settled::Saved);
    t.skip(0..32);
    assert_eq!((t.in_flight(), t.saved().collect::<Vec<_>>()), (vec![16..32], vec![0..16]));
    t.settle(b.id, Settled::Saved);
    assert_eq!(t.saved().collect::<Vec<_>>(), [0..32]);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(32..48));
}

#[test]
fn saved_in_whatever_order() {
    let e = Engine::new(6);
    let mut t = SaveTracker::new();
    let a = e.next(&mut t, 32).unwrap();
    let b = e.next(&mut t, 64).unwrap();
    let c = e.next(&mut t, 96).unwrap();
    assert!(t.settle(c.id, Settled::Saved));
    assert_eq!((t.watermark(), t.in_flight()), (0, vec![0..32, 32..64]));
    assert!(t.settle(a.id, Settled::Saved));
    assert_eq!(t.watermark(), 32);
    assert_eq!(t.saved().collect::<Vec<_>>(), [0..32, 64..96]);
    assert!(t.settle(b.id, Settled::Saved));
    assert_eq!(t.watermark(), 96);
    assert_eq!(t.saved().collect::<Vec<_>>(), vec![0..96]);
}

#[test]
fn whatever_is_not_saved_is_offered_again() {
    let e = Engine::new(6);
    for outcome in [Settled::Stale, Settled::Failed, Settled::Forced, Settled::Abandoned] {
        let mut t = SaveTracker::new();
        let a = e.next(&mut t, 32).unwrap();
        let b = e.next(&mut t, 64).unwrap();
        assert!(t.settle(b.id, Settled::Saved));
        assert!(t.settle(a.id, outcome));
        assert_eq!(t.watermark(), 0);
        let again = e.next(&mut t, ANY).unwrap();
        assert_eq!(again.request.tokens(), 0..32, "up to what is saved behind it");
        assert_ne!(again.id, a.id);
        assert_eq!(tokens(e.next(&mut t, ANY)), Some(64..96));
    }
}

#[test]
fn want_of_budget_changes_nothing() {
    let e = Engine::new(2);
    let mut t = SaveTracker::new();
    let a = e.next(&mut t, ANY).unwrap();
    assert!(t.settle(a.id, Settled::Budget));
    assert_eq!(t.in_flight(), vec![0..32]);
    assert_eq!(e.next(&mut t, ANY), None);
    assert!(t.settle(a.id, Settled::Saved));
    assert!(!t.settle(a.id, Settled::Budget));
}

#[test]
fn only_the_first_outcome_of_an_offer_counts() {
    let e = Engine::new(2);
    let mut t = SaveTracker::new();
    let a = e.next(&mut t, ANY).unwrap();
    assert!(t.settle(a.id, Settled::Failed));
    assert!(!t.settle(a.id, Settled::Saved));
    assert_eq!(t.watermark(), 0);
    let b = e.next(&mut t, ANY).unwrap();
    assert!(t.settle(b.id, Settled::Saved));
    assert!(!t.settle(b.id, Settled::Failed));
    assert_eq!(t.watermark(), 32, "saved is saved");
}

#[test]
fn a_preempted_request_is_offered_under_its_new_life() {
    let mut e = Engine::new(3);
    let mut t = SaveTracker::new();
    let saved = e.next(&mut t, 16).unwrap();
    let late = e.next(&mut t, ANY).unwrap();
    t.settle(saved.id, Settled::Saved);
    e.preempt();
    assert_eq!(e.next(&mut t, ANY), None, "the new life has nothing yet");
    assert_eq!(e.index.check(&late.request), Err(Stale::NewLife));
    t.settle(late.id, Settled::Stale);
    e.grow(0, 3);
    e.scheduler.publish();
    let again = e.next(&mut t, ANY).unwrap();
    assert_eq!(again.request.tokens(), 16..48);
    assert_eq!(again.request.key(), e.key);
    assert!(e.index.pin(&again.request).is_ok());
}

#[test]
fn the_end_of_a_life_comes_before_nothing_to_do() {
    let mut e = Engine::new(1);
    let mut t = SaveTracker::new();
    let all = e.next(&mut t, ANY).unwrap();
    t.settle(all.id, Settled::Saved);
    assert_eq!(e.next(&mut t, ANY), None);

    let old = e.key;
    e.preempt();
    assert_eq!(t.next(&e.index, old, ANY), Err(PlanError::Stale(Stale::NewLife)));
    let _ = e.scheduler.release(e.key).unwrap();
    assert_eq!(t.next(&e.index, e.key, ANY), Err(PlanError::Stale(Stale::Gone)));
    e.scheduler.reset().unwrap();
    assert_eq!(t.next(&e.index, e.key, ANY), Err(PlanError::Stale(Stale::Reset)));
    e.scheduler.begin_drain();
    assert_eq!(t.next(&e.index, e.key, ANY), Err(PlanError::Stale(Stale::Draining)));
}

#[test]
fn a_range_that_cannot_be_read_is_not_in_flight() {
    let mut e = Engine::new(3);
    let _ = e.scheduler.vacate(e.key, GroupId(0), 1..2).unwrap();
    let mut t = SaveTracker::new();
    let hole = Stale::Hole { group: GroupId(0), position: 1 };
    assert_eq!(t.next(&e.index, e.key, ANY), Err(PlanError::Stale(hole)));
    assert!(t.in_flight().is_empty());
    assert_eq!(tokens(e.next(&mut t, 16)), Some(0..16), "the part before it can");
}

#[test]
fn a_consumer_offers_no_save() {
    let mut e = Engine::new(2);
    let mut t = SaveTracker::new().role(Role::Consumer);
    assert_eq!(e.next(&mut t, ANY), None);
    let _ = e.scheduler.release(e.key).unwrap();
    assert_eq!(e.next(&mut t, ANY), None);
    assert!(Role::Producer.saves() && Role::Both.saves());
}

#[test]
fn a_plan_can_be_carried_out_by_two_jobs() {
    let e = Engine::new(2);
    let mut t = SaveTracker::new();
    let a = e.next(&mut t, ANY).unwrap();
    let b = t.again(&a).unwrap();
    assert_eq!(b.request, a.request);
    assert_eq!(t.in_flight(), vec![0..32], "told once");
    t.settle(a.id, Settled::Failed);
    assert_eq!(e.next(&mut t, ANY), None, "the other is still on its way");
    t.settle(b.id, Settled::Saved);
    assert_eq!(t.watermark(), 32);
    assert_eq!(SaveTracker::new().again(&a), None);
}

#[test]
fn a_narrowed_offer_leaves_the_rest_to_be_saved() {
    let e = Engine::new(6);
    let mut t = SaveTracker::new();
    let all = e.next(&mut t, ANY).unwrap();
    // Tokens 20 to 70 touch the blocks 1 to 4, and cover the blocks 2 and 3.
    assert_eq!(t.narrow(all.id, 20..70), Ok(true));
    assert_eq!(t.in_flight(), vec![32..64]);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(0..32));
    t.settle(all.id, Settled::Saved);
    assert_eq!(t.saved().collect::<Vec<_>>(), vec![32..64]);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(64..96));
    assert_eq!(t.narrow(all.id, 32..48), Ok(false), "it is over");
}

#[test]
fn narrowing_to_less_than_a_block_saves_nothing() {
    let e = Engine::new(2);
    let mut t = SaveTracker::new();
    let all = e.next(&mut t, ANY).unwrap();
    assert_eq!(t.narrow(all.id, 0..33), Err(BadRange { start: 0, end: 33 }));
    assert_eq!(t.narrow(all.id, 7..7), Err(BadRange { start: 7, end: 7 }));
    assert_eq!(t.narrow(all.id, 3..15), Ok(true));
    assert!(t.in_flight().is_empty());
    assert!(t.settle(all.id, Settled::Saved));
    assert_eq!(t.saved().count(), 0);
    assert_eq!(tokens(e.next(&mut t, ANY)), Some(0..32));
}

#[test]
fn outcomes_never_reach_a_tracker_that_was_started_afresh() {
    let e = Engine::new(2);
    let mut trackers = SaveTrackers::new();
    let old = e.next(trackers.track("r1", SaveTracker::new()), ANY).unwrap();
    let new = e.next(trackers.track("r1", SaveTracker::new()), ANY).unwrap();
    assert_ne!(old.id, new.id);
    assert!(!trackers.settle("r1", old.id, Settled::Saved));
    assert_eq!(trackers.get("r1").unwrap().watermark(), 0);
    assert!(trackers.settle("r1", new.id, Settled::Saved));
    assert_eq!(trackers.get("r1").unwrap().watermark(), 32);
    assert!(!trackers.settle("r2", new.id, Settled::Saved));
    assert_eq!(trackers.iter().count(), 1);
    assert!(trackers.untrack("r1").is_some());
    assert!(!trackers.settle("r1", new.id, Settled::Failed));
}
