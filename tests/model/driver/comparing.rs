//! What is compared: the answers of calls, and all that can be seen afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use tenure::{BlockId, GroupId, Groups, Pin, RequestKey, TableView};

use super::calls::never_issued;
use super::{Driver, Outcome};
use crate::model::ops::LABELS;
use crate::model::{PinId, Readers, Shown};

impl Driver {
    pub(super) fn compare<T>(&mut self, call: impl Into<String>, real: T, model: T) -> Outcome
    where
        T: PartialEq + Debug,
    {
        let call = call.into();
        self.log.add(format_args!("{call} -> {real:?}"));
        self.same(&call, real, model)
    }

    /// Like [`compare`](Driver::compare), but worth no word in the log.
    pub(super) fn same<T: PartialEq + Debug>(
        &self,
        what: impl Debug,
        real: T,
        model: T,
    ) -> Outcome {
        if real == model {
            return Ok(());
        }
        self.log.fail(format_args!("{what:?}\n  index: {real:?}\n  model: {model:?}"))
    }

    pub(super) fn compare_pin<E: PartialEq + Debug>(
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

    pub(super) fn compare_scheduler(&mut self) -> Outcome {
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
        for (block, state) in self.model.states() {
            let answer = self.scheduler.block_state(block);
            self.same(("state", block), answer, Ok(state))?;
        }
        let past_the_pool = BlockId(self.model.shape.blocks);
        let no_block = self.model.shape.null.into_iter().chain([past_the_pool]);
        for block in no_block {
            let answer = self.scheduler.block_state(block);
            self.same(("state", block), answer, self.model.block_state(block))?;
        }
        for block in (0..=past_the_pool.0).map(BlockId) {
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

    pub(super) fn compare_life(&mut self, key: RequestKey) -> Outcome {
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

    pub(super) fn compare_readers(&self) -> Outcome {
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
        let free = self.model.free_blocks();
        self.pins.iter().try_for_each(|(pin, id)| self.compare_listing(pin, *id, &free))
    }

    pub(super) fn compare_snapshot(&self) -> Outcome {
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

    pub(super) fn compare_listing(
        &self,
        pin: &Pin,
        id: PinId,
        free: &BTreeSet<BlockId>,
    ) -> Outcome {
        let expected = self.model.pin_out(id);
        self.same((id, "key"), pin.key(), expected.key)?;
        self.same((id, "label"), pin.label(), expected.label.clone())?;
        self.same((id, "kind"), pin.kind(), expected.kind)?;
        self.same((id, "tokens"), pin.tokens(), expected.tokens.clone())?;
        self.same((id, "groups"), pin.groups(), expected.groups)?;
        let blocks = pin.blocks();
        let lost: Vec<_> = blocks.iter().filter(|&block| free.contains(block)).collect();
        self.same((id, "lists free blocks"), lost, vec![])?;
        self.same((id, "blocks"), blocks, expected.blocks())?;
        for group in self.model.shape.groups() {
            let listed = pin.blocks_of(group);
            self.same((id, "blocks of", group), listed, expected.blocks_of(group))?;
        }
        Ok(())
    }

    pub(super) fn shown(&self, view: &TableView) -> Shown {
        let tables = self.model.shape.groups().map(|group| view.table(group).to_vec()).collect();
        Shown { label: view.label.clone(), tables }
    }
}
