//! The model alone, against answers that are known from elsewhere: incidents of engines, told with
//! the numbers they must give. A model that agrees with the index proves nothing if both are wrong.

use std::ops::Range;

use tenure::{BlockId, Config, Error, GroupId, Groups, Holder, IndexId, Kind, RequestKey};
use tenure::{SaveRequest, Stale, StepId};

use crate::model::shape::Shape;
use crate::model::{GivenUp, Model, PinId};

const G0: GroupId = GroupId(0);
const G1: GroupId = GroupId(1);

fn model(blocks: u32, block_sizes: &[u32]) -> Model {
    shaped(Shape {
        blocks,
        null: None,
        block_sizes: block_sizes.to_vec(),
        commits: false,
        max_requests: 8,
    })
}

fn shaped(shape: Shape) -> Model {
    Model::new(shape, IndexId(7))
}

fn key(n: u64) -> RequestKey {
    RequestKey::from_bits(n << 32 | 1)
}

fn blocks<const N: usize>(ids: [u32; N]) -> Vec<BlockId> {
    ids.map(BlockId).to_vec()
}

fn gives<const N: usize>(freed: [u32; N], held: u32) -> GivenUp {
    GivenUp { freed: blocks(freed), held }
}

/// A request with these blocks in the first group, published.
fn admitted<const N: usize>(model: &mut Model, n: u64, ids: [u32; N]) -> RequestKey {
    let key = model.admit(&format!("r{n}"), key(n)).unwrap();
    model.assign(key, G0, &blocks(ids)).unwrap();
    model.publish();
    key
}

fn plan(model: &Model, key: RequestKey, tokens: Range<u64>) -> SaveRequest {
    model.plan(key, tokens, Groups::ALL, Kind::Save).unwrap()
}

fn pinned(model: &mut Model, key: RequestKey, tokens: Range<u64>) -> PinId {
    let request = plan(model, key, tokens);
    model.pin(&request).unwrap()
}

/// Step ids as an index would issue them.
fn steps<const N: usize>() -> [StepId; N] {
    let (mut scheduler, _index) = Config::new(1).build().unwrap();
    [(); N].map(|()| scheduler.begin_step())
}

#[test]
fn around_a_pin_everything_is_free_at_once() {
    let mut m = model(16, &[32]);
    let r1 = admitted(&mut m, 1, [1, 2, 3, 4, 5, 6, 7, 8]);
    let s1 = plan(&m, r1, 96..160);
    let s2 = plan(&m, r1, 160..192);
    let j1 = m.pin(&s1).unwrap();
    assert_eq!(m.reclaimable_now(r1), Ok(6));
    assert_eq!(m.vacate(r1, G0, 0..2), Ok(gives([1, 2], 0)));
    let j2 = m.pin(&s2).unwrap();
    assert_eq!(m.reclaimable_now(r1), Ok(3));
    assert_eq!(m.truncate(r1, G0, 7), Ok(gives([8], 0)));
    assert_eq!(m.vacate(r1, G0, 2..4), Ok(gives([3], 1)));
    assert_eq!(m.check(&s1), Err(Stale::Hole { group: G0, position: 3 }));
    assert_eq!(m.check(&s2), Ok(()));
    assert_eq!(m.pins(r1), 2);
    assert_eq!(m.release(r1), Ok(gives([7], 2)));
    m.unpin(j2);
    m.unpin(j1);
    assert_eq!(m.reclaim(), blocks([4, 5, 6]));
    assert_eq!(m.counts().free, 16);
}

/// Between the two pins the life has none, so the first one's hull is over: the position under it
/// is free at once, though a lease that it had closed was not taken in until then.
#[test]
fn a_hull_ends_with_its_pins() {
    let mut m = model(8, &[16]);
    let r1 = admitted(&mut m, 1, [0, 1, 2, 3, 4, 5]);
    let j1 = pinned(&mut m, r1, 0..32);
    assert_eq!(m.vacate(r1, G0, 5..6), Ok(gives([5], 0)));
    m.unpin(j1);
    let j2 = pinned(&mut m, r1, 64..80);
    assert_eq!(m.vacate(r1, G0, 0..2), Ok(gives([0, 1], 0)));
    m.unpin(j2);
}

