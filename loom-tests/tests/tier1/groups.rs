//! Several groups of one request, with block sizes of their own.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use loom_tests::{Memory, Tag, models, saw};
use tenure::{BlockId, Config, GroupId, Groups, Index, RequestKey, SaveRequest, Scheduler, Stale};

models! {
    loss_in_another_group: all => ["pinned"],
    loss_in_one_group: all => ["pinned", "truncated"],
    commit_of_all_groups: all => ["pinned", "not-committed"],
    growth_of_all_groups: all => ["planned", "truncated"],
}

const NARROW: GroupId = GroupId(0);
const WIDE: GroupId = GroupId(1);

/// A request over two blocks of one token and one block of two.
fn begin(commits: bool) -> (Scheduler, Index, RequestKey, Memory) {
    let config = Config::new(6).max_requests(1).block_sizes([1, 2]).track_commits(commits);
    let (mut scheduler, index) = config.build().unwrap();
    let memory = Memory::new(6);
    (0..3).for_each(|block| memory.write(BlockId(block), Tag(1)));
    let key = scheduler.admit("r").unwrap();
    scheduler.assign(key, NARROW, &[BlockId(0), BlockId(1)]).unwrap();
    scheduler.assign(key, WIDE, &[BlockId(2)]).unwrap();
    scheduler.publish();
    (scheduler, index, key, memory)
}

fn save(index: &Index, memory: &Memory, request: &SaveRequest) {
    match index.pin(request) {
        Ok(pin) => {
            for block in pin.blocks() {
                assert_eq!(memory.read(block), Tag(1), "foreign content in block {block}");
            }
            saw("pinned");
        }
        Err(tenure::Refused::Stale(stale)) => saw(Stale::name(&stale)),
        Err(other) => panic!("{other}"),
    }
}

fn reuse(memory: &Memory, blocks: &[BlockId]) {
    blocks.iter().for_each(|&block| memory.write(block, Tag::FOREIGN));
}

/// What is lost in a group that was not planned refuses nothing.
fn loss_in_another_group() {
    let (mut scheduler, index, key, memory) = begin(false);
    let request = index.plan(key, 0..2, Groups::only(WIDE)).unwrap();
    let theirs = memory.clone();
    let reader = thread::spawn(move || save(&index, &theirs, &request));
    reuse(&memory, scheduler.truncate(key, NARROW, 0).unwrap().freed());
    reuse(&memory, scheduler.reclaim());
    reader.join().unwrap();
    scheduler.audit().unwrap();
}

/// What is lost in one of the planned groups refuses the pin over all of them.
fn loss_in_one_group() {
    let (mut scheduler, index, key, memory) = begin(false);
    let request = index.plan(key, 0..2, Groups::ALL).unwrap();
    let theirs = memory.clone();
    let reader = thread::spawn(move || save(&index, &theirs, &request));
    reuse(&memory, scheduler.truncate(key, NARROW, 1).unwrap().freed());
    reuse(&memory, scheduler.reclaim());
    reader.join().unwrap();
    scheduler.audit().unwrap();
}

/// A commit names the tokens of all groups as written at once.
fn commit_of_all_groups() {
    let (mut scheduler, index, key, memory) = begin(true);
    scheduler.commit(key, 2).unwrap();
    let request = index.plan(key, 0..2, Groups::ALL).unwrap();
    scheduler.invalidate(&[BlockId(1), BlockId(2)]).unwrap();
    let theirs = memory.clone();
    let reader = thread::spawn(move || save(&index, &theirs, &request));
    [1, 2].into_iter().for_each(|block| memory.write(BlockId(block), Tag(1)));
    scheduler.commit(key, 2).unwrap();
    reader.join().unwrap();
    scheduler.audit().unwrap();
}

/// A step that grows all groups is planned over as a whole.
fn growth_of_all_groups() {
    let (mut scheduler, index, key, _) = begin(false);
    let published = Arc::new(AtomicBool::new(false));
    let theirs = published.clone();
    let reader = thread::spawn(move || {
        let known = theirs.load(Ordering::Acquire);
        match index.plan(key, 0..4, Groups::ALL) {
            Ok(request) => {
                assert_eq!(request.epoch().0, 2);
                assert_eq!(index.pin(&request).unwrap().blocks().len(), 6);
                saw("planned");
            }
            Err(other) => {
                let len = Stale::Truncated { group: NARROW, len: 2 };
                assert_eq!((known, other), (false, len.into()));
                saw("truncated");
            }
        }
    });
    scheduler.assign(key, NARROW, &[BlockId(3), BlockId(4)]).unwrap();
    scheduler.assign(key, WIDE, &[BlockId(5)]).unwrap();
    scheduler.publish();
    published.store(true, Ordering::Release);
    reader.join().unwrap();
    scheduler.audit().unwrap();
}
