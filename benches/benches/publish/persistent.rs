//! A persistent map of persistent vectors behind an `ArcSwap`: a step makes a new version that
//! shares what has not changed.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rpds::{HashTrieMapSync, VectorSync};
use tenure::Error;
use tenure_benches::step::{Changes, Place, Sizes, Store};

type Tables = HashTrieMapSync<u64, VectorSync<u32>>;

/// See the module.
pub struct Persistent {
    tables: Tables,
    published: ArcSwap<Tables>,
    serials: Vec<u64>,
}

impl Persistent {
    /// Tables for a workload of these sizes.
    pub fn new(sizes: &Sizes) -> Persistent {
        let tables = Tables::new_sync();
        let published = ArcSwap::from_pointee(tables.clone());
        Persistent { tables, published, serials: vec![0; sizes.places() as usize] }
    }
}

impl Store for Persistent {
    fn apply(&mut self, changes: &Changes, freed: &mut Vec<u32>) -> Result<(), Error> {
        let Persistent { tables, published, serials } = self;
        for &(place, block) in &changes.appends {
            let serial = serials[place as usize];
            if let Some(table) = tables.get_mut(&serial) {
                table.push_back_mut(block);
            }
        }
        for &place in &changes.releases {
            let serial = serials[place as usize];
            if let Some(table) = tables.get(&serial) {
                freed.extend(table.iter().copied());
            }
            tables.remove_mut(&serial);
        }
        for admit in &changes.admits {
            serials[admit.place as usize] = admit.serial;
            let blocks = admit.shared.clone().chain(admit.blocks.iter().copied());
            tables.insert_mut(admit.serial, blocks.collect());
        }
        published.store(Arc::new(tables.clone()));
        Ok(())
    }

    fn reclaim(&mut self, _freed: &mut Vec<u32>) {}

    fn key(&self, place: Place) -> u64 {
        self.serials[place as usize]
    }
}