#[test]
fn what_a_chain_of_versions_keeps_waits_for_the_oldest() {
    let mut m = model(8, &[16]);
    let r1 = admitted(&mut m, 1, [0, 1, 2, 3]);
    let old = pinned(&mut m, r1, 0..64);
    assert_eq!(m.truncate(r1, G0, 3), Ok(gives([], 1)));
    let young = pinned(&mut m, r1, 16..32);
    // Under both: the younger version keeps it, until it and the older one have drained.
    assert_eq!(m.vacate(r1, G0, 1..2), Ok(gives([], 1)));
    m.unpin(young);
    assert_eq!(m.reclaim(), []);
    m.unpin(old);
    assert_eq!(m.reclaim(), blocks([1, 3]));
}

#[test]
fn two_owners_and_three_readers_let_go_in_turn() {
    let mut m = model(12, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2, 3]);
    let r2 = admitted(&mut m, 2, []);
    m.share(r2, G0, &blocks([1, 2])).unwrap();
    m.assign(r2, G0, &blocks([4])).unwrap();
    let r3 = admitted(&mut m, 3, []);
    m.share(r3, G0, &blocks([1])).unwrap();
    m.publish();
    let j1 = pinned(&mut m, r1, 0..48);
    let s2 = plan(&m, r2, 0..32);
    let j3 = pinned(&mut m, r3, 0..16);
    assert_eq!(m.release(r1), Ok(gives([], 1)));
    assert_eq!(m.release(r3), Ok(gives([], 0)));
    let j2 = m.pin(&s2).unwrap();
    assert_eq!(m.truncate(r2, G0, 1), Ok(gives([4], 1)));
    m.unpin(j1);
    assert_eq!(m.reclaim(), blocks([3]));
    assert_eq!(m.owners(BlockId(1)), Ok(vec![(r2, "r2".into())]));
    assert_eq!(m.release(r2), Ok(gives([], 1)));
    m.unpin(j2);
    assert_eq!(m.reclaim(), blocks([2]));
    m.unpin(j3);
    assert_eq!(m.reclaim(), blocks([1]));
}

#[test]
fn a_block_listed_twice_is_one_block() {
    let mut m = model(8, &[16]);
    let r1 = admitted(&mut m, 1, [5, 6]);
    m.share(r1, G0, &blocks([5])).unwrap();
    m.publish();
    let j1 = pinned(&mut m, r1, 0..48);
    assert_eq!(m.pin_out(j1).blocks(), blocks([5, 6]));
    assert_eq!(m.pin_out(j1).blocks_of(G0), blocks([5, 6, 5]));
    assert_eq!(m.truncate(r1, G0, 2), Ok(gives([], 0)));
    assert_eq!(m.release(r1), Ok(gives([], 2)));
    m.unpin(j1);
    assert_eq!(m.reclaim(), blocks([5, 6]));
}

#[test]
fn steps_hold_what_was_given_up_while_they_were_open() {
    let [a, b, c] = steps();
    let mut m = model(16, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2, 3]);
    let r2 = admitted(&mut m, 2, [4, 5]);
    let s1 = plan(&m, r1, 0..32);
    m.begin_step(a);
    assert_eq!(m.vacate(r1, G0, 2..3), Ok(gives([], 1)));
    m.begin_step(b);
    assert_eq!(m.reclaimable_now(r2), Ok(0));
    assert_eq!(m.release(r2), Ok(gives([], 2)));
    m.begin_step(c);
    let j1 = m.pin(&s1).unwrap();
    assert_eq!(m.release(r1), Ok(gives([], 2)));
    assert_eq!(m.end_step(b), Ok(gives([], 0)));
    assert_eq!(m.end_step(a), Ok(gives([3, 4, 5], 0)));
    assert_eq!(m.end_step(a), Err(Error::UnknownStep { step: a }));
    m.unpin(j1);
    assert_eq!(m.reclaim(), []);
    assert_eq!(m.end_step(c), Ok(gives([1, 2], 0)));
}

