//! Runs operations on the index and on the model, and compares every answer.
//!
//! After each operation of a reader all that readers can see is compared; after each call of the
//! scheduler all that the scheduler can see as well. The scheduler is left alone after a reader's
//! operation, since each of its calls takes in what pins have given back.

mod calls;
mod choices;
mod comparing;

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use proptest::test_runner::TestCaseError;

use tenure::{
    BlockId, Groups, Index, IndexId, Kind, Pin, RequestKey, SaveRequest, Scheduler, StepId,
};

use super::ops::{LABELS, Op, Place, Reach, Sequence, Who};
use super::shape::Shape;
use super::{Model, PinId};
use calls::step_never_begun;
use choices::{cyclic, span_within};

/// `Err` where the index and the model differ, with the calls that led there.
pub type Outcome = Result<(), TestCaseError>;

/// As many requests as are kept to be judged again and again.
const REQUESTS: usize = 20;

/// Runs the operations, and then gives everything back or drops the scheduler first.
pub fn run(shape: Shape, ops: &Sequence, scheduler_first: bool) -> Outcome {
    let log = Log::default();
    let run = AssertUnwindSafe(|| {
        let mut driver = Driver::new(shape, log.clone());
        ops.0.iter().try_for_each(|op| driver.run(op))?;
        if scheduler_first { driver.drop_scheduler_first() } else { driver.give_all_back() }
    });
    // A panic is told with the calls that led there, like any other difference.
    catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        log.fail(format_args!("a panic: {}", text.as_deref().unwrap_or("no text")))
    })
}

/// The calls so far, in words.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<String>>);

impl Log {
    fn add(&self, call: fmt::Arguments<'_>) {
        writeln!(self.0.borrow_mut(), "{call}").expect("a string takes everything");
    }

    fn fail(&self, how: fmt::Arguments<'_>) -> Outcome {
        Err(TestCaseError::fail(format!("{how}\nafter these calls:\n{}", self.0.borrow())))
    }
}

struct Driver {
    scheduler: Scheduler,
    index: Index,
    model: Model,
    requests: Vec<SaveRequest>,
    pins: Vec<(Pin, PinId)>,
    ended_steps: Vec<StepId>,
    log: Log,
}

impl Driver {
    fn new(shape: Shape, log: Log) -> Driver {
        let (scheduler, index) = shape.config().build().expect("a shape that can be built");
        log.add(format_args!("{shape:?}"));
        let model = Model::new(shape, index.id());
        let (requests, pins, ended_steps) = (Vec::new(), Vec::new(), Vec::new());
        Driver { scheduler, index, model, requests, pins, ended_steps, log }
    }

    /// Runs one operation on both sides.
    fn run(&mut self, op: &Op) -> Outcome {
        if matches!(op.who(), Some(Who::Live(_))) && self.model.live().next().is_none() {
            self.admit(LABELS[0])?;
        }
        if self.run_scheduler(op)? {
            self.compare_scheduler()?;
        } else {
            self.run_reader(op)?;
        }
        self.compare_readers()
    }

    /// Whether it was an operation of the scheduler.
    fn run_scheduler(&mut self, op: &Op) -> Result<bool, TestCaseError> {
        match op {
            Op::Admit { label } => self.admit(LABELS[*label as usize % LABELS.len()]),
            Op::Grow { who, blocks } => {
                let key = self.key(*who);
                self.grow(key, *blocks)
            }
            Op::Assign { who, group, blocks } => {
                let (key, group) = self.table(*who, *group);
                self.assign(key, group, &self.blocks(blocks))
            }
            Op::Share { who, group, blocks } => {
                let (key, group) = self.table(*who, *group);
                self.share(key, group, &self.blocks(blocks))
            }
            Op::ShareOften { who, group, block, times } => {
                let (key, group) = self.table(*who, *group);
                self.share(key, group, &vec![self.block(*block); usize::from(*times)])
            }
            Op::Commit { who, tokens } => {
                let key = self.key(*who);
                self.commit(key, self.reach(key, *tokens))
            }
            Op::Vacate { who, group, from, len } => {
                let (key, group) = self.table(*who, *group);
                let table = self.len(key, group);
                let start = self.place((key, group), *from, table);
                let end = start.saturating_add_signed(i32::from(*len));
                let raw = matches!(from, Place::Raw(_));
                self.vacate(key, group, start..if raw { end } else { end.min(table) })
            }
            Op::Truncate { who, group, len } => {
                let (key, group) = self.table(*who, *group);
                let longest = self.len(key, group) + 1;
                self.truncate(key, group, self.place((key, group), *len, longest))
            }
            Op::Replace { who, group, position, block } => {
                let (key, group) = self.table(*who, *group);
                let len = self.len(key, group);
                let position = self.place((key, group), *position, len);
                self.replace(key, group, position, self.block(*block))
            }
            Op::Preempt { who } => self.preempt(self.key(*who)),
            Op::Release { who } => self.release(self.key(*who)),
            Op::Invalidate { blocks } => self.invalidate(&self.blocks(blocks)),
            Op::BeginStep => self.begin_step(),
            Op::EndStep { step } => {
                let open: Vec<StepId> = self.model.open_steps().collect();
                match cyclic(&open, *step) {
                    Some(step) => self.end_step(step),
                    None => self.begin_step(),
                }
            }
            Op::EndStepThatIsNotOpen => match self.ended_steps.last() {
                Some(&step) => self.end_step(step),
                None => self.end_step(step_never_begun()),
            },
            Op::Publish => self.publish(),
            Op::Reclaim => self.reclaim(),
            Op::Hold { blocks } => self.hold(&self.blocks(blocks)),
            Op::Reset => self.reset(),
            Op::ResetForce => self.reset_force(),
            Op::BeginDrain => self.begin_drain(),
            _ => return Ok(false),
        }
        .map(|()| true)
    }

