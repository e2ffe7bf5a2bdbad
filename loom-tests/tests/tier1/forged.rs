//! Requests that no plan has made: an index believes nothing about them.

use loom::thread;
use loom_tests::{World, models, saw};
use tenure::{Epoch, Groups, Kind, Refused, RequestKey, SaveRequest, Stale};

models! {
    forged_coming_epoch: all => ["epoch-unknown", "truncated"],
    forged_ended_key: all => ["epoch-unknown", "gone"],
}

/// A save over two positions, as if planned at an epoch.
fn forge(world: &World, key: RequestKey, epoch: u64) -> SaveRequest {
    let groups = world.index.geometry().all_groups();
    SaveRequest::from_parts(world.index.id(), key, Epoch(epoch), 0..2, groups, Kind::Save).unwrap()
}

/// A request for the coming epoch is not judged by what was before it.
fn forged_coming_epoch() {
    let mut world = World::new(2);
    let key = world.publish_request("r", &[0, 1]);
    let (index, request) = (world.index.clone(), forge(&world, key, 2));
    let reader = thread::spawn(move || saw(index.check(&request).unwrap_err().name()));
    world.truncate(key, 1);
    world.publish();
    reader.join().unwrap();
    world.end();
}

/// The key of an ended life does not open the table of the life after it, whatever the epoch.
fn forged_ended_key() {
    let mut world = World::new(4);
    let key = world.publish_request("r", &[0, 1]);
    world.release(key);
    let (index, request) = (world.index.clone(), forge(&world, key, 2));
    let reader = thread::spawn(move || match index.pin(&request) {
        Err(Refused::Stale(stale)) => saw(Stale::name(&stale)),
        other => panic!("{other:?}"),
    });
    let next = world.publish_request("s", &[2, 3]);
    assert!(world.index.plan(next, 0..2, Groups::ALL).is_ok());
    reader.join().unwrap();
    world.end();
}
