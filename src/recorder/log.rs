//! The lines that are kept: those since the last checkpoint but one.
//!
//! Two scripts are written at a time. Each begins with a checkpoint; when the younger is half as
//! long as it may get, the older is dropped and another begun. So a script is always whole, and at
//! least half as long as was asked for.

use std::collections::VecDeque;
use std::ops::Range;

use super::HeldAlone;
use super::segment::{Checkpoint, Segment};
use super::words;
use crate::error::{Error, Refused, Stale};
use crate::geometry::Geometry;
use crate::ids::{BlockId, Epoch, GroupId, RequestKey, StepId};
use crate::pin::Pin;
use crate::request::SaveRequest;
use crate::scheduler::{Preempted, Released};

pub(crate) struct Log {
    capacity: usize,
    /// The older first; there is at least one.
    segments: VecDeque<Segment>,
    labels: bool,
    geometry: Geometry,
}

type Answer<T> = Result<T, Error>;

impl Log {
    pub(super) fn new(capacity: usize, labels: bool, geometry: &Geometry) -> Log {
        let first = Segment::first(labels, geometry);
        Log { capacity, segments: VecDeque::from([first]), labels, geometry: geometry.clone() }
    }

    pub(super) fn script(&self) -> String {
        self.segments.front().map_or(String::new(), Segment::script)
    }

    fn each(&mut self, note: impl FnMut(&mut Segment)) {
        self.segments.iter_mut().for_each(note);
    }

    /// Whether it is time for a checkpoint, which can be taken right after a publish.
    pub(crate) fn is_due(&self) -> bool {
        self.segments.back().is_none_or(|youngest| youngest.len() >= self.capacity / 2)
    }

    pub(crate) fn checkpoint(&mut self, state: &Checkpoint<'_>) {
        if self.segments.len() > 1 {
            self.segments.pop_front();
        }
        self.segments.push_back(Segment::from_checkpoint(state, self.labels, &self.geometry));
    }

    /// What the scheduler has taken in before a call: pins under leases of their own, and blocks
    /// that nothing that a pin keeps is left of.
    pub(crate) fn taken_in(
        &mut self,
        alone: &[HeldAlone],
        is_held: impl Fn(BlockId) -> bool,
        is_pinned: impl Fn(RequestKey) -> bool,
    ) {
        self.each(|segment| {
            alone.iter().for_each(|pin| segment.held_alone(pin));
            segment.let_go(&is_held, &is_pinned);
        });
    }

    pub(crate) fn admit(&mut self, label: &str, answer: &Answer<RequestKey>) {
        self.each(|segment| match answer {
            Ok(key) => segment.admitted(label, *key),
            Err(Error::AlreadyLive { key, .. }) => {
                segment.on(*key, |name| format!("admit {name}"), "already-live")
            }
            Err(error) => segment.unsaid(format_args!("admit: {error}")),
        });
    }

    /// `assign` or `share`.
    pub(crate) fn append(
        &mut self,
        call: &str,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
        answer: &Answer<()>,
    ) {
        if blocks.is_empty() {
            return;
        }
        let (of, blocks) = (words::Of(group), words::List(blocks));
        self.life_call(key, |name| format!("{call} {name}{of}{blocks}"), answer);
    }

    pub(crate) fn commit(&mut self, key: RequestKey, tokens: u64, answer: &Answer<()>) {
        self.life_call(key, |name| format!("commit {name} {tokens}"), answer);
    }

    fn life_call(&mut self, key: RequestKey, line: impl Fn(&str) -> String, answer: &Answer<()>) {
        self.each(|segment| segment.called(key, &line, answer.as_ref().map(|()| "ok".to_owned())));
    }

    pub(crate) fn vacate(
        &mut self,
        key: RequestKey,
        group: GroupId,
        positions: &Range<u32>,
        answer: &Answer<Released<'_>>,
    ) {
        let (of, Range { start, end }) = (words::Of(group), positions);
        self.losing_call(key, |name| format!("vacate {name}{of} {start}..{end}"), answer);
    }

