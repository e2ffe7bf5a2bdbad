//! Two threads that pin at once.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Peer;

/// Which requests two threads pin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requests {
    /// Each its own.
    Different,
    /// Both the same one.
    Same,
}

/// A peer with two requests of the same length.
pub struct Pair<P> {
    peer: P,
}

impl<P: Peer> Pair<P> {
    /// Two requests of `length` blocks.
    ///
    /// # Errors
    /// None that a correct peer gives.
    pub fn new(length: u32) -> Result<Pair<P>, Box<dyn std::error::Error>> {
        Ok(Pair { peer: P::build(&super::tables(&[length, length]))? })
    }

    /// Two threads pin and unpin for about `time`. Answers how many nanoseconds each of them took
    /// for one, by the clock on the wall: who waits for a lock uses no time of its own.
    pub fn run(&self, requests: Requests, time: Duration) -> f64 {
        let other = match requests {
            Requests::Different => 1,
            Requests::Same => 0,
        };
        let stop = AtomicBool::new(false);
        let rates = thread::scope(|scope| {
            let begin = |request| {
                let (peer, stop) = (self.peer.clone(), &stop);
                scope.spawn(move || rate(&peer, request, stop))
            };
            let threads = [begin(0), begin(other)];
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            // A thread that has panicked has pinned nothing.
            threads.map(|thread| thread.join().unwrap_or(0.0))
        });
        2.0 / rates.iter().sum::<f64>()
    }
}

/// Pins and unpins until told to stop; answers how many a nanosecond.
fn rate<P: Peer>(peer: &P, request: usize, stop: &AtomicBool) -> f64 {
    let (start, mut calls) = (Instant::now(), 0_u64);
    // At least once, however late the thread began.
    loop {
        black_box(&peer.pin(black_box(request)));
        calls += 1;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    calls as f64 / start.elapsed().as_nanos().max(1) as f64
}
