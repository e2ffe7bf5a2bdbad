//! What the scheduler does with blocks.

use std::hint::black_box;

use tenure::{BlockId, Config, Error, GroupId, RequestKey, Scheduler};

use super::blocks;
use crate::rounds::{Operation, Repeated};

/// The table lengths at which a rollback and a sliding window are measured.
pub const TABLES: [u32; 4] = [64, 1024, 16_384, 100_000];

const GROUP: GroupId = GroupId(0);

/// Requests of a bulk, and blocks of each.
const REQUESTS: u32 = 64;
const PER_REQUEST: u32 = 64;

type Fallible = Result<(), Box<dyn std::error::Error>>;

/// One of the calls that move blocks, over 64 requests of 64 blocks each. A call is one block.
pub struct Bulk {
    name: String,
    timed: Phase,
    scheduler: Scheduler,
    labels: Vec<String>,
    keys: Vec<RequestKey>,
    blocks: Vec<Vec<BlockId>>,
    /// Owns the blocks that the others share.
    shares: bool,
}

/// The phases in the life of a bulk, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Admit,
    Fill,
    Vacate,
    Release,
}

impl Bulk {
    /// Assigning free blocks.
    ///
    /// # Errors
    /// None that a correct index gives, here and below.
    pub fn assign() -> Result<Bulk, Box<dyn std::error::Error>> {
        Bulk::new("assign", Phase::Fill, false)
    }

    /// Sharing blocks that another request owns.
    pub fn share() -> Result<Bulk, Box<dyn std::error::Error>> {
        Bulk::new("share", Phase::Fill, true)
    }

    /// Making holes of whole tables.
    pub fn vacate() -> Result<Bulk, Box<dyn std::error::Error>> {
        Bulk::new("vacate", Phase::Vacate, false)
    }

    /// Releasing requests that own their blocks.
    pub fn release() -> Result<Bulk, Box<dyn std::error::Error>> {
        Bulk::new("release", Phase::Release, false)
    }

    /// Releasing requests that share their blocks with another.
    pub fn release_shared() -> Result<Bulk, Box<dyn std::error::Error>> {
        Bulk::new("release_shared", Phase::Release, true)
    }

    /// Admitting; a call is one request.
    pub fn admit() -> Result<Bulk, Box<dyn std::error::Error>> {
        Bulk::new("admit", Phase::Admit, false)
    }

    /// All of the above.
    pub fn all() -> Result<[Bulk; 6], Box<dyn std::error::Error>> {
        Ok([
            Bulk::admit()?,
            Bulk::assign()?,
            Bulk::share()?,
            Bulk::vacate()?,
            Bulk::release()?,
            Bulk::release_shared()?,
        ])
    }

    fn new(name: &str, timed: Phase, shares: bool) -> Result<Bulk, Box<dyn std::error::Error>> {
        let (mut scheduler, _) = Config::new(REQUESTS * PER_REQUEST).build()?;
        let each = |at| blocks(at * PER_REQUEST, PER_REQUEST);
        let blocks: Vec<_> = (0..REQUESTS).map(each).collect();
        if shares {
            let owner = scheduler.admit("owner")?;
            for blocks in &blocks {
                scheduler.assign(owner, GROUP, blocks)?;
            }
        }
        let labels = (0..REQUESTS).map(|at| format!("request-{at}")).collect();
        let mut bulk = Bulk {
            name: name.to_owned(),
            timed,
            scheduler,
            labels,
            keys: Vec::new(),
            blocks,
            shares,
        };
        // Once through everything, with every error told.
        for phase in [Phase::Admit, Phase::Fill, Phase::Vacate, Phase::Release] {
            bulk.go(phase)?;
        }
        Ok(bulk)
    }

