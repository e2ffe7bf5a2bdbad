//! The scheduler's side: everything that gives and takes, as fast as it goes, with accounts of its
//! own, and a watch on what is retained.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tenure::{BlockId, Index, Pin, Released, RequestKey, Scheduler, StepId};

use crate::memory::{Dice, POISON};
use crate::world::{BLOCK_SIZES, GROUPS, Tag, World, group};

type Tables = [Vec<Option<BlockId>>; GROUPS];

/// A reader that the system has put to sleep under a guard keeps everything since. It is not
/// expected to sleep for longer than this.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

pub struct Churn<'w> {
    world: &'w World,
    scheduler: Scheduler,
    index: Index,
    dice: Dice,
    /// By place on the board.
    lives: Vec<Option<Life>>,
    twins: [Option<Life>; 2],
    giant: Option<Life>,
    free: Vec<BlockId>,
    /// By block: how often it is listed, and whether it was reported free.
    listed: Vec<u32>,
    is_free: Vec<bool>,
    steps: Vec<StepId>,
    holds: VecDeque<(Pin, Vec<(BlockId, u64)>)>,
    stays: u64,
    admitted: u64,
    pub operations: u64,
    watch: Watch,
}

struct Life {
    key: RequestKey,
    tables: Tables,
}

impl<'w> Churn<'w> {
    pub fn new(world: &'w World, scheduler: Scheduler) -> Churn<'w> {
        let blocks = world.scale.blocks();
        let mut churn = Churn {
            world,
            index: scheduler.index(),
            scheduler,
            dice: Dice::new(world.scale.seed),
            lives: (0..world.scale.lives).map(|_| None).collect(),
            twins: [None, None],
            giant: None,
            free: (0..blocks).map(BlockId).collect(),
            listed: vec![0; blocks as usize],
            is_free: vec![true; blocks as usize],
            steps: Vec::new(),
            holds: VecDeque::new(),
            stays: 0,
            admitted: 0,
            operations: 0,
            watch: Watch::new(),
        };
        churn.admit_the_constant();
        churn
    }

    fn admit_the_constant(&mut self) {
        let mut giant = self.admit("giant");
        self.append(&mut giant, 0, self.world.scale.giant as usize);
        store(&self.world.giant, giant.key);
        self.giant = Some(giant);
        for at in 0..2 {
            let twin = self.admit(["one twin", "other twin"][at]);
            store(&self.world.twins[at], twin.key);
            self.twins[at] = Some(twin);
        }
        self.scheduler.publish();
    }

    /// One step of an engine: some calls, and a publish.
    pub fn step(&mut self) {
        for _ in 0..1 + self.dice.below(8) {
            let at = self.dice.below(self.lives.len());
            match self.lives[at].take() {
                Some(life) => self.lives[at] = self.change(at, life),
                None => {
                    self.admitted += 1;
                    let life = self.admit(&format!("request {}", self.admitted));
                    self.world.put_up(at, Some(life.key));
                    self.lives[at] = Some(life);
                }
            }
        }
        match self.dice.below(16) {
            0..4 => self.change_the_twins(),
            4 => self.change_the_giant(),
            5..7 => self.begin_or_end_step(),
            7 => self.hold(),
            8 => self.invalidate(),
            9 if self.dice.one_in(64) => self.count(),
            _ => {}
        }
        let freed = self.scheduler.reclaim().to_vec();
        self.take_back(&freed);
        self.scheduler.publish();
        self.operations += 2;
        if self.operations & 0xf == 0 {
            self.watch.look(self.index.stats().retained, self.operations);
        }
    }

    fn admit(&mut self, label: &str) -> Life {
        self.operations += 1;
        Life { key: self.scheduler.admit(label).expect("a new label"), tables: Tables::default() }
    }

    /// A change of one request; `None` where it has ended.
    fn change(&mut self, at: usize, mut life: Life) -> Option<Life> {
        let g = self.dice.below(GROUPS);
        self.operations += 1;
        match self.dice.below(32) {
            0 => {
                let freed = freed(self.scheduler.release(life.key).expect("live"));
                self.world.put_up(at, None);
                self.forget(life.tables.iter().flatten());
                self.take_back(&freed);
                return None;
            }
            1 => {
                let preempted = self.scheduler.preempt(life.key).expect("live");
                let (key, freed) = (preempted.successor, freed(preempted.released));
                self.world.put_up(at, Some(key));
                self.forget(life.tables.iter().flatten());
                self.take_back(&freed);
                return Some(Life { key, tables: Tables::default() });
            }
            2..5 => {
                let len = self.dice.below(life.tables[g].len() + 1);
                self.truncate(&mut life, g, len);
            }
            5..8 => self.vacate(&mut life, g),
            8..10 => self.replace(&mut life, g),
            10..13 if !World::is_own(at) => self.share(&mut life, g),
            _ => {
                for g in 0..GROUPS {
                    let room = self.world.scale.longest.saturating_sub(life.tables[g].len());
                    let more = self.dice.below(6).min(room);
                    self.append(&mut life, g, more);
                }
            }
        }
        Some(life)
    }

    /// Appends free blocks, as far as there are some, and names all of the life as written.
    fn append(&mut self, life: &mut Life, g: usize, more: usize) {
        let first = self.free.len() - more.min(self.free.len());
        let blocks = self.free.split_off(first);
        let from = life.tables[g].len();
        for (position, &block) in (from..).zip(&blocks) {
            self.begin_stay(block, life.key, position);
        }
        self.scheduler.assign(life.key, group(g), &blocks).expect("reported free, so free");
        life.tables[g].extend(blocks.into_iter().map(Some));
        self.commit(life);
    }

    fn begin_stay(&mut self, block: BlockId, key: RequestKey, position: usize) {
        let at = block.0 as usize;
        assert!(std::mem::take(&mut self.is_free[at]) && self.listed[at] == 0, "block {block}");
        self.listed[at] = 1;
        self.stays += 1;
        let tag = Tag {
            epoch: self.scheduler.epoch().0 + 1,
            stay: self.stays,
            owner: Tag::owner_bits(key),
            position: position as u64,
        };
        self.world.memory.write(block, tag.pack());
    }

    fn commit(&mut self, life: &Life) {
        let covered = life.tables.iter().zip(BLOCK_SIZES);
        let tokens = covered.map(|(table, size)| table.len() as u64 * u64::from(size)).min();
        self.scheduler.commit(life.key, tokens.expect("a group")).expect("within the tables");
        self.operations += 2;
    }

    fn truncate(&mut self, life: &mut Life, g: usize, len: usize) {
        let lost = life.tables[g].split_off(len);
        let released = self.scheduler.truncate(life.key, group(g), len as u32);
        let freed = freed(released.expect("within the table"));
        self.forget(&lost);
        self.take_back(&freed);
    }

    /// A window slides, or now and then a hole comes into the middle.
    fn vacate(&mut self, life: &mut Life, g: usize) {
        let table = &mut life.tables[g];
        let front = table.iter().take_while(|block| block.is_none()).count();
        let start = if self.dice.one_in(4) { self.dice.below(table.len() + 1) } else { front };
        let end = (start + self.dice.below(4)).min(table.len());
        let lost: Vec<_> = table[start..end].to_vec();
        table[start..end].fill(None);
        let positions = start as u32..end as u32;
        let released = self.scheduler.vacate(life.key, group(g), positions);
        let freed = freed(released.expect("within the table"));
        self.forget(&lost);
        self.take_back(&freed);
    }

    fn replace(&mut self, life: &mut Life, g: usize) {
        if life.tables[g].is_empty() || self.free.is_empty() {
            return;
        }
        let position = self.dice.below(life.tables[g].len());
        let block = self.free.swap_remove(self.dice.below(self.free.len()));
        self.begin_stay(block, life.key, position);
        let before = life.tables[g][position].replace(block);
        let released = self.scheduler.replace(life.key, group(g), position as u32, block);
        let freed = freed(released.expect("within the table, and free"));
        self.forget([&before]);
        self.take_back(&freed);
        self.commit(life);
    }

    /// What another request shows at the same position, as a shared prefix does.
    fn share(&mut self, life: &mut Life, g: usize) {
        let position = life.tables[g].len();
        let from = self.dice.below(self.lives.len());
        if position < self.world.scale.longest
            && let Some(other) = &self.lives[from]
            && let Some(&Some(block)) = other.tables[g].get(position)
        {
            self.scheduler.share(life.key, group(g), &[block]).expect("in a tenancy");
            self.listed[block.0 as usize] += 1;
            life.tables[g].push(Some(block));
        }
    }

    /// Both or none within a step.
    fn change_the_twins(&mut self) {
        let longest = self.world.scale.longest;
        let [Some(mut one), Some(mut other)] = std::mem::take(&mut self.twins) else { return };
        if self.free.len() >= 4 && one.tables[0].len() < longest && !self.dice.one_in(4) {
            self.append(&mut one, 0, 2);
            self.append(&mut other, 0, 2);
        } else {
            let len = self.dice.below(one.tables[0].len() + 1);
            self.truncate(&mut one, 0, len);
            self.truncate(&mut other, 0, len);
        }
        self.operations += 2;
        self.twins = [Some(one), Some(other)];
    }

    /// A short loss at the end of a long table, and what was lost comes back.
    fn change_the_giant(&mut self) {
        let Some(mut giant) = self.giant.take() else { return };
        let len = giant.tables[0].len();
        let shorter = (len - self.dice.below(3)).max(self.world.scale.giant as usize - 16);
        self.truncate(&mut giant, 0, shorter);
        self.append(&mut giant, 0, self.world.scale.giant as usize - shorter);
        self.giant = Some(giant);
    }

    fn begin_or_end_step(&mut self) {
        self.operations += 1;
        if self.steps.len() == 3 || (!self.steps.is_empty() && self.dice.one_in(2)) {
            let step = self.steps.swap_remove(self.dice.below(self.steps.len()));
            let freed = freed(self.scheduler.end_step(step).expect("open"));
            self.take_back(&freed);
        } else {
            self.steps.push(self.scheduler.begin_step());
        }
    }

    /// Exact holds, which end in the order they were taken.
    fn hold(&mut self) {
        let at = self.dice.below(self.lives.len());
        if let Some(life) = &self.lives[at] {
            let blocks: Vec<BlockId> = life.tables[0].iter().flatten().copied().collect();
            let pin = self.scheduler.hold(&blocks).expect("owned");
            let found = blocks.iter().map(|&block| (block, self.world.memory.read(block)));
            self.holds.push_back((pin, found.collect()));
            self.operations += 2;
        }
        if self.holds.len() > 8
            && let Some((pin, found)) = self.holds.pop_front()
        {
            self.world.still(&found);
            drop(pin);
        }
    }

    /// Content that is taken for lost, and committed again later.
    fn invalidate(&mut self) {
        let at = self.dice.below(self.lives.len());
        if let Some(life) = self.lives[at].take() {
            self.operations += 1;
            if let Some(&block) = self.dice.pick(&life.tables[0])
                && let Some(block) = block
            {
                self.scheduler.invalidate(&[block]).expect("of the pool");
            }
            self.commit(&life);
            self.lives[at] = Some(life);
        }
    }

    fn count(&mut self) {
        let counts = self.scheduler.counts();
        assert_eq!(counts.free + counts.owned + counts.held, self.world.scale.blocks());
        let owned = self.listed.iter().filter(|&&listed| listed > 0).count();
        assert_eq!(counts.owned as usize, owned);
        self.scheduler.audit().expect("sound while readers are at work");
        self.operations += 2;
    }

    fn forget<'a>(&mut self, lost: impl IntoIterator<Item = &'a Option<BlockId>>) {
        for block in lost.into_iter().flatten() {
            self.listed[block.0 as usize] -= 1;
        }
    }

