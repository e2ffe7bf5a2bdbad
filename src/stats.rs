//! What an index holds and what has happened to it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Stale;
use crate::ids::Epoch;

/// Figures the scheduler keeps up to date after every call. It alone writes them, and nobody but
/// [`Index::stats`](crate::Index::stats) reads them.
#[derive(Default)]
pub(crate) struct Gauges {
    free: AtomicU64,
    owned: AtomicU64,
    held: AtomicU64,
    live: AtomicU64,
    draining: AtomicU64,
    retained: AtomicU64,
}

/// The gauges as plain numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gauged {
    pub(crate) free: u64,
    pub(crate) owned: u64,
    pub(crate) held: u64,
    pub(crate) live: u64,
    pub(crate) draining: u64,
    pub(crate) retained: u64,
}

impl Gauges {
    /// Relaxed, here and below: figures carry nothing.
    #[inline]
    pub(crate) fn set(&self, now: Gauged) {
        self.free.store(now.free, Ordering::Relaxed);
        self.owned.store(now.owned, Ordering::Relaxed);
        self.held.store(now.held, Ordering::Relaxed);
        self.live.store(now.live, Ordering::Relaxed);
        self.draining.store(now.draining, Ordering::Relaxed);
        self.retained.store(now.retained, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Gauged {
        Gauged {
            free: self.free.load(Ordering::Relaxed),
            owned: self.owned.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
            live: self.live.load(Ordering::Relaxed),
            draining: self.draining.load(Ordering::Relaxed),
            retained: self.retained.load(Ordering::Relaxed),
        }
    }
}

/// Figures of an index at one moment, from [`Index::stats`](crate::Index::stats). Counts of what
/// readers did are exact sums over all threads; each figure is read on its own, so figures of a
/// moment in which the scheduler is at work may belong to the moments before and after a call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The published epoch: how often the scheduler has published.
    pub epoch: Epoch,
    /// Blocks that can be assigned.
    pub free: u64,
    /// Blocks that a live request lists.
    pub owned: u64,
    /// Blocks that no request lists and a pin or a step still protects, as far as the scheduler's
    /// last call has taken in.
    pub held: u64,
    /// Live requests.
    pub live: u64,
    /// Closed versions of tables, and exact holds, that pins keep from draining.
    pub draining: u64,
    /// Leases that wait for reclamation: superseded or ended, and not yet reused.
    pub retained: u64,
    /// Pins taken by readers.
    pub pins: u64,
    /// Pins refused as stale, by [`Stale::ordinal`].
    pub refused: [u64; Stale::COUNT],
    /// Pins refused because one table had all the pins it can count.
    pub over_budget: u64,
    /// Snapshots built.
    pub snapshots: u64,
}
