//! What changes a live table, or what is committed of it.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::ops::Range;

use super::versions::{Life, LifeId, Table, listed, protector};
use super::{Released, Scheduler, living};
use crate::error::{BadRange, Error, Holder};
use crate::ids::{BlockId, GroupId, RequestKey};
use crate::lease::Ended;
use crate::storage::{Entry, Root, Workshop};

impl Scheduler {
    pub(super) fn assign_now(
        &mut self,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
    ) -> Result<(), Error> {
        self.begin();
        let life = self.life(key)?;
        self.room_for(life, group, blocks)?;
        if !self.blocks.assign(blocks, key) {
            return Err(self.not_assignable(life, blocks));
        }
        self.append(life, group, blocks);
        self.note();
        Ok(())
    }

    /// Why not all of these blocks could be assigned.
    #[cold]
    fn not_assignable(&self, life: LifeId, blocks: &[BlockId]) -> Error {
        if let Err(unknown) = self.blocks.all_known(blocks) {
            return unknown;
        }
        let mut seen = HashSet::new();
        let mut real = blocks.iter().filter(|block| self.blocks.shown(**block).is_some());
        if let Some(&block) = real.clone().find(|block| !self.blocks.is_free(**block)) {
            return self.in_use(block);
        }
        // All are free, so one stands twice.
        let block = real.find(|block| !seen.insert(**block)).or(blocks.first()).copied();
        let Life { key, label, .. } = &self.lives[life];
        let by = Holder::Request { key: *key, label: label.clone() };
        Error::InUse { block: block.unwrap_or(BlockId(0)), by }
    }

    pub(super) fn share_now(
        &mut self,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
    ) -> Result<(), Error> {
        self.begin();
        let life = self.life(key)?;
        self.room_for(life, group, blocks)?;
        if !self.blocks.can_share(blocks) {
            return Err(self.not_shareable(blocks));
        }
        let (slots, lives) = (&self.slots, &self.lives);
        let living = |slot: u32| living(slots, lives, slot);
        for &block in blocks {
            if self.blocks.shown(block).is_some() {
                self.blocks.share(block, key, &living);
            }
        }
        self.append(life, group, blocks);
        self.note();
        Ok(())
    }

    /// Why not all of these blocks could be shared.
    #[cold]
    fn not_shareable(&self, blocks: &[BlockId]) -> Error {
        if let Err(unknown) = self.blocks.all_known(blocks) {
            return unknown;
        }
        let mut real = blocks.iter().filter(|block| self.blocks.shown(**block).is_some());
        if let Some(&block) = real.clone().find(|block| self.blocks.is_free(**block)) {
            return Error::NotOwned { block };
        }
        let full =
            real.find(|block| !self.blocks.has_room(**block, blocks.len())).or(blocks.first());
        Error::TooOftenUsed { block: full.copied().unwrap_or(BlockId(0)) }
    }

    pub(super) fn commit_now(&mut self, key: RequestKey, tokens: u64) -> Result<(), Error> {
        self.begin();
        let life = self.life(key)?;
        for (at, (shape, table)) in
            self.geometry().shapes().iter().zip(&self.lives[life].tables).enumerate()
        {
            let len = table.extent.len;
            if tokens > shape.tokens(len) {
                return Err(Error::BeyondTable { group: GroupId(at as u32), len, asked: tokens });
            }
        }
        if self.geometry().tracks_commits() && tokens > self.lives[life].raised {
            self.lives[life].raised = tokens;
            self.lease(life).raise(tokens);
        }
        Ok(())
    }