    pub(crate) fn truncate(
        &mut self,
        key: RequestKey,
        group: GroupId,
        len: u32,
        answer: &Answer<Released<'_>>,
    ) {
        let of = words::Of(group);
        self.losing_call(key, |name| format!("truncate {name}{of} {len}"), answer);
    }

    pub(crate) fn replace(
        &mut self,
        key: RequestKey,
        group: GroupId,
        position: u32,
        block: BlockId,
        answer: &Answer<Released<'_>>,
    ) {
        let of = words::Of(group);
        self.losing_call(key, |name| format!("replace {name}{of} {position} {block}"), answer);
    }

    pub(crate) fn release(&mut self, key: RequestKey, answer: &Answer<Released<'_>>) {
        self.losing_call(key, |name| format!("release {name}"), answer);
    }

    pub(crate) fn preempt(&mut self, key: RequestKey, answer: &Answer<Preempted<'_>>) {
        let released = match answer {
            Ok(preempted) => Ok(preempted.released),
            Err(error) => Err(error.clone()),
        };
        self.losing_call(key, |name| format!("preempt {name}"), &released);
        if let Ok(preempted) = answer {
            self.each(|segment| segment.succeeded(key, preempted.successor));
        }
    }

    fn losing_call(
        &mut self,
        key: RequestKey,
        line: impl Fn(&str) -> String,
        answer: &Answer<Released<'_>>,
    ) {
        self.each(|segment| {
            if let Ok(released) = answer {
                segment.keep(released.kept());
            }
            let words = |released: &Released<'_>| segment.released(released);
            let answer = answer.as_ref().map(words);
            segment.called(key, &line, answer);
        });
    }

    pub(crate) fn invalidate(&mut self, blocks: &[BlockId], answer: &Answer<()>) {
        if !blocks.is_empty() {
            self.call(format!("invalidate{}", words::List(blocks)), answer);
        }
    }

    fn call(&mut self, line: String, answer: &Answer<()>) {
        self.each(|segment| segment.said(&line, answer.as_ref().map(|()| "ok".to_owned())));
    }

    pub(crate) fn begin_step(&mut self, step: StepId) {
        self.each(|segment| segment.step_begun(step));
    }

    pub(crate) fn end_step(&mut self, step: StepId, answer: &Answer<Released<'_>>) {
        self.each(|segment| segment.step_ended(step, answer));
    }

    pub(crate) fn publish(&mut self, epoch: Epoch, free: u32) {
        self.each(|segment| segment.published(epoch, free));
    }

    pub(crate) fn hold(&mut self, blocks: &[BlockId], answer: &Answer<Pin>) {
        let job = answer.as_ref().ok().and_then(Pin::recorded_name);
        self.each(|segment| segment.held(blocks, job, answer.as_ref().map(|_| ())));
    }

    pub(crate) fn reset(&mut self, answer: &Answer<()>) {
        self.call("reset".to_owned(), answer);
    }

    pub(crate) fn reset_force(&mut self, answer: &Released<'_>) {
        self.each(|segment| segment.keep(answer.kept()));
        self.call("reset force".to_owned(), &Ok(()));
    }

    pub(crate) fn drain(&mut self) {
        self.each(Segment::drained);
    }

    /// A plan that succeeded. `published` is the epoch by now.
    pub(crate) fn planned(&mut self, request: &SaveRequest, published: Epoch) {
        self.each(|segment| segment.planned(request, published));
    }

    /// A plan that was refused, at the epoch that is published still.
    pub(crate) fn not_planned(&mut self, request: &SaveRequest, stale: &Stale) {
        self.each(|segment| segment.not_planned(request, stale));
    }

    /// A pin, by its name, or why there is none.
    pub(crate) fn pinned(&mut self, request: &SaveRequest, answer: Result<u64, &Refused>) {
        self.each(|segment| segment.pinned(request, answer));
    }

    /// The end of a pin.
    pub(crate) fn ended(&mut self, job: u64) {
        self.each(|segment| segment.ended(job));
    }
}
