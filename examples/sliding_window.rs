//! A hybrid model: full attention in one group, a sliding window in another, with blocks of unlike
//! size. The window lets go of its front; a save of what both still have goes on.
//!
//! ```console
//! $ cargo run --release --example sliding_window
//! ```

use std::error::Error;

use tenure::{BlockId, Config, GroupId, Groups, PlanError, Stale};

const FULL: GroupId = GroupId(0);
const WINDOW: GroupId = GroupId(1);
/// Tokens in a block of each group, and in the window.
const SIZES: [u32; 2] = [32, 16];
const WINDOW_TOKENS: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut scheduler, index) = Config::new(64).block_sizes(SIZES).build()?;
    let mut free: Vec<BlockId> = (0..64).rev().map(BlockId).collect();
    let take = |count: usize, free: &mut Vec<BlockId>| free.split_off(free.len() - count);

    let request = scheduler.admit("long")?;
    scheduler.assign(request, FULL, &take(1, &mut free))?;
    scheduler.assign(request, WINDOW, &take(2, &mut free))?;
    scheduler.publish();

    // A save of the first 32 tokens is read while the window moves on.
    let early = index.plan(request, 0..32, Groups::ALL)?;
    let pin = index.pin(&early)?;

    for tokens in (64..=256_u64).step_by(32) {
        scheduler.assign(request, FULL, &take(1, &mut free))?;
        scheduler.assign(request, WINDOW, &take(2, &mut free))?;
        // Positions that no token of the window needs any more become holes.
        let front = tokens.saturating_sub(WINDOW_TOKENS) / u64::from(SIZES[1]);
        let slid = scheduler.vacate(request, WINDOW, 0..front as u32)?;
        free.extend(slid.freed());
        println!("{tokens} tokens: {} freed, {} held", slid.freed().len(), slid.held());
        scheduler.publish();
    }

    // The early plan meets holes in the window, but not in the group that keeps everything.
    assert!(matches!(index.check(&early), Err(Stale::Hole { group: WINDOW, position: 0 })));
    index.plan(request, 0..32, Groups::only(FULL))?;
    index.plan(request, 192..256, Groups::ALL)?;
    let over_holes = index.plan(request, 0..256, Groups::ALL);
    assert!(matches!(over_holes, Err(PlanError::Stale(Stale::Hole { group: WINDOW, .. }))));

    // The pin still has its blocks; they come back when it ends.
    println!("the early pin still reads {:?}", pin.blocks());
    drop(pin);
    println!("given back: {:?}", scheduler.reclaim());
    let released = scheduler.release(request)?;
    println!("released: {} freed, {} held", released.freed().len(), released.held());
    assert_eq!(scheduler.counts().free, 64);
    Ok(())
}
