//! Random steps of several requests over memory that remembers what was written into each block:
//! whatever a tracker calls durable was read while it was there, and in the end all of it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;
use tenure::{
    BlockId, BlockState, Completion, Config, GroupId, JobBudget, JobId, Outcome, PinnedSave, Rank,
    RequestKey, SaveTracker, Settled, StepRequest,
};

use crate::connector::{Connector, Load, blocks, save};

const LABELS: [&str; 3] = ["r1", "r2", "r3"];
const POOL: u32 = 24;
const LONGEST: u32 = 6;

#[derive(Clone, Debug)]
enum Op {
    Admit(usize),
    Grow(usize, u32),
    Truncate(usize, u32),
    Replace(usize, u32),
    Preempt(usize),
    Release(usize),
    Publish,
    /// Plans a save up to so many blocks.
    Plan(usize, u64),
    /// Sends so many of the queued saves out, with or without an index.
    Step(usize, bool),
    Report(usize, u32, bool),
    Force(usize),
    Budget(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let label = 0..LABELS.len();
    let blocks = 1..LONGEST;
    prop_oneof![
        2 => label.clone().prop_map(Op::Admit),
        5 => (label.clone(), blocks.clone()).prop_map(|(l, n)| Op::Grow(l, n)),
        1 => (label.clone(), blocks.clone()).prop_map(|(l, n)| Op::Truncate(l, n)),
        1 => (label.clone(), blocks.clone()).prop_map(|(l, n)| Op::Replace(l, n)),
        1 => label.clone().prop_map(Op::Preempt),
        1 => label.clone().prop_map(Op::Release),
        4 => Just(Op::Publish),
        5 => (label, 1..8_u64).prop_map(|(l, n)| Op::Plan(l, n)),
        4 => (1..4_usize, prop::bool::weighted(0.9)).prop_map(|(n, index)| Op::Step(n, index)),
        6 => (0..4_usize, 0..2_u32, prop::bool::weighted(0.2))
            .prop_map(|(job, rank, failed)| Op::Report(job, rank, failed)),
        1 => (0..4_usize).prop_map(Op::Force),
        1 => (0..6_usize).prop_map(Op::Budget),
    ]
}

struct World {
    c: Connector,
    keys: [Option<RequestKey>; 3],
    /// What was written last into each block: a request's label and the position.
    memory: Vec<Option<(usize, u32)>>,
    queue: VecDeque<StepRequest<Load>>,
    jobs: BTreeMap<JobId, (usize, PinnedSave)>,
    durable: [BTreeSet<u64>; 3],
}

fn label_number(label: &str) -> usize {
    LABELS.iter().position(|&known| known == label).unwrap()
}

impl World {
    fn new() -> World {
        let (scheduler, index) = Config::new(POOL).build().unwrap();
        let mut c = Connector { scheduler, index, ..Connector::new() };
        for label in LABELS {
            c.trackers.track(label, SaveTracker::new());
        }
        World {
            c,
            keys: [None; 3],
            memory: vec![None; POOL as usize],
            queue: VecDeque::new(),
            jobs: BTreeMap::new(),
            durable: Default::default(),
        }
    }

    fn free_block(&mut self) -> Option<BlockId> {
        let scheduler = &mut self.c.scheduler;
        (0..POOL).map(BlockId).find(|&b| scheduler.block_state(b) == Ok(BlockState::Free))
    }

    fn grow(&mut self, label: usize, len: u32) {
        let Some(key) = self.keys[label] else { return };
        for _ in 0..len {
            let position = self.c.scheduler.len(key, GroupId(0)).unwrap();
            let Some(block) = self.free_block() else { return };
            if position < LONGEST {
                self.c.scheduler.assign(key, GroupId(0), &[block]).unwrap();
                self.memory[block.0 as usize] = Some((label, position));
            }
        }
    }

    fn admit(&mut self, label: usize) {
        if self.keys[label].is_none() {
            self.keys[label] = Some(self.c.scheduler.admit(LABELS[label]).unwrap());
        }
    }

    fn plan(&mut self, label: usize, blocks: u64) {
        let Some(key) = self.keys[label] else { return };
        let tracker = self.c.trackers.get_mut(LABELS[label]).unwrap();
        if let Ok(Some(offer)) = tracker.next(&self.c.index, key, blocks * 16) {
            let range = offer.request.tokens();
            assert!(range.end <= blocks * 16);
            let twice =
                (range.start / 16..range.end / 16).any(|b| self.durable[label].contains(&b));
            assert!(!twice, "durable and offered again: {range:?}");
            self.queue.push_back(save(LABELS[label], offer));
        }
    }

    fn step(&mut self, entries: usize, has_index: bool) {
        let entries = entries.min(self.queue.len());
        let mut step: Vec<_> = self.queue.drain(..entries).collect();
        let done = self.c.reconcile(&mut step, has_index);
        assert_eq!(done.pinned.len() + done.dropped.len() + done.deferred.len(), entries);
        assert_eq!(step.iter().filter(|entry| entry.save.is_some()).count(), done.pinned.len());
        for deferred in done.deferred {
            let save = Some(deferred.save);
            self.queue.push_back(StepRequest { label: deferred.label, load: None, save });
        }
        for pinned in done.pinned {
            self.jobs.insert(pinned.job, (label_number(&pinned.label), pinned));
        }
    }

