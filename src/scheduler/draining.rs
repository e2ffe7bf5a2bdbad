//! What pins and steps protect, and the end of it.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::versions::{LeaseId, LeaseRecord, listed, protector};
use super::{Released, Scheduler};
use crate::error::Error;
use crate::events;
use crate::ids::{BlockId, Epoch, RequestKey, StepId};
use crate::lease::Reader;
use crate::pin::{Pin, keep_first_of_each};
use crate::request::Kind;
use crate::sync::Ordering;
use crate::word::Word;

/// A lease that only pins keep, from [`Scheduler::draining`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DrainingLease {
    /// The life it is of, ended or not. `None` for an exact hold.
    pub key: Option<RequestKey>,
    /// The label of that life.
    pub label: Option<Arc<str>>,
    /// What its pin is for, where it is one pin's alone: an exact hold, a narrowed pin, or one with
    /// a note. A version of a table can have pins of several kinds.
    pub kind: Option<Kind>,
    /// What its pin was said to be [for](Pin::with_note).
    pub note: Option<&'static str>,
    /// The smallest token range over all its pins; `0..0` for an exact hold.
    pub tokens: Range<u64>,
    /// The blocks it keeps from being handed out. A version of a table keeps only what the table
    /// has lost, so there may be none.
    pub blocks: Vec<BlockId>,
    /// The pins that are out. None where it has drained and waits for an older version of the same
    /// table to drain.
    pub pins: u32,
    /// The epoch that was published when pins began to be all that keeps it.
    pub since: Epoch,
}

impl Scheduler {
    pub(super) fn hold_now(&mut self, blocks: &[BlockId]) -> Result<Pin, Error> {
        self.begin();
        self.blocks.all_known(blocks)?;
        self.blocks.none_null(blocks)?;
        if self.draining {
            return Err(Error::Draining);
        }
        if let Some(&block) = blocks.iter().find(|&&block| self.blocks.is_free(block)) {
            return Err(Error::NotOwned { block });
        }
        if let Some(&block) = blocks.iter().find(|&&block| !self.blocks.has_room(block, 1)) {
            return Err(Error::TooOftenUsed { block });
        }
        let mut blocks = blocks.to_vec();
        keep_first_of_each(&mut blocks);
        let lease = self.hold_exactly(blocks);
        self.note();
        // SAFETY: the lease was made with one pin, for this.
        Ok(unsafe { Pin::exact(lease) })
    }

    pub(super) fn begin_drain_now(&mut self) {
        self.begin();
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        events::draining(self.epoch, self.undrained);
        // Before the first close: whoever finds a lease closed where it stands is told so.
        self.shared.set_draining();
        let newest: Vec<LeaseId> = self.slots.iter().filter_map(|slot| slot.newest).collect();
        for id in newest {
            self.close(id);
        }
        self.note();
    }

    /// What a release of the life would free.
    pub(super) fn count_reclaimable(&self, key: RequestKey) -> Result<u32, Error> {
        let life = self.life(key)?;
        if self.blocks.a_step_is_open() {
            return Ok(0);
        }
        // Acquire: pairs with the release half of unpins: what is told here as given back has been
        // given back when the life is released.
        let word = Word(self.lease(life).word.load(Ordering::Acquire));
        let pinned = (word.pins() > 0 && !word.is_closed()).then(|| word.hull());
        let mut count = 0;
        // Blocks that are listed more than once: how often by this life, and whether it can go.
        let mut repeated: HashMap<BlockId, (u32, bool)> = HashMap::new();
        for (at, shape) in self.geometry().shapes().iter().enumerate() {
            let table = &self.lives[life].tables[at];
            let each = |position, block| {
                let grains = shape.grains(position);
                let kept = self.blocks.holds(block) > 0
                    || pinned.is_some_and(|hull| hull.overlaps(grains))
                    || protector(&self.lives[life].queue, &self.leases, grains).is_some();
                if self.blocks.listings(block) == 1 {
                    count += u32::from(!kept);
                } else {
                    let (listings, free) = repeated.entry(block).or_insert((0, true));
                    *listings += 1;
                    *free &= !kept;
                }
            };
            // SAFETY: a live table's storage is alive.
            unsafe { listed(table.tree.root, table.extent.front..table.extent.len, each) };
        }
        let all = |(block, (listings, free)): (&BlockId, &(u32, bool))| {
            *free && *listings == self.blocks.listings(*block)
        };
        Ok(count + repeated.iter().filter(|&repeat| all(repeat)).count() as u32)
    }

    pub(super) fn begin_step_now(&mut self) -> StepId {
        self.begin();
        self.blocks.begin_step()
    }

    pub(super) fn end_step_now(&mut self, step: StepId) -> Result<Released<'_>, Error> {
        self.begin();
        self.blocks.end_step(step)?;
        Ok(self.done())
    }

    pub(super) fn list_draining(&self) -> Vec<DrainingLease> {
        let kept = self.leases.iter().filter(|(_, record)| {
            // One that has drained and still keeps blocks waits for an older one.
            record.undrained || (record.queued && !record.kept.is_empty())
        });
        let mut listed: Vec<DrainingLease> =
            kept.map(|(_, record)| self.describe(record)).collect();
        listed.sort_by_key(|lease| lease.since);
        listed
    }

    fn describe(&self, record: &LeaseRecord) -> DrainingLease {
        // SAFETY: alive while its record exists.
        let lease = unsafe { &*record.lease };
        let (pins, since) = (record.word().pins(), Epoch(record.closed_at));
        match &lease.held {
            Some(held) => {
                let Reader { kind, ref tokens, note } = held.reader;
                let of_life = kind != Kind::Hold;
                DrainingLease {
                    key: of_life.then_some(lease.key),
                    label: of_life.then(|| lease.label.clone()),
                    kind: Some(kind),
                    note,
                    tokens: tokens.clone(),
                    blocks: held.blocks.to_vec(),
                    pins,
                    since,
                }
            }
            None => DrainingLease {
                key: Some(lease.key),
                label: Some(lease.label.clone()),
                kind: None,
                note: None,
                tokens: self.geometry().tokens(record.hull),
                blocks: record.kept.clone(),
                pins,
                since,
            },
        }
    }
}
