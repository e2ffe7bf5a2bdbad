//! Pictures of the whole table.

use std::sync::Arc;

use tenure::{BlockId, Config, Epoch, GroupId, Index, RequestKey, Scheduler, TableView};

const G0: GroupId = GroupId(0);
const G1: GroupId = GroupId(1);

fn blocks(ids: impl IntoIterator<Item = u32>) -> Vec<BlockId> {
    ids.into_iter().map(BlockId).collect()
}

/// Two groups, and two published requests that share block 2.
fn two() -> (Scheduler, Index, RequestKey, RequestKey) {
    let (mut scheduler, index) = Config::new(16).block_sizes([1, 2]).build().unwrap();
    let first = scheduler.admit("first").unwrap();
    let second = scheduler.admit("second").unwrap();
    scheduler.assign(first, G0, &blocks(0..3)).unwrap();
    scheduler.share(second, G0, &blocks([2])).unwrap();
    scheduler.assign(second, G1, &blocks(8..10)).unwrap();
    scheduler.publish();
    (scheduler, index, first, second)
}

#[test]
fn a_snapshot_of_nothing_is_empty() {
    let (mut scheduler, index) = Config::new(4).build().unwrap();
    let before = index.snapshot();
    assert!(before.is_empty() && before.iter().len() == 0);
    let key = scheduler.admit("r").unwrap();
    assert!(index.snapshot().is_empty(), "not published yet");
    scheduler.publish();
    let with_one = index.snapshot();
    assert!(!with_one.is_empty() && with_one.len() == 1);
    assert_eq!(with_one.get(key).unwrap().tables().len(), 1);
    let _ = scheduler.release(key).unwrap();
    assert_eq!(index.snapshot().len(), 1, "ended, but not at this epoch");
    scheduler.publish();
    assert!(index.snapshot().is_empty());
}

#[test]
fn a_snapshot_names_every_owner_of_a_block() {
    let (_scheduler, index, first, second) = two();
    let snapshot = index.snapshot();
    let owners = |block| {
        let mut keys: Vec<_> =
            snapshot.owners(BlockId(block)).iter().map(|view| view.key).collect();
        keys.sort_by_key(|key| key.to_bits());
        keys
    };
    assert_eq!(owners(2), [first, second]);
    assert_eq!(owners(1), [first]);
    assert_eq!(owners(9), [second]);
    assert!(owners(15).is_empty() && owners(99).is_empty());
}

#[test]
fn a_snapshot_is_looked_up_by_key_and_by_label() {
    let (_scheduler, index, first, second) = two();
    let snapshot = index.snapshot();
    assert_eq!(snapshot.epoch(), Epoch(1));
    let view: &TableView = snapshot.by_label("second").unwrap();
    assert_eq!((view.key, &*view.label, view.epoch), (second, "second", Epoch(1)));
    assert_eq!(view.table(G0), [Some(BlockId(2))]);
    assert_eq!(view.table(G1), [Some(BlockId(8)), Some(BlockId(9))]);
    assert!(view.table(GroupId(2)).is_empty(), "there is no such group");
    assert_eq!(snapshot.get(first), snapshot.by_label("first"));
    assert!(snapshot.get(RequestKey::from_bits(u64::MAX)).is_none());
    assert!(snapshot.by_label("third").is_none());
}

#[test]
fn one_snapshot_is_shared_until_the_next_publish() {
    let (mut scheduler, index, first, _) = two();
    let snapshot = index.snapshot();
    let _ = scheduler.truncate(first, G0, 1).unwrap();
    let again = index.clone().snapshot();
    assert!(Arc::ptr_eq(&snapshot, &again));
    assert_eq!(again.get(first).unwrap().table(G0).len(), 3, "losses show when published");
    scheduler.publish();
    let next = index.snapshot();
    assert_eq!(next.epoch(), Epoch(2));
    assert_eq!(next.get(first).unwrap().table(G0), [Some(BlockId(0))]);
    assert_eq!(snapshot.get(first).unwrap().table(G0).len(), 3, "an owned picture stays");
    assert_eq!(index.stats().snapshots, 2);
}