    fn grow(&mut self, key: RequestKey, blocks: u8) -> Outcome {
        let shape = self.model.shape.clone();
        let smallest = shape.groups().map(|group| shape.block_size(group)).min();
        let more = u64::from(blocks) * smallest.expect("at least one group");
        let covered = self.reach(key, Reach::All) + more;
        for group in shape.groups() {
            let len = covered.div_ceil(shape.block_size(group)) as u32;
            let missing = len.saturating_sub(self.len(key, group)) as usize;
            let free: Vec<BlockId> = self.model.free_blocks().into_iter().take(missing).collect();
            self.assign(key, group, &free)?;
        }
        self.commit(key, self.reach(key, Reach::All))?;
        self.publish()
    }

    fn run_reader(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Plan { who, tokens, groups, load } => {
                let (key, groups) = (self.key(*who), self.groups(*groups));
                let kind = if *load { Kind::Load } else { Kind::Save };
                self.plan(key, self.span(key, groups, *tokens), groups, kind)
            }
            Op::Forge { who, tokens, groups, kind, epoch, foreign } => {
                // As a decoder finds it: a request names its groups one by one.
                let (key, groups) = (self.key(*who), self.groups(*groups));
                let groups = match groups {
                    Groups::ALL => self.model.shape.groups().collect(),
                    some => some,
                };
                let kind = [Kind::Save, Kind::Save, Kind::Load, Kind::Hold][*kind as usize % 4];
                let id = IndexId(self.index.id().0 ^ u64::from(*foreign));
                let (tokens, epoch) = (self.span(key, groups, *tokens), self.epoch(*epoch));
                if let Ok(request) = SaveRequest::from_parts(id, key, epoch, tokens, groups, kind) {
                    self.log.add(format_args!("forge {request:?}"));
                    self.keep(request);
                }
                Ok(())
            }
            Op::Replan { request } => match self.request(*request) {
                Some(request) => self.replan(request),
                None => Ok(()),
            },
            Op::Pin { request } => match self.request(*request) {
                Some(request) => self.pin(request),
                None => Ok(()),
            },
            Op::PinLoad { who, tokens, groups } => {
                let (key, groups) = (self.key(*who), self.groups(*groups));
                self.pin_load(key, self.span(key, groups, *tokens), groups)
            }
            Op::PinBatch { requests } => {
                let chosen: Vec<_> = requests.iter().filter_map(|&r| self.request(r)).collect();
                self.pin_batch(&chosen)
            }
            Op::Narrow { pin, tokens } => match self.pin_at(*pin) {
                Some(at) => {
                    let within = self.pins[at].0.tokens();
                    self.narrow(at, span_within(*tokens, within))
                }
                None => Ok(()),
            },
            Op::Drop { pin } => match self.pin_at(*pin) {
                Some(at) => self.unpin(at),
                None => Ok(()),
            },
            other => unreachable!("{other:?} is the scheduler's"),
        }
    }
}

/// The end of a sequence.
impl Driver {
    /// Everything is given back, and every block is free again.
    fn give_all_back(mut self) -> Outcome {
        while !self.pins.is_empty() {
            self.unpin(self.pins.len() / 2)?;
        }
        while let Some(step) = self.model.open_steps().last() {
            self.end_step(step)?;
        }
        self.reclaim()?;
        self.reset_force()?;
        self.compare_scheduler()?;
        let pool = self.model.shape.pool().count() as u32;
        let free = self.scheduler.counts().free;
        self.same("free at the end", free, pool)
    }

    /// The scheduler is gone: pins list what they listed, and none is taken any more.
    fn drop_scheduler_first(self) -> Outcome {
        let Driver { scheduler, index, model, requests, mut pins, log, .. } = self;
        log.add(format_args!("the scheduler is dropped"));
        drop(scheduler);
        for request in &requests {
            if index.pin(request).is_ok() || index.check(request).is_ok() {
                return log.fail(format_args!("still pinned: {request:?}"));
            }
        }
        let kept = pins.split_off(pins.len() / 2);
        drop(pins);
        drop(index);
        for (pin, id) in &kept {
            if pin.blocks() != model.pin_out(*id).blocks() {
                return log.fail(format_args!("{id:?} lists {:?}", pin.blocks()));
            }
        }
        Ok(())
    }
}
