//! The stand-in for reclamation under loom: counts who reads, and "frees" by a tracked write to
//! every cell, so that loom reports whoever may still read, and whoever reads later finds out. The
//! memory itself is kept until the model ends.
//!
//! Simpler than epochs, and so searched to the end in seconds. It orders no more than any
//! reclamation has to: what is freed was unlinked before whoever enters afterwards, and read before
//! by whoever has left. The second tier of models runs the real one.

use std::sync::Mutex;

use super::{Batch, Returns};
use crate::sync::{AtomicU64, Ordering};
use crate::tally::{Tallies, Tally};

pub(crate) struct Reclaim {
    entered: AtomicU64,
    left: AtomicU64,
    /// For a moment in which nobody reads. The scheduler's alone.
    waiting: Mutex<Vec<Batch>>,
    /// Freed, and kept until the end.
    gone: Mutex<Vec<Batch>>,
    tallies: Tallies,
}

pub(crate) struct Entered<'a> {
    reclaim: &'a Reclaim,
    pub(crate) tally: &'a Tally,
}

impl Reclaim {
    pub(crate) fn new() -> Reclaim {
        Reclaim {
            entered: AtomicU64::new(0),
            left: AtomicU64::new(0),
            waiting: Mutex::default(),
            gone: Mutex::default(),
            tallies: Tallies::new(),
        }
    }

    pub(crate) fn enter(&self) -> Entered<'_> {
        // Acquire: pairs with the release in `returned`.
        self.entered.fetch_add(1, Ordering::Acquire);
        Entered { reclaim: self, tally: self.tallies.common() }
    }

    #[allow(clippy::boxed_local)] // as the real one wants it
    pub(crate) fn retire(&self, batch: Box<Batch>) {
        self.waiting.lock().unwrap().push(*batch);
    }

    pub(crate) fn nudge(&self) {}

    pub(crate) fn returned(&self) -> Returns {
        let mut waiting = self.waiting.lock().unwrap();
        if !waiting.is_empty() && self.nobody_reads() {
            let mut gone = self.gone.lock().unwrap();
            for batch in waiting.drain(..) {
                // SAFETY: nothing is freed before the model ends.
                batch.leases.iter().for_each(|&lease| unsafe { (*lease).alive.end() });
                // SAFETY: as above.
                batch.pieces.iter().for_each(|piece| unsafe { piece.end() });
                gone.push(batch);
            }
        }
        Returns::NONE
    }

    /// Whether all who have entered have left.
    fn nobody_reads(&self) -> bool {
        // Acquire: pairs with the release of those who left. An addition, to find the latest.
        let left = self.left.fetch_add(0, Ordering::Acquire);
        // Release: pairs with the acquire of those who enter from here on.
        self.entered.compare_exchange(left, left, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `nobody_reads`.
        self.reclaim.left.fetch_add(1, Ordering::Release);
    }
}
