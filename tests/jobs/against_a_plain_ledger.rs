//! Random reports against a ledger that remembers everything.

use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Open { blocks: u64, ranks: BTreeSet<u32> },
    Complete { job: u64, rank: u32, failed: bool },
    Count { job: u64, count: u32, failed: bool },
    Force { job: u64 },
    Narrow { job: u64, start: u64, end: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let job = 0..12_u64;
    prop_oneof![
        3 => (1..5_u64, btree_set(0..4_u32, 0..4))
            .prop_map(|(blocks, ranks)| Op::Open { blocks, ranks }),
        6 => (job.clone(), 0..5_u32, any::<bool>())
            .prop_map(|(job, rank, failed)| Op::Complete { job, rank, failed }),
        2 => (job.clone(), 0..4_u32, any::<bool>())
            .prop_map(|(job, count, failed)| Op::Count { job, count, failed }),
        1 => job.clone().prop_map(|job| Op::Force { job }),
        1 => (job, 0..5_u64, 0..5_u64)
            .prop_map(|(job, start, end)| Op::Narrow { job, start, end }),
    ]
}

/// A job as the plain ledger keeps it; tokens are counted in blocks.
struct Plain {
    range: std::ops::Range<u64>,
    waits: BTreeSet<u32>,
    told: BTreeSet<u32>,
    reports: usize,
    wanted: usize,
    failed: bool,
    ended: bool,
}

impl Plain {
    fn left(&self) -> u32 {
        (self.wanted - self.reports) as u32
    }

    fn take(&mut self, count: usize, failed: bool) -> Completion {
        self.reports += count;
        self.failed |= failed;
        self.ended = self.left() == 0;
        match (self.ended, self.failed) {
            (false, _) => Completion::Pending(self.left()),
            (true, true) => Completion::Last(FAILED),
            (true, false) => Completion::Last(DONE),
        }
    }
}

fn outcome(failed: bool) -> Outcome {
    if failed { FAILED } else { DONE }
}

proptest! {
    // A failure is told as a list of operations, which makes a test that outlives the strategies; a
    // stored seed does not.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_agree(ops in vec(op(), 1..80), max_jobs in 1..6_usize, max_blocks in 1..12_u64) {
        let mut e = Engine::new(4);
        e.jobs.set_budget(JobBudget { jobs: Some(max_jobs), blocks: Some(max_blocks) });
        let mut plain: Vec<Plain> = Vec::new();
        for op in ops {
            let id = |job: u64| JobId::from_bits(job + 1);
            match op {
                Op::Open { blocks, ranks } => {
                    let open: Vec<&Plain> = plain.iter().filter(|job| !job.ended).collect();
                    let held: u64 = open.iter().map(|job| job.range.end - job.range.start).sum();
                    let expected = if open.len() >= max_jobs {
                        Err(Refused::Budget(Budget::Jobs { max: max_jobs }))
                    } else if held + blocks > max_blocks {
                        Err(Refused::Budget(Budget::Blocks { max: max_blocks }))
                    } else {
                        Ok(id(plain.len() as u64))
                    };
                    let list: Vec<u32> = ranks.iter().copied().collect();
                    let request = e.plan(0..blocks * 16);
                    prop_assert_eq!(e.pin(&request, &list), expected);
                    if expected.is_ok() {
                        plain.push(Plain {
                            range: 0..blocks,
                            wanted: ranks.len(),
                            ended: ranks.is_empty(),
                            waits: ranks,
                            told: BTreeSet::new(),
                            reports: 0,
                            failed: false,
                        });
                    }
                }
                Op::Complete { job, rank, failed } => {
                    let expected = match plain.get_mut(job as usize) {
                        None => Completion::UnknownJob,
                        Some(job) if job.ended => Completion::AlreadyEnded,
                        Some(job) if job.told.contains(&rank) => Completion::Duplicate,
                        Some(job) if !job.waits.contains(&rank) => Completion::UnknownRank,
                        Some(job) => {
                            job.told.insert(rank);
                            job.take(1, failed)
                        }
                    };
                    let answer = e.jobs.complete(id(job), Rank(rank), outcome(failed));
                    prop_assert_eq!(answer, expected);
                }
                Op::Count { job, count, failed } => {
                    let expected = match plain.get_mut(job as usize) {
                        None => Completion::UnknownJob,
                        Some(job) if job.ended => Completion::AlreadyEnded,
                        Some(job) if count > job.left() => {
                            Completion::Exceeds { left: job.left() }
                        }
                        Some(job) if count == 0 => Completion::Pending(job.left()),
                        Some(job) => job.take(count as usize, failed),
                    };
                    let answer = e.jobs.complete_count(id(job), count, outcome(failed));
                    prop_assert_eq!(answer, expected);
                }
                Op::Force { job } => {
                    let expected = match plain.get_mut(job as usize) {
                        None => Err(NotPending::UnknownJob(id(job))),
                        Some(plain) if plain.ended => Err(NotPending::AlreadyEnded(id(job))),
                        Some(plain) => {
                            plain.ended = true;
                            Ok(plain.range.end - plain.range.start)
                        }
                    };
                    let answer = e.jobs.force_end(id(job), e.start);
                    prop_assert_eq!(answer.map(|forced| forced.blocks.len() as u64), expected);
                }
                Op::Narrow { job, start, end } => {
                    let answer = e.jobs.narrow(id(job), start * 16..end * 16);
                    match plain.get_mut(job as usize) {
                        Some(plain) if !plain.ended => {
                            let inside = start < end
                                && start >= plain.range.start
                                && end <= plain.range.end;
                            prop_assert_eq!(answer.is_ok(), inside);
                            if inside {
                                plain.range = start..end;
                            }
                        }
                        _ => prop_assert!(matches!(answer, Err(NarrowError::NotPending(_)))),
                    }
                }
            }
            let open: Vec<&Plain> = plain.iter().filter(|job| !job.ended).collect();
            prop_assert_eq!(e.jobs.pending(), open.len());
            let held: u64 = open.iter().map(|job| job.range.end - job.range.start).sum();
            prop_assert_eq!(e.jobs.blocks(), held);
            prop_assert!(e.scheduler.audit().is_ok());
        }
        let stats = e.jobs.stats();
        let ended = stats.done + stats.failed + stats.forced;
        prop_assert_eq!(stats.opened, ended + e.jobs.pending() as u64);

        // Whatever is left keeps exactly its own blocks, and gives them back at the end.
        let _ = e.scheduler.release(e.key).unwrap();
        let covered: BTreeSet<u64> =
            plain.iter().filter(|job| !job.ended).flat_map(|job| job.range.clone()).collect();
        prop_assert!(u64::from(e.scheduler.counts().held) >= covered.len() as u64);
        let pending: Vec<JobId> = e.jobs.pending_ids().collect();
        for job in pending {
            e.jobs.force_end(job, e.start).unwrap();
        }
        prop_assert_eq!(e.free(), 64);
    }
}
