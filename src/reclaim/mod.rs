//! When what was retired can be used again: once nobody who might still read it is under a guard.
//!
//! What the scheduler retires travels in batches, one a step. A batch is deferred through
//! crossbeam-epoch; the thread that happens to run the deferral only pushes the batch back to the
//! scheduler, which takes it apart and makes new leases and chunks from it: no reader ever frees
//! anything large.

#![allow(unsafe_code)]

use std::ptr;

use crate::lease::Lease;
use crate::storage::{Piece, Pool};
use crate::sync::UnsafeCell;

#[cfg(any(not(loom), crossbeam_loom))]
mod epoch;
#[cfg(any(not(loom), crossbeam_loom))]
pub(crate) use epoch::Reclaim;

#[cfg(all(loom, not(crossbeam_loom)))]
mod counting;
#[cfg(all(loom, not(crossbeam_loom)))]
pub(crate) use counting::Reclaim;

/// Leases and storage that left the slots at about the same time.
pub(crate) struct Batch {
    pub(crate) leases: Vec<*mut Lease>,
    pub(crate) pieces: Vec<Piece>,
    /// Links batches on their way back. Written by who pushes one, then read by the scheduler.
    next: UnsafeCell<*mut Batch>,
}

/// Batches that nobody can read any more.
pub(crate) struct Returns {
    next: *mut Batch,
}

impl Returns {
    #[cfg(all(loom, not(crossbeam_loom)))]
    const NONE: Returns = Returns { next: ptr::null_mut() };
}

impl Iterator for Returns {
    type Item = Box<Batch>;

    fn next(&mut self) -> Option<Box<Batch>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: batches are pushed as boxes, and these were taken off the stack for good.
        let batch = unsafe { Box::from_raw(self.next) };
        // SAFETY: its link is the scheduler's since it was taken.
        self.next = batch.next.with(|next| unsafe { *next });
        Some(batch)
    }
}

impl Drop for Returns {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch { leases: Vec::new(), pieces: Vec::new(), next: UnsafeCell::new(ptr::null_mut()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.pieces.is_empty()
    }
}

// SAFETY: a batch owns what it lists: nobody but those under a guard since before it was retired
// can reach it, and they only read.
unsafe impl Send for Batch {}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut pool = Pool::default();
        for piece in self.pieces.drain(..) {
            // SAFETY: a batch is dropped when nobody can reach what it owns any more.
            unsafe { pool.take_back(piece) };
        }
        for lease in self.leases.drain(..) {
            // SAFETY: as above; leases are made as boxes.
            drop(unsafe { Box::from_raw(lease) });
        }
    }
}
