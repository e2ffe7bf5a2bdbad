//! What the flight recorder writes is a scenario script that answers the same.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tenure::{
    BlockId, Config, GroupId, Groups, Index, Pin, Recording, RequestKey, SaveRequest, Scheduler,
    StepId,
};
use tenure_cli::scenario::{Command, parse, run};

/// Runs a recording and fails on the first line that is not of the language or answers something
/// else.
fn replay(script: &str, what: &str) -> usize {
    let parsed = parse(script.as_bytes()).unwrap_or_else(|error| {
        panic!("{what}: line {}: {error}\n{script}", error.line);
    });
    if let Err(difference) = run(&parsed) {
        let upto: Vec<&str> = script.lines().take(difference.line).collect();
        panic!("{what}: {difference:#?}\n{}", upto.join("\n"));
    }
    parsed.lines.len()
}

/// What an index is built like.
#[derive(Clone, Debug)]
struct Shape {
    blocks: u32,
    null: bool,
    sizes: Vec<u32>,
    commits: bool,
}

const SHAPES: [(u32, bool, &[u32], bool); 6] = [
    (24, false, &[16], false),
    (40, true, &[4], true),
    (48, false, &[2, 4], true),
    (64, true, &[3, 2, 1], false),
    (12, false, &[1], true),
    (200, false, &[16], false),
];

fn shapes() -> impl Iterator<Item = Shape> {
    SHAPES.into_iter().map(|(blocks, null, sizes, commits)| Shape {
        blocks,
        null,
        sizes: sizes.to_vec(),
        commits,
    })
}

/// An engine that does anything at all.
struct Chaos {
    rng: Pcg64,
    shape: Shape,
    scheduler: Scheduler,
    index: Index,
    keys: Vec<RequestKey>,
    saves: Vec<SaveRequest>,
    pins: Vec<Pin>,
    steps: Vec<StepId>,
    drains: bool,
}

impl Chaos {
    fn new(seed: u64, shape: &Shape, recording: Recording) -> Chaos {
        let mut config = Config::new(shape.blocks)
            .block_sizes(shape.sizes.iter().copied())
            .track_commits(shape.commits)
            .record(recording);
        if shape.null {
            config = config.null_block(BlockId(0));
        }
        let (scheduler, index) = config.build().unwrap();
        Chaos {
            rng: Pcg64::seed_from_u64(seed),
            shape: shape.clone(),
            scheduler,
            index,
            keys: Vec::new(),
            saves: Vec::new(),
            pins: Vec::new(),
            steps: Vec::new(),
            drains: seed.is_multiple_of(4),
        }
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.rng.random_range(0..limit.max(1))
    }

    fn key(&mut self) -> Option<RequestKey> {
        // The latest lives most of the time.
        let reach = if self.below(8) == 0 { 40 } else { 5 };
        let back = self.below(reach) as usize;
        self.keys.iter().rev().nth(back.min(self.keys.len().checked_sub(1)?)).copied()
    }

    fn group(&mut self) -> GroupId {
        let groups = self.shape.sizes.len() as u32;
        if self.below(60) == 0 { GroupId(groups) } else { GroupId(self.below(groups)) }
    }

    fn free(&mut self, count: u32) -> Vec<BlockId> {
        let mut free: Vec<BlockId> = Vec::new();
        for _ in 0..count * 4 {
            let block = BlockId(self.below(self.shape.blocks));
            let is_free = self.scheduler.block_state(block);
            if is_free == Ok(tenure::BlockState::Free) && !free.contains(&block) {
                free.push(block);
            }
        }
        free.truncate(count as usize);
        free
    }

    fn any_blocks(&mut self, count: u32) -> Vec<BlockId> {
        (0..count).map(|_| BlockId(self.below(self.shape.blocks + 1))).collect()
    }

    fn owned(&mut self, count: u32) -> Vec<BlockId> {
        let mut blocks = self.any_blocks(count * 4);
        blocks.retain(|&block| {
            !matches!(self.scheduler.block_state(block), Ok(tenure::BlockState::Free) | Err(_))
        });
        blocks.truncate(count as usize);
        blocks
    }

    fn tokens(&mut self) -> Range<u64> {
        let start = u64::from(self.below(12));
        start..start + 1 + u64::from(self.below(20))
    }

