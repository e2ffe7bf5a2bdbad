//! A realistic step of a scheduler: 64 running requests append a block each, the 8 oldest, of 256
//! blocks, are released, 8 are admitted in their place, and the step is published. One more
//! request, the hot one, is never released by the workload until it is long.

mod engine;
mod locked;
mod rwlocked;
mod tenure;

use std::ops::Range;

pub use engine::{Engine, Sizes};
pub use locked::MutexStore;
pub use rwlocked::RwLockStore;
pub use tenure::TenureStore;

/// A place that a request can take among those that run: requests come and go, places stay.
pub type Place = u32;

/// A request that begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admit {
    /// Where it runs.
    pub place: Place,
    /// Its name, never used before.
    pub serial: u64,
    /// The same as text.
    pub label: String,
    /// Blocks of another request that it begins with.
    pub shared: Range<u32>,
    /// Its own blocks after those.
    pub blocks: Vec<u32>,
}

/// What one step does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Requests that get one block more each.
    pub appends: Vec<(Place, u32)>,
    /// Requests that end, after that.
    pub releases: Vec<Place>,
    /// Requests that begin, last.
    pub admits: Vec<Admit>,
}

/// Keeps the tables of the running requests.
pub trait Store {
    /// Makes a step's changes and shows them to readers. Appends the blocks that became free by
    /// it to `freed`.
    ///
    /// # Errors
    /// A refusal, where the changes do not fit what is in the store.
    fn apply(&mut self, changes: &Changes, freed: &mut Vec<u32>) -> Result<(), ::tenure::Error>;

    /// Appends the blocks that pins have given back since to `freed`.
    fn reclaim(&mut self, freed: &mut Vec<u32>);

    /// What readers name the request by that runs in a place.
    fn key(&self, place: Place) -> u64;
}
