//! What a flight recorder is told.

#![allow(unsafe_code)]

use std::collections::HashSet;

use super::versions::listed;
use super::{Scheduler, Slot};
use crate::ids::{BlockId, RequestKey};
use crate::recorder::{Checkpoint, CheckpointLife, Log};

impl Scheduler {
    /// Makes a call and has it noted, where there is a recorder: nothing else that is recorded
    /// happens in between.
    #[inline]
    pub(super) fn recorded<'a, T>(
        &'a mut self,
        call: impl FnOnce(&'a mut Scheduler) -> T,
        note: impl FnOnce(&mut Log, &T),
    ) -> T {
        let Some(recorder) = self.shared.recorder.clone() else { return call(self) };
        let mut log = recorder.lock();
        self.take_in_recorded(&mut log);
        let answer = call(self);
        note(&mut log, &answer);
        answer
    }

    /// Takes in what pins have given back, in a call that the recorder need not know of otherwise.
    #[cold]
    pub(super) fn take_in_between(&mut self) {
        if let Some(recorder) = self.shared.recorder.clone() {
            self.take_in_recorded(&mut recorder.lock());
        }
    }

    fn take_in_recorded(&mut self, log: &mut Log) {
        let before = self.taken_in;
        self.take_in();
        if self.taken_in == before {
            return;
        }
        let alone = std::mem::take(&mut self.held_alone);
        let is_held = |block| self.blocks.holds(block) > 0;
        log.taken_in(&alone, is_held, |key| self.pins_of(key) > 0);
    }

    pub(super) fn publish_recorded(&mut self) {
        let Some(recorder) = self.shared.recorder.clone() else { return };
        let mut log = recorder.lock();
        self.take_in_recorded(&mut log);
        self.publish_now();
        log.publish(self.epoch, self.blocks.free());
        if log.is_due() {
            log.checkpoint(&self.checkpoint());
        }
    }

    /// What a fresh index would have to be brought to. Right after a publish, so nothing is
    /// unpublished.
    fn checkpoint(&self) -> Checkpoint<'_> {
        let lives = self.slots.iter().filter_map(|slot: &Slot| slot.life);
        let lives = lives.map(|id| {
            let life = &self.lives[id];
            let table = |(group, table): (usize, &super::Table)| {
                let mut positions = vec![None; table.extent.len as usize];
                let each = |position: u32, block| positions[position as usize] = Some(block);
                // SAFETY: a live table's storage is alive.
                unsafe { listed(table.tree.root, table.extent.front..table.extent.len, each) };
                (positions, self.committed_of(id, group))
            };
            let tables = life.tables.iter().enumerate().map(table).collect();
            CheckpointLife { key: life.key, label: &life.label, tables }
        });
        let mut named = HashSet::new();
        let mut held: Vec<Vec<BlockId>> = self
            .leases
            .iter()
            .map(|(_, record)| {
                // SAFETY: alive while its record exists.
                let alone = unsafe { (*record.lease).held.as_ref() };
                let alone = alone.iter().flat_map(|held| &held.blocks);
                let kept = record.kept.iter().chain(alone).copied();
                kept.filter(|&block| named.insert(block)).collect()
            })
            .collect();
        held.retain(|blocks| !blocks.is_empty());
        let keys = self.lives.iter().map(|(_, life)| life.key);
        Checkpoint {
            index: self.shared.id,
            epoch: self.epoch,
            draining: self.draining,
            lives: lives.collect(),
            held,
            steps: self.blocks.fenced(),
            pinned: keys.filter(|&key| self.pins_of(key) > 0).collect::<HashSet<RequestKey>>(),
            free: self.blocks.free(),
        }
    }
}
