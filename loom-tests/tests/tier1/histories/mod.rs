//! Histories of one life: what every call answered must be what it could have answered had the
//! calls come one after the other, in an order that keeps what happens before what.

mod record;
mod spec;

use std::sync::Arc;

use loom::thread;
use loom_tests::{Memory, World, models, saw};
use tenure::{Groups, Index, Pin, PlanError, Refused, RequestKey, SaveRequest, Stale};

use record::{History, Recorder, Signal};
use spec::{Event, Life};

models! {
    history_release: all => ["done"],
    history_unpin: all => ["done"],
    history_regrow: 3 => ["done"],
    history_rollback: all => ["done"],
    history_append: 3 => ["done"],
    history_commit: all => ["done"],
    history_two_readers: 3 => ["done"],
    history_passed_on: all => ["done"],
}

/// A reader that records what it is answered.
struct Reader {
    index: Index,
    memory: Memory,
    key: RequestKey,
    recorder: Recorder<Event>,
}

/// What the pin of a plan holds until [`Reader::unpin`].
struct Pinned {
    name: &'static str,
    pin: Pin,
}

impl Reader {
    fn new(world: &World, key: RequestKey, recorder: Recorder<Event>) -> Reader {
        Reader { index: world.index.clone(), memory: world.memory.clone(), key, recorder }
    }

    fn plan(&mut self, name: &'static str, len: usize) -> Option<SaveRequest> {
        self.recorder.note(Event::Planning(name));
        let answer = match self.index.plan(self.key, 0..len as u64, Groups::ALL) {
            Ok(request) => Ok(request),
            Err(PlanError::Stale(stale)) => Err(stale),
            Err(other) => panic!("{other}"),
        };
        self.recorder.note(Event::Plan(name, 0..len, answer.map(|request| request.epoch().0)));
        answer.ok()
    }

    fn pin(&mut self, name: &'static str, request: &SaveRequest) -> Option<Pinned> {
        let answer = match self.index.pin(request) {
            Ok(pin) => Ok(pin),
            Err(Refused::Stale(stale)) => Err(stale),
            Err(other) => panic!("{other}"),
        };
        let blocks = answer.as_ref().map(Pin::blocks).map_err(|&stale| stale);
        for &block in blocks.iter().flatten() {
            self.memory.read(block);
        }
        let blocks = blocks.map(|blocks| blocks.iter().map(|block| block.0).collect());
        self.recorder.note(Event::Pin(name, positions(request), request.epoch().0, blocks));
        answer.ok().map(|pin| Pinned { name, pin })
    }

    fn unpin(&mut self, Pinned { name, pin }: Pinned) {
        drop(pin);
        self.recorder.note(Event::Unpin(name));
    }

    fn check(&mut self, request: &SaveRequest) -> Result<(), Stale> {
        let answer = self.index.check(request);
        self.recorder.note(Event::Check(positions(request), request.epoch().0, answer));
        answer
    }
}

fn positions(request: &SaveRequest) -> std::ops::Range<usize> {
    request.tokens().start as usize..request.tokens().end as usize
}

/// A world whose scheduler records what it is answered.
struct Writer {
    world: World,
    key: RequestKey,
    recorder: Recorder<Event>,
}

impl Writer {
    fn append(&mut self, block: u32) {
        self.world.assign(self.key, &[block]);
        self.recorder.note(Event::Append(block));
    }

    fn truncate(&mut self, len: u32) {
        let (freed, _) = self.world.truncate(self.key, len);
        self.recorder.note(Event::Truncate(len as usize, freed));
    }

    fn release(&mut self) {
        let (freed, _) = self.world.release(self.key);
        self.recorder.note(Event::Release(freed));
    }

    fn commit(&mut self, tokens: u64) {
        self.world.scheduler.commit(self.key, tokens).unwrap();
        self.recorder.note(Event::Commit(tokens));
    }

    fn publish(&mut self) {
        let epoch = self.world.publish();
        self.recorder.note(Event::Publish(epoch.0));
    }

    fn reclaim(&mut self) {
        let freed = self.world.reclaim();
        self.recorder.note(Event::Reclaim(freed));
    }
}

/// A life over blocks 0 and 1 in a pool of four, published at epoch 1, and so many of them
/// committed, with so many readers.
fn begin<const READERS: usize, const THREADS: usize>(
    committed: u64,
) -> (Writer, [Reader; READERS], impl FnOnce(Writer)) {
    let mut world = World::tracking_commits(4);
    let key = world.publish_request("r", &[0, 1]);
    world.scheduler.commit(key, committed).unwrap();
    let (history, recorders) = History::new::<THREADS>();
    let mut recorders = recorders.into_iter();
    let writer_recorder = recorders.next().unwrap();
    let readers = std::array::from_fn(|_| Reader::new(&world, key, recorders.next().unwrap()));
    let end = move |writer: Writer| {
        history.check(&Life::new(&[0, 1], committed));
        saw("done");
        writer.world.end();
    };
    (Writer { world, key, recorder: writer_recorder }, readers, end)
}

