//! Every operation of the index, ready to be timed.

mod publish;
mod read;
mod write;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::BlockId;

pub use publish::LIVE;
pub use read::PIN_BLOCKS;
pub use write::TABLES;

use publish::publish;
use read::ReadSide;
use write::{Bulk, hold, slide, truncate_regrow};

use crate::rounds::{Operation, Repeated};

/// The unit of all ratios: one uncontended atomic addition.
pub fn rmw() -> Box<dyn Operation> {
    let word = AtomicU64::new(0);
    Box::new(Repeated::new("rmw", move || {
        black_box(word.fetch_add(1, Ordering::Relaxed));
    }))
}

/// All operations, the unit first. Those that are measured at several sizes are called
/// `name/size`.
///
/// # Errors
/// None that a correct index gives, here and below.
pub fn all() -> Result<Vec<Box<dyn Operation>>, Box<dyn std::error::Error>> {
    let read = ReadSide::new()?;
    let mut all = readers(&read);
    all.extend([read.view(), read.snapshot_cached(), read.snapshot_built()]);
    for live in LIVE {
        all.push(publish(live)?);
    }
    for bulk in Bulk::all()? {
        all.push(Box::new(bulk));
    }
    for length in TABLES {
        all.extend([truncate_regrow(length)?, slide(length)?]);
    }
    all.push(hold()?);
    Ok(all)
}

/// The unit, and what readers do while the scheduler waits for nobody: pins, checks, plans; and a
/// publish.
pub fn hot() -> Result<Vec<Box<dyn Operation>>, Box<dyn std::error::Error>> {
    let mut hot = readers(&ReadSide::new()?);
    for live in LIVE {
        hot.push(publish(live)?);
    }
    Ok(hot)
}

fn readers(read: &ReadSide) -> Vec<Box<dyn Operation>> {
    let mut all = vec![rmw()];
    all.extend(read.pin_unpin());
    all.extend([read.pin_in_turn(), read.pin_batch(), read.check(), read.plan()]);
    all
}

/// The block ids from `first` on.
fn blocks(first: u32, count: u32) -> Vec<BlockId> {
    (first..first + count).map(BlockId).collect()
}
