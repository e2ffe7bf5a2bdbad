//! The stand-in for reclamation under loom: counts who is reading, and "frees" by a tracked write
//! to every cell, so that loom reports whoever may still read. The memory itself is kept until the
//! model ends.
//!
//! Simpler than epochs, and so exhaustive in seconds. Its counter is a read-modify-write that may
//! order more than the real reclaimer does: the second tier of models runs that one.

use std::sync::Mutex;

use super::{Batch, Returns};
use crate::sync::{AtomicU64, Ordering};
use crate::tally::{Tallies, Tally};

pub(crate) struct Reclaim {
    reading: AtomicU64,
    /// Waits for the last reader. Invisible to loom: pushed to only after `reading` was found above
    /// zero by a read-modify-write, and emptied only by who brings it to zero by another.
    waiting: Mutex<Vec<Box<Batch>>>,
    /// Poisoned, and kept until the end.
    gone: Mutex<Vec<Box<Batch>>>,
    tallies: Tallies,
}

pub(crate) struct Entered<'a> {
    reclaim: &'a Reclaim,
    pub(crate) tally: &'a Tally,
}

impl Reclaim {
    pub(crate) fn new() -> Reclaim {
        Reclaim {
            reading: AtomicU64::new(0),
            waiting: Mutex::default(),
            gone: Mutex::default(),
            tallies: Tallies::new(),
        }
    }

    pub(crate) fn enter(&self) -> Entered<'_> {
        self.reading.fetch_add(1, Ordering::AcqRel);
        Entered { reclaim: self, tally: self.tallies.common() }
    }

    pub(crate) fn retire(&self, batch: Box<Batch>) {
        if self.reading.fetch_add(0, Ordering::AcqRel) == 0 {
            self.free(batch);
        } else {
            self.waiting.lock().unwrap().push(batch);
        }
    }

    fn free(&self, batch: Box<Batch>) {
        for &lease in &batch.leases {
            // SAFETY: nothing is freed before the model ends.
            unsafe { (*lease).alive.with_mut(|_| ()) };
        }
        for &piece in &batch.pieces {
            // SAFETY: as above.
            unsafe { piece.poison() };
        }
        self.gone.lock().unwrap().push(batch);
    }

    pub(crate) fn nudge(&self) {}

    pub(crate) fn returned(&self) -> Returns {
        Returns::NONE
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.reclaim.reading.fetch_sub(1, Ordering::AcqRel) == 1 {
            let waiting = std::mem::take(&mut *self.reclaim.waiting.lock().unwrap());
            waiting.into_iter().for_each(|batch| self.reclaim.free(batch));
        }
    }
}
