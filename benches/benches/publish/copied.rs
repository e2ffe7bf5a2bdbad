//! A map that is copied whole for each step; the tables in it are shared where they have not
//! changed.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tenure::Error;
use tenure_benches::peers::Table;
use tenure_benches::step::{Changes, Place, Sizes, Store};

/// See the module.
pub struct Copied {
    tables: HashMap<u64, Table>,
    published: ArcSwap<HashMap<u64, Table>>,
    serials: Vec<u64>,
}

impl Copied {
    /// Tables for a workload of these sizes.
    pub fn new(sizes: &Sizes) -> Copied {
        let published = ArcSwap::from_pointee(HashMap::new());
        Copied { tables: HashMap::new(), published, serials: vec![0; sizes.places() as usize] }
    }
}

impl Store for Copied {
    fn apply(&mut self, changes: &Changes, freed: &mut Vec<u32>) -> Result<(), Error> {
        let Copied { tables, published, serials } = self;
        for &(place, block) in &changes.appends {
            if let Some(table) = tables.get_mut(&serials[place as usize]) {
                Arc::make_mut(table).push(block);
            }
        }
        for &place in &changes.releases {
            if let Some(table) = tables.remove(&serials[place as usize]) {
                freed.extend(table.iter().copied());
            }
        }
        for admit in &changes.admits {
            serials[admit.place as usize] = admit.serial;
            let blocks = admit.shared.clone().chain(admit.blocks.iter().copied());
            tables.insert(admit.serial, Arc::new(blocks.collect()));
        }
        published.store(Arc::new(tables.clone()));
        Ok(())
    }

    fn reclaim(&mut self, _freed: &mut Vec<u32>) {}

    fn key(&self, place: Place) -> u64 {
        self.serials[place as usize]
    }
}