    fn len(&self, key: RequestKey, group: GroupId) -> u32 {
        self.scheduler.len(key, group).unwrap_or(3)
    }

    fn act(&mut self) {
        let dice = self.below(100);
        let Some(key) = self.key().filter(|_| dice > 5) else {
            let label = format!("chat {}", self.below(12));
            self.keys.extend(self.scheduler.admit(&label));
            return;
        };
        let group = self.group();
        match dice {
            6..=25 => {
                let count = self.below(4) + 1;
                let mut blocks = self.free(count);
                if self.shape.null && self.below(5) == 0 {
                    blocks.push(BlockId(0));
                }
                if self.below(30) == 0 {
                    blocks = self.any_blocks(2);
                }
                let _ = self.scheduler.assign(key, group, &blocks);
            }
            26..=31 => {
                let count = self.below(3) + 1;
                let blocks =
                    if self.below(9) == 0 { self.any_blocks(2) } else { self.owned(count) };
                let _ = self.scheduler.share(key, group, &blocks);
            }
            32..=36 => {
                let tokens = u64::from(self.below(40));
                let _ = self.scheduler.commit(key, tokens);
            }
            37..=41 => {
                let len = self.len(key, group);
                let (a, b) = (self.below(len + 1), self.below(len + 2));
                let from = if self.below(2) == 0 { 0 } else { a };
                let _ = self.scheduler.vacate(key, group, from..b);
            }
            42..=45 => {
                let len = self.below(self.len(key, group) + 1);
                let _ = self.scheduler.truncate(key, group, len);
            }
            46..=48 => {
                let position = self.below(self.len(key, group) + 1);
                let block = self.free(1).pop().unwrap_or(BlockId(0));
                let _ = self.scheduler.replace(key, group, position, block);
            }
            49 => {
                let blocks = self.any_blocks(2);
                let _ = self.scheduler.invalidate(&blocks);
            }
            50..=53 => {
                let _ = self.scheduler.release(key);
            }
            54 => {
                if let Ok(preempted) = self.scheduler.preempt(key) {
                    let successor = preempted.successor;
                    self.keys.push(successor);
                }
            }
            55..=57 => match self.steps.len() {
                0..3 => self.steps.push(self.scheduler.begin_step()),
                open => {
                    let at = self.below(open as u32) as usize;
                    let step = self.steps.remove(at);
                    let _ = self.scheduler.end_step(step).unwrap();
                }
            },
            58..=64 => drop(self.scheduler.publish()),
            65..=74 => {
                let tokens = self.tokens();
                let groups = if self.below(3) == 0 { Groups::only(group) } else { Groups::ALL };
                let planned = match self.below(6) {
                    0 => self.index.plan_load(key, tokens, groups),
                    _ => self.index.plan(key, tokens, groups),
                };
                self.saves.extend(planned);
            }
            75..=82 => self.pin(),
            83..=92 => {
                if !self.pins.is_empty() {
                    let at = self.below(self.pins.len() as u32) as usize;
                    drop(self.pins.swap_remove(at));
                }
            }
            93..=94 => {
                let blocks = self.owned(3);
                self.pins.extend(self.scheduler.hold(&blocks));
            }
            95 => {
                if let Some(pin) = self.pins.last_mut() {
                    let Range { start, end } = pin.tokens();
                    let _ = pin.narrow(start..start.midpoint(end));
                }
            }
            96 => {
                if let Some(pin) = self.pins.pop() {
                    self.pins.push(pin.with_note("chaos"));
                }
            }
            97 => {
                if self.below(4) == 0 {
                    let _ = self.scheduler.reset();
                }
            }
            98 => {
                if self.below(20) == 0 {
                    let _ = self.scheduler.reset_force();
                }
            }
            _ => {
                let _ = self.scheduler.reclaim();
                self.scheduler.audit().unwrap();
            }
        }
    }

    fn pin(&mut self) {
        if let Some(back) = (self.saves.len() as u32).checked_sub(1) {
            let near = self.below(6).min(back);
            let at = if self.below(5) == 0 { self.below(back + 1) } else { near };
            let save = self.saves[(back - at) as usize];
            self.pins.extend(self.index.pin(&save));
        }
    }

    fn run(&mut self, calls: usize) {
        for call in 0..calls {
            if self.drains && call == calls * 9 / 10 {
                self.scheduler.begin_drain();
            }
            self.act();
        }
    }