#[test]
fn a_held_block_is_shared_again() {
    let mut m = model(12, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2]);
    let j1 = pinned(&mut m, r1, 0..32);
    let (r2, given_up) = m.preempt(r1, key(2)).unwrap();
    assert_eq!(given_up, gives([], 2));
    assert_eq!(m.share(r2, G0, &blocks([3])), Err(Error::NotOwned { block: BlockId(3) }));
    m.share(r2, G0, &blocks([1])).unwrap();
    let by = Holder::Held;
    let refused = m.assign(r2, G0, &blocks([2]));
    assert_eq!(refused, Err(Error::InUse { block: BlockId(2), by }));
    m.unpin(j1);
    assert_eq!(m.reclaim(), blocks([2]));
    assert_eq!(m.release(r2), Ok(gives([1], 0)));
}

#[test]
fn an_exact_hold_keeps_its_blocks_and_no_more() {
    let mut m = model(12, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2, 3, 4]);
    let h1 = m.hold(&blocks([4])).unwrap();
    assert_eq!((m.pins(r1), m.reclaimable_now(r1)), (0, Ok(3)));
    assert_eq!(m.truncate(r1, G0, 3), Ok(gives([], 1)));
    assert_eq!(m.hold(&blocks([9])), Err(Error::NotOwned { block: BlockId(9) }));
    m.unpin(h1);
    assert_eq!(m.release(r1), Ok(gives([1, 2, 3], 0)));
    assert_eq!(m.reclaim(), blocks([4]));
}

#[test]
fn a_narrowed_pin_holds_its_part_from_the_next_call_on() {
    let mut m = model(8, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2, 3]);
    let j1 = pinned(&mut m, r1, 0..48);
    assert_eq!(m.release(r1), Ok(gives([], 3)));
    m.narrow(j1, 16..20).unwrap();
    assert_eq!(m.pin_out(j1).blocks(), blocks([2]));
    assert_eq!(m.reclaim(), blocks([1, 3]));
    m.unpin(j1);
    assert_eq!(m.reclaim(), blocks([2]));
}

#[test]
fn two_groups_are_judged_each_on_its_own_positions() {
    let mut m = model(40, &[16, 64]);
    let r1 = admitted(&mut m, 1, [1, 2, 3, 4, 5, 6, 7, 8]);
    m.assign(r1, G1, &blocks([21, 22])).unwrap();
    m.publish();
    let whole = plan(&m, r1, 0..128);
    let second = plan(&m, r1, 64..128);
    assert_eq!(m.vacate(r1, G0, 0..2), Ok(gives([1, 2], 0)));
    assert_eq!(m.vacate(r1, G1, 0..1), Ok(gives([21], 0)));
    assert_eq!(m.check(&whole), Err(Stale::Hole { group: G0, position: 0 }));
    assert_eq!(m.check(&second), Ok(()));
    let j1 = m.pin(&second).unwrap();
    assert_eq!(m.pin_out(j1).blocks(), blocks([5, 6, 7, 8, 22]));
    // The blocks 3 and 4 lie before what is pinned, in either group.
    assert_eq!(m.release(r1), Ok(gives([3, 4], 5)));
}

