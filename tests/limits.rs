//! What lies at the edge of what can be counted, and one beyond.

use tenure::{BlockId, BlockState, Config, Error, GroupId, Scheduler};

const G0: GroupId = GroupId(0);

fn blocks(ids: impl IntoIterator<Item = u32>) -> Vec<BlockId> {
    ids.into_iter().map(BlockId).collect()
}

/// Tables of three blocks at most: a table covers less than 2^24 grains of one token.
fn short_tables() -> Scheduler {
    let (scheduler, _) = Config::new(12).block_sizes([1, 1 << 22]).build().unwrap();
    scheduler
}

#[test]
fn a_table_takes_as_much_as_fits_and_no_more() {
    let full = Err(Error::TableFull { group: GroupId(1), max: 3 });
    let mut scheduler = short_tables();
    let key = scheduler.admit("r").unwrap();
    assert_eq!(scheduler.assign(key, GroupId(1), &blocks(0..4)), full);
    assert_eq!(scheduler.len(key, GroupId(1)), Ok(0), "a refused call changes nothing");
    scheduler.assign(key, GroupId(1), &blocks(0..2)).unwrap();
    assert_eq!(scheduler.share(key, GroupId(1), &blocks([0, 1])), full);
    scheduler.share(key, GroupId(1), &blocks([0])).unwrap();
    assert_eq!(scheduler.assign(key, GroupId(1), &blocks([5])), full);
    scheduler.assign(key, GroupId(1), &[]).unwrap();
    assert_eq!(scheduler.block_state(BlockId(5)), Ok(BlockState::Free));
    let _ = scheduler.truncate(key, GroupId(1), 1).unwrap();
    scheduler.assign(key, GroupId(1), &blocks([5, 6])).unwrap();
    assert_eq!(scheduler.len(key, GroupId(1)), Ok(3));
    // The other group has room for as many blocks as there are.
    scheduler.assign(key, G0, &blocks([2, 3, 4, 7, 8, 9, 10, 11])).unwrap();
    scheduler.audit().unwrap();
}

#[test]
fn a_block_that_only_holds_keep_is_held_again() {
    let (mut scheduler, _) = Config::new(4).block_sizes([1]).build().unwrap();
    let key = scheduler.admit("r").unwrap();
    scheduler.assign(key, G0, &blocks(0..2)).unwrap();
    let first = scheduler.hold(&blocks([0])).unwrap();
    assert_eq!(scheduler.release(key).unwrap().freed(), blocks([1]));
    let second = scheduler.hold(&blocks([0])).unwrap();
    let third = scheduler.hold(&blocks([0, 0])).unwrap();
    drop(first);
    drop(third);
    assert_eq!(scheduler.block_state(BlockId(0)), Ok(BlockState::Held));
    let again = scheduler.admit("again").unwrap();
    scheduler.share(again, G0, &blocks([0])).unwrap();
    drop(second);
    assert_eq!(scheduler.block_state(BlockId(0)), Ok(BlockState::Owned));
    assert_eq!(scheduler.release(again).unwrap().freed(), blocks([0]));
    scheduler.audit().unwrap();
}