    fn script(&self) -> String {
        self.index.recorder().unwrap().script()
    }
}

#[test]
fn random_traffic_answers_the_same_from_its_beginning() {
    for (at, shape) in shapes().enumerate() {
        for seed in 0..6 {
            let labels = seed % 2 == 0;
            let recording = Recording::lines(1_000_000).labels(labels);
            let mut chaos = Chaos::new(seed * 100 + at as u64, &shape, recording);
            chaos.run(1_500);
            let lines = replay(&chaos.script(), &format!("{shape:?}, seed {seed}"));
            assert!(lines > 700, "{lines} lines");
        }
    }
}

#[test]
fn random_traffic_answers_the_same_from_any_checkpoint() {
    let mut pinned = 0;
    for (at, shape) in shapes().enumerate() {
        for seed in 0..12 {
            let recording = Recording::lines(200);
            let mut chaos = Chaos::new(seed * 100 + at as u64, &shape, recording);
            for round in 0..10 {
                chaos.run(150);
                let script = chaos.script();
                pinned += script.lines().filter(|line| line.contains(" as h")).count();
                replay(&script, &format!("{shape:?}, seed {seed}, round {round}"));
            }
        }
    }
    assert!(pinned > 200, "{pinned} holds in the place of pins");
}

#[test]
fn pins_of_other_threads_stand_in_their_order() {
    let recording = Recording::lines(400);
    let (mut scheduler, index) = Config::new(256).record(recording).build().unwrap();
    let saves: Arc<Mutex<Vec<SaveRequest>>> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|seed| {
            let (index, saves, stop) = (index.clone(), saves.clone(), stop.clone());
            thread::spawn(move || {
                let mut rng = Pcg64::seed_from_u64(seed);
                let mut pins = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let saves = saves.lock().unwrap().clone();
                    if !saves.is_empty() {
                        let save = &saves[rng.random_range(0..saves.len())];
                        pins.extend(index.pin(save));
                    }
                    if pins.len() > 6 {
                        let _ = pins.swap_remove(rng.random_range(0..pins.len()));
                    }
                }
            })
        })
        .collect();
    let mut rng = Pcg64::seed_from_u64(9);
    let mut free: Vec<BlockId> = (0..256).map(BlockId).collect();
    let mut live: HashMap<RequestKey, u32> = HashMap::new();
    let mut scripts = Vec::new();
    for step in 0..3_000 {
        free.extend(scheduler.reclaim());
        if live.len() < 12 {
            live.insert(scheduler.admit(&format!("r{step}")).unwrap(), 0);
        }
        for (&key, len) in &mut live {
            if let Some(block) = free.pop() {
                scheduler.assign(key, GroupId(0), &[block]).unwrap();
                *len += 1;
            }
        }
        scheduler.publish();
        let planned = live.iter().filter_map(|(&key, &len)| {
            index.plan(key, 0..u64::from(len).max(1) * 16, Groups::ALL).ok()
        });
        *saves.lock().unwrap() = planned.collect();
        if rng.random_range(0..2) == 0
            && let Some(&key) = live.keys().next()
        {
            live.remove(&key);
            free.extend(scheduler.release(key).unwrap().freed());
        }
        if step % 100 == 99 {
            scripts.push(index.recorder().unwrap().script());
        }
    }
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    scripts.push(index.recorder().unwrap().script());
    let mut pins = 0;
    for (at, script) in scripts.iter().enumerate() {
        replay(script, &format!("script {at}"));
        let parsed = parse(script.as_bytes()).unwrap();
        pins += parsed.lines.iter().filter(|l| matches!(l.command, Command::Pin { .. })).count();
    }
    assert!(pins > 100, "{pins} pins");
}

#[test]
fn a_recording_that_was_tampered_with_is_found_out() {
    let shape = shapes().next().unwrap();
    let mut chaos = Chaos::new(7, &shape, Recording::lines(10_000));
    chaos.run(400);
    let script = chaos.script();
    let line =
        script.lines().rev().find(|line| line.starts_with("release") && line.contains("freed"));
    let line = line.expect("a release");
    let wrong = script.replacen(
        line,
        &format!("{} -> freed 99 held 0", line.split(" ->").next().unwrap()),
        1,
    );
    assert!(run(&parse(wrong.as_bytes()).unwrap()).is_err());
}