    fn take_back(&mut self, freed: &[BlockId]) {
        for &block in freed {
            let at = block.0 as usize;
            assert_eq!(self.listed[at], 0, "{block} is listed and reported free");
            assert!(!std::mem::replace(&mut self.is_free[at], true), "{block} was free already");
            self.world.memory.write(block, POISON);
            self.free.push(block);
        }
    }

    /// Everything is given back but what pins still hold; nothing is missing, and nothing is there
    /// twice. Readers have stopped.
    pub fn account(&mut self, leaked: Vec<Pin>) -> String {
        let twins = std::mem::take(&mut self.twins).into_iter();
        let lives: Vec<Life> =
            self.lives.drain(..).chain(twins).chain([self.giant.take()]).flatten().collect();
        for life in lives {
            let freed = freed(self.scheduler.release(life.key).expect("live"));
            self.forget(life.tables.iter().flatten());
            self.take_back(&freed);
        }
        for step in std::mem::take(&mut self.steps) {
            let freed = freed(self.scheduler.end_step(step).expect("open"));
            self.take_back(&freed);
        }
        self.holds.clear();
        self.take_in();
        let counts = self.scheduler.counts();
        assert_eq!(counts.owned, 0);
        assert_eq!(counts.free as usize, self.free.len());
        let mut held: Vec<BlockId> = leaked.iter().flat_map(Pin::blocks).collect();
        held.sort();
        held.dedup();
        let all_held = held.iter().all(|&block| !self.is_free[block.0 as usize]);
        assert!(all_held, "a block of a leaked pin was reported free");
        drop(leaked);
        self.take_in();
        self.scheduler.audit().expect("sound at the end");
        assert_eq!(self.free.len() as u32, self.world.scale.blocks(), "not all came back");
        // Nobody reads any more: what waited for readers goes within a few steps.
        for _ in 0..16 {
            self.scheduler.publish();
            self.take_in();
        }
        let retained = self.index.stats().retained;
        assert!(retained <= 64, "{retained} leases are retained though nobody reads");
        format!("{}, {retained} at the end", self.watch)
    }

