//! An async engine on tokio: steps are in flight while the scheduler goes on, and saves run as tasks
//! that hold their pins across await points.
//!
//! ```console
//! $ cargo run --release --example async_engine
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;

use tenure::{BlockId, Config, GroupId, Groups, Index, Refused, SaveRequest, StepId};
use tokio::sync::mpsc;
use tokio::time::sleep;

const GROUP: GroupId = GroupId(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut scheduler, index) = Config::new(64).build()?;
    let (ended, mut device) = mpsc::unbounded_channel::<StepId>();
    let mut saves = tokio::task::JoinSet::new();
    let mut free: VecDeque<BlockId> = (0..64).map(BlockId).collect();
    let mut running = VecDeque::new();

    for step in 0..100 {
        // What the device and the saves have given back. Nothing here waits for either.
        while let Ok(step) = device.try_recv() {
            free.extend(scheduler.end_step(step)?.freed());
        }
        free.extend(scheduler.reclaim());

        if free.len() >= 4 {
            let request = scheduler.admit(&format!("request-{step}"))?;
            scheduler.assign(request, GROUP, &free.drain(..4).collect::<Vec<_>>())?;
            running.push_back(request);
        }
        scheduler.publish();

        // The step goes to the device and may write its blocks until it has ended, even those of
        // a request that is released meanwhile.
        let in_flight = scheduler.begin_step();
        let ended = ended.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(2)).await;
            let _ = ended.send(in_flight);
        });

        if let Some(&request) = running.back() {
            saves.spawn(save(index.clone(), index.plan(request, 0..64, Groups::ALL)?));
        }
        if running.len() > 2
            && let Some(request) = running.pop_front()
        {
            let released = scheduler.release(request)?;
            assert!(released.freed().is_empty(), "a step in flight may still write them");
        }
        sleep(Duration::from_millis(1)).await;
    }

    let (mut stored, mut stale) = (0, 0);
    while let Some(result) = saves.join_next().await {
        if result? { stored += 1 } else { stale += 1 }
    }
    drop(ended);
    while let Some(step) = device.recv().await {
        let _ = scheduler.end_step(step)?;
    }
    for request in running {
        let _ = scheduler.release(request)?;
    }
    println!("{stored} saves stored, {stale} refused as stale");
    assert_eq!(scheduler.counts().free, 64);
    Ok(())
}

/// Stores what it can pin. The pin is `Send` and `'static`, so it lives across await points.
async fn save(index: Index, plan: SaveRequest) -> bool {
    sleep(Duration::from_millis(u64::from(plan.key().to_bits() as u8 % 12))).await;
    match index.pin(&plan) {
        Ok(pin) => {
            sleep(Duration::from_millis(3)).await; // a transfer
            !pin.blocks().is_empty()
        }
        Err(Refused::Stale(_) | Refused::Budget(_)) => false,
    }
}
