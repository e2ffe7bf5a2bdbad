//! How the choices of an operation are resolved in the state that it meets.

use std::ops::Range;

use tenure::{BlockId, Epoch, GroupId, Groups, RequestKey, SaveRequest};

use super::calls::never_issued;
use super::{Driver, REQUESTS};
use crate::model::ops::{OfBlock, OfEpoch, OfGroup, OfGroups, Place, Reach, Span, Who};

impl Driver {
    pub(super) fn key(&self, who: Who) -> RequestKey {
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
    pub(super) fn table(&self, who: Who, group: OfGroup) -> (RequestKey, GroupId) {
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

    pub(super) fn groups(&self, groups: OfGroups) -> Groups {
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

    pub(super) fn block(&self, block: OfBlock) -> BlockId {
        self.blocks(&[block])[0]
    }

    pub(super) fn blocks(&self, blocks: &[OfBlock]) -> Vec<BlockId> {
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

    pub(super) fn len(&self, key: RequestKey, group: GroupId) -> u32 {
        self.model.len(key, group).unwrap_or(0)
    }

    /// A position below `len`, where there is one.
    pub(super) fn place(&self, (key, group): (RequestKey, GroupId), place: Place, len: u32) -> u32 {
        match place {
            Place::Front => self.model.front(key, group).unwrap_or(0),
            Place::Within(pick) => u32::from(pick).checked_rem(len).unwrap_or(0),
            Place::FromEnd(pick) => len.saturating_sub(1 + u32::from(pick)),
            Place::Raw(position) => position,
        }
    }

    pub(super) fn reach(&self, key: RequestKey, reach: Reach) -> u64 {
        let shape = &self.model.shape;
        let covers = |group| u64::from(self.len(key, group)) * shape.block_size(group);
        let covered = shape.groups().map(covers).min().expect("at least one group");
        match reach {
            Reach::All => covered,
            Reach::Within(pick) => part(pick, covered),
            Reach::Raw(tokens) => tokens,
        }
    }

    pub(super) fn span(&self, key: RequestKey, groups: Groups, span: Span) -> Range<u64> {
        let shown = self.model.shown_tokens(key, groups);
        // At least one token, so that a range is empty only where it is meant to be.
        span_within(span, 0..shown.max(1))
    }

    pub(super) fn epoch(&self, epoch: OfEpoch) -> Epoch {
        let published = self.model.epoch().0;
        match epoch {
            OfEpoch::Back(by) => Epoch(published.saturating_sub(by.into())),
            OfEpoch::Ahead(by) => Epoch(published + 1 + u64::from(by)),
        }
    }

    pub(super) fn request(&self, pick: u8) -> Option<SaveRequest> {
        // The youngest first, so that a short list of operations uses what it has just planned.
        let youngest_first: Vec<SaveRequest> = self.requests.iter().rev().copied().collect();
        cyclic(&youngest_first, pick)
    }

    pub(super) fn keep(&mut self, request: SaveRequest) {
        if self.requests.len() == REQUESTS {
            self.requests.remove(0);
        }
        self.requests.push(request);
    }

    pub(super) fn pin_at(&self, pick: u8) -> Option<usize> {
        (usize::from(pick)).checked_rem(self.pins.len())
    }
}

pub(super) fn cyclic<T: Copy>(all: &[T], pick: u8) -> Option<T> {
    all.get(usize::from(pick).checked_rem(all.len())?).copied()
}

/// A number up to and including `whole`, and in proportion to the pick.
pub(super) fn part(pick: u16, whole: u64) -> u64 {
    (u128::from(pick) * u128::from(whole) / u128::from(u16::MAX)) as u64
}

pub(super) fn span_within(span: Span, within: Range<u64>) -> Range<u64> {
    match span {
        Span::All => within,
        Span::Within { start, len } => {
            let start = within.start + part(start, (within.end - within.start).saturating_sub(1));
            start..start + part(len, within.end - start).max(1)
        }
        Span::Raw { start, end } => start..end,
    }
}
