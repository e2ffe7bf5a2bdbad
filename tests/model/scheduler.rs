//! The scheduler's calls. Each but `publish` first takes in what pins have given back; a refused one
//! changes nothing else.

use std::ops::Range;
use std::sync::Arc;

use tenure::{BadRange, BlockId, Epoch, Error, GroupId, RequestKey, StepId};

use super::life::{End, Life, Position};
use super::losses::Lost;
use super::pins::Protection;
use super::{GivenUp, Model, PinId, Shown};

impl Model {
    /// `issued` is the key that the index gave, if it did.
    pub fn admit(&mut self, label: &str, issued: RequestKey) -> Result<RequestKey, Error> {
        self.take_in();
        if let Some(life) = self.live().find(|life| &*life.label == label) {
            return Err(Error::AlreadyLive { label: life.label.clone(), key: life.key });
        }
        if self.live().count() >= self.shape.max_requests as usize {
            return Err(Error::TooManyRequests { max: self.shape.max_requests });
        }
        self.open_life(issued, label);
        Ok(issued)
    }

    pub fn assign(
        &mut self,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
    ) -> Result<(), Error> {
        self.take_in();
        let life = self.must_be_live(key)?;
        self.must_have_group(group)?;
        self.must_have_room(life, group, blocks.len())?;
        blocks.iter().try_for_each(|&block| self.known(block))?;
        let real = self.without_null(blocks);
        real.iter().try_for_each(|&block| self.must_be_free(block))?;
        let repeated = (0..real.len()).find(|&place| real[..place].contains(&real[place]));
        if let Some(place) = repeated {
            let by = tenure::Holder::Request { key, label: life.label.clone() };
            return Err(Error::InUse { block: real[place], by });
        }
        self.append(key, group, blocks);
        Ok(())
    }

    pub fn share(
        &mut self,
        key: RequestKey,
        group: GroupId,
        blocks: &[BlockId],
    ) -> Result<(), Error> {
        self.take_in();
        let life = self.must_be_live(key)?;
        self.must_have_group(group)?;
        self.must_have_room(life, group, blocks.len())?;
        blocks.iter().try_for_each(|&block| self.known(block))?;
        self.without_null(blocks).iter().try_for_each(|&block| self.must_not_be_free(block))?;
        self.append(key, group, blocks);
        Ok(())
    }

    fn append(&mut self, key: RequestKey, group: GroupId, blocks: &[BlockId]) {
        let since = self.coming();
        for &block in blocks {
            let block = Some(block).filter(|&block| Some(block) != self.shape.null);
            self.arrive(key, block);
            self.life_mut(key).table_mut(group).positions.push(Position { block, since });
        }
    }

    /// A life that already lists the block keeps its place in the order of arrival. A block that
    /// is taken before it was told to be free is not told any more.
    fn arrive(&mut self, key: RequestKey, block: Option<BlockId>) {
        if let Some(block) = block {
            self.reclaimed.retain(|&freed| freed != block);
            if !self.arrivals.contains(&(block, key)) {
                self.arrivals.push((block, key));
            }
        }
    }

    pub fn commit(&mut self, key: RequestKey, tokens: u64) -> Result<(), Error> {
        self.take_in();
        let life = self.must_be_live(key)?;
        for group in self.shape.groups() {
            let len = life.table(group).len();
            if u64::from(len) * self.shape.block_size(group) < tokens {
                return Err(Error::BeyondTable { group, len, asked: tokens });
            }
        }
        for table in &mut self.life_mut(key).tables {
            table.committed = table.committed.max(tokens);
        }
        Ok(())
    }

    pub fn vacate(
        &mut self,
        key: RequestKey,
        group: GroupId,
        positions: Range<u32>,
    ) -> Result<GivenUp, Error> {
        self.take_in();
        let life = self.must_be_live(key)?;
        self.must_have_group(group)?;
        let Range { start, end } = positions;
        if start > end {
            return Err(BadRange { start: start.into(), end: end.into() }.into());
        }
        must_reach(life, group, end)?;
        let lost = lost_in(life, group, positions.clone());
        Ok(self.giving_up(|model| {
            if lost.is_empty() {
                return Vec::new();
            }
            let table = model.life_mut(key).table_mut(group);
            for lost in &lost {
                table.positions[lost.position as usize].block = None;
            }
            model.lose(key, lost)
        }))
    }

