//! Bytes a block and a position, and what waits for reclamation while requests come and go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use memory_stats::memory_stats;
use serde::Serialize;
use tenure::{BlockId, Config, GroupId, Groups, RequestKey, Scheduler};
use tenure_benches::step::{Engine, Sizes, Store, TenureStore};

use super::Failure;

const GROUP: GroupId = GroupId(0);

/// Steps of the churn.
const STEPS: u32 = 2000;

/// What an index takes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Memory {
    /// Resident bytes for each block of the pool, all of them used before; none where the system
    /// does not tell.
    pub bytes_per_block: Option<f64>,
    /// Resident bytes for each position of long tables.
    pub bytes_per_position: Option<f64>,
    /// Blocks of the pool it was measured with.
    pub memory_blocks: u32,
    /// Versions of tables that a step of the churn below replaces or ends.
    pub retired_per_step: u32,
    /// The most versions that ever waited for reclamation.
    pub retained: Retained,
}

/// The most versions that waited, over 2,000 steps.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Retained {
    /// No reader at all.
    pub no_reader: u64,
    /// One thread takes snapshots one after another.
    pub snapshot_reader: u64,
    /// 16 pins are never given back.
    pub sleeping_pins: u64,
}

/// Measures with a pool of so many blocks.
pub fn measure(blocks: u32) -> Result<Memory, Failure> {
    let (bytes_per_block, bytes_per_position) = resident(blocks)?;
    Ok(Memory {
        bytes_per_block,
        bytes_per_position,
        memory_blocks: blocks,
        retired_per_step: Sizes::STEP.turnover,
        retained: Retained {
            no_reader: churn(|_| Ok(()))?,
            snapshot_reader: churn_beside_snapshots()?,
            sleeping_pins: churn_beside_pins()?,
        },
    })
}

fn physical() -> Option<f64> {
    memory_stats().map(|stats| stats.physical_mem as f64)
}

fn resident(blocks: u32) -> Result<(Option<f64>, Option<f64>), Failure> {
    /// Of the tables by which every block is used once, and of those that stay.
    const SHORT: usize = 64;
    const LONG: usize = 65_536;

    let all: Vec<BlockId> = (0..blocks).map(BlockId).collect();
    let empty = physical();
    let (mut scheduler, _index) = Config::new(blocks).max_requests(1024).build()?;
    for blocks in all.chunks(SHORT) {
        let key = assigned(&mut scheduler, blocks)?;
        let _ = scheduler.release(key)?;
        scheduler.publish();
    }
    let used = physical();
    for blocks in all.chunks(LONG) {
        assigned(&mut scheduler, blocks)?;
    }
    let full = physical();
    let each = |before: Option<f64>, after: Option<f64>| {
        Some((after? - before?).max(0.0) / f64::from(blocks))
    };
    Ok((each(empty, used), each(used, full)))
}

fn assigned(scheduler: &mut Scheduler, blocks: &[BlockId]) -> Result<RequestKey, tenure::Error> {
    let label = format!("r{}", blocks.first().map_or(0, |block| block.0));
    let key = scheduler.admit(&label)?;
    scheduler.assign(key, GROUP, blocks)?;
    Ok(key)
}

/// Runs the workload and answers the most versions that ever waited. `each` is called after each
/// step.
fn churn(mut each: impl FnMut(&TenureStore) -> Result<(), Failure>) -> Result<u64, Failure> {
    let mut store = TenureStore::new(&Sizes::STEP)?;
    let mut engine = Engine::start(Sizes::STEP, &mut store)?;
    let mut most = 0;
    for _ in 0..STEPS {
        engine.prepare();
        engine.apply(&mut store)?;
        engine.settle(&mut store);
        each(&store)?;
        most = most.max(store.index().stats().retained);
    }
    Ok(most)
}

fn churn_beside_snapshots() -> Result<u64, Failure> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut reader = None;
        let most = churn(|store| {
            let index = store.index().clone();
            let stop = &stop;
            reader.get_or_insert_with(|| {
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::black_box(index.snapshot());
                    }
                })
            });
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        most
    })
}

fn churn_beside_pins() -> Result<u64, Failure> {
    let mut pins = Vec::new();
    churn(|store| {
        if pins.len() < 16 {
            let key = RequestKey::from_bits(store.key(0));
            let plan = store.index().plan(key, 0..16, Groups::ALL)?;
            pins.push(store.index().pin(&plan)?);
        }
        Ok(())
    })
}
