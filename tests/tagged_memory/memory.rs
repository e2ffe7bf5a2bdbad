//! What the threads of this test share: the device memory, the pictures of what was published, and
//! the flags that end a run.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use tenure::{BlockId, Epoch, GroupId, RequestKey, SaveRequest, Scheduler};

/// What stands in a block that is free.
pub const POISON: u64 = u64::MAX;

/// As many pictures are kept; a reader that is slower than this learns nothing from its plan.
const PICTURES: usize = 256;

/// One word of content per block. A block's content is written once per stay outside the pool,
/// before or when its tokens are committed, and poisoned as soon as the block is reported free.
pub struct Memory {
    words: Vec<AtomicU64>,
}

impl Memory {
    pub fn new(blocks: u32) -> Memory {
        Memory { words: (0..blocks).map(|_| AtomicU64::new(POISON)).collect() }
    }

    pub fn write(&self, block: BlockId, content: u64) {
        // Release: a reader that copies and then checks relies on this hand-over.
        self.words[block.0 as usize].store(content, Ordering::Release);
    }

    pub fn read(&self, block: BlockId) -> u64 {
        // Relaxed: a reader that pins needs no more, and one that checks is not to need more.
        self.words[block.0 as usize].load(Ordering::Relaxed)
    }
}

/// What a position shows: a block, and the content that this stay of the block gets.
pub type Shown = Option<(BlockId, u64)>;

/// All tables as they are published at one epoch.
pub struct Picture {
    pub epoch: Epoch,
    pub lives: HashMap<RequestKey, PictureOfLife>,
}

pub struct PictureOfLife {
    /// Never loses a position or a committed token, so that a plan over it is never refused.
    pub calm: bool,
    /// By group.
    pub tables: Vec<Vec<Shown>>,
}

impl Picture {
    /// The blocks and contents that a request plans to read, by group, then position.
    pub fn planned(&self, request: &SaveRequest, shape: &Shape) -> Planned {
        let life = self.lives.get(&request.key()).expect("planned, so it was published");
        let groups = request.groups().iter().map(|group| {
            let table = &life.tables[group.0 as usize];
            let shown = &table[shape.positions(group, &request.tokens())];
            (group, shown.iter().map(|shown| shown.expect("planned, so it is no hole")).collect())
        });
        Planned { request: *request, groups: groups.collect(), calm: life.calm }
    }
}

/// A request and what it must find.
#[derive(Clone)]
pub struct Planned {
    pub request: SaveRequest,
    pub groups: Vec<(GroupId, Vec<(BlockId, u64)>)>,
    pub calm: bool,
}

impl Planned {
    pub fn entries(&self) -> impl Iterator<Item = (BlockId, u64)> {
        self.groups.iter().flat_map(|(_, entries)| entries.iter().copied())
    }

    /// What is left of it in a part of its token range.
    pub fn narrowed(&self, tokens: &Range<u64>, shape: &Shape) -> Planned {
        let groups = self.groups.iter().map(|(group, entries)| {
            let first = shape.positions(*group, &self.request.tokens()).start;
            let part = shape.positions(*group, tokens);
            (*group, entries[part.start - first..part.end - first].to_vec())
        });
        Planned { request: self.request, groups: groups.collect(), calm: self.calm }
    }
}

#[derive(Clone, Debug)]
pub struct Shape {
    pub blocks: u32,
    pub block_sizes: Vec<u32>,
    pub commits: bool,
}

impl Shape {
    pub fn positions(&self, group: GroupId, tokens: &Range<u64>) -> Range<usize> {
        let size = u64::from(self.block_sizes[group.0 as usize]);
        (tokens.start / size) as usize..tokens.end.div_ceil(size) as usize
    }
}

pub struct World {
    pub shape: Shape,
    pub memory: Memory,
    pictures: RwLock<VecDeque<Arc<Picture>>>,
    /// Copies that were thrown away, over all readers: the rarest of what must have happened.
    pub copies_refused: AtomicU64,
    /// No more kept pins: the index is draining.
    pub winding_down: AtomicBool,
    pub stop: AtomicBool,
}

impl World {
    pub fn new(shape: Shape) -> World {
        World {
            memory: Memory::new(shape.blocks),
            shape,
            pictures: RwLock::default(),
            copies_refused: AtomicU64::new(0),
            winding_down: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// Publishes, after the picture of what is published was put up.
    pub fn publish(&self, scheduler: &mut Scheduler, picture: Picture) {
        let epoch = picture.epoch;
        let mut pictures = self.pictures.write().unwrap();
        pictures.push_back(Arc::new(picture));
        if pictures.len() > PICTURES {
            pictures.pop_front();
        }
        drop(pictures);
        assert_eq!(scheduler.publish(), epoch);
    }

    /// Ends the readers when it is dropped, in whatever way the run ends.
    pub fn stop_at_the_end(&self) -> StopAtTheEnd<'_> {
        StopAtTheEnd(&self.stop)
    }

    pub fn latest(&self) -> Option<Arc<Picture>> {
        self.pictures.read().unwrap().back().cloned()
    }

    pub fn at(&self, epoch: Epoch) -> Option<Arc<Picture>> {
        self.pictures.read().unwrap().iter().rfind(|picture| picture.epoch == epoch).cloned()
    }
}

pub struct StopAtTheEnd<'w>(&'w AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A small generator of random numbers (splitmix64), so that a run can be repeated by its seed as
/// far as the threads allow.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not zero.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len())) }
    }
}
