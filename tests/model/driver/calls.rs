//! Every call, made on both sides.

use std::ops::Range;

use tenure::{
    BlockId, GroupId, Groups, Kind, PinLoadError, Refused, Released, RequestKey, SaveRequest,
    StepId,
};

use super::{Driver, Outcome};
use crate::model::GivenUp;

impl Driver {
    pub(super) fn admit(&mut self, label: &str) -> Outcome {
        let real = self.scheduler.admit(label);
        // Where the index refuses there is no key, and the model is not to admit either.
        let issued = *real.as_ref().unwrap_or(&never_issued());
        let model = self.model.admit(label, issued);
        self.compare(format!("admit {label:?}"), real, model)
    }

    pub(super) fn assign(
        &mut self,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
    ) -> Outcome {
        let real = self.scheduler.assign(key, group, blocks);
        let model = self.model.assign(key, group, blocks);
        self.compare(format!("assign {key} {group} {blocks:?}"), real, model)
    }

    pub(super) fn share(&mut self, key: RequestKey, group: GroupId, blocks: &[BlockId]) -> Outcome {
        let real = self.scheduler.share(key, group, blocks);
        let model = self.model.share(key, group, blocks);
        self.compare(format!("share {key} {group} {blocks:?}"), real, model)
    }

    pub(super) fn commit(&mut self, key: RequestKey, tokens: u64) -> Outcome {
        let real = self.scheduler.commit(key, tokens);
        let model = self.model.commit(key, tokens);
        self.compare(format!("commit {key} {tokens}"), real, model)
    }

    pub(super) fn vacate(
        &mut self,
        key: RequestKey,
        group: GroupId,
        positions: Range<u32>,
    ) -> Outcome {
        let call = format!("vacate {key} {group} {positions:?}");
        let real = self.scheduler.vacate(key, group, positions.clone()).map(given_up);
        let model = self.model.vacate(key, group, positions);
        self.compare(call, real, model)
    }

    pub(super) fn truncate(&mut self, key: RequestKey, group: GroupId, len: u32) -> Outcome {
        let real = self.scheduler.truncate(key, group, len).map(given_up);
        let model = self.model.truncate(key, group, len);
        self.compare(format!("truncate {key} {group} {len}"), real, model)
    }

