//! The step under one mutex.

use std::sync::Arc;

use tenure::Error;

use super::{Changes, Place, Sizes, Store};
use crate::peers::{Books, Lock, Locked, StdMutex};

/// Tables and plain counts behind a `std::sync::Mutex`. A step is made under one lock, so that
/// readers see all of it or nothing.
pub struct MutexStore {
    books: Locked<StdMutex>,
    serials: Vec<u64>,
}

impl MutexStore {
    /// Books for a workload of these sizes.
    pub fn new(sizes: &Sizes) -> MutexStore {
        let books = StdMutex::new(Books::new(sizes.pool as usize));
        MutexStore { books: Locked(Arc::new(books)), serials: vec![0; sizes.places() as usize] }
    }

    /// A handle for readers.
    pub fn reader(&self) -> &Locked<StdMutex> {
        &self.books
    }
}

impl Store for MutexStore {
    fn apply(&mut self, changes: &Changes, freed: &mut Vec<u32>) -> Result<(), Error> {
        let MutexStore { books, serials } = self;
        books.0.with(|books| {
            for &(place, block) in &changes.appends {
                books.append(serials[place as usize], block);
            }
            for &place in &changes.releases {
                books.release(serials[place as usize], freed);
            }
            for admit in &changes.admits {
                serials[admit.place as usize] = admit.serial;
                let blocks = admit.shared.clone().chain(admit.blocks.iter().copied());
                books.admit(admit.serial, Arc::new(blocks.collect()));
            }
        });
        Ok(())
    }

    fn reclaim(&mut self, freed: &mut Vec<u32>) {
        self.books.0.with(|books| freed.append(&mut books.given_back));
    }

    fn key(&self, place: Place) -> u64 {
        self.serials[place as usize]
    }
}
