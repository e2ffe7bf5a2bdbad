//! One life of a request: its tables, and the versions of them that pins hold.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use tenure::{BlockId, Epoch, GroupId, RequestKey};

use super::PinId;

/// One span from admission to release, preemption or reset.
#[derive(Clone, Debug)]
pub struct Life {
    pub key: RequestKey,
    pub label: Arc<str>,
    /// The epoch from which readers see it.
    pub since: Epoch,
    /// One per group.
    pub tables: Vec<Table>,
    pub end: Option<End>,
    /// The version that a pin would hold now.
    pub newest: Lease,
    /// Superseded versions that had pins when they were closed, oldest first.
    pub queue: Vec<Lease>,
    /// The hull of rule R7. The mechanism's answers are not made from it, but must agree with it.
    pub hull: RuleHull,
}

/// How a life ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By release or by a reset.
    Released,
    Preempted,
}

/// The ordered positions of one group.
#[derive(Clone, Default, Debug)]
pub struct Table {
    pub positions: Vec<Position>,
    /// Tokens known to be written.
    pub committed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// `None` is a hole.
    pub block: Option<BlockId>,
    /// The epoch from which readers see it.
    pub since: Epoch,
}

/// A version of a life's tables. Positions that were lost while its pins covered them are kept by
/// it.
#[derive(Clone, Debug)]
pub struct Lease {
    pub id: LeaseId,
    /// Takes no more pins.
    pub closed: bool,
    /// The tokens around its pins since it last had none, in grains; of no meaning without pins.
    pub hull: Range<u64>,
    /// Blocks that positions gave up under the hull. One entry per position.
    pub kept: Vec<BlockId>,
}

/// Counts leases over all lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeaseId(pub u64);

/// The smallest token range, in whole blocks, around the pins that a life has had since it last
/// had none. A pin counts until a call of the scheduler has taken its end in.
#[derive(Clone, Default, Debug)]
pub struct RuleHull {
    pub counted: BTreeSet<PinId>,
    pub tokens: Range<u64>,
}

impl Life {
    pub fn table(&self, group: GroupId) -> &Table {
        &self.tables[group.0 as usize]
    }

    pub fn table_mut(&mut self, group: GroupId) -> &mut Table {
        &mut self.tables[group.0 as usize]
    }

    pub fn lists(&self, block: BlockId) -> bool {
        self.listed().any(|(_, _, listed)| listed == block)
    }

    /// Every position that is no hole, by group, then position.
    pub fn listed(&self) -> impl Iterator<Item = (GroupId, u32, BlockId)> {
        self.tables.iter().enumerate().flat_map(|(group, table)| {
            table.positions.iter().enumerate().filter_map(move |(position, entry)| {
                entry.block.map(|block| (GroupId(group as u32), position as u32, block))
            })
        })
    }
}

impl Table {
    pub fn len(&self) -> u32 {
        self.positions.len() as u32
    }

    /// The length without the entries at the tail that readers do not see at `epoch`.
    pub fn visible_len(&self, epoch: Epoch) -> u32 {
        let unseen = self.positions.iter().rev().take_while(|entry| entry.since > epoch).count();
        (self.positions.len() - unseen) as u32
    }

    /// What readers are shown when this is published.
    pub fn shown(&self) -> Vec<Option<BlockId>> {
        self.positions.iter().map(|entry| entry.block).collect()
    }

    /// Lowers `committed` to at most `tokens`; whether that changed anything.
    pub fn lower(&mut self, tokens: u64) -> bool {
        let lowered = tokens < self.committed;
        self.committed = self.committed.min(tokens);
        lowered
    }
}