    pub fn truncate(
        &mut self,
        key: RequestKey,
        group: GroupId,
        len: u32,
    ) -> Result<GivenUp, Error> {
        self.take_in();
        let life = self.must_be_live(key)?;
        self.must_have_group(group)?;
        must_reach(life, group, len)?;
        let old_len = life.table(group).len();
        let lost = lost_in(life, group, len..old_len);
        let covered = u64::from(len) * self.shape.block_size(group);
        Ok(self.giving_up(|model| {
            if len == old_len {
                return Vec::new();
            }
            let table = model.life_mut(key).table_mut(group);
            table.positions.truncate(len as usize);
            table.lower(covered);
            model.lose(key, lost)
        }))
    }

    pub fn replace(
        &mut self,
        key: RequestKey,
        group: GroupId,
        position: u32,
        block: BlockId,
    ) -> Result<GivenUp, Error> {
        self.take_in();
        let life = self.must_be_live(key)?;
        self.must_have_group(group)?;
        self.known(block)?;
        let len = life.table(group).len();
        if position >= len {
            return Err(Error::BeyondTable { group, len, asked: position.into() });
        }
        let new = Some(block).filter(|&block| Some(block) != self.shape.null);
        if let Some(block) = new {
            self.must_be_free(block)?;
        }
        let lost = lost_in(life, group, position..position + 1);
        let covered = u64::from(position) * self.shape.block_size(group);
        Ok(self.giving_up(|model| {
            if lost.is_empty() && new.is_none() {
                return Vec::new();
            }
            let since = model.coming();
            model.arrive(key, new);
            let table = model.life_mut(key).table_mut(group);
            table.positions[position as usize] = Position { block: new, since };
            table.lower(covered);
            model.lose(key, lost)
        }))
    }

    /// `issued` is the successor's key that the index gave, if it did.
    pub fn preempt(
        &mut self,
        key: RequestKey,
        issued: RequestKey,
    ) -> Result<(RequestKey, GivenUp), Error> {
        self.take_in();
        let label = self.must_be_live(key)?.label.clone();
        let given_up = self.giving_up(|model| model.end_life(key, End::Preempted));
        self.open_life(issued, &label);
        Ok((issued, given_up))
    }

    pub fn release(&mut self, key: RequestKey) -> Result<GivenUp, Error> {
        self.take_in();
        self.must_be_live(key)?;
        Ok(self.giving_up(|model| model.end_life(key, End::Released)))
    }

    pub fn invalidate(&mut self, blocks: &[BlockId]) -> Result<(), Error> {
        self.take_in();
        blocks.iter().try_for_each(|&block| self.known(block))?;
        blocks.iter().try_for_each(|&block| self.not_null(block))?;
        if !self.shape.commits {
            return Ok(());
        }
        let live: Vec<RequestKey> = self.live().map(|life| life.key).collect();
        for key in live {
            let listed: Vec<_> = self.life(key).expect("a life").listed().collect();
            let bad = listed.iter().filter(|(_, _, block)| blocks.contains(block));
            let mut lowered = false;
            for &(group, position, _) in bad {
                let trusted = u64::from(position) * self.shape.block_size(group);
                lowered |= self.life_mut(key).table_mut(group).lower(trusted);
            }
            if lowered {
                self.lose(key, Vec::new());
            }
        }
        Ok(())
    }

    /// `issued` is the step that the index gave.
    pub fn begin_step(&mut self, issued: StepId) {
        self.take_in();
        self.steps_begun += 1;
        self.steps.push((self.steps_begun, issued));
    }

    pub fn end_step(&mut self, step: StepId) -> Result<GivenUp, Error> {
        self.take_in();
        if !self.open_steps().any(|open| open == step) {
            return Err(Error::UnknownStep { step });
        }
        Ok(self.giving_up(|model| {
            model.steps.retain(|&(_, open)| open != step);
            Vec::new()
        }))
    }

    /// The one call that takes nothing in.
    pub fn publish(&mut self) -> Epoch {
        self.published = self.coming();
        let picture = self.live().map(|life| {
            let tables = life.tables.iter().map(|table| table.shown()).collect();
            (life.key, Shown { label: life.label.clone(), tables })
        });
        let picture = picture.collect();
        self.pictures.push(picture);
        self.published
    }

    /// What the ends of pins have freed since this was last asked and is free still, ascending.
    pub fn reclaim(&mut self) -> Vec<BlockId> {
        self.take_in();
        let mut freed = std::mem::take(&mut self.reclaimed);
        freed.sort();
        freed
    }

    /// What a release would free, tried in a copy.
    pub fn reclaimable_now(&mut self, key: RequestKey) -> Result<u32, Error> {
        self.take_in();
        self.clone().release(key).map(|given_up| given_up.freed.len() as u32)
    }

