//! The step under one read-write lock.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tenure::Error;

use super::{Changes, Place, Sizes, Store};
use crate::peers::{Counted, Counts, RwLockMap};

/// Tables behind a `std::sync::RwLock` and an atomic count for each block. A step is made under
/// one lock, so that readers see all of it or nothing.
pub struct RwLockStore {
    tables: Counted<RwLockMap>,
    serials: Vec<u64>,
}

impl RwLockStore {
    /// Tables for a workload of these sizes.
    pub fn new(sizes: &Sizes) -> RwLockStore {
        let map = RwLockMap(Arc::new(RwLock::new(HashMap::new())));
        let counts = Arc::new(Counts::new(sizes.pool as usize));
        let serials = vec![0; sizes.places() as usize];
        RwLockStore { tables: Counted { map, counts }, serials }
    }

    /// A handle for readers.
    pub fn reader(&self) -> &Counted<RwLockMap> {
        &self.tables
    }
}

impl Store for RwLockStore {
    fn apply(&mut self, changes: &Changes, freed: &mut Vec<u32>) -> Result<(), Error> {
        let RwLockStore { tables: Counted { map, counts }, serials } = self;
        let mut tables = map.0.write().unwrap_or_else(PoisonError::into_inner);
        for &(place, block) in &changes.appends {
            if let Some(table) = tables.get_mut(&serials[place as usize]) {
                Arc::make_mut(table).push(block);
                counts.up(&[block]);
            }
        }
        for &place in &changes.releases {
            if let Some(table) = tables.remove(&serials[place as usize]) {
                counts.down(&table, freed);
            }
        }
        for admit in &changes.admits {
            serials[admit.place as usize] = admit.serial;
            let blocks = admit.shared.clone().chain(admit.blocks.iter().copied());
            let table: Vec<u32> = blocks.collect();
            counts.up(&table);
            tables.insert(admit.serial, Arc::new(table));
        }
        Ok(())
    }

    fn reclaim(&mut self, freed: &mut Vec<u32>) {
        self.tables.counts.take_back(freed);
    }

    fn key(&self, place: Place) -> u64 {
        self.serials[place as usize]
    }
}
