//! What readers do.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use tenure::{GroupId, Groups, Index, Pin, Refused, SaveRequest, Scheduler};

use super::blocks;
use crate::rounds::{Operation, Repeated};

/// The table lengths over which a pin is measured.
pub const PIN_BLOCKS: [u32; 5] = [1, 64, 512, 4096, 100_000];

/// Requests in a batch, and blocks of each.
const BATCH: u32 = 64;
const BATCH_BLOCKS: u32 = 16;

/// An index with one table of each length, and a batch of small ones.
pub struct ReadSide {
    /// Lives as long as any operation.
    scheduler: Rc<RefCell<Scheduler>>,
    index: Index,
    plans: Vec<(u32, SaveRequest)>,
    batch: Vec<SaveRequest>,
}

impl ReadSide {
    /// Builds and publishes the tables.
    ///
    /// # Errors
    /// None that a correct index gives.
    pub fn new() -> Result<ReadSide, Box<dyn std::error::Error>> {
        let total = PIN_BLOCKS.iter().sum::<u32>() + BATCH * BATCH_BLOCKS;
        let (mut scheduler, index) = tenure::Config::new(total).build()?;
        let mut next = 0;
        let mut lengths = PIN_BLOCKS.to_vec();
        lengths.resize(PIN_BLOCKS.len() + BATCH as usize, BATCH_BLOCKS);
        let mut requests = Vec::new();
        for (at, &count) in lengths.iter().enumerate() {
            let key = scheduler.admit(&format!("r{at}"))?;
            scheduler.assign(key, GroupId(0), &blocks(next, count))?;
            next += count;
            requests.push((count, key));
        }
        scheduler.publish();
        let mut plans = Vec::new();
        for (count, key) in requests {
            plans.push((count, index.plan(key, 0..u64::from(count) * 16, Groups::ALL)?));
        }
        let batch = plans.split_off(PIN_BLOCKS.len()).into_iter().map(|(_, plan)| plan).collect();
        Ok(ReadSide { scheduler: Rc::new(RefCell::new(scheduler)), index, plans, batch })
    }

    fn repeated(
        &self,
        name: impl Into<String>,
        mut call: impl FnMut(&Index) + 'static,
    ) -> Box<dyn Operation> {
        let (index, scheduler) = (self.index.clone(), self.scheduler.clone());
        Box::new(Repeated::new(name, move || {
            let _alive = &scheduler;
            call(&index);
        }))
    }

    /// Pin and unpin, over each table length in turn.
    pub fn pin_unpin(&self) -> Vec<Box<dyn Operation>> {
        let each = |&(count, plan): &(u32, SaveRequest)| {
            self.repeated(format!("pin_unpin/{count}"), move |index| {
                let pin = index.pin(black_box(&plan));
                black_box(&pin);
            })
        };
        self.plans.iter().map(each).collect()
    }

    /// Pin and unpin of the batch's requests one by one, each time another; a call is one pin.
    pub fn pin_in_turn(&self) -> Box<dyn Operation> {
        let (batch, mut at) = (self.batch.clone(), 0);
        self.repeated("pin_in_turn", move |index| {
            let pin = index.pin(black_box(&batch[at]));
            black_box(&pin);
            at = (at + 1) % batch.len();
        })
    }

    /// Pin and unpin of many requests under one guard; a call is one pin.
    pub fn pin_batch(&self) -> Box<dyn Operation> {
        let (index, scheduler, batch) =
            (self.index.clone(), self.scheduler.clone(), self.batch.clone());
        let mut pins: Vec<Result<Pin, Refused>> = Vec::with_capacity(batch.len());
        let call = move || {
            let _alive = &scheduler;
            index.pin_batch(black_box(&batch), &mut pins);
            black_box(&pins);
            pins.clear();
        };
        Box::new(Repeated::new("pin_batch", call).of(BATCH))
    }

    fn plan_of_64(&self) -> SaveRequest {
        self.plans[1].1
    }

    /// A verdict that holds nothing.
    pub fn check(&self) -> Box<dyn Operation> {
        let plan = self.plan_of_64();
        self.repeated("check", move |index| {
            black_box(index.check(black_box(&plan)).is_ok());
        })
    }

    /// A plan at the published epoch.
    pub fn plan(&self) -> Box<dyn Operation> {
        let plan = self.plan_of_64();
        let (key, tokens) = (plan.key(), plan.tokens());
        self.repeated("plan", move |index| {
            let plan = index.plan(black_box(key), tokens.clone(), Groups::ALL);
            black_box(&plan);
        })
    }

    /// A copy of a published table of 64 blocks.
    pub fn view(&self) -> Box<dyn Operation> {
        let key = self.plan_of_64().key();
        self.repeated("view/64", move |index| {
            let _ = black_box(index.view(black_box(key)));
        })
    }

    /// The whole picture, when another reader has built it already.
    pub fn snapshot_cached(&self) -> Box<dyn Operation> {
        self.repeated("snapshot/cached", |index| {
            black_box(index.snapshot());
        })
    }

    /// The whole picture, built anew after each publish.
    pub fn snapshot_built(&self) -> Box<dyn Operation> {
        let scheduler = self.scheduler.clone();
        self.repeated("snapshot/built", move |index| {
            scheduler.borrow_mut().publish();
            black_box(index.snapshot());
        })
    }
}
