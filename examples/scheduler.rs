//! A scheduler loop with one saver thread.
//!
//! The scheduler hands out blocks, publishes each step, and ends requests whenever it likes. The
//! saver gets plans through a channel, some steps later, and pins before it reads.
//!
//! ```console
//! $ cargo run --release --example scheduler
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tenure::{BlockId, Config, GroupId, Groups, Refused, RequestKey, SaveRequest};

const BLOCKS: u32 = 64;
const BLOCK_SIZE: u64 = 16;
const GROUP: GroupId = GroupId(0);

struct Running {
    key: RequestKey,
    /// Steps until the request has all it wants.
    steps_left: u32,
    tokens: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut scheduler, index) = Config::new(BLOCKS).build()?;
    let mut free: VecDeque<BlockId> = (0..BLOCKS).map(BlockId).collect();
    let mut running: Vec<Running> = Vec::new();

    let (plans, queue) = mpsc::channel::<SaveRequest>();
    let readers = index.clone();
    let saver = thread::spawn(move || save_all(&queue, &readers));

    let mut admitted = 0;
    for step in 0..2_000_u32 {
        // Blocks that the saver has given back since the last step.
        free.extend(scheduler.reclaim());

        // A new request every third step, with two blocks of prompt.
        if step % 3 == 0 && free.len() >= 2 {
            let key = scheduler.admit(&format!("request-{admitted}"))?;
            let prompt: Vec<BlockId> = free.drain(..2).collect();
            scheduler.assign(key, GROUP, &prompt)?;
            running.push(Running { key, steps_left: 4 + admitted % 7, tokens: 2 * BLOCK_SIZE });
            admitted += 1;
        }

        // Everyone else gets a block more; who finds none is preempted and starts again.
        for request in &mut running {
            if let Some(block) = free.pop_front() {
                scheduler.assign(request.key, GROUP, &[block])?;
                request.tokens += BLOCK_SIZE;
                request.steps_left = request.steps_left.saturating_sub(1);
            } else {
                let preempted = scheduler.preempt(request.key)?;
                free.extend(preempted.released.freed());
                *request = Running { key: preempted.successor, steps_left: 4, tokens: 0 };
            }
        }

        // The whole step becomes visible at once; then plan what is to be saved.
        scheduler.publish();
        for request in running.iter().filter(|request| request.tokens > 0) {
            plans.send(index.plan(request.key, 0..request.tokens, Groups::ALL)?)?;
        }

        // Who is done goes at once, whether its save was read or not.
        for request in running.extract_if(.., |request| request.steps_left == 0) {
            free.extend(scheduler.release(request.key)?.freed());
        }
        if step % 50 == 0 {
            thread::sleep(Duration::from_millis(1)); // a device would be busy now
        }
    }

    // Shut down: no new pins, wait for those that are out, and account for every block.
    scheduler.begin_drain();
    drop(plans);
    let (saved, stale) = saver.join().map_err(|_| "the saver panicked")?;
    for request in running {
        free.extend(scheduler.release(request.key)?.freed());
    }
    assert!(scheduler.drained());
    free.extend(scheduler.reclaim());
    scheduler.audit()?;
    println!("{admitted} requests, {saved} saves read, {stale} refused as stale");
    println!("{} of {BLOCKS} blocks are free at the end", free.len());
    Ok(())
}

/// Reads what it can pin; what has changed hands meanwhile is refused, which costs nothing.
fn save_all(queue: &mpsc::Receiver<SaveRequest>, index: &tenure::Index) -> (u64, u64) {
    let (mut saved, mut stale) = (0, 0);
    for plan in queue {
        match index.pin(&plan) {
            Ok(pin) => {
                // The blocks are this plan's own until the pin is dropped.
                saved += u64::from(!pin.blocks().is_empty());
            }
            Err(Refused::Stale(_)) => stale += 1,
            Err(Refused::Budget(_)) => {} // valid, and could be tried again
        }
    }
    (saved, stale)
}
