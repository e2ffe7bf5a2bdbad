//! The scheduler's calls.

use std::ops::Range;

use tenure::{BlockId, Error, GroupId};

use super::answer::{Answer, Refusal, block_ids, clamp, ok, refused, released};
use super::ast::Span;
use super::world::World;

impl World {
    pub(super) fn admit(&mut self, label: &str) -> Answer {
        let key = self.scheduler.admit(label).map_err(|e| refused(&e, 0, &[]))?;
        self.labels.insert(label.to_owned(), key);
        ok()
    }

    pub(super) fn assign(&mut self, label: &str, group: u64, blocks: &[u64]) -> Answer {
        let (key, ids) = (self.key(label)?, block_ids(blocks));
        let answer = self.scheduler.assign(key, GroupId(clamp(group)), &ids);
        answer.map_err(|e| refused(&e, group, blocks))?;
        ok()
    }

    pub(super) fn share(&mut self, label: &str, group: u64, blocks: &[u64]) -> Answer {
        let (key, ids) = (self.key(label)?, block_ids(blocks));
        let answer = self.scheduler.share(key, GroupId(clamp(group)), &ids);
        answer.map_err(|e| refused(&e, group, blocks))?;
        ok()
    }

    pub(super) fn commit(&mut self, label: &str, tokens: u64) -> Answer {
        let key = self.key(label)?;
        self.scheduler.commit(key, tokens).map_err(|e| refused(&e, 0, &[]))?;
        ok()
    }

    pub(super) fn vacate(&mut self, label: &str, group: u64, positions: Span) -> Answer {
        let key = self.key(label)?;
        let answer = self.scheduler.vacate(key, GroupId(clamp(group)), positions_u32(positions));
        answer.map(|r| released(&r)).map_err(|e| refused(&e, group, &[]))
    }

    pub(super) fn truncate(&mut self, label: &str, group: u64, len: u64) -> Answer {
        let key = self.key(label)?;
        let answer = self.scheduler.truncate(key, GroupId(clamp(group)), clamp(len));
        answer.map(|r| released(&r)).map_err(|e| refused(&e, group, &[]))
    }

    pub(super) fn replace(&mut self, label: &str, group: u64, position: u64, block: u64) -> Answer {
        let key = self.key(label)?;
        let (group_id, id) = (GroupId(clamp(group)), BlockId(clamp(block)));
        let answer = self.scheduler.replace(key, group_id, clamp(position), id);
        answer.map(|r| released(&r)).map_err(|e| refused(&e, group, &[block]))
    }

    pub(super) fn preempt(&mut self, label: &str) -> Answer {
        let key = self.key(label)?;
        let ended = self.scheduler.preempt(key).map_err(|e| refused(&e, 0, &[]))?;
        self.labels.insert(label.to_owned(), ended.successor);
        Ok(released(&ended.released))
    }

    pub(super) fn release(&mut self, label: &str) -> Answer {
        let key = self.key(label)?;
        self.scheduler.release(key).map(|r| released(&r)).map_err(|e| refused(&e, 0, &[]))
    }

    pub(super) fn invalidate(&mut self, blocks: &[u64]) -> Answer {
        self.scheduler.invalidate(&block_ids(blocks)).map_err(|e| refused(&e, 0, blocks))?;
        ok()
    }

    pub(super) fn begin_step(&mut self, step: &str) -> Answer {
        if self.steps.contains_key(step) {
            return Err(Refusal::error(format_args!("step-open {step}")));
        }
        self.steps.insert(step.to_owned(), self.scheduler.begin_step());
        ok()
    }

    pub(super) fn end_step(&mut self, step: &str) -> Answer {
        let unknown = || Refusal::error(format_args!("unknown-step {step}"));
        let id = self.steps.remove(step).ok_or_else(unknown)?;
        let ended = self.scheduler.end_step(id).map_err(|e| match e {
            Error::UnknownStep { .. } => unknown(),
            other => refused(&other, 0, &[]),
        })?;
        Ok(format!("freed {}", ended.freed().len()))
    }

    pub(super) fn reset(&mut self, force: bool) -> Answer {
        if force {
            // How much came free is not part of this answer.
            let _ = self.scheduler.reset_force();
        } else {
            self.scheduler.reset().map_err(|e| refused(&e, 0, &[]))?;
        }
        ok()
    }
}

/// Positions as the scheduler takes them. A reversed range stays reversed; no table reaches the
/// largest number.
fn positions_u32(positions: Span) -> Range<u32> {
    if positions.start > positions.end {
        return Range { start: 1, end: 0 };
    }
    clamp(positions.start)..clamp(positions.end)
}
