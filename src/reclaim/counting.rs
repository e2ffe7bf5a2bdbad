//! The stand-in for reclamation under loom: counts who is reading, and "frees" by a tracked write
//! to every cell, so that loom reports whoever may still read. The memory itself is kept until the
//! model ends.
//!
//! Simpler than epochs, and so searched to the end in seconds. It orders no more than it has to: who
//! enters learns of what was freed before, and who frees learns of the reads before. The second tier
//! of models runs the real one.

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
        // Acquire: pairs with the release of whoever has freed something.
        self.reading.fetch_add(1, Ordering::Acquire);
        Entered { reclaim: self, tally: self.tallies.common() }
    }

    pub(crate) fn retire(&self, batch: Box<Batch>) {
        // Acquire: pairs with the release of the readers that have left. Release: whoever enters
        // from here on finds that the batch was unlinked. Where there are readers the last of them
        // frees it, and passes that on.
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
        // AcqRel: as in `retire`.
        if self.reclaim.reading.fetch_sub(1, Ordering::AcqRel) == 1 {
            let waiting = std::mem::take(&mut *self.reclaim.waiting.lock().unwrap());
            waiting.into_iter().for_each(|batch| self.reclaim.free(batch));
        }
    }
}