    fn take_in(&mut self) {
        let freed = self.scheduler.reclaim().to_vec();
        self.take_back(&freed);
    }
}

/// What waits for reclamation is bounded by what readers under a guard can delay: no more than was
/// retired while the slowest of them was at it, and again and again next to nothing.
struct Watch {
    most: u64,
    least_lately: u64,
    most_of_the_least: u64,
    lately: Instant,
    /// Operations of the scheduler by time, the newest last: each makes at most two leases.
    made: VecDeque<(Instant, u64)>,
}

impl Watch {
    fn new() -> Watch {
        let now = Instant::now();
        let made = VecDeque::from([(now, 0)]);
        Watch { most: 0, least_lately: u64::MAX, most_of_the_least: 0, lately: now, made }
    }

    fn look(&mut self, retained: u64, operations: u64) {
        let now = Instant::now();
        self.most = self.most.max(retained);
        self.least_lately = self.least_lately.min(retained);
        if now - self.lately > LONGEST_SLEEP {
            self.most_of_the_least = self.most_of_the_least.max(self.least_lately);
            self.least_lately = u64::MAX;
            self.lately = now;
            self.made.push_back((now, operations));
            // The last that is older than a sleep stays.
            if self.made.len() > 2 {
                self.made.pop_front();
            }
        }
        let made = operations - self.made.front().map_or(0, |&(_, then)| then);
        assert!(retained <= 2 * made + 1024, "{retained} leases retained, {made} calls since");
        assert!(self.most_of_the_least <= 4096, "never below {} leases", self.most_of_the_least);
    }
}

impl std::fmt::Display for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Watch { most, most_of_the_least, .. } = self;
        write!(f, "retained leases: at most {most}, now and then at most {most_of_the_least}")
    }
}

fn store(place: &std::sync::atomic::AtomicU64, key: RequestKey) {
    place.store(key.to_bits(), std::sync::atomic::Ordering::Relaxed);
}

fn freed(released: Released<'_>) -> Vec<BlockId> {
    released.freed().to_vec()
}
