//! The step over Tenure.

use tenure::{BlockId, Config, ConfigError, Error, GroupId, Index, RequestKey, Scheduler};

use super::{Changes, Place, Sizes, Store};

const GROUP: GroupId = GroupId(0);

/// An index, and the keys of those that run.
pub struct TenureStore {
    scheduler: Scheduler,
    index: Index,
    keys: Vec<RequestKey>,
    /// The blocks of an admission.
    blocks: Vec<BlockId>,
}

impl TenureStore {
    /// An index for a workload of these sizes.
    ///
    /// # Errors
    /// Sizes that an index cannot have.
    pub fn new(sizes: &Sizes) -> Result<TenureStore, ConfigError> {
        let places = sizes.places();
        let (scheduler, index) = Config::new(sizes.pool).max_requests(places).build()?;
        let keys = vec![RequestKey::from_bits(0); places as usize];
        Ok(TenureStore { scheduler, index, keys, blocks: Vec::new() })
    }

    /// A handle for readers.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The writer.
    pub fn scheduler(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    fn assign(&mut self, key: RequestKey, blocks: impl Iterator<Item = u32>) -> Result<(), Error> {
        self.blocks.clear();
        self.blocks.extend(blocks.map(BlockId));
        self.scheduler.assign(key, GROUP, &self.blocks)
    }
}

impl Store for TenureStore {
    fn apply(&mut self, changes: &Changes, freed: &mut Vec<u32>) -> Result<(), Error> {
        for &(place, block) in &changes.appends {
            self.scheduler.assign(self.keys[place as usize], GROUP, &[BlockId(block)])?;
        }
        for &place in &changes.releases {
            let released = self.scheduler.release(self.keys[place as usize])?;
            freed.extend(released.freed().iter().map(|block| block.0));
        }
        for admit in &changes.admits {
            let key = self.scheduler.admit(&admit.label)?;
            self.keys[admit.place as usize] = key;
            if !admit.shared.is_empty() {
                self.blocks.clear();
                self.blocks.extend(admit.shared.clone().map(BlockId));
                self.scheduler.share(key, GROUP, &self.blocks)?;
            }
            self.assign(key, admit.blocks.iter().copied())?;
        }
        self.scheduler.publish();
        Ok(())
    }

    fn reclaim(&mut self, freed: &mut Vec<u32>) {
        freed.extend(self.scheduler.reclaim().iter().map(|block| block.0));
    }

    fn key(&self, place: Place) -> u64 {
        self.keys[place as usize].to_bits()
    }
}
