//! What the scheduler, the readers' handles and the last pins share. Few words are written after
//! an index is built; those that different threads write lie on cache lines of their own.

#![allow(unsafe_code)]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ptr;

use crossbeam_utils::CachePadded;

use crate::drain::DrainStack;
use crate::error::Stale;
use crate::geometry::Geometry;
use crate::ids::{Epoch, IndexId};
use crate::lease::Lease;
use crate::reclaim::Reclaim;
use crate::recorder::Recorder;
use crate::scheduler::Estate;
use crate::snapshot::SnapshotCache;
use crate::stats::Gauges;
use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// How many publishes back a request is believed. Beyond that its epoch counts as unknown, so that
/// `since` fits 32 bits.
const BELIEVED: u64 = 1 << 31;

pub(crate) struct Shared {
    pub(crate) id: IndexId,
    pub(crate) geometry: Geometry,
    /// A flight recorder, where one is on.
    pub(crate) recorder: Option<Recorder>,
    /// The newest lease of each slot. Null where it was never used.
    slots: Box<[AtomicPtr<Lease>]>,
    pub(crate) reclaim: Reclaim,
    pub(crate) snapshots: SnapshotCache,

    draining: AtomicBool,
    /// Requests planned at epochs below this one were planned before the last reset.
    reset_floor: AtomicU64,
    /// Slots below this one may have been used.
    slots_used: AtomicU32,

    epoch: CachePadded<AtomicU64>,
    pub(crate) drain: DrainStack,
    pub(crate) gauges: CachePadded<Gauges>,

    /// The scheduler's memory, once it has ended: leases and storage that pins may still read.
    estate: UnsafeCell<Option<Estate>>,
}

// SAFETY: the slots and `estate` are what keeps this from being automatic. Leases are shared as
// `Cells` and atomics; `estate` is written once, by the scheduler as it ends, and read only by the
// drop of the last holder.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn new(
        geometry: Geometry,
        max_requests: u32,
        recorder: Option<Recorder>,
    ) -> Arc<Shared> {
        let slots = (0..max_requests).map(|_| AtomicPtr::new(ptr::null_mut()));
        Arc::new(Shared {
            // Every hasher state is seeded anew from the system's randomness.
            id: IndexId(RandomState::new().hash_one(0)),
            geometry,
            recorder,
            slots: slots.collect(),
            reclaim: Reclaim::new(),
            snapshots: SnapshotCache::new(),
            draining: AtomicBool::new(false),
            reset_floor: AtomicU64::new(0),
            slots_used: AtomicU32::new(0),
            epoch: CachePadded::new(AtomicU64::new(0)),
            drain: DrainStack::new(),
            gauges: CachePadded::new(Gauges::default()),
            estate: UnsafeCell::new(None),
        })
    }

    /// The published epoch. To be loaded before any slot.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> Epoch {
        // Acquire: pairs with the release store in `publish`: whoever finds the epoch finds every
        // lease and entry of its step.
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// Makes a whole step visible at once.
    #[inline(always)]
    pub(crate) fn publish(&self, epoch: Epoch) {
        // Release: pairs with the acquire load in `epoch`.
        self.epoch.store(epoch.0, Ordering::Release);
    }

    /// Whether a request of this index can have been planned at `planned`.
    #[inline(always)]
    pub(crate) fn believes(planned: Epoch, published: Epoch) -> bool {
        planned <= published && published.0 - planned.0 <= BELIEVED
    }

    pub(crate) fn max_requests(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The newest lease of a slot; null where the slot was never used or does not exist.
    #[inline(always)]
    pub(crate) fn lease(&self, slot: u32) -> *mut Lease {
        match self.slots.get(slot as usize) {
            // Acquire: pairs with the release store in `install`: whoever finds the lease finds
            // what it is made of, and, where an older one was found closed, at least its successor.
            Some(slot) => slot.load(Ordering::Acquire),
            None => ptr::null_mut(),
        }
    }

    /// Puts a lease where readers find it.
    pub(crate) fn install(&self, slot: u32, lease: *mut Lease) {
        if let Some(slot) = self.slots.get(slot as usize) {
            // Release: pairs with the acquire load in `lease`.
            slot.store(lease, Ordering::Release);
        }
    }

    /// The slots that a picture of the published epoch has to visit. To be loaded after the epoch.
    pub(crate) fn slots_used(&self) -> u32 {
        // Relaxed: the store was made before the publish whose epoch was loaded (acquire).
        self.slots_used.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slots_used(&self, used: u32) {
        // Relaxed: carried by the next publish.
        self.slots_used.store(used, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_draining(&self) -> bool {
        // Relaxed: the order is carried by the leases, which are closed after the flag is set.
        self.draining.load(Ordering::Relaxed)
    }

    /// To be set before the first lease is closed for it.
    pub(crate) fn set_draining(&self) {
        // Relaxed: as above.
        self.draining.store(true, Ordering::Relaxed);
    }

    /// To be set before the first life is ended for it.
    pub(crate) fn set_reset_floor(&self, epoch: Epoch) {
        // Relaxed: whoever finds a life ended by the reset has loaded (acquire) its last lease,
        // which was stored (release) after this.
        self.reset_floor.store(epoch.0, Ordering::Relaxed);
    }

    /// The reason that comes before all that a lease could tell, if there is one. To be asked after
    /// the lease was loaded, or a life would seem released that only a reset has ended.
    pub(crate) fn overriding(&self, planned: Epoch) -> Option<Stale> {
        if self.is_draining() {
            Some(Stale::Draining)
        } else if planned.0 < self.reset_floor.load(Ordering::Relaxed) {
            // Relaxed: see `set_reset_floor`.
            Some(Stale::Reset)
        } else {
            None
        }
    }

    /// Keeps the ended scheduler's memory for those that still read it.
    pub(crate) fn inherit(&self, estate: Estate) {
        // SAFETY: called once, by the scheduler as it ends; nobody reads the cell before the last
        // count has gone, and dropping the scheduler's own count comes after this.
        self.estate.with_mut(|kept| unsafe { *kept = Some(estate) });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Before the collector goes. Nobody is under a guard: that would take a handle or a pin.
        // SAFETY: this is the last holder.
        self.estate.with_mut(|estate| drop(unsafe { (*estate).take() }));
    }
}
