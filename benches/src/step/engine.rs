//! The requests that run, and the pool of free blocks.

use super::{Admit, Changes, Place, Store};

/// How large the workload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Requests that run at once, without the hot one.
    pub running: u32,
    /// How many of them end and begin in a step.
    pub turnover: u32,
    /// Blocks of a request when it is released.
    pub blocks: u32,
    /// Blocks that all requests begin with, owned by one that never ends.
    pub shared_prefix: u32,
    /// Blocks of the hot request when it is begun anew.
    pub hot_blocks: u32,
    /// Blocks of the pool.
    pub pool: u32,
}

impl Sizes {
    /// The workload of the contention profile.
    pub const STEP: Sizes = Sizes {
        running: 64,
        turnover: 8,
        blocks: 256,
        shared_prefix: 0,
        hot_blocks: 4096,
        pool: 1 << 16,
    };

    /// The same with that many requests live, of fewer blocks each.
    pub fn live(running: u32) -> Sizes {
        let blocks = 32;
        let pool = running * blocks * 2 + Sizes::STEP.hot_blocks;
        Sizes { running, blocks, pool, ..Sizes::STEP }
    }

    /// Requests that a step appends to.
    fn appends(&self) -> u32 {
        self.running.min(64)
    }

    /// Where the hot request runs.
    pub fn hot(&self) -> Place {
        self.running
    }

    /// Where the owner of the shared prefix stays.
    fn owner(&self) -> Place {
        self.running + 1
    }

    /// Requests in all.
    pub fn places(&self) -> u32 {
        self.running + 2
    }

    /// Blocks that a request begins with: those that it does not grow by before its end.
    pub fn prompt(&self) -> u32 {
        self.blocks - self.appends() / self.turnover
    }
}

/// Makes up one step after another.
pub struct Engine {
    sizes: Sizes,
    free: Vec<u32>,
    serial: u64,
    /// The first of those that are released next.
    oldest: Place,
    hot_len: u32,
    changes: Changes,
    freed: Vec<u32>,
}

impl Engine {
    /// Begins all requests.
    ///
    /// # Errors
    /// A refusal of the store, which must be empty.
    pub fn start(sizes: Sizes, store: &mut impl Store) -> Result<Engine, ::tenure::Error> {
        let mut engine = Engine {
            sizes,
            // The prefix is blocks 0 and on; lower ids are taken first.
            free: (sizes.shared_prefix..sizes.pool).rev().collect(),
            serial: 0,
            oldest: 0,
            hot_len: sizes.prompt(),
            changes: Changes::default(),
            freed: Vec::new(),
        };
        let owner = engine.admission(sizes.owner(), 0, (0..sizes.shared_prefix).collect());
        engine.changes.admits.push(owner);
        engine.apply(store)?;
        engine.changes = Changes::default();
        for place in 0..=sizes.running {
            engine.admit(place);
        }
        engine.apply(store)?;
        Ok(engine)
    }

    /// Makes up the next step. Where the pool is too small for it, because readers hold too much,
    /// only the part that fits.
    pub fn prepare(&mut self) {
        let Sizes { running, turnover, hot_blocks, .. } = self.sizes;
        self.changes.appends.clear();
        self.changes.releases.clear();
        self.changes.admits.clear();
        let appends = self.sizes.appends();
        for at in 0..appends {
            // The oldest and those after them.
            let place = (self.oldest + at) % running;
            if let Some(block) = self.free.pop() {
                self.changes.appends.push((place, block));
            }
        }
        let hot = self.sizes.hot();
        if self.hot_len == hot_blocks {
            self.changes.releases.push(hot);
            self.admit(hot);
            self.hot_len = self.sizes.prompt();
        } else if let Some(block) = self.free.pop() {
            self.changes.appends.push((hot, block));
            self.hot_len += 1;
        }
        for _ in 0..turnover {
            self.changes.releases.push(self.oldest);
            self.admit(self.oldest);
            self.oldest = (self.oldest + 1) % running;
        }
    }

    /// Has the store make the prepared step: what is timed.
    ///
    /// # Errors
    /// A refusal of the store.
    #[inline]
    pub fn apply(&mut self, store: &mut impl Store) -> Result<(), ::tenure::Error> {
        store.apply(&self.changes, &mut self.freed)
    }

    /// Takes in what the step has freed.
    pub fn settle(&mut self, store: &mut impl Store) {
        store.reclaim(&mut self.freed);
        self.free.append(&mut self.freed);
    }

    /// Blocks that could be handed out now.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    fn admit(&mut self, place: Place) {
        let prefix = self.sizes.shared_prefix;
        let own = (self.sizes.prompt() - prefix) as usize;
        let rest = self.free.len().saturating_sub(own);
        let blocks = self.free.split_off(rest);
        let admit = self.admission(place, prefix, blocks);
        self.changes.admits.push(admit);
    }

    fn admission(&mut self, place: Place, shared: u32, blocks: Vec<u32>) -> Admit {
        self.serial += 1;
        let label = format!("request-{}", self.serial);
        Admit { place, serial: self.serial, label, shared: 0..shared, blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MutexStore, RwLockStore, TenureStore};
    use super::*;

    /// After many steps nothing is lost: all blocks but those of the running requests are free.
    fn runs(mut store: impl Store, shared_prefix: u32) {
        let sizes = Sizes { shared_prefix, hot_blocks: 260, ..Sizes::STEP };
        let mut engine = Engine::start(sizes, &mut store).unwrap();
        let mut keys = Vec::new();
        for _ in 0..50 {
            engine.prepare();
            engine.apply(&mut store).unwrap();
            engine.settle(&mut store);
            keys.push(store.key(0));
        }
        let own = sizes.blocks - shared_prefix;
        // Of the 8 groups that run, one has gained nothing yet, the next 1 block a request, ...
        let growing: u32 = (1..=8).map(|ago| sizes.turnover * (own - ago)).sum();
        let taken = shared_prefix + growing + (engine.hot_len - shared_prefix);
        assert_eq!(engine.free() as u32, sizes.pool - taken);
        keys.dedup();
        assert!(keys.len() > 5, "{keys:?}");
    }

    #[test]
    fn every_store_keeps_its_books() {
        for prefix in [0, 64] {
            let sizes = Sizes { shared_prefix: prefix, ..Sizes::STEP };
            runs(TenureStore::new(&sizes).unwrap(), prefix);
            runs(MutexStore::new(&sizes), prefix);
            runs(RwLockStore::new(&sizes), prefix);
        }
    }
}
