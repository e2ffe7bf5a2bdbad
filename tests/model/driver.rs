//! Runs operations on the index and on the model, and compares every answer.
//!
//! After each operation of a reader all that readers can see is compared; after each call of the
//! scheduler all that the scheduler can see as well. The scheduler is left alone after a reader's
//! operation, since each of its calls takes in what pins have given back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use proptest::test_runner::TestCaseError;

use tenure::{
    BlockId, BlockState, Epoch, GroupId, Groups, Index, IndexId, Kind, Pin, PinLoadError, Refused,
    Released, RequestKey, SaveRequest, Scheduler, StepId, TableView,
};

use super::ops::{
    LABELS, OfBlock, OfEpoch, OfGroup, OfGroups, Op, Place, Reach, Sequence, Span, Who,
};
use super::shape::Shape;
use super::{GivenUp, Model, PinId, Readers, Shown};

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
                let start = place(*from, table);
                let end = start.saturating_add_signed(i32::from(*len));
                let raw = matches!(from, Place::Raw(_));
                self.vacate(key, group, start..if raw { end } else { end.min(table) })
            }
            Op::Truncate { who, group, len } => {
                let (key, group) = self.table(*who, *group);
                self.truncate(key, group, place(*len, self.len(key, group) + 1))
            }
            Op::Replace { who, group, position, block } => {
                let (key, group) = self.table(*who, *group);
                let position = place(*position, self.len(key, group));
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
                if std::env::var_os("NO_ODD").is_some() && (kind == Kind::Hold || groups.is_empty())
                {
                    return Ok(());
                } // TEMP
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

/// The calls, made on both sides.
impl Driver {
    fn admit(&mut self, label: &str) -> Outcome {
        let real = self.scheduler.admit(label);
        // Where the index refuses there is no key, and the model is not to admit either.
        let issued = *real.as_ref().unwrap_or(&never_issued());
        let model = self.model.admit(label, issued);
        self.compare(format!("admit {label:?}"), real, model)
    }

    fn assign(&mut self, key: RequestKey, group: GroupId, blocks: &[BlockId]) -> Outcome {
        let real = self.scheduler.assign(key, group, blocks);
        let model = self.model.assign(key, group, blocks);
        self.compare(format!("assign {key} {group} {blocks:?}"), real, model)
    }

    fn share(&mut self, key: RequestKey, group: GroupId, blocks: &[BlockId]) -> Outcome {
        let real = self.scheduler.share(key, group, blocks);
        let model = self.model.share(key, group, blocks);
        self.compare(format!("share {key} {group} {blocks:?}"), real, model)
    }

    fn commit(&mut self, key: RequestKey, tokens: u64) -> Outcome {
        let real = self.scheduler.commit(key, tokens);
        let model = self.model.commit(key, tokens);
        self.compare(format!("commit {key} {tokens}"), real, model)
    }

    fn vacate(&mut self, key: RequestKey, group: GroupId, positions: Range<u32>) -> Outcome {
        let call = format!("vacate {key} {group} {positions:?}");
        let real = self.scheduler.vacate(key, group, positions.clone()).map(given_up);
        let model = self.model.vacate(key, group, positions);
        self.compare(call, real, model)
    }

    fn truncate(&mut self, key: RequestKey, group: GroupId, len: u32) -> Outcome {
        let real = self.scheduler.truncate(key, group, len).map(given_up);
        let model = self.model.truncate(key, group, len);
        self.compare(format!("truncate {key} {group} {len}"), real, model)
    }

    fn replace(
        &mut self,
        key: RequestKey,
        group: GroupId,
        position: u32,
        block: BlockId,
    ) -> Outcome {
        let real = self.scheduler.replace(key, group, position, block).map(given_up);
        let model = self.model.replace(key, group, position, block);
        self.compare(format!("replace {key} {group} {position} {block}"), real, model)
    }

    fn preempt(&mut self, key: RequestKey) -> Outcome {
        let real = self.scheduler.preempt(key).map(|p| (p.successor, given_up(p.released)));
        let issued = real.as_ref().map_or(never_issued(), |(successor, _)| *successor);
        let model = self.model.preempt(key, issued);
        self.compare(format!("preempt {key}"), real, model)
    }

    fn release(&mut self, key: RequestKey) -> Outcome {
        let real = self.scheduler.release(key).map(given_up);
        let model = self.model.release(key);
        self.compare(format!("release {key}"), real, model)
    }

    fn invalidate(&mut self, blocks: &[BlockId]) -> Outcome {
        let real = self.scheduler.invalidate(blocks);
        let model = self.model.invalidate(blocks);
        self.compare(format!("invalidate {blocks:?}"), real, model)
    }

    fn begin_step(&mut self) -> Outcome {
        let step = self.scheduler.begin_step();
        let known = self.model.open_steps().chain(self.ended_steps.iter().copied());
        let new = known.into_iter().all(|other| other != step);
        self.model.begin_step(step);
        self.compare(format!("begin_step -> {step}, new"), new, true)
    }

    fn end_step(&mut self, step: StepId) -> Outcome {
        let real = self.scheduler.end_step(step).map(given_up);
        let model = self.model.end_step(step);
        self.ended_steps.push(step);
        self.compare(format!("end_step {step}"), real, model)
    }

    fn publish(&mut self) -> Outcome {
        let (real, model) = (self.scheduler.publish(), self.model.publish());
        self.compare("publish", real, model)
    }

    fn reclaim(&mut self) -> Outcome {
        let mut real = self.scheduler.reclaim().to_vec();
        real.sort();
        let model = self.model.reclaim();
        self.compare("reclaim", real, model)
    }

    fn hold(&mut self, blocks: &[BlockId]) -> Outcome {
        let real = self.scheduler.hold(blocks);
        let model = self.model.hold(blocks);
        self.compare_pin(format!("hold {blocks:?}"), real, model)
    }

    fn reset(&mut self) -> Outcome {
        let (real, model) = (self.scheduler.reset(), self.model.reset());
        self.compare("reset", real, model)
    }

    fn reset_force(&mut self) -> Outcome {
        let real = given_up(self.scheduler.reset_force());
        let model = self.model.reset_force();
        self.compare("reset_force", real, model)
    }

    fn begin_drain(&mut self) -> Outcome {
        self.scheduler.begin_drain();
        self.model.begin_drain();
        self.compare("begin_drain", (), ())
    }

    fn plan(&mut self, key: RequestKey, tokens: Range<u64>, groups: Groups, kind: Kind) -> Outcome {
        let call = format!("plan {key} {tokens:?} {groups:?} {kind:?}");
        let real = match kind {
            Kind::Load => self.index.plan_load(key, tokens.clone(), groups),
            _ => self.index.plan(key, tokens.clone(), groups),
        };
        let model = self.model.plan(key, tokens, groups, kind);
        self.compare(call, real, model)?;
        real.into_iter().for_each(|request| self.keep(request));
        Ok(())
    }

    fn replan(&mut self, request: SaveRequest) -> Outcome {
        let real = self.index.replan(&request);
        let model = self.model.replan(&request);
        self.compare(format!("replan {request:?}"), real, model)?;
        real.into_iter().for_each(|request| self.keep(request));
        Ok(())
    }

    fn pin(&mut self, request: SaveRequest) -> Outcome {
        let real = self.index.pin(&request);
        let model = self.model.pin(&request).map_err(Refused::Stale);
        self.compare_pin(format!("pin {request:?}"), real, model)
    }

    fn pin_load(&mut self, key: RequestKey, tokens: Range<u64>, groups: Groups) -> Outcome {
        let call = format!("pin_load {key} {tokens:?} {groups:?}");
        let real = self.index.pin_load(key, tokens.clone(), groups);
        let planned = self.model.plan(key, tokens, groups, Kind::Load);
        let model = planned.map_err(PinLoadError::Plan).and_then(|request| {
            self.model.pin(&request).map_err(|stale| Refused::Stale(stale).into())
        });
        self.compare_pin(call, real, model)
    }

    fn pin_batch(&mut self, requests: &[SaveRequest]) -> Outcome {
        let mut out = Vec::new();
        self.index.pin_batch(requests, &mut out);
        self.compare(format!("pin_batch of {}", requests.len()), out.len(), requests.len())?;
        for (request, real) in requests.iter().zip(out) {
            let model = self.model.pin(request).map_err(Refused::Stale);
            self.compare_pin(format!("  of it {request:?}"), real, model)?;
        }
        Ok(())
    }

    fn narrow(&mut self, at: usize, tokens: Range<u64>) -> Outcome {
        let (pin, id) = &mut self.pins[at];
        let id = *id;
        let real = pin.narrow(tokens.clone());
        let model = self.model.narrow(id, tokens.clone());
        self.compare(format!("narrow {id:?} {tokens:?}"), real, model)
    }

    fn unpin(&mut self, at: usize) -> Outcome {
        let (pin, id) = self.pins.remove(at);
        drop(pin);
        self.model.unpin(id);
        self.compare(format!("unpin {id:?}"), (), ())
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

/// What is compared.
impl Driver {
    fn compare<T>(&mut self, call: impl Into<String>, real: T, model: T) -> Outcome
    where
        T: PartialEq + Debug,
    {
        let call = call.into();
        self.log.add(format_args!("{call} -> {real:?}"));
        self.same(&call, real, model)
    }

    /// Like [`compare`](Driver::compare), but worth no word in the log.
    fn same<T: PartialEq + Debug>(&self, what: impl Debug, real: T, model: T) -> Outcome {
        if real == model {
            return Ok(());
        }
        self.log.fail(format_args!("{what:?}\n  index: {real:?}\n  model: {model:?}"))
    }

    fn compare_pin<E: PartialEq + Debug>(
        &mut self,
        call: impl Into<String>,
        real: Result<Pin, E>,
        model: Result<PinId, E>,
    ) -> Outcome {
        match (real, model) {
            (Ok(pin), Ok(id)) => {
                self.log.add(format_args!("{} -> {id:?}", call.into()));
                self.pins.push((pin, id));
                Ok(())
            }
            (real, model) => self.compare(call, real.map(|_| ()), model.map(|_| ())),
        }
    }

    fn compare_scheduler(&mut self) -> Outcome {
        let audit = self.scheduler.audit().map_err(|error| format!("{error:?}"));
        self.model.audit();
        self.same("audit", audit, Ok(()))?;
        let counts = self.scheduler.counts();
        self.same("counts", counts, self.model.counts())?;
        let stats = self.index.stats();
        let gauges = [stats.free, stats.owned, stats.held, stats.live];
        let live = self.model.live().count() as u64;
        let expected = [counts.free.into(), counts.owned.into(), counts.held.into(), live];
        self.same("gauges", gauges, expected)?;
        let pool = self.model.shape.pool().count() as u32;
        self.same("all blocks", counts.free + counts.owned + counts.held, pool)?;
        let past_the_pool = self.model.shape.blocks;
        for block in (0..=past_the_pool).map(BlockId) {
            let state = self.scheduler.block_state(block);
            self.same(("state", block), state, self.model.block_state(block))?;
            let owners = self.scheduler.owners(block);
            self.same(("owners", block), owners, self.model.owners(block))?;
        }
        let keys: Vec<_> = self.model.keys().chain([never_issued()]).collect();
        keys.into_iter().try_for_each(|key| self.compare_life(key))?;
        for label in LABELS {
            let key = self.scheduler.key_of(label);
            self.same(("key of", label), key, self.model.key_of(label))?;
        }
        let drained = self.scheduler.drained();
        let expected = self.model.drained();
        self.same("drained", drained, expected)?;
        self.same("epoch", self.scheduler.epoch(), self.model.epoch())
    }

    fn compare_life(&mut self, key: RequestKey) -> Outcome {
        let live = self.scheduler.is_live(key);
        self.same(("live", key), live, self.model.live().any(|life| life.key == key))?;
        let label = self.scheduler.label(key).map(Into::into);
        self.same(("label", key), label, self.model.label(key))?;
        let (pins, expected) = (self.scheduler.pins(key), self.model.pins(key));
        self.same(("pins", key), pins, expected)?;
        let reclaimable = self.scheduler.reclaimable_now(key);
        let expected = self.model.reclaimable_now(key);
        self.same(("reclaimable", key), reclaimable, expected)?;
        let past_the_groups = GroupId(self.model.shape.block_sizes.len() as u32);
        for group in self.model.shape.groups().chain([past_the_groups]) {
            let len = self.scheduler.len(key, group);
            self.same(("len", key, group), len, self.model.len(key, group))?;
            let committed = self.scheduler.committed(key, group);
            self.same(("committed", key, group), committed, self.model.committed(key, group))?;
        }
        Ok(())
    }

    fn compare_readers(&self) -> Outcome {
        self.same("epoch for readers", self.index.epoch(), self.model.epoch())?;
        self.same("draining", self.index.is_draining(), self.model.is_draining())?;
        let stats = self.index.stats();
        let readers = Readers { pins: stats.pins, refused: stats.refused };
        self.same("stats of readers", &readers, &self.model.readers)?;
        for request in &self.requests {
            let check = self.index.check(request);
            self.same(("check", request), check, self.model.check(request))?;
        }
        for key in self.model.keys().chain([never_issued()]) {
            let view = self.index.view(key).map(|view| self.shown(&view));
            self.same(("view", key), view, self.model.view(key))?;
        }
        let one_by_one = self.model.shape.groups().map(Groups::only);
        let sets: Vec<Groups> = one_by_one.chain([Groups::ALL, Groups::NONE]).collect();
        for (key, groups) in self.model.keys().flat_map(|key| sets.iter().map(move |&g| (key, g))) {
            let tokens = self.index.visible_tokens(key, groups);
            self.same(("visible", key, groups), tokens, self.model.visible_tokens(key, groups))?;
        }
        self.compare_snapshot()?;
        self.pins.iter().try_for_each(|(pin, id)| self.compare_listing(pin, *id))
    }

    fn compare_snapshot(&self) -> Outcome {
        let snapshot = self.index.snapshot();
        self.same("epoch of the snapshot", snapshot.epoch(), self.model.epoch())?;
        let picture = self.model.picture();
        let all = snapshot.iter().map(|view| (view.key, self.shown(view)));
        self.same("snapshot", &all.collect::<BTreeMap<_, _>>(), picture)?;
        self.same("len of the snapshot", snapshot.len(), picture.len())?;
        for (key, shown) in picture {
            let found = snapshot.by_label(&shown.label).map(|view| view.key);
            self.same(("by label", &shown.label), found, Some(*key))?;
        }
        for block in self.model.shape.pool() {
            let mut owners: Vec<_> = snapshot.owners(block).iter().map(|view| view.key).collect();
            owners.sort();
            let listing = picture
                .iter()
                .filter(|(_, shown)| shown.tables.iter().any(|table| table.contains(&Some(block))));
            let expected: Vec<_> = listing.map(|(key, _)| *key).collect();
            self.same(("owners in the snapshot", block), owners, expected)?;
        }
        Ok(())
    }

    fn compare_listing(&self, pin: &Pin, id: PinId) -> Outcome {
        let expected = self.model.pin_out(id);
        self.same((id, "key"), pin.key(), expected.key)?;
        self.same((id, "label"), pin.label(), expected.label.clone())?;
        self.same((id, "kind"), pin.kind(), expected.kind)?;
        self.same((id, "tokens"), pin.tokens(), expected.tokens.clone())?;
        self.same((id, "groups"), pin.groups(), expected.groups)?;
        let blocks = pin.blocks();
        for block in &blocks {
            let free = self.model.state(*block) == BlockState::Free;
            self.same((id, "lists a free block", block), free, false)?;
        }
        self.same((id, "blocks"), blocks, expected.blocks())?;
        for group in self.model.shape.groups() {
            let listed = pin.blocks_of(group);
            self.same((id, "blocks of", group), listed, expected.blocks_of(group))?;
        }
        Ok(())
    }

    fn shown(&self, view: &TableView) -> Shown {
        let tables = self.model.shape.groups().map(|group| view.table(group).to_vec()).collect();
        Shown { label: view.label.clone(), tables }
    }
}

/// How choices are resolved.
impl Driver {
    fn key(&self, who: Who) -> RequestKey {
        let live: Vec<RequestKey> = self.model.live().map(|life| life.key).collect();
        let mut ever: Vec<RequestKey> = self.model.keys().collect();
        ever.reverse();
        match who {
            Who::Live(pick) => cyclic(&live, pick).or(cyclic(&ever, pick)),
            Who::Ever(pick) => cyclic(&ever, pick),
            Who::Stranger(pick) => {
                let neighbour = cyclic(&ever, pick).map_or(0, RequestKey::to_bits);
                // Another incarnation, or another slot.
                let delta = if pick % 2 == 0 { 1 } else { 1 << 32 };
                Some(RequestKey::from_bits(neighbour.wrapping_add(delta)))
            }
        }
        .unwrap_or(never_issued())
    }

    /// One table of a life.
    fn table(&self, who: Who, group: OfGroup) -> (RequestKey, GroupId) {
        let key = self.key(who);
        let groups: Vec<GroupId> = self.model.shape.groups().collect();
        let group = match group {
            OfGroup::Shortest => {
                let size = |group| self.model.shape.block_size(group);
                let covers = |&group: &GroupId| u64::from(self.len(key, group)) * size(group);
                groups.into_iter().min_by_key(covers).expect("at least one group")
            }
            OfGroup::Known(pick) => cyclic(&groups, pick).expect("at least one group"),
            OfGroup::Raw(group) => GroupId(group),
        };
        (key, group)
    }

    fn groups(&self, groups: OfGroups) -> Groups {
        match groups {
            OfGroups::All => Groups::ALL,
            OfGroups::Known(pick) => {
                let all = (1 << self.model.shape.block_sizes.len()) - 1;
                let some = u64::from(pick) & all;
                Groups::from_bits(if some == 0 { all } else { some })
            }
            OfGroups::Raw(bits) => Groups::from_bits(bits),
        }
    }

    fn block(&self, block: OfBlock) -> BlockId {
        self.blocks(&[block])[0]
    }

    fn blocks(&self, blocks: &[OfBlock]) -> Vec<BlockId> {
        let free = self.model.free_blocks();
        let (free, used): (Vec<BlockId>, Vec<BlockId>) =
            self.model.shape.pool().partition(|block| free.contains(block));
        let mut left = free.clone();
        let mut chosen = Vec::new();
        for &block in blocks {
            let block = match block {
                OfBlock::Free(pick) => cyclic(&left, pick).or(cyclic(&used, pick)),
                OfBlock::Used(pick) => cyclic(&used, pick).or(cyclic(&left, pick)),
                OfBlock::Again => chosen.last().copied().or(cyclic(&left, 0)),
                OfBlock::Null => self.model.shape.null.or(cyclic(&left, 0)),
                OfBlock::Raw(block) => Some(BlockId(block)),
            };
            // Nothing but the null block is left where the pool has one block only.
            let block = block.unwrap_or(BlockId(self.model.shape.blocks));
            left.retain(|&other| other != block);
            chosen.push(block);
        }
        chosen
    }

    fn len(&self, key: RequestKey, group: GroupId) -> u32 {
        self.model.len(key, group).unwrap_or(0)
    }

    fn reach(&self, key: RequestKey, reach: Reach) -> u64 {
        let shape = &self.model.shape;
        let covers = |group| u64::from(self.len(key, group)) * shape.block_size(group);
        let covered = shape.groups().map(covers).min().expect("at least one group");
        match reach {
            Reach::All => covered,
            Reach::Within(pick) => part(pick, covered),
            Reach::Raw(tokens) => tokens,
        }
    }

    fn span(&self, key: RequestKey, groups: Groups, span: Span) -> Range<u64> {
        let shown = self.model.shown_tokens(key, groups);
        // At least one token, so that a range is empty only where it is meant to be.
        span_within(span, 0..shown.max(1))
    }

    fn epoch(&self, epoch: OfEpoch) -> Epoch {
        let published = self.model.epoch().0;
        match epoch {
            OfEpoch::Back(by) => Epoch(published.saturating_sub(by.into())),
            OfEpoch::Ahead(by) => Epoch(published + 1 + u64::from(by)),
        }
    }

    fn request(&self, pick: u8) -> Option<SaveRequest> {
        // The youngest first, so that a short list of operations uses what it has just planned.
        let youngest_first: Vec<SaveRequest> = self.requests.iter().rev().copied().collect();
        cyclic(&youngest_first, pick)
    }

    fn keep(&mut self, request: SaveRequest) {
        if self.requests.len() == REQUESTS {
            self.requests.remove(0);
        }
        self.requests.push(request);
    }

    fn pin_at(&self, pick: u8) -> Option<usize> {
        (usize::from(pick)).checked_rem(self.pins.len())
    }
}

fn cyclic<T: Copy>(all: &[T], pick: u8) -> Option<T> {
    all.get(usize::from(pick).checked_rem(all.len())?).copied()
}

/// A position below `len`, where there is one.
fn place(place: Place, len: u32) -> u32 {
    match place {
        Place::Within(pick) => u32::from(pick).checked_rem(len).unwrap_or(0),
        Place::FromEnd(pick) => len.saturating_sub(1 + u32::from(pick)),
        Place::Raw(position) => position,
    }
}

/// A number up to and including `whole`, and in proportion to the pick.
fn part(pick: u16, whole: u64) -> u64 {
    (u128::from(pick) * u128::from(whole) / u128::from(u16::MAX)) as u64
}

fn span_within(span: Span, within: Range<u64>) -> Range<u64> {
    match span {
        Span::All => within,
        Span::Within { start, len } => {
            let start = within.start + part(start, (within.end - within.start).saturating_sub(1));
            start..start + part(len, within.end - start).max(1)
        }
        Span::Raw { start, end } => start..end,
    }
}

fn never_issued() -> RequestKey {
    RequestKey::from_bits(u64::MAX)
}

/// A step id that no index of these tests comes to issue: another index's.
fn step_never_begun() -> StepId {
    let (mut scheduler, _index) = tenure::Config::new(1).build().expect("the smallest index");
    (0..1000).map(|_| scheduler.begin_step()).last().expect("one of many")
}

fn given_up(released: Released<'_>) -> GivenUp {
    let mut freed = released.freed().to_vec();
    freed.sort();
    GivenUp { freed, held: released.held() }
}