    fn job(&self, at: usize) -> Option<JobId> {
        self.jobs.keys().nth(at).copied()
    }

    fn report(&mut self, at: usize, rank: u32, failed: bool) {
        let Some(job) = self.job(at) else { return };
        let outcome = if failed { Outcome::Failed } else { Outcome::Done };
        if let Completion::Last(outcome) = self.c.jobs.complete(job, Rank(rank), outcome) {
            self.c.trackers.job_ended(job, outcome);
            let (label, pinned) = self.jobs.remove(&job).unwrap();
            if outcome == Outcome::Done {
                let range = pinned.request.tokens();
                self.durable[label].extend(range.start / 16..range.end / 16);
            }
        }
    }

    fn force(&mut self, at: usize) {
        let Some(job) = self.job(at) else { return };
        self.c.jobs.force_end(job, self.c.now).unwrap();
        self.c.trackers.job_ended(job, Settled::Forced);
        self.jobs.remove(&job);
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Admit(label) => self.admit(label),
            Op::Grow(label, len) => self.grow(label, len),
            Op::Truncate(label, len) => {
                if let Some(key) = self.keys[label] {
                    let _ = self.c.scheduler.truncate(key, GroupId(0), len);
                }
            }
            Op::Replace(label, position) => {
                if let (Some(key), Some(block)) = (self.keys[label], self.free_block())
                    && self.c.scheduler.replace(key, GroupId(0), position, block).is_ok()
                {
                    self.memory[block.0 as usize] = Some((label, position));
                }
            }
            Op::Preempt(label) => {
                if let Some(key) = self.keys[label] {
                    let successor = self.c.scheduler.preempt(key).unwrap().successor;
                    self.keys[label] = Some(successor);
                }
            }
            Op::Release(label) => {
                if let Some(key) = self.keys[label].take() {
                    let _ = self.c.scheduler.release(key).unwrap();
                }
            }
            Op::Publish => {
                self.c.scheduler.publish();
            }
            Op::Plan(label, blocks) => self.plan(label, blocks),
            Op::Step(entries, has_index) => self.step(entries, has_index),
            Op::Report(at, rank, failed) => self.report(at, rank, failed),
            Op::Force(at) => self.force(at),
            Op::Budget(max) => {
                let jobs = (max > 0).then_some(max);
                self.c.jobs.set_budget(JobBudget { jobs, blocks: None });
            }
        }
    }

    fn check(&mut self) {
        self.c.scheduler.audit().unwrap();
        assert_eq!(self.c.jobs.pending(), self.jobs.len());
        for (label, pinned) in self.jobs.values() {
            let first = (pinned.request.tokens().start / 16) as u32;
            for (position, block) in (first..).zip(blocks(pinned)) {
                let found = self.memory[block as usize];
                assert_eq!(found, Some((*label, position)), "foreign bytes under a pin");
            }
        }
        for (label, durable) in LABELS.iter().zip(&self.durable) {
            let tracker = self.c.trackers.get(label).unwrap();
            let saved = tracker.saved().flat_map(|range| range.start / 16..range.end / 16);
            assert_eq!(&saved.collect::<BTreeSet<_>>(), durable);
        }
    }

    /// Everything comes to an end: what is under way is done or given up, and requests that
    /// stay for long enough get all that is missing saved.
    fn finish(mut self) {
        self.c.jobs.set_budget(JobBudget::default());
        let queued = self.queue.len();
        self.step(queued, false);
        while !self.jobs.is_empty() {
            self.force(0);
        }
        for label in 0..LABELS.len() {
            if let Some(key) = self.keys[label].take() {
                let _ = self.c.scheduler.release(key).unwrap();
            }
        }
        assert_eq!(self.c.scheduler.counts().free, POOL, "every block is back");
        for label in 0..LABELS.len() {
            self.admit(label);
            self.grow(label, LONGEST);
        }
        self.c.scheduler.publish();
        for (label, name) in LABELS.iter().enumerate() {
            // Each round saves what is missing up to the next part that is durable.
            for _ in 0..LONGEST {
                self.plan(label, u64::from(LONGEST));
                self.step(1, true);
                self.report(0, 0, false);
                self.report(0, 1, false);
                self.check();
            }
            let watermark = self.c.trackers.get(name).unwrap().watermark();
            assert_eq!(watermark, u64::from(LONGEST) * 16);
        }
    }
}

proptest! {
    // A failure is told as a list of operations, which makes a test that outlives the strategies; a
    // stored seed does not.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_durable_was_read_while_it_was_there(ops in vec(op(), 1..150)) {
        let mut world = World::new();
        for op in ops {
            world.run(op);
            world.check();
        }
        world.finish();
    }
}
