//! Pins: what they list, how they end, and what the scheduler's next call makes of that.

use std::ops::Range;
use std::sync::Arc;

use tenure::{BadRange, BlockId, GroupId, Groups, Kind, RequestKey};

use super::Model;
use super::life::LeaseId;
use super::shape::union;

/// Counts pins from 1, exact holds among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PinId(pub u64);

/// A pin that is out.
#[derive(Clone, Debug)]
pub struct ModelPin {
    /// `None` for an exact hold.
    pub key: Option<RequestKey>,
    pub label: Option<Arc<str>>,
    pub kind: Kind,
    pub tokens: Range<u64>,
    pub groups: Groups,
    /// Every position of the range with its block, by group, then position. An exact hold lists
    /// its blocks as positions of one nameless group.
    pub listed: Vec<(GroupId, u32, BlockId)>,
    pub protection: Protection,
    /// Narrowed since the scheduler's last call.
    narrowed: bool,
}

/// What keeps a pin's blocks from being reused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Protection {
    /// A version of the life's tables.
    Lease(LeaseId),
    /// Exactly these blocks.
    Exact(Vec<BlockId>),
}

impl ModelPin {
    /// The distinct blocks, by group, then position.
    pub fn blocks(&self) -> Vec<BlockId> {
        distinct(self.listed.iter().map(|&(_, _, block)| block))
    }

    /// One block for each position of the range in `group`.
    pub fn blocks_of(&self, group: GroupId) -> Vec<BlockId> {
        let of_group = self.listed.iter().filter(|&&(listed, _, _)| listed == group);
        of_group.map(|&(_, _, block)| block).collect()
    }
}

/// The blocks without repetitions, in the order of their first occurrence.
pub fn distinct(blocks: impl IntoIterator<Item = BlockId>) -> Vec<BlockId> {
    blocks.into_iter().fold(Vec::new(), |mut seen, block| {
        if !seen.contains(&block) {
            seen.push(block);
        }
        seen
    })
}

impl Model {
    pub fn pin_out(&self, id: PinId) -> &ModelPin {
        &self.pins[&id]
    }

    pub(super) fn pins_on(&self, lease: LeaseId) -> usize {
        let pins = self.pins.values().filter_map(ModelPin::lease);
        pins.chain(self.ending.iter().copied()).filter(|&pinned| pinned == lease).count()
    }

    /// A pin over `tokens` of a life, which is known to be allowed.
    pub(super) fn take_pin(
        &mut self,
        key: RequestKey,
        kind: Kind,
        tokens: Range<u64>,
        groups: Groups,
    ) -> PinId {
        let named = self.shape.named(groups).expect("groups that the index has");
        let life = self.life(key).expect("a life");
        let listed = named.iter().flat_map(|&group| {
            self.shape.positions(group, &tokens).map(move |position| {
                let entry = life.table(group).positions[position as usize];
                (group, position as u32, entry.block.expect("no hole"))
            })
        });
        let pin = ModelPin {
            key: Some(key),
            label: Some(life.label.clone()),
            kind,
            tokens: tokens.clone(),
            groups,
            listed: listed.collect(),
            protection: Protection::Lease(life.newest.id),
            narrowed: false,
        };
        self.widen_hulls(key, &named, &tokens);
        let id = self.register(pin);
        self.life_mut(key).hull.counted.insert(id);
        id
    }

    /// A pin that finds none on its lease starts the lease's hull anew, others widen it; and the
    /// same for the hull of R7, which knows no leases and is in whole blocks.
    fn widen_hulls(&mut self, key: RequestKey, groups: &[GroupId], tokens: &Range<u64>) {
        let lease = self.life(key).expect("a life").newest.id;
        let first = self.pins_on(lease) == 0;
        let grains = self.shape.in_grains(tokens);
        let whole = self.shape.in_whole_blocks(groups, tokens);
        let life = self.life_mut(key);
        life.newest.hull = if first { grains } else { union(&life.newest.hull, &grains) };
        let first = life.hull.counted.is_empty();
        life.hull.tokens = if first { whole } else { union(&life.hull.tokens, &whole) };
    }

    /// An exact hold over these blocks.
    pub(super) fn take_hold(&mut self, blocks: &[BlockId]) -> PinId {
        let blocks = distinct(blocks.iter().copied());
        self.register(ModelPin {
            key: None,
            label: None,
            kind: Kind::Hold,
            tokens: 0..0,
            groups: Groups::NONE,
            listed: blocks.iter().map(|&block| (GroupId(u32::MAX), 0, block)).collect(),
            protection: Protection::Exact(blocks),
            narrowed: false,
        })
    }

    fn register(&mut self, pin: ModelPin) -> PinId {
        self.pins_taken += 1;
        let id = PinId(self.pins_taken);
        self.pins.insert(id, pin);
        id
    }

    /// Ends a pin. What it gave back is free from the scheduler's next call on. Its lease knows at
    /// once, unless the scheduler was to end the pin on the lease, because it was narrowed.
    pub fn unpin(&mut self, id: PinId) {
        let pin = self.pins.remove(&id).expect("a pin that is out");
        match pin.protection {
            Protection::Exact(blocks) => self.ended_holds.push(blocks),
            Protection::Lease(lease) if pin.narrowed => self.ending.push(lease),
            Protection::Lease(_) => {}
        }
    }

    /// Lists only `tokens` from now on. The rest is given back at the scheduler's next call.
    pub fn narrow(&mut self, id: PinId, tokens: Range<u64>) -> Result<(), BadRange> {
        let shape = self.shape.clone();
        let pin = self.pins.get_mut(&id).expect("a pin that is out");
        let Range { start, end } = tokens;
        if start >= end || start < pin.tokens.start || end > pin.tokens.end {
            return Err(BadRange { start, end });
        }
        if tokens == pin.tokens {
            return Ok(());
        }
        pin.listed.retain(|&(group, position, _)| {
            shape.positions(group, &tokens).contains(&u64::from(position))
        });
        pin.tokens = tokens;
        pin.narrowed = true;
        Ok(())
    }

    /// What every call of the scheduler begins with: holds end, narrowed pins become exact holds,
    /// and leases whose pins have all ended leave the queue, oldest first, with what they kept.
    pub(super) fn take_in(&mut self) {
        let free_before = self.free_blocks();
        self.ended_holds.clear();
        self.ending.clear();
        for pin in self.pins.values_mut().filter(|pin| pin.narrowed) {
            pin.narrowed = false;
            pin.protection = Protection::Exact(pin.blocks());
        }
        let undrained: Vec<LeaseId> = self.pins.values().filter_map(ModelPin::lease).collect();
        let counted: Vec<PinId> =
            self.pins.iter().filter(|(_, pin)| pin.lease().is_some()).map(|(&id, _)| id).collect();
        for life in &mut self.lives {
            while life.queue.first().is_some_and(|oldest| !undrained.contains(&oldest.id)) {
                life.queue.remove(0);
            }
            life.hull.counted.retain(|id| counted.contains(id));
        }
        let freed = self.free_blocks();
        self.reclaimed.extend(freed.difference(&free_before));
    }
}

impl ModelPin {
    fn lease(&self) -> Option<LeaseId> {
        match self.protection {
            Protection::Lease(lease) => Some(lease),
            Protection::Exact(_) => None,
        }
    }
}
