//! Save requests made by an attacker, against an index in which everything has happened: each is
//! pinned if and only if it says what a request planned then would have said, and nothing has been
//! lost since.

#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tenure::{
    BlockId, Config, Epoch, GroupId, Groups, Index, IndexId, Kind, RequestKey, SaveRequest,
    Scheduler, Stale,
};

const BLOCKS: u32 = 64;
const SIZES: [u32; 2] = [4, 6];

/// A number of the index, or next to one, or anything.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Near { at: u8, off: i8 },
    Any(u64),
}

impl Number {
    fn choose(self, known: &[u64]) -> u64 {
        match self {
            Number::Near { at, off } => {
                known[usize::from(at) % known.len()].wrapping_add_signed(off.into())
            }
            Number::Any(number) => number,
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Forged {
    foreign: Option<u64>,
    key: Number,
    epoch: Number,
    start: Number,
    end: Number,
    groups: Number,
    kind: u8,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Forge(Forged),
    Grow { life: u8, group: bool, blocks: u8 },
    Shrink { life: u8, group: bool, len: u8 },
    Hole { life: u8, group: bool, position: u8 },
    Replace { life: u8, group: bool, position: u8 },
    Commit { life: u8 },
    Preempt { life: u8 },
    Release { life: u8 },
    Publish,
}

/// What is listed, and from which epoch it is visible.
type Table = Vec<(Option<BlockId>, u64)>;

#[derive(Default)]
struct Life {
    tables: [Table; 2],
    committed: [u64; 2],
}

struct World {
    scheduler: Scheduler,
    index: Index,
    lives: BTreeMap<u64, Life>,
    ended: BTreeMap<u64, Stale>,
    free: Vec<BlockId>,
    labels: u32,
}

impl World {
    fn new() -> World {
        let config = Config::new(BLOCKS).block_sizes(SIZES).track_commits(true).max_requests(4);
        let (scheduler, index) = config.build().expect("can be built");
        let free = (0..BLOCKS).map(BlockId).collect();
        let (lives, ended) = (BTreeMap::new(), BTreeMap::new());
        World { scheduler, index, lives, ended, free, labels: 0 }
    }

    fn coming(&self) -> u64 {
        self.scheduler.epoch().0 + 1
    }

    fn life(&mut self, at: u8) -> u64 {
        if self.lives.len() < 3 {
            self.labels += 1;
            let key = self.scheduler.admit(&self.labels.to_string()).expect("a new label");
            self.lives.insert(key.to_bits(), Life::default());
        }
        let keys: Vec<u64> = self.lives.keys().copied().collect();
        keys[usize::from(at) % keys.len()]
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Forge(forged) => self.forge(&forged),
            Step::Publish => {
                self.scheduler.publish();
            }
            Step::Grow { life, group, blocks } => {
                let (bits, since) = (self.life(life), self.coming());
                let keep = self.free.len().saturating_sub(usize::from(blocks % 8));
                let blocks = self.free.split_off(keep);
                let key = RequestKey::from_bits(bits);
                let id = GroupId(group.into());
                self.scheduler.assign(key, id, &blocks).expect("free blocks");
                let table = self.table(bits, group);
                table.extend(blocks.into_iter().map(|block| (Some(block), since)));
            }
            Step::Shrink { life, group, len } => {
                let bits = self.life(life);
                let table = self.table(bits, group);
                table.truncate(usize::from(len));
                let len = table.len() as u32;
                self.lower(bits, group, len);
                let (key, group) = (RequestKey::from_bits(bits), GroupId(group.into()));
                let freed = self.scheduler.truncate(key, group, len).expect("within").freed();
                self.free.extend(freed.to_vec());
            }
            Step::Hole { life, group, position } => {
                let bits = self.life(life);
                let table = self.table(bits, group);
                if let Some(place) = table.get_mut(usize::from(position)) {
                    place.0 = None;
                    let (key, group) = (RequestKey::from_bits(bits), GroupId(group.into()));
                    let positions = position.into()..u32::from(position) + 1;
                    let freed = self.scheduler.vacate(key, group, positions).expect("within");
                    self.free.extend(freed.freed().to_vec());
                }
            }
            Step::Replace { life, group, position } => {
                let (bits, since) = (self.life(life), self.coming());
                if self.free.is_empty() || usize::from(position) >= self.table(bits, group).len() {
                    return;
                }
                let Some(block) = self.free.pop() else { return };
                self.table(bits, group)[usize::from(position)] = (Some(block), since);
                self.lower(bits, group, position.into());
                let (key, group) = (RequestKey::from_bits(bits), GroupId(group.into()));
                let released = self.scheduler.replace(key, group, position.into(), block);
                self.free.extend(released.expect("within, and free").freed().to_vec());
            }
            Step::Commit { life } => {
                let bits = self.life(life);
                let life = self.lives.entry(bits).or_default();
                let covered = life.tables.iter().zip(SIZES);
                let tokens =
                    covered.map(|(table, size)| table.len() as u64 * u64::from(size)).min();
                let tokens = tokens.unwrap_or_default();
                life.committed = life.committed.map(|before| before.max(tokens));
                self.scheduler.commit(RequestKey::from_bits(bits), tokens).expect("within");
            }
            Step::Preempt { life } => {
                let bits = self.life(life);
                let preempted = self.scheduler.preempt(RequestKey::from_bits(bits)).expect("live");
                self.free.extend(preempted.released.freed().to_vec());
                self.lives.insert(preempted.successor.to_bits(), Life::default());
                self.lives.remove(&bits);
                self.ended.insert(bits, Stale::NewLife);
            }
            Step::Release { life } => {
                let bits = self.life(life);
                let released = self.scheduler.release(RequestKey::from_bits(bits)).expect("live");
                self.free.extend(released.freed().to_vec());
                self.lives.remove(&bits);
                self.ended.insert(bits, Stale::Gone);
            }
        }
    }

    fn table(&mut self, bits: u64, group: bool) -> &mut Table {
        &mut self.lives.entry(bits).or_default().tables[usize::from(group)]
    }

    fn lower(&mut self, bits: u64, group: bool, positions: u32) {
        let group = usize::from(group);
        let committed = &mut self.lives.entry(bits).or_default().committed[group];
        *committed = (*committed).min(u64::from(positions) * u64::from(SIZES[group]));
    }

    fn forge(&mut self, forged: &Forged) {
        let known = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut numbers: Vec<u64> = numbers.collect();
            numbers.push(0);
            numbers
        };
        let keys = known(&mut self.lives.keys().chain(self.ended.keys()).copied());
        let epochs = known(&mut (0..=self.scheduler.epoch().0).rev().take(16));
        let ends = known(&mut (0..=48).chain([u64::MAX, 1 << 24, 1 << 32]));
        let id = self.index.id();
        let request = SaveRequest::from_parts(
            forged.foreign.map_or(id, IndexId),
            RequestKey::from_bits(forged.key.choose(&keys)),
            Epoch(forged.epoch.choose(&epochs)),
            forged.start.choose(&ends)..forged.end.choose(&ends),
            Groups::from_bits(forged.groups.choose(&[1, 2, 3, u64::MAX])),
            [Kind::Save, Kind::Load, Kind::Hold][usize::from(forged.kind) % 3],
        );
        let Ok(request) = request else { return };
        let expected = self.expected(&request);
        let checked = self.index.check(&request);
        assert_eq!(checked.is_ok(), expected.is_some(), "{request:?}: {checked:?}");
        let pinned = self.index.pin(&request);
        assert_eq!(pinned.is_ok(), expected.is_some(), "{request:?}: {pinned:?}");
        if let (Ok(pin), Some(expected)) = (pinned, expected) {
            for (group, blocks) in expected {
                assert_eq!(pin.blocks_of(group), blocks, "{request:?}");
            }
        } else if let Some(ended) = self.ended.get(&request.key().to_bits())
            && checked != Err(Stale::EpochUnknown)
        {
            assert_eq!(checked, Err(*ended), "{request:?}");
        }
        // Neither panics, whatever the request.
        let _ = self.index.replan(&request);
        let _ = self.index.view(request.key());
    }

    /// The blocks that the request may read, by group; `None` where it may not.
    fn expected(&self, request: &SaveRequest) -> Option<Vec<(GroupId, Vec<BlockId>)>> {
        let life = self.lives.get(&request.key().to_bits())?;
        let groups = request.groups();
        let well_formed = request.index() == self.index.id()
            && request.kind() != Kind::Hold
            && request.epoch() <= self.scheduler.epoch()
            && !groups.is_empty()
            && groups.bits() < 1 << SIZES.len();
        if !well_formed {
            return None;
        }
        let mut all = Vec::new();
        for group in groups.iter() {
            let at = group.0 as usize;
            let size = u64::from(SIZES[at]);
            let tokens = request.tokens();
            if request.kind() == Kind::Save && life.committed[at] < tokens.end {
                return None;
            }
            let (first, end) = (tokens.start / size, tokens.end.div_ceil(size));
            let planned =
                life.tables[at].get(usize::try_from(first).ok()?..usize::try_from(end).ok()?)?;
            let blocks =
                planned.iter().map(|&(block, since)| block.filter(|_| since <= request.epoch().0));
            all.push((group, blocks.collect::<Option<Vec<_>>>()?));
        }
        Some(all)
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::new();
    for step in steps.into_iter().take(200) {
        world.run(step);
        let freed = world.scheduler.reclaim().to_vec();
        world.free.extend(freed);
    }
    world.scheduler.audit().expect("sound");
    assert_eq!(world.scheduler.counts().free as usize, world.free.len());
});