    pub(super) fn replace(
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

    pub(super) fn preempt(&mut self, key: RequestKey) -> Outcome {
        let real = self.scheduler.preempt(key).map(|p| (p.successor, given_up(p.released)));
        let issued = real.as_ref().map_or(never_issued(), |(successor, _)| *successor);
        let model = self.model.preempt(key, issued);
        self.compare(format!("preempt {key}"), real, model)
    }

    pub(super) fn release(&mut self, key: RequestKey) -> Outcome {
        let real = self.scheduler.release(key).map(given_up);
        let model = self.model.release(key);
        self.compare(format!("release {key}"), real, model)
    }

    pub(super) fn invalidate(&mut self, blocks: &[BlockId]) -> Outcome {
        let real = self.scheduler.invalidate(blocks);
        let model = self.model.invalidate(blocks);
        self.compare(format!("invalidate {blocks:?}"), real, model)
    }

    pub(super) fn begin_step(&mut self) -> Outcome {
        let step = self.scheduler.begin_step();
        let known = self.model.open_steps().chain(self.ended_steps.iter().copied());
        let new = known.into_iter().all(|other| other != step);
        self.model.begin_step(step);
        self.compare(format!("begin_step -> {step}, new"), new, true)
    }

    pub(super) fn end_step(&mut self, step: StepId) -> Outcome {
        let real = self.scheduler.end_step(step).map(given_up);
        let model = self.model.end_step(step);
        self.ended_steps.push(step);
        self.compare(format!("end_step {step}"), real, model)
    }

    pub(super) fn publish(&mut self) -> Outcome {
        let (real, model) = (self.scheduler.publish(), self.model.publish());
        self.compare("publish", real, model)
    }

    pub(super) fn reclaim(&mut self) -> Outcome {
        let mut real = self.scheduler.reclaim().to_vec();
        real.sort();
        let model = self.model.reclaim();
        self.compare("reclaim", real, model)
    }

    pub(super) fn hold(&mut self, blocks: &[BlockId]) -> Outcome {
        let real = self.scheduler.hold(blocks);
        let model = self.model.hold(blocks);
        self.compare_pin(format!("hold {blocks:?}"), real, model)
    }

    pub(super) fn reset(&mut self) -> Outcome {
        let (real, model) = (self.scheduler.reset(), self.model.reset());
        self.compare("reset", real, model)
    }

    pub(super) fn reset_force(&mut self) -> Outcome {
        let real = given_up(self.scheduler.reset_force());
        let model = self.model.reset_force();
        self.compare("reset_force", real, model)
    }

    pub(super) fn begin_drain(&mut self) -> Outcome {
        self.scheduler.begin_drain();
        self.model.begin_drain();
        self.compare("begin_drain", (), ())
    }

    pub(super) fn plan(
        &mut self,
        key: RequestKey,
        tokens: Range<u64>,
        groups: Groups,
        kind: Kind,
    ) -> Outcome {
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

    pub(super) fn replan(&mut self, request: SaveRequest) -> Outcome {
        let real = self.index.replan(&request);
        let model = self.model.replan(&request);
        self.compare(format!("replan {request:?}"), real, model)?;
        real.into_iter().for_each(|request| self.keep(request));
        Ok(())
    }

    pub(super) fn pin(&mut self, request: SaveRequest) -> Outcome {
        let real = self.index.pin(&request);
        let model = self.model.pin(&request).map_err(Refused::Stale);
        self.compare_pin(format!("pin {request:?}"), real, model)
    }

    pub(super) fn pin_load(
        &mut self,
        key: RequestKey,
        tokens: Range<u64>,
        groups: Groups,
    ) -> Outcome {
        let call = format!("pin_load {key} {tokens:?} {groups:?}");
        let real = self.index.pin_load(key, tokens.clone(), groups);
        let planned = self.model.plan(key, tokens, groups, Kind::Load);
        let model = planned.map_err(PinLoadError::Plan).and_then(|request| {
            self.model.pin(&request).map_err(|stale| Refused::Stale(stale).into())
        });
        self.compare_pin(call, real, model)
    }

    pub(super) fn pin_batch(&mut self, requests: &[SaveRequest]) -> Outcome {
        let mut out = Vec::new();
        self.index.pin_batch(requests, &mut out);
        self.compare(format!("pin_batch of {}", requests.len()), out.len(), requests.len())?;
        for (request, real) in requests.iter().zip(out) {
            let model = self.model.pin(request).map_err(Refused::Stale);
            self.compare_pin(format!("  of it {request:?}"), real, model)?;
        }
        Ok(())
    }

    pub(super) fn narrow(&mut self, at: usize, tokens: Range<u64>) -> Outcome {
        let (pin, id) = &mut self.pins[at];
        let id = *id;
        let real = pin.narrow(tokens.clone());
        let model = self.model.narrow(id, tokens.clone());
        self.compare(format!("narrow {id:?} {tokens:?}"), real, model)
    }

    pub(super) fn unpin(&mut self, at: usize) -> Outcome {
        let (pin, id) = self.pins.remove(at);
        drop(pin);
        self.model.unpin(id);
        self.compare(format!("unpin {id:?}"), (), ())
    }
}

pub(super) fn never_issued() -> RequestKey {
    RequestKey::from_bits(u64::MAX)
}

/// A step id that no index of these tests comes to issue: another index's.
pub(super) fn step_never_begun() -> StepId {
    let (mut scheduler, _index) = tenure::Config::new(1).build().expect("the smallest index");
    (0..1000).map(|_| scheduler.begin_step()).last().expect("one of many")
}

pub(super) fn given_up(released: Released<'_>) -> GivenUp {
    let mut freed = released.freed().to_vec();
    freed.sort();
    GivenUp { freed, held: released.held() }
}
