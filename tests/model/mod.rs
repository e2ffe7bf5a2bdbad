//! A plain sequential model of what the scheduler and the index answer.
//!
//! It is the specification written down as slowly and as obviously as possible: tables are vectors,
//! the state of a block is found by looking at everything that could use it, what a call freed is
//! the difference of the free pool before and after, and what a release would give is found by
//! releasing in a copy. There is no counter that could drift.
//!
//! Rule R7 leaves the mechanism a choice of what to keep of the blocks that are given up near a
//! pin. The model makes the choice the mechanism makes (see [`Model::lose`]), so that answers can
//! be compared exactly, and asserts at each loss that this choice is one that R7 allows.
//!
//! Keys and steps are opaque, so the caller tells the model which one the index issued.

pub mod driver;
pub mod life;
pub mod ops;
pub mod shape;

mod blocks;
mod index;
mod losses;
mod pins;
mod scheduler;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure::{BlockId, Epoch, IndexId, RequestKey, Stale, StepId};

use life::{LeaseId, Life};
pub use pins::{ModelPin, PinId};
use shape::Shape;

#[derive(Clone, Debug)]
pub struct Model {
    pub shape: Shape,
    /// The real index's id: requests of other indexes are refused.
    index: IndexId,
    published: Epoch,
    /// What readers see, by epoch.
    pictures: Vec<Picture>,
    /// Every life there ever was, by order of admission.
    lives: Vec<Life>,
    /// Which lives list which blocks, by order of arrival.
    arrivals: Vec<(BlockId, RequestKey)>,
    pins: BTreeMap<PinId, ModelPin>,
    /// Blocks of exact holds that have ended since the scheduler's last call.
    ended_holds: Vec<Vec<BlockId>>,
    /// Pins that were narrowed, and then ended, since the scheduler's last call.
    ending: Vec<LeaseId>,
    /// Open steps, oldest first, each with its place in the order of beginning.
    steps: Vec<(StepNumber, StepId)>,
    steps_begun: StepNumber,
    /// By block: the newest step that was open when it was last given up.
    fences: BTreeMap<BlockId, StepNumber>,
    /// Freed by pins since the last `reclaim`, and free still.
    reclaimed: Vec<BlockId>,
    draining: bool,
    /// The published epoch at the last reset.
    reset_at: Option<Epoch>,
    leases: LeaseId,
    pins_taken: u64,
    pub readers: Readers,
}

/// Steps are numbered from 1 in the order they begin.
type StepNumber = u64;

/// All live requests as they were when an epoch was published.
pub type Picture = BTreeMap<RequestKey, Shown>;

/// One request in a [`Picture`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    pub label: Arc<str>,
    /// By group.
    pub tables: Vec<Vec<Option<BlockId>>>,
}

/// What readers were answered when they asked for pins.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Readers {
    pub pins: u64,
    /// By [`Stale::ordinal`].
    pub refused: [u64; Stale::COUNT],
}

/// What a call of the scheduler gave up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenUp {
    /// Ascending.
    pub freed: Vec<BlockId>,
    pub held: u32,
}

impl Model {
    pub fn new(shape: Shape, index: IndexId) -> Model {
        Model {
            shape,
            index,
            published: Epoch(0),
            pictures: vec![Picture::new()],
            lives: Vec::new(),
            arrivals: Vec::new(),
            pins: BTreeMap::new(),
            ended_holds: Vec::new(),
            ending: Vec::new(),
            steps: Vec::new(),
            steps_begun: 0,
            fences: BTreeMap::new(),
            reclaimed: Vec::new(),
            draining: false,
            reset_at: None,
            leases: LeaseId(0),
            pins_taken: 0,
            readers: Readers::default(),
        }
    }

    pub fn life(&self, key: RequestKey) -> Option<&Life> {
        self.lives.iter().find(|life| life.key == key)
    }

    fn life_mut(&mut self, key: RequestKey) -> &mut Life {
        self.lives.iter_mut().find(|life| life.key == key).expect("a life of this key")
    }

    pub fn live(&self) -> impl Iterator<Item = &Life> {
        self.lives.iter().filter(|life| life.end.is_none())
    }

    /// Every key ever issued, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = RequestKey> {
        self.lives.iter().map(|life| life.key)
    }

    pub fn open_steps(&self) -> impl Iterator<Item = StepId> {
        self.steps.iter().map(|&(_, step)| step)
    }

    pub fn epoch(&self) -> Epoch {
        self.published
    }

    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// The epoch from which readers see what is changed now.
    fn coming(&self) -> Epoch {
        Epoch(self.published.0 + 1)
    }
}
