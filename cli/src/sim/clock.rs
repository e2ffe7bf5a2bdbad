//! Simulated time, which the scheduler sets and the saver threads follow.
//!
//! A simulated step takes microseconds where a real one takes tens of milliseconds, so a saver
//! thread that the system runs a millisecond late would be late by many steps. The scheduler
//! therefore waits, outside of all that is measured, for savers that fall further behind than the
//! replay allows. It never waits for a store to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_utils::CachePadded;

/// The step that the scheduler is at, and how far each saver has come.
pub struct Clock {
    step: CachePadded<AtomicU64>,
    savers: Box<[CachePadded<Progress>]>,
}

struct Progress {
    /// The saver has done all that was due up to this step.
    done: AtomicU64,
    /// When it has something to do next.
    next_due: AtomicU64,
}

impl Clock {
    /// A time that never comes.
    pub const NEVER: u64 = u64::MAX;

    /// A clock at step 0 for so many savers.
    pub fn new(savers: usize) -> Clock {
        let progress =
            || Progress { done: AtomicU64::new(0), next_due: AtomicU64::new(Self::NEVER) };
        Clock {
            step: CachePadded::new(AtomicU64::new(0)),
            savers: (0..savers).map(|_| CachePadded::new(progress())).collect(),
        }
    }

    /// The step that the scheduler is at. Acquire: what the scheduler sent before it set that step
    /// can be received.
    pub fn now(&self) -> u64 {
        self.step.load(Ordering::Acquire)
    }

    /// Goes on to a step.
    pub fn set(&self, step: u64) {
        self.step.store(step, Ordering::Release);
    }

    /// A saver has done all that was due up to `step`, and is next due at `next_due`.
    pub fn report(&self, saver: usize, step: u64, next_due: u64) {
        if let Some(progress) = self.savers.get(saver) {
            progress.next_due.store(next_due, Ordering::Relaxed);
            progress.done.store(step, Ordering::Release);
        }
    }

    /// Waits until every saver has done all that was due up to `step`.
    pub fn wait_for_savers(&self, step: u64, threads: &[Thread]) {
        for (progress, thread) in self.savers.iter().zip(threads) {
            let mut tries = 0_u32;
            while progress.done.load(Ordering::Acquire) < step {
                if tries.is_multiple_of(64) {
                    thread.unpark();
                }
                pause(tries);
                tries = tries.wrapping_add(1);
            }
        }
    }

    /// When any saver has something to do next, as of its last report; [`NEVER`](Self::NEVER) where
    /// none has.
    pub fn next_due(&self) -> u64 {
        let due = |progress: &CachePadded<Progress>| progress.next_due.load(Ordering::Relaxed);
        self.savers.iter().map(due).min().unwrap_or(Self::NEVER)
    }

    /// Lets a saver wait for the scheduler to leave `step`; it may come back early.
    pub fn wait_for_step_after(&self, step: u64) {
        for tries in 0..256 {
            if self.now() != step {
                return;
            }
            pause(tries);
        }
        thread::park_timeout(Duration::from_micros(100));
    }
}

/// Spins for a moment, then lets other threads run.
fn pause(tries: u32) {
    if tries % 64 < 32 { std::hint::spin_loop() } else { thread::yield_now() }
}
