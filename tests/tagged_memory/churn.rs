//! The scheduler's side: requests come, grow, share, lose positions, are preempted and end, all the
//! time. It knows which blocks are free only from what the calls report.

use std::sync::mpsc::Sender;

use tenure::{BlockId, BlockState, Epoch, GroupId, Released, RequestKey, Scheduler, StepId};

use crate::memory::{Dice, POISON, Picture, PictureOfLife, World};
use crate::reader::Handed;

const LIVES: usize = 12;
/// Of them, lives that lose nothing while the readers run.
const CALM: usize = 2;
/// Positions in a table; calm ones stay much shorter.
const LONGEST: usize = 40;
const CALM_LONGEST: usize = 6;
const STEPS: usize = 3;

pub struct Churn<'w> {
    world: &'w World,
    pub scheduler: Scheduler,
    dice: Dice,
    lives: Vec<Life>,
    /// Free, as far as reported.
    free: Vec<BlockId>,
    /// By block: what its present stay writes into it.
    contents: Vec<u64>,
    written: u64,
    steps: Vec<OpenStep>,
    admitted: u64,
    holds: Vec<Sender<Handed>>,
}

/// A step on the device: it may write what the tables listed when it began, until it ends.
struct OpenStep {
    id: StepId,
    writes: Vec<(BlockId, u64)>,
}

struct Life {
    key: RequestKey,
    calm: bool,
    tables: Vec<Vec<Option<BlockId>>>,
}

