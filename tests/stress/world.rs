//! What the threads of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tenure::{BlockId, GroupId, Groups, Kind, Pin, RequestKey, SaveRequest, Stale};

use crate::memory::{Memory, POISON};

pub const GROUPS: usize = 2;
pub const BLOCK_SIZES: [u32; GROUPS] = [16, 24];

/// How large a run is. Everything but time.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Blocks that the ordinary requests share.
    pub pool: u32,
    /// Requests that live at once.
    pub lives: usize,
    /// Positions of an ordinary table.
    pub longest: usize,
    /// Positions of the one table that takes long to look at.
    pub giant: u32,
    pub threads: usize,
    pub seed: u64,
}

impl Scale {
    /// As the environment says: `TENURE_STRESS_THREADS` and `TENURE_STRESS_SEED`.
    pub fn from_env() -> Scale {
        let threads = number("TENURE_STRESS_THREADS").map_or(6, |threads| threads as usize);
        let seed = number("TENURE_STRESS_SEED").unwrap_or(1.0) as u64;
        if cfg!(miri) {
            Scale { pool: 96, lives: 4, longest: 8, giant: 20, threads, seed }
        } else {
            Scale { pool: 6_000, lives: 24, longest: 64, giant: 100_000, threads, seed }
        }
    }

    pub fn blocks(&self) -> u32 {
        self.pool + self.giant
    }
}

/// How long the tests of this file run together: `TENURE_STRESS_SECONDS`.
pub fn seconds() -> f64 {
    number("TENURE_STRESS_SECONDS").unwrap_or(10.0)
}

fn number(name: &str) -> Option<f64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// What a block holds during one stay outside the pool. Two stays never have the same word, unless
/// 65,536 others of the same epoch lie between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// From which the stay is visible.
    pub epoch: u64,
    pub stay: u64,
    /// Some bits of the key of the life that brought the block in.
    pub owner: u64,
    pub position: u64,
}

impl Tag {
    pub fn owner_bits(key: RequestKey) -> u64 {
        (key.to_bits() ^ key.to_bits() >> 32) & 0xff
    }

    pub fn pack(self) -> u64 {
        (self.epoch & 0xfff_ffff) << 36
            | (self.stay & 0xffff) << 20
            | self.owner << 12
            | self.position & 0xfff
    }

    pub fn unpack(word: u64) -> Tag {
        let (epoch, stay) = (word >> 36, word >> 20 & 0xffff);
        Tag { epoch, stay, owner: word >> 12 & 0xff, position: word & 0xfff }
    }
}

/// A place on the board: a life that readers may ask about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    pub key: RequestKey,
    /// It never lists a block that another life brought in.
    pub own: bool,
}

/// A plan, and whether its life shows only blocks of its own.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub request: SaveRequest,
    pub own: bool,
}

/// The words that a pin has found, which it must find until it ends.
pub type Found = Vec<(BlockId, u64)>;

pub struct World {
    pub scale: Scale,
    pub memory: Memory,
    /// Keys, as bits; 0 where nobody lives.
    board: Vec<AtomicU64>,
    /// Two requests that always have tables of the same length when a step is published.
    pub twins: [AtomicU64; 2],
    pub giant: AtomicU64,
    pub stop: AtomicBool,
}

impl World {
    pub fn new(scale: Scale) -> World {
        World {
            scale,
            memory: Memory::new(scale.blocks()),
            board: (0..scale.lives).map(|_| AtomicU64::new(0)).collect(),
            twins: [AtomicU64::new(0), AtomicU64::new(0)],
            giant: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Every second place is for lives that do not share.
    pub fn is_own(at: usize) -> bool {
        at.is_multiple_of(2)
    }

    pub fn put_up(&self, at: usize, key: Option<RequestKey>) {
        // Relaxed: a key tells nothing by itself.
        self.board[at].store(key.map_or(0, RequestKey::to_bits), Ordering::Relaxed);
    }

    pub fn target(&self, at: usize) -> Option<Target> {
        let own = World::is_own(at);
        key_in(&self.board[at]).map(|key| Target { key, own })
    }

    /// Reads every block of a pin, which must be what was planned.
    pub fn read_under(&self, pin: &Pin, planned: &Planned, found: &mut Found) {
        found.clear();
        let tokens = pin.tokens();
        for group in pin.groups().iter() {
            let size = u64::from(BLOCK_SIZES[group.0 as usize]);
            let first = tokens.start / size;
            let blocks = pin.blocks_of(group);
            assert_eq!(blocks.len() as u64, tokens.end.div_ceil(size) - first, "{pin:?}");
            for (position, block) in (first..).zip(blocks) {
                let word = self.memory.read(block);
                let tag = Tag::unpack(word);
                let right = word != POISON
                    && tag.position == position & 0xfff
                    && tag.epoch <= planned.request.epoch().0
                    && (!planned.own || tag.owner == Tag::owner_bits(planned.request.key()));
                assert!(right, "{tag:?} at {position} of {group}, block {block}: {planned:?}");
                if pin.kind() == Kind::Load {
                    // What a load brings is what belongs there: whoever else has the block finds it.
                    self.memory.write(block, word);
                }
                found.push((block, word));
            }
        }
    }

    /// Nothing has changed under a pin.
    pub fn still(&self, found: &Found) {
        for &(block, word) in found {
            let now = self.memory.read(block);
            assert_eq!(now, word, "{:?} under a pin of block {block}", Tag::unpack(now));
        }
    }
}

pub fn key_in(place: &AtomicU64) -> Option<RequestKey> {
    match place.load(Ordering::Relaxed) {
        0 => None,
        bits => Some(RequestKey::from_bits(bits)),
    }
}

pub fn group(at: usize) -> GroupId {
    GroupId(at as u32)
}

pub fn some_groups(roll: u64) -> Groups {
    match roll % 8 {
        0 => Groups::only(GroupId(0)),
        1 => Groups::only(GroupId(1)),
        _ => Groups::ALL,
    }
}

/// What one thread has done. Every count of answers is compared with the index's own.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Calls of the public API that read or write shared words.
    pub operations: u64,
    pub pinned: u64,
    pub refused: [u64; Stale::COUNT],
    pub over_budget: u64,
    pub copies: u64,
    pub copies_refused: u64,
    pub narrowed: u64,
    pub panics: u64,
    pub jobs: u64,
    pub views: u64,
    pub pictures: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.pinned += other.pinned;
        for (sum, more) in self.refused.iter_mut().zip(other.refused) {
            *sum += more;
        }
        self.over_budget += other.over_budget;
        self.copies += other.copies;
        self.copies_refused += other.copies_refused;
        self.narrowed += other.narrowed;
        self.panics += other.panics;
        self.jobs += other.jobs;
        self.views += other.views;
        self.pictures += other.pictures;
    }
}