/// Plan, pin, read, unpin, check; against release and reclaim.
fn history_release() {
    let (mut writer, [mut reader], end) = begin::<1, 2>(2);
    let thread = thread::spawn(move || {
        if let Some(request) = reader.plan("a", 2) {
            if let Some(pinned) = reader.pin("a", &request) {
                reader.unpin(pinned);
            }
            let _ = reader.check(&request);
        }
    });
    writer.release();
    writer.reclaim();
    thread.join().unwrap();
    end(writer);
}

/// The end of a pin against losses of both halves of what it covers, one after the other.
fn history_unpin() {
    let (mut writer, [mut reader], end) = begin::<1, 2>(2);
    let request = reader.plan("a", 2).unwrap();
    let pinned = reader.pin("a", &request).unwrap();
    let thread = thread::spawn(move || {
        reader.unpin(pinned);
        let _ = reader.check(&request);
    });
    writer.truncate(1);
    writer.reclaim();
    writer.release();
    writer.reclaim();
    thread.join().unwrap();
    end(writer);
}

/// A rollback, regrowth and publish between plan, pin and check.
fn history_regrow() {
    let (mut writer, [mut reader], end) = begin::<1, 2>(2);
    let thread = thread::spawn(move || {
        if let Some(request) = reader.plan("a", 2) {
            if let Some(pinned) = reader.pin("a", &request) {
                reader.unpin(pinned);
            }
            let _ = reader.check(&request);
        }
    });
    writer.truncate(1);
    writer.append(2);
    writer.publish();
    writer.reclaim();
    thread.join().unwrap();
    end(writer);
}

/// A rollback, published, under a reader that plans and pins.
fn history_rollback() {
    let (mut writer, [mut reader], end) = begin::<1, 2>(2);
    let thread = thread::spawn(move || {
        if let Some(request) = reader.plan("a", 2)
            && let Some(pinned) = reader.pin("a", &request)
        {
            reader.unpin(pinned);
        }
    });
    writer.truncate(1);
    writer.publish();
    thread.join().unwrap();
    end(writer);
}

/// Growth, published, under a reader that plans more and more.
fn history_append() {
    let (mut writer, [mut reader], end) = begin::<1, 2>(2);
    let thread = thread::spawn(move || {
        let long = reader.plan("a", 3);
        let short = reader.plan("b", 2);
        if let Some(pinned) = long.or(short).and_then(|request| reader.pin("a", &request)) {
            reader.unpin(pinned);
        }
    });
    writer.append(2);
    writer.publish();
    writer.commit(3);
    thread.join().unwrap();
    end(writer);
}

/// Tokens are committed after a publish, under a reader that plans, checks and plans again.
fn history_commit() {
    let (mut writer, [mut reader], end) = begin::<1, 2>(1);
    let thread = thread::spawn(move || {
        if let Some(request) = reader.plan("a", 2) {
            let _ = reader.check(&request);
        } else if let Some(request) = reader.plan("a", 2) {
            let _ = reader.check(&request);
        }
    });
    writer.publish();
    writer.commit(2);
    thread.join().unwrap();
    end(writer);
}

/// Two readers with pins of their own on one lease or two.
fn history_two_readers() {
    let (mut writer, [mut first, mut second], end) = begin::<2, 3>(2);
    let request = first.plan("a", 1).unwrap();
    let threads = [
        thread::spawn(move || {
            if let Some(pinned) = first.pin("a", &request) {
                first.unpin(pinned);
            }
        }),
        thread::spawn(move || {
            if let Some(pinned) = second.pin("b", &request) {
                second.unpin(pinned);
            }
            let _ = second.check(&request);
        }),
    ];
    writer.truncate(1);
    writer.release();
    writer.reclaim();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    end(writer);
}

/// What one reader learns by loads alone and hands on holds for the next one.
fn history_passed_on() {
    let (mut writer, [mut first, mut second], end) = begin::<2, 3>(2);
    let request = first.plan("a", 2).unwrap();
    let signal = Signal::new();
    let sent: Arc<Signal> = signal.clone();
    let threads = [
        thread::spawn(move || {
            let _ = first.check(&request);
            first.recorder.send(&sent);
        }),
        thread::spawn(move || {
            second.recorder.receive(&signal);
            let _ = second.check(&request);
        }),
    ];
    writer.release();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    end(writer);
}
