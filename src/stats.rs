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
    draining_blocks: AtomicU64,
    draining_since: AtomicU64,
    retained: AtomicU64,
    retained_pieces: AtomicU64,
}

/// The gauges as plain numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gauged {
    pub(crate) free: u64,
    pub(crate) owned: u64,
    pub(crate) held: u64,
    pub(crate) live: u64,
    pub(crate) draining: u64,
    pub(crate) draining_blocks: u64,
    pub(crate) draining_since: u64,
    pub(crate) retained: u64,
    pub(crate) retained_pieces: u64,
}

impl Gauged {
    /// The `draining_since` where nothing drains.
    pub(crate) const NOTHING_DRAINS: u64 = u64::MAX;
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
        self.draining_blocks.store(now.draining_blocks, Ordering::Relaxed);
        self.draining_since.store(now.draining_since, Ordering::Relaxed);
        self.retained.store(now.retained, Ordering::Relaxed);
        self.retained_pieces.store(now.retained_pieces, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Gauged {
        Gauged {
            free: self.free.load(Ordering::Relaxed),
            owned: self.owned.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
            live: self.live.load(Ordering::Relaxed),
            draining: self.draining.load(Ordering::Relaxed),
            draining_blocks: self.draining_blocks.load(Ordering::Relaxed),
            draining_since: self.draining_since.load(Ordering::Relaxed),
            retained: self.retained.load(Ordering::Relaxed),
            retained_pieces: self.retained_pieces.load(Ordering::Relaxed),
        }
    }
}

/// Figures of an index at one moment, from [`Index::stats`](crate::Index::stats). Counts of what
/// readers did are exact sums over all threads; each figure is read on its own, so figures of a
/// moment in which the scheduler is at work may belong to the moments before and after a call. What
/// is told of blocks and leases is as far as the scheduler's last call has taken in.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{BlockId, Config, GroupId, Groups, Stale};
/// let (mut scheduler, index) = Config::new(8).build()?;
/// let request = scheduler.admit("r1")?;
/// scheduler.assign(request, GroupId(0), &[BlockId(3), BlockId(5)])?;
/// scheduler.publish();
/// let plan = index.plan(request, 0..32, Groups::ALL)?;
/// let pin = index.pin(&plan)?;
/// let _ = scheduler.release(request)?;
/// assert!(index.pin(&plan).is_err());
///
/// let stats = index.stats();
/// assert_eq!((stats.free, stats.owned, stats.held, stats.live), (6, 0, 2, 0));
/// assert_eq!((stats.pins, stats.refused[Stale::Gone.ordinal()]), (1, 1));
/// assert_eq!((stats.draining, stats.draining_blocks), (1, 2));
/// # drop(pin);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct Stats {
    /// The published epoch: how often the scheduler has published.
    pub epoch: Epoch,
    /// Blocks that can be assigned.
    pub free: u64,
    /// Blocks that a live request lists.
    pub owned: u64,
    /// Blocks that no request lists and a pin or a step still protects.
    pub held: u64,
    /// Live requests.
    pub live: u64,
    /// Closed versions of tables, and exact holds, that pins keep from draining:
    /// [`Scheduler::draining`](crate::Scheduler::draining) lists them.
    pub draining: u64,
    /// Blocks they keep; one that two of them keep counts twice.
    pub draining_blocks: u64,
    /// For how many publishes the oldest of them has been draining; 0 where there is none.
    pub draining_age: u64,
    /// Leases that wait for reclamation: superseded or ended, and not yet reused.
    pub retained: u64,
    /// Pieces of table storage that wait for reclamation.
    pub retained_pieces: u64,
    /// Pins taken by readers.
    pub pins: u64,
    /// Pins refused as stale, by [`Stale::ordinal`].
    pub refused: [u64; Stale::COUNT],
    /// Those of them that would have been taken had they been planned anew: the position shows
    /// another block, and that is published. Many of them mean that plans grow old.
    pub refused_but_replannable: u64,
    /// Pins refused because one table had all the pins it can count.
    pub over_budget: u64,
    /// Snapshots built.
    pub snapshots: u64,
}

impl Stats {
    /// Pins refused as stale, for whatever reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// How often each reason was told.
    pub fn refused_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Stale::NAMES.into_iter().zip(self.refused)
    }
}