#[test]
fn a_plan_over_what_is_not_published_meets_a_short_table() {
    let mut m = model(8, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2]);
    let first = plan(&m, r1, 0..32);
    m.assign(r1, G0, &blocks([3])).unwrap();
    let short = Stale::Truncated { group: G0, len: 2 };
    assert_eq!(m.plan(r1, 0..48, Groups::ALL, Kind::Save), Err(short.into()));
    assert_eq!(m.view(r1).unwrap().tables, [[Some(BlockId(1)), Some(BlockId(2))]]);
    m.truncate(r1, G0, 1).unwrap();
    m.assign(r1, G0, &blocks([2])).unwrap();
    m.publish();
    // The same block at the same place, but not without interruption.
    assert_eq!(m.check(&first), Err(Stale::Reassigned { group: G0, position: 1 }));
    assert_eq!(m.replan(&first).unwrap().epoch(), m.epoch());
}

#[test]
fn a_bad_block_costs_each_owner_what_depends_on_it() {
    let shape =
        Shape { blocks: 16, null: None, block_sizes: vec![16], commits: true, max_requests: 8 };
    let mut m = shaped(shape);
    let r1 = admitted(&mut m, 1, [1, 2, 3]);
    let r2 = admitted(&mut m, 2, []);
    m.share(r2, G0, &blocks([2])).unwrap();
    m.publish();
    let too_early = m.plan(r1, 0..16, Groups::ALL, Kind::Save);
    assert_eq!(too_early, Err(Stale::NotCommitted { committed: 0 }.into()));
    let beyond = Error::BeyondTable { group: G0, len: 1, asked: 17 };
    assert_eq!(m.commit(r2, 17), Err(beyond));
    m.commit(r1, 48).unwrap();
    m.commit(r2, 16).unwrap();
    let (before, over) = (plan(&m, r1, 0..16), plan(&m, r1, 0..32));
    let other = plan(&m, r2, 0..16);
    m.invalidate(&blocks([2])).unwrap();
    assert_eq!(m.check(&before), Ok(()));
    assert_eq!(m.check(&over), Err(Stale::NotCommitted { committed: 16 }));
    assert_eq!(m.check(&other), Err(Stale::NotCommitted { committed: 0 }));
}

#[test]
fn reasons_come_in_their_order() {
    let mut m = model(16, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2, 3, 4]);
    let whole = plan(&m, r1, 0..64);
    m.vacate(r1, G0, 1..2).unwrap();
    m.replace(r1, G0, 0, BlockId(9)).unwrap();
    assert_eq!(m.check(&whole), Err(Stale::Hole { group: G0, position: 1 }));
    m.truncate(r1, G0, 3).unwrap();
    assert_eq!(m.check(&whole), Err(Stale::Truncated { group: G0, len: 3 }));
    let (r2, _) = m.preempt(r1, key(2)).unwrap();
    assert_eq!(m.check(&whole), Err(Stale::NewLife));
    assert_eq!(m.release(r1), Err(Error::AlreadyReleased { key: r1 }));
    m.release(r2).unwrap();
    m.reset().unwrap();
    assert_eq!(m.check(&whole), Err(Stale::Reset));
    m.begin_drain();
    assert_eq!(m.check(&whole), Err(Stale::Draining));
    assert!(m.drained());
}

#[test]
fn a_reset_waits_for_readers_and_a_forced_one_does_not_disturb_them() {
    let mut m = model(8, &[16]);
    let r1 = admitted(&mut m, 1, [1, 2, 3]);
    let j1 = pinned(&mut m, r1, 0..32);
    assert_eq!(m.reset(), Err(Error::Busy { blocks: 3 }));
    assert_eq!(m.release(r1), Ok(gives([3], 2)));
    assert_eq!(m.reset(), Err(Error::Busy { blocks: 2 }));
    m.unpin(j1);
    assert_eq!(m.reset(), Ok(()));
    let r2 = admitted(&mut m, 2, [1, 2]);
    let j2 = pinned(&mut m, r2, 0..16);
    assert_eq!(m.reset_force(), gives([2], 1));
    m.unpin(j2);
    m.reclaim();
    assert_eq!(m.counts().free, 8);
}