impl<'w> Churn<'w> {
    pub fn new(
        world: &'w World,
        scheduler: Scheduler,
        seed: u64,
        holds: Vec<Sender<Handed>>,
    ) -> Churn<'w> {
        Churn {
            world,
            scheduler,
            dice: Dice::new(seed),
            lives: Vec::new(),
            free: (0..world.shape.blocks).map(BlockId).collect(),
            contents: vec![POISON; world.shape.blocks as usize],
            written: 0,
            steps: Vec::new(),
            admitted: 0,
            holds,
        }
    }

    /// A few random calls, and a publish.
    pub fn step(&mut self) {
        for _ in 0..self.dice.below(8) {
            self.call();
        }
        self.commit_some();
        self.publish();
        if self.dice.one_in(32) {
            self.scheduler.audit().expect("sound while readers are at work");
        }
    }

    fn call(&mut self) {
        match self.dice.below(32) {
            0..=3 if self.lives.len() < LIVES => self.admit(),
            4..=11 => self.assign(),
            12..=14 => self.share(),
            15..=17 => self.vacate(),
            18..=19 => self.truncate(),
            20..=21 => self.replace(),
            22 => self.preempt(),
            23 => self.release(),
            24..=25 => self.begin_or_end_step(),
            26..=27 => self.reclaim(),
            28 => self.invalidate(),
            29 => self.hold(),
            _ => self.look(),
        }
    }

    fn admit(&mut self) {
        self.admitted += 1;
        let label = format!("request {}", self.admitted);
        let key = self.scheduler.admit(&label).expect("a new label");
        let calm = self.lives.iter().filter(|life| life.calm).count() < CALM;
        self.lives.push(Life { key, calm, tables: vec![Vec::new(); self.groups()] });
    }

    fn assign(&mut self) {
        let Some((at, group)) = self.any_table() else { return };
        let life = &self.lives[at];
        let longest = if life.calm { CALM_LONGEST } else { LONGEST };
        let room = longest.saturating_sub(life.tables[group].len());
        let count = self.dice.below(5).min(room).min(self.free.len());
        let blocks: Vec<BlockId> = (0..count).map(|_| self.take_free()).collect();
        let key = self.lives[at].key;
        // Reported free, so it must be free.
        self.scheduler.assign(key, group_id(group), &blocks).expect("free blocks");
        self.lives[at].tables[group].extend(blocks.iter().copied().map(Some));
    }

    fn share(&mut self) {
        let Some((at, group)) = self.any_table() else { return };
        if self.lives[at].calm || self.lives[at].tables[group].len() >= LONGEST {
            return;
        }
        let block = BlockId(self.dice.below(self.contents.len()) as u32);
        let state = self.scheduler.block_state(block).expect("a block of the pool");
        let shared = self.scheduler.share(self.lives[at].key, group_id(group), &[block]);
        match state {
            // A pin may have ended since, and the share has then found the block free.
            BlockState::Held if shared.is_err() => {}
            BlockState::Free => assert!(shared.is_err(), "shared {block}, which was free"),
            _ => {
                shared.expect("a block in a tenancy");
                self.lives[at].tables[group].push(Some(block));
            }
        }
    }

    fn vacate(&mut self) {
        let Some((at, group)) = self.wild_table() else { return };
        let table = &mut self.lives[at].tables[group];
        // Mostly the front of a sliding window.
        let holes = table.iter().take_while(|block| block.is_none()).count();
        let start = if self.dice.one_in(3) { self.dice.below(table.len() + 1) } else { holes };
        let end = (start + self.dice.below(4)).min(table.len());
        table[start..end].fill(None);
        let key = self.lives[at].key;
        let (start, end) = (start as u32, end as u32);
        let released = self.scheduler.vacate(key, group_id(group), start..end);
        let freed = freed(released.expect("within the table"));
        self.take_back(&freed);
    }

    fn truncate(&mut self) {
        let Some((at, group)) = self.wild_table() else { return };
        let len = self.dice.below(self.lives[at].tables[group].len() + 1);
        self.lives[at].tables[group].truncate(len);
        let released = self.scheduler.truncate(self.lives[at].key, group_id(group), len as u32);
        let freed = freed(released.expect("within the table"));
        self.take_back(&freed);
    }

    fn replace(&mut self) {
        let Some((at, group)) = self.wild_table() else { return };
        let len = self.lives[at].tables[group].len();
        if len == 0 || self.free.is_empty() {
            return;
        }
        let (position, block) = (self.dice.below(len), self.take_free());
        self.lives[at].tables[group][position] = Some(block);
        let key = self.lives[at].key;
        let released = self.scheduler.replace(key, group_id(group), position as u32, block);
        let freed = freed(released.expect("within the table, and free"));
        self.take_back(&freed);
    }

    fn preempt(&mut self) {
        let Some((at, _)) = self.wild_table() else { return };
        let preempted = self.scheduler.preempt(self.lives[at].key).expect("live");
        let (key, freed) = (preempted.successor, freed(preempted.released));
        self.lives[at] = Life { key, calm: false, tables: vec![Vec::new(); self.groups()] };
        self.take_back(&freed);
    }

    fn release(&mut self) {
        let Some((at, _)) = self.wild_table() else { return };
        let life = self.lives.swap_remove(at);
        let freed = freed(self.scheduler.release(life.key).expect("live"));
        self.take_back(&freed);
    }

    fn begin_or_end_step(&mut self) {
        if self.steps.len() == STEPS || (!self.steps.is_empty() && self.dice.one_in(2)) {
            let step = self.steps.swap_remove(self.dice.below(self.steps.len()));
            self.end_step(step);
        } else {
            let id = self.scheduler.begin_step();
            let listed = self.lives.iter().flat_map(|life| life.tables.iter().flatten().flatten());
            let writes = listed.map(|&block| (block, self.contents[block.0 as usize])).collect();
            self.steps.push(OpenStep { id, writes });
        }
    }

    fn end_step(&mut self, step: OpenStep) {
        for (block, content) in step.writes {
            self.world.memory.write(block, content);
        }
        let freed = freed(self.scheduler.end_step(step.id).expect("open"));
        self.take_back(&freed);
    }

    fn reclaim(&mut self) {
        let freed = self.scheduler.reclaim().to_vec();
        self.take_back(&freed);
    }

    fn invalidate(&mut self) {
        let block = BlockId(self.dice.below(self.contents.len()) as u32);
        let calm = self.lives.iter().filter(|life| life.calm);
        if !calm.flat_map(|life| life.tables.iter().flatten()).any(|&b| b == Some(block)) {
            self.scheduler.invalidate(&[block]).expect("a block of the pool");
        }
    }

    /// An exact hold over blocks of any request, for a reader to keep.
    fn hold(&mut self) {
        let Some((at, group)) = self.any_table() else { return };
        let blocks: Vec<BlockId> = self.lives[at].tables[group].iter().flatten().copied().collect();
        let pin = self.scheduler.hold(&blocks).expect("owned blocks");
        // Content that is not written yet may come at any time.
        let contents = blocks.iter().map(|&block| (block, self.contents[block.0 as usize]));
        let handed = Handed::Hold { pin, contents: contents.collect() };
        let to = self.dice.below(self.holds.len());
        // A reader that has failed takes nothing, and the run ends soon.
        let _ = self.holds[to].send(handed);
    }

    fn look(&mut self) {
        let counts = self.scheduler.counts();
        assert_eq!(counts.free + counts.owned + counts.held, self.world.shape.blocks);
        if let Some((at, _)) = self.any_table() {
            let reclaimable = self.scheduler.reclaimable_now(self.lives[at].key).expect("live");
            let mut blocks: Vec<_> = self.lives[at].tables.iter().flatten().flatten().collect();
            blocks.sort();
            blocks.dedup();
            assert!(reclaimable as usize <= blocks.len());
        }
    }

    /// Where commits are tracked, content is written when it is committed: so far, and no further.
    fn commit_some(&mut self) {
        for at in 0..self.lives.len() {
            if self.world.shape.commits && (self.lives[at].calm || self.dice.one_in(2)) {
                let sizes = &self.world.shape.block_sizes;
                let covered = self.lives[at].tables.iter().zip(sizes);
                let covered = covered.map(|(t, &size)| t.len() as u64 * u64::from(size));
                let tokens = covered.min().expect("a group");
                for (table, &size) in self.lives[at].tables.iter().zip(sizes) {
                    let written = table.iter().take(tokens.div_ceil(u64::from(size)) as usize);
                    for block in written.flatten() {
                        self.world.memory.write(*block, self.contents[block.0 as usize]);
                    }
                }
                self.scheduler.commit(self.lives[at].key, tokens).expect("within the tables");
            }
        }
    }

    fn publish(&mut self) {
        let lives = self.lives.iter().map(|life| {
            let show = |block: &Option<BlockId>| block.map(|b| (b, self.contents[b.0 as usize]));
            let tables = life.tables.iter().map(|table| table.iter().map(show).collect());
            (life.key, PictureOfLife { calm: life.calm, tables: tables.collect() })
        });
        let epoch = Epoch(self.scheduler.epoch().0 + 1);
        let picture = Picture { epoch, lives: lives.collect() };
        self.world.publish(&mut self.scheduler, picture);
    }

    /// A free block at the beginning of a stay.
    fn take_free(&mut self) -> BlockId {
        let block = self.free.swap_remove(self.dice.below(self.free.len()));
        self.written += 1;
        self.contents[block.0 as usize] = self.written;
        if !self.world.shape.commits {
            self.world.memory.write(block, self.written);
        }
        block
    }

    fn take_back(&mut self, freed: &[BlockId]) {
        for &block in freed {
            assert!(!self.free.contains(&block), "{block} was reported free twice");
            let mut listed = self.lives.iter().flat_map(|life| life.tables.iter().flatten());
            assert!(!listed.any(|&b| b == Some(block)), "{block} is listed and reported free");
            let mut written = self.steps.iter().flat_map(|step| &step.writes);
            assert!(!written.any(|&(b, _)| b == block), "{block} is free under an open step");
            self.world.memory.write(block, POISON);
            self.free.push(block);
        }
    }

    /// The end of a run: no pin is taken any more, and when all have ended the memory is torn
    /// down under whoever should still read it.
    pub fn drain(&mut self, failed: impl Fn() -> bool) {
        self.scheduler.begin_drain();
        while !self.scheduler.drained() && !failed() {
            self.reclaim();
            self.publish();
            std::thread::yield_now();
        }
        for block in 0..self.world.shape.blocks {
            self.world.memory.write(BlockId(block), POISON);
        }
    }

    /// Everything is given back, and nothing is missing or there twice.
    pub fn account(&mut self) {
        for life in std::mem::take(&mut self.lives) {
            let freed = freed(self.scheduler.release(life.key).expect("live"));
            self.take_back(&freed);
        }
        for step in std::mem::take(&mut self.steps) {
            self.end_step(step);
        }
        self.reclaim();
        self.scheduler.audit().expect("sound at the end");
        assert_eq!(self.scheduler.counts().free, self.world.shape.blocks);
        assert_eq!(self.free.len() as u32, self.world.shape.blocks, "not all were reported free");
    }

    fn groups(&self) -> usize {
        self.world.shape.block_sizes.len()
    }

    fn any_table(&mut self) -> Option<(usize, usize)> {
        if self.lives.is_empty() {
            return None;
        }
        Some((self.dice.below(self.lives.len()), self.dice.below(self.groups())))
    }

    /// A table that may lose positions.
    fn wild_table(&mut self) -> Option<(usize, usize)> {
        self.any_table().filter(|&(at, _)| !self.lives[at].calm)
    }
}

fn group_id(group: usize) -> GroupId {
    GroupId(group as u32)
}

fn freed(released: Released<'_>) -> Vec<BlockId> {
    released.freed().to_vec()
}