    #[inline(always)]
    fn go(&mut self, phase: Phase) -> Fallible {
        let Bulk { scheduler, labels, keys, blocks, .. } = self;
        match phase {
            Phase::Admit => {
                for label in labels.iter() {
                    keys.push(scheduler.admit(label)?);
                }
            }
            Phase::Fill if self.shares => {
                for (&key, blocks) in keys.iter().zip(blocks) {
                    scheduler.share(key, GROUP, blocks)?;
                }
            }
            Phase::Fill => {
                for (&key, blocks) in keys.iter().zip(blocks) {
                    scheduler.assign(key, GROUP, blocks)?;
                }
            }
            Phase::Vacate => {
                for &key in keys.iter() {
                    let _ = black_box(scheduler.vacate(key, GROUP, 0..PER_REQUEST)?);
                }
            }
            Phase::Release => {
                for key in keys.drain(..) {
                    let _ = black_box(scheduler.release(key)?);
                }
            }
        }
        Ok(())
    }

    fn go_on(&mut self, phases: &[Phase]) {
        for &phase in phases {
            // A refusal here would have been one in `new`.
            let _ = self.go(phase);
        }
        self.scheduler.publish();
    }
}

impl Operation for Bulk {
    fn name(&self) -> &str {
        &self.name
    }

    fn calls(&self) -> u32 {
        if self.timed == Phase::Admit { REQUESTS } else { REQUESTS * PER_REQUEST }
    }

    fn prepare(&mut self) {
        match self.timed {
            Phase::Admit => {}
            Phase::Fill => self.go_on(&[Phase::Admit]),
            Phase::Vacate | Phase::Release => self.go_on(&[Phase::Admit, Phase::Fill]),
        }
    }

    fn run(&mut self) {
        let _ = self.go(self.timed);
    }

    fn restore(&mut self) {
        let _ = self.go(Phase::Release);
        self.scheduler.publish();
    }
}

/// A table of `len` blocks, and one more request's worth of ids that are free.
fn table(len: u32) -> Result<(Scheduler, RequestKey), Box<dyn std::error::Error>> {
    let (mut scheduler, _) = Config::new(len).build()?;
    let key = scheduler.admit("table")?;
    scheduler.assign(key, GROUP, &blocks(0, len))?;
    scheduler.publish();
    Ok((scheduler, key))
}

/// Rolls the last 16 positions of a table of `len` blocks back, appends as many, publishes.
///
/// # Errors
/// None that a correct index gives.
pub fn truncate_regrow(len: u32) -> Result<Box<dyn Operation>, Box<dyn std::error::Error>> {
    let (mut scheduler, key) = table(len)?;
    let kept = len - 16;
    let again = blocks(kept, 16);
    let mut once = move || -> Result<(), Error> {
        let _ = black_box(scheduler.truncate(key, GROUP, kept)?);
        scheduler.assign(key, GROUP, &again)?;
        scheduler.publish();
        Ok(())
    };
    once()?;
    Ok(Box::new(Repeated::new(format!("truncate_regrow/{len}"), move || {
        let _ = once();
    })))
}

/// Lets a window of `len` blocks slide by one: vacates the first, appends one, publishes.
///
/// # Errors
/// None that a correct index gives.
pub fn slide(len: u32) -> Result<Box<dyn Operation>, Box<dyn std::error::Error>> {
    let (mut scheduler, mut key) = table(len)?;
    let all = blocks(0, len);
    let mut front = 0;
    let mut once = move || -> Result<(), Error> {
        if front == SLIDING {
            // Before the table is as long as any can be.
            let _ = black_box(scheduler.release(key)?);
            key = scheduler.admit("table")?;
            scheduler.assign(key, GROUP, &all)?;
            front = 0;
        }
        let block = scheduler.vacate(key, GROUP, front..front + 1)?.freed().to_vec();
        scheduler.assign(key, GROUP, &block)?;
        scheduler.publish();
        front += 1;
        Ok(())
    };
    once()?;
    Ok(Box::new(Repeated::new(format!("slide/{len}"), move || {
        let _ = once();
    })))
}

/// How far a window slides before its table is begun anew.
const SLIDING: u32 = 1 << 22;

/// An exact hold of 64 blocks, given back and taken in.
///
/// # Errors
/// None that a correct index gives.
pub fn hold() -> Result<Box<dyn Operation>, Box<dyn std::error::Error>> {
    let (mut scheduler, _key) = table(64)?;
    let all = blocks(0, 64);
    drop(scheduler.hold(&all)?);
    Ok(Box::new(Repeated::new("hold/64", move || {
        drop(black_box(scheduler.hold(&all)));
        scheduler.publish();
    })))
}