    pub fn hold(&mut self, blocks: &[BlockId]) -> Result<PinId, Error> {
        self.take_in();
        blocks.iter().try_for_each(|&block| self.known(block))?;
        blocks.iter().try_for_each(|&block| self.not_null(block))?;
        if self.draining {
            return Err(Error::Draining);
        }
        blocks.iter().try_for_each(|&block| self.must_not_be_free(block))?;
        Ok(self.take_hold(blocks))
    }

    pub fn reset(&mut self) -> Result<(), Error> {
        self.take_in();
        let counts = self.counts();
        if counts.owned + counts.held > 0 {
            return Err(Error::Busy { blocks: counts.owned + counts.held });
        }
        self.end_all();
        Ok(())
    }

    pub fn reset_force(&mut self) -> GivenUp {
        self.take_in();
        self.giving_up(Model::end_all)
    }

    fn end_all(&mut self) -> Vec<BlockId> {
        self.reset_at = Some(self.published);
        let live: Vec<RequestKey> = self.live().map(|life| life.key).collect();
        live.into_iter().flat_map(|key| self.end_life(key, End::Released)).collect()
    }

    pub fn begin_drain(&mut self) {
        self.take_in();
        self.draining = true;
        let live: Vec<RequestKey> = self.live().map(|life| life.key).collect();
        live.into_iter().for_each(|key| self.close_newest(key));
    }

    pub fn drained(&mut self) -> bool {
        self.take_in();
        self.draining && self.pins.is_empty()
    }

    /// Pins over any version of the life.
    pub fn pins(&mut self, key: RequestKey) -> u32 {
        self.take_in();
        let over = self
            .pins
            .values()
            .filter(|pin| pin.key == Some(key) && matches!(pin.protection, Protection::Lease(_)));
        over.count() as u32
    }

    pub fn key_of(&self, label: &str) -> Option<RequestKey> {
        self.live().find(|life| &*life.label == label).map(|life| life.key)
    }

    pub fn label(&self, key: RequestKey) -> Option<Arc<str>> {
        self.must_be_live(key).ok().map(|life| life.label.clone())
    }

    pub fn len(&self, key: RequestKey, group: GroupId) -> Result<u32, Error> {
        let life = self.must_be_live(key)?;
        self.must_have_group(group)?;
        Ok(life.table(group).len())
    }

    /// The first position that is no hole, or the end of the table.
    pub fn front(&self, key: RequestKey, group: GroupId) -> Result<u32, Error> {
        let len = self.len(key, group)?;
        let positions = &self.must_be_live(key)?.table(group).positions;
        let front = positions.iter().position(|position| position.block.is_some());
        Ok(front.map_or(len, |front| front as u32))
    }

    pub fn committed(&self, key: RequestKey, group: GroupId) -> Result<u64, Error> {
        let life = self.must_be_live(key)?;
        self.must_have_group(group)?;
        Ok(self.committed_of(life, group))
    }

    pub(super) fn committed_of(&self, life: &Life, group: GroupId) -> u64 {
        let table = life.table(group);
        if self.shape.commits {
            table.committed
        } else {
            u64::from(table.len()) * self.shape.block_size(group)
        }
    }

    fn must_be_live(&self, key: RequestKey) -> Result<&Life, Error> {
        match self.life(key) {
            None => Err(Error::UnknownKey { key }),
            Some(life) if life.end.is_some() => Err(Error::AlreadyReleased { key }),
            Some(life) => Ok(life),
        }
    }

    fn must_have_group(&self, group: GroupId) -> Result<(), Error> {
        if self.shape.has_group(group) { Ok(()) } else { Err(Error::UnknownGroup { group }) }
    }

    fn must_have_room(&self, life: &Life, group: GroupId, more: usize) -> Result<(), Error> {
        let max = self.shape.longest_table(group);
        if life.table(group).positions.len() + more > max as usize {
            return Err(Error::TableFull { group, max });
        }
        Ok(())
    }

    fn without_null(&self, blocks: &[BlockId]) -> Vec<BlockId> {
        blocks.iter().copied().filter(|&block| Some(block) != self.shape.null).collect()
    }
}

fn must_reach(life: &Life, group: GroupId, end: u32) -> Result<(), Error> {
    let len = life.table(group).len();
    if end > len {
        return Err(Error::BeyondTable { group, len, asked: end.into() });
    }
    Ok(())
}

/// The positions of the range that are no holes, as they are lost together.
fn lost_in(life: &Life, group: GroupId, positions: Range<u32>) -> Vec<Lost> {
    let lost = positions.filter_map(|position| {
        let block = life.table(group).positions[position as usize].block?;
        Some(Lost { group, position, block })
    });
    lost.collect()
}
