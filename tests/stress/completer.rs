//! A connector's ledger: ranks report in any order, twice, and about jobs that never were.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use tenure::{Completion, JobId, Outcome, Rank, SaveJobs};

use crate::memory::Dice;
use crate::saver::Handed;
use crate::world::{Found, Tally, World};

/// Jobs that are pending at once, at most.
const PENDING: usize = 48;

pub struct Completer<'w> {
    world: &'w World,
    dice: Dice,
    jobs: SaveJobs,
    expected: BTreeMap<JobId, Found>,
    ended: u64,
    last_ended: Option<JobId>,
    tally: Tally,
}

impl<'w> Completer<'w> {
    pub fn new(world: &'w World, seed: u64) -> Completer<'w> {
        let (jobs, expected) = (SaveJobs::new(), BTreeMap::new());
        let (dice, tally) = (Dice::new(seed), Tally::default());
        Completer { world, dice, jobs, expected, ended: 0, last_ended: None, tally }
    }

    pub fn complete(mut self, inbox: &Receiver<Handed>) -> Tally {
        while !self.world.stopped() {
            if self.jobs.pending() < PENDING {
                match inbox.try_recv() {
                    Ok(handed) => self.open(handed),
                    Err(_) if self.jobs.pending() == 0 => std::thread::yield_now(),
                    Err(_) => {}
                }
            }
            self.report();
        }
        while self.jobs.pending() > 0 {
            self.report();
        }
        let stats = self.jobs.stats();
        assert_eq!(stats.opened, self.ended, "{stats:?}");
        self.tally
    }

    fn open(&mut self, Handed { pin, found }: Handed) {
        let ranks = 1 + self.dice.below(4) as u32;
        self.tally.operations += 1;
        self.tally.jobs += 1;
        let job = self.jobs.open(pin, (0..ranks).map(Rank), Instant::now());
        self.expected.insert(job, found);
    }

    fn report(&mut self) {
        let Some(job) = self.any_job() else { return };
        self.world.still(&self.expected[&job]);
        self.tally.operations += 1;
        match self.dice.below(16) {
            0 => {
                let forced = self.jobs.force_end(job, Instant::now()).expect("pending");
                let blocks = self.expected[&job].iter();
                assert!(blocks.into_iter().all(|(block, _)| forced.blocks.contains(block)));
                self.has_ended(job);
            }
            1 => {
                let never = JobId::from_bits(u64::MAX);
                let answer = self.jobs.complete(never, Rank(0), Outcome::Done);
                assert_eq!(answer, Completion::UnknownJob);
            }
            2 => {
                if let Some(ended) = self.last_ended {
                    let answer = self.jobs.complete(ended, Rank(0), Outcome::Done);
                    assert_eq!(answer, Completion::AlreadyEnded);
                }
            }
            3 => {
                let answer = self.jobs.complete(job, Rank(99), Outcome::Done);
                assert_eq!(answer, Completion::UnknownRank);
            }
            _ => {
                let rank = Rank(self.dice.below(4) as u32);
                let expected = self.jobs.ranks_left(job).expect("pending").contains(&rank);
                let outcome = if self.dice.one_in(4) { Outcome::Failed } else { Outcome::Done };
                match self.jobs.complete(job, rank, outcome) {
                    Completion::Pending(left) => assert!(expected && left > 0),
                    Completion::Last(_) => {
                        assert!(expected);
                        self.has_ended(job);
                    }
                    Completion::Duplicate | Completion::UnknownRank => assert!(!expected),
                    other => panic!("{other:?} about a pending job"),
                }
            }
        }
    }

    fn has_ended(&mut self, job: JobId) {
        assert!(!self.jobs.is_pending(job));
        self.ended += 1;
        self.last_ended = Some(job);
        self.expected.remove(&job);
    }

    fn any_job(&mut self) -> Option<JobId> {
        if self.jobs.pending() == 0 {
            return None;
        }
        let at = self.dice.below(self.jobs.pending());
        self.jobs.pending_ids().nth(at)
    }
}