    pub(super) fn vacate_now(
        &mut self,
        key: RequestKey,
        group: GroupId,
        positions: Range<u32>,
    ) -> Result<Released<'_>, Error> {
        self.begin();
        let life = self.life(key)?;
        let table = self.table(life, group)?;
        let Range { start, end } = positions;
        if start > end {
            return Err(BadRange { start: start.into(), end: end.into() }.into());
        }
        let (extent, patch, root) = (table.extent, table.patch, table.tree.root);
        if end > extent.len {
            return Err(Error::BeyondTable { group, len: extent.len, asked: end.into() });
        }
        let lost = start.max(extent.front)..end.max(extent.front);
        let lists_any = |positions| {
            let mut any = false;
            // SAFETY: a live table's storage is alive.
            unsafe { listed(root, positions, |_, _| any = true) };
            any
        };
        if lists_any(lost.clone()) {
            let before = extent.front..start;
            let all_patched = patch.lo <= before.start && before.end <= patch.hi;
            let leading = before.is_empty() || (all_patched && !lists_any(before));
            self.change(life, group, lost.clone(), |table, workshop, published| {
                if leading {
                    table.extent.front = end;
                    table.patch = table.patch.within(end, table.extent.len);
                    table.tree.drop_front(end, table.extent.len, published, workshop);
                } else {
                    table.patch = table.patch.with(start, end);
                    table.tree.rebuild(table.extent.len, lost.clone(), workshop);
                    for position in lost.clone() {
                        // SAFETY: a live table's storage is alive.
                        if let Some(entry) = unsafe { table.tree.root.entry(position) } {
                            table.tree.overwrite(position, Entry { block: None, ..entry });
                        }
                    }
                }
            });
        }
        Ok(self.done())
    }

    pub(super) fn truncate_now(
        &mut self,
        key: RequestKey,
        group: GroupId,
        len: u32,
    ) -> Result<Released<'_>, Error> {
        self.begin();
        let life = self.life(key)?;
        let extent = self.table(life, group)?.extent;
        if len > extent.len {
            return Err(Error::BeyondTable { group, len: extent.len, asked: len.into() });
        }
        if len < extent.len {
            self.lower_committed(life, group, len);
            self.change(life, group, len.max(extent.front)..extent.len, |table, _, _| {
                table.extent.len = len;
                table.extent.front = table.extent.front.min(len);
                table.patch = table.patch.within(0, len);
                table.tree.truncated(len);
                if len == 0 {
                    table.youngest = 0;
                } else if table.patch.is_empty()
                    // SAFETY: a live table's storage is alive.
                    && let Some(last) = unsafe { table.tree.root.entry(len - 1) }
                {
                    table.youngest = last.since;
                }
            });
        }
        Ok(self.done())
    }

    pub(super) fn replace_now(
        &mut self,
        key: RequestKey,
        group: GroupId,
        position: u32,
        block: BlockId,
    ) -> Result<Released<'_>, Error> {
        self.begin();
        let life = self.life(key)?;
        let Table { extent, tree, .. } = self.table(life, group)?;
        let (extent, root) = (*extent, tree.root);
        self.blocks.all_known(&[block])?;
        if position >= extent.len {
            return Err(Error::BeyondTable { group, len: extent.len, asked: position.into() });
        }
        let shown = self.blocks.shown(block);
        if shown.is_some() && !self.blocks.is_free(block) {
            return Err(self.in_use(block));
        }
        // SAFETY: a live table's storage is alive.
        let before = unsafe { root.entry(position) }.filter(|_| position >= extent.front);
        if shown.is_none() && before.is_none_or(|entry| entry.block.is_none()) {
            return Ok(self.done());
        }
        self.blocks.assign(&[block], key);
        self.lower_committed(life, group, position);
        let lost = position..position + u32::from(position >= extent.front);
        self.change(life, group, lost, |table, workshop, _| {
            let filled = position..position + 1;
            let fresh = if position < extent.front { position..extent.front } else { filled };
            table.tree.restore(table.extent.len, fresh.clone(), workshop);
            for hole in fresh.clone().skip(1) {
                // SAFETY: a live table's storage is alive.
                if let Some(entry) = unsafe { table.tree.root.entry(hole) } {
                    table.tree.overwrite(hole, Entry { block: None, ..entry });
                }
            }
            table.tree.overwrite(position, Entry { block: shown, since: workshop.epoch });
            table.extent.front = table.extent.front.min(position);
            table.patch = table.patch.with(fresh.start, fresh.end);
            table.youngest = workshop.epoch;
        });
        Ok(self.done())
    }

    pub(super) fn invalidate_now(&mut self, blocks: &[BlockId]) -> Result<(), Error> {
        self.begin();
        self.blocks.all_known(blocks)?;
        self.blocks.none_null(blocks)?;
        if !self.geometry().tracks_commits() {
            return Ok(());
        }
        let bad: HashSet<BlockId> = blocks.iter().copied().collect();
        let owners = bad.iter().flat_map(|&block| self.owners_of(block));
        for key in owners.collect::<HashSet<_>>() {
            if let Ok(life) = self.life(key) {
                self.invalidate_life(life, &bad);
            }
        }
        self.note();
        Ok(())
    }

    fn invalidate_life(&mut self, life: LifeId, bad: &HashSet<BlockId>) {
        let mut firsts = Vec::new();
        for (at, (table, shape)) in
            self.lives[life].tables.iter().zip(self.geometry().shapes()).enumerate()
        {
            let mut first = None;
            // SAFETY: a live table's storage is alive.
            unsafe {
                listed(table.tree.root, table.extent.front..table.extent.len, |position, block| {
                    if first.is_none() && bad.contains(&block) {
                        first = Some(position);
                    }
                });
            }
            firsts.extend(
                first
                    .filter(|&first| shape.tokens(first) < self.committed_of(life, at))
                    .map(|f| (at, f)),
            );
        }
        if firsts.is_empty() {
            return;
        }
        for (group, first) in firsts {
            self.lower_committed(life, GroupId(group as u32), first);
        }
        self.supersede(self.lives[life].key.slot(), life, Ended::No);
    }

    /// Refuses an append that the longest table has no room for.
    fn room_for(&self, life: LifeId, group: GroupId, blocks: &[BlockId]) -> Result<(), Error> {
        let len = self.table(life, group)?.extent.len;
        let max = self.shape(group)?.max_len();
        if blocks.len() > (max - len) as usize {
            return Err(Error::TableFull { group, max });
        }
        Ok(())
    }

    /// Writes blocks behind the end of a table and makes them readable. The null block is a hole.
    fn append(&mut self, life: LifeId, group: GroupId, blocks: &[BlockId]) {
        if blocks.is_empty() {
            return;
        }
        let version = self.version_of(life);
        let epoch = self.epoch.0 + 1;
        let mut garbage = Vec::new();
        let table = &mut self.lives[life].tables[group.index()];
        let mut workshop = Workshop { version, epoch, pool: &mut self.pool, garbage: &mut garbage };
        let len = table.extent.len;
        let pool = &self.blocks;
        table.tree.append(len, blocks.iter().map(|&block| pool.shown(block)), &mut workshop);
        let hole = |block: &BlockId| pool.shown(*block).is_none();
        if let Some(first) = blocks.iter().position(hole)
            && let Some(last) = blocks.iter().rposition(hole)
        {
            table.patch = table.patch.with(len + first as u32, len + last as u32 + 1);
        }
        table.extent.len = len + blocks.len() as u32;
        table.youngest = epoch;
        let state = table.state();
        self.lease(life).cells(group.index()).grow(state);
        let user = self.older(life);
        for piece in garbage {
            self.dispose(piece, user);
        }
    }

    /// Changes a table in a way that takes something away: makes the new version, then gives up the
    /// blocks that the `lost` positions showed.
    fn change(
        &mut self,
        life: LifeId,
        group: GroupId,
        lost: Range<u32>,
        change: impl FnOnce(&mut Table, &mut Workshop<'_>, u64),
    ) {
        let key = self.lives[life].key;
        self.keep_committed(life);
        let version = self.next_version();
        let mut garbage = Vec::new();
        let table = &mut self.lives[life].tables[group.index()];
        let before = table.tree.root;
        let mut workshop = Workshop {
            version,
            epoch: self.epoch.0 + 1,
            pool: &mut self.pool,
            garbage: &mut garbage,
        };
        change(table, &mut workshop, self.epoch.0);
        let user = self.lives[life].newest;
        for piece in garbage {
            self.dispose(piece, user);
        }
        self.supersede(key.slot(), life, Ended::No);
        self.give_up(life, key, group, before, lost, false);
    }

    pub(super) fn give_up_all(&mut self, life: LifeId, key: RequestKey, tables: Vec<Table>) {
        for (at, table) in tables.iter().enumerate() {
            let positions = table.extent.front..table.extent.len;
            self.give_up(life, key, GroupId(at as u32), table.tree.root, positions, true);
        }
    }

    /// Gives up what a table's storage shows at some positions. The lease that listed it is closed.
    fn give_up(
        &mut self,
        life: LifeId,
        key: RequestKey,
        group: GroupId,
        root: Root,
        positions: Range<u32>,
        ending: bool,
    ) {
        let Scheduler { shared, blocks, lives, leases, .. } = self;
        let Some(shape) = shared.geometry.shape(group) else { return };
        // A life whose leases have all gone has no pins.
        let queue = lives.get(life).map(|life| &life.queue).filter(|queue| !queue.is_empty());
        let each = |position, block| {
            if let Some(queue) = queue
                && let Some(id) = protector(queue, leases, shape.grains(position))
            {
                blocks.hold(block);
                leases[id].kept.push(block);
            }
            blocks.give_up(block, key, ending);
        };
        // SAFETY: where the storage is garbage now, it is alive until it has come back from
        // reclamation, which it is not sent to before the next call.
        unsafe { listed(root, positions, each) };
    }

    /// The tokens of a group that are known to be written.
    pub(super) fn committed_of(&self, life: LifeId, group: usize) -> u64 {
        let life = &self.lives[life];
        life.tables.get(group).map_or(0, |table| table.floor.max(life.raised))
    }

    /// Fixes what is committed as the floor of the lease that is about to be made.
    fn keep_committed(&mut self, life: LifeId) {
        let life = &mut self.lives[life];
        for table in &mut life.tables {
            table.floor = table.floor.max(life.raised);
        }
        life.raised = 0;
    }

    /// Lowers what is committed of a group to the first `positions` positions, from the lease on
    /// that is about to be made. Answers what is left.
    fn lower_committed(&mut self, life: LifeId, group: GroupId, positions: u32) -> u64 {
        self.keep_committed(life);
        let tokens = self.geometry().shape(group).map_or(0, |shape| shape.tokens(positions));
        match self.lives[life].tables.get_mut(group.index()) {
            Some(table) => {
                table.floor = table.floor.min(tokens);
                table.floor
            }
            None => 0,
        }
    }
}
