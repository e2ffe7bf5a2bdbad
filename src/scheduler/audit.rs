//! Whether the scheduler's books agree with each other and with what readers find.

#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use super::Scheduler;
use super::versions::listed;
use crate::ids::{BlockId, GroupId, RequestKey};
use crate::lease::Ended;
use crate::sync::Ordering;
use crate::word::Word;

/// An invariant that does not hold. There is no way to bring this about through the public
/// interface; it is told, not asserted, so that an engine can go on and report.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A block's count of listings differs from what the tables list.
    #[error("block {block} is listed {listed} times and counted {counted} times")]
    Listings {
        /// The block.
        block: BlockId,
        /// By the tables.
        listed: u32,
        /// By the block's record.
        counted: u32,
    },
    /// A block's count of holds differs from what leases and holds keep.
    #[error("block {block} is kept {kept} times and counted {counted} times")]
    Holds {
        /// The block.
        block: BlockId,
        /// By leases and exact holds.
        kept: u32,
        /// By the block's record.
        counted: u32,
    },
    /// The lives that list a block are not the ones that its record names.
    #[error("the owners of block {block} are not those that list it")]
    Owners {
        /// The block.
        block: BlockId,
    },
    /// The count of free or owned blocks differs from what the records say.
    #[error("{counted} blocks count as {state}, {found} are")]
    Pool {
        /// Free or owned.
        state: &'static str,
        /// By the pool.
        counted: u32,
        /// By the records.
        found: u32,
    },
    /// A block is in the waiting list of a step more than once, or its mark says otherwise.
    #[error("block {block} is wrongly noted as waiting for a step")]
    Waiting {
        /// The block.
        block: BlockId,
    },
    /// A table's entries are out of order outside of its patch, or younger than it says.
    #[error("position {position} of {group} of {key} is out of order")]
    Order {
        /// The life.
        key: RequestKey,
        /// The group.
        group: GroupId,
        /// The position.
        position: u32,
    },
    /// The newest lease of a life does not show the life's table.
    #[error("the lease of {key} does not show its table")]
    Lease {
        /// The life.
        key: RequestKey,
    },
    /// The count of leases with pins out differs from the leases.
    #[error("{counted} leases count as draining, {found} are")]
    Draining {
        /// By the scheduler.
        counted: usize,
        /// By the leases.
        found: usize,
    },
}

impl Scheduler {
    /// Checks that free + owned + held is the whole pool and that everything else the scheduler
    /// keeps agrees. For tests and debugging: costs a walk over everything. Where it does not, the
    /// flight recorder writes its script if it was [asked to](crate::Recording::on_failed_audit).
    ///
    /// # Errors
    /// The first thing that does not agree.
    pub fn audit(&mut self) -> Result<(), AuditError> {
        self.look();
        let found = self.audit_all();
        if let (Err(error), Some(recorder)) = (&found, &self.shared.recorder) {
            recorder.audit_failed(error);
        }
        found
    }

    fn audit_all(&self) -> Result<(), AuditError> {
        self.audit_blocks()?;
        self.audit_waiting()?;
        self.audit_tables()?;
        self.audit_leases()
    }

    fn audit_blocks(&self) -> Result<(), AuditError> {
        let mut listings: HashMap<BlockId, u32> = HashMap::new();
        let mut owners: HashMap<BlockId, HashSet<RequestKey>> = HashMap::new();
        for (_, life) in &self.lives {
            for table in &life.tables {
                let each = |_, block| {
                    *listings.entry(block).or_default() += 1;
                    owners.entry(block).or_default().insert(life.key);
                };
                // SAFETY: a live table's storage is alive.
                unsafe { listed(table.tree.root, table.extent.front..table.extent.len, each) };
            }
        }
        let mut keeps: HashMap<BlockId, u32> = HashMap::new();
        for (_, record) in &self.leases {
            // SAFETY: alive while its record exists.
            let held = unsafe { (*record.lease).held.iter() }.flat_map(|held| &held.blocks);
            for &block in record.kept.iter().chain(held) {
                *keeps.entry(block).or_default() += 1;
            }
        }
        let (mut free, mut owned) = (0, 0);
        for block in (0..self.blocks.capacity()).map(BlockId) {
            let (listed, counted) =
                (listings.get(&block).copied().unwrap_or(0), self.blocks.listings(block));
            if listed != counted {
                return Err(AuditError::Listings { block, listed, counted });
            }
            let (kept, counted) =
                (keeps.get(&block).copied().unwrap_or(0), self.blocks.holds(block));
            if kept != counted {
                return Err(AuditError::Holds { block, kept, counted });
            }
            let named: HashSet<RequestKey> = self.owners_of(block).into_iter().collect();
            if named != owners.remove(&block).unwrap_or_default() {
                return Err(AuditError::Owners { block });
            }
            if self.blocks.shown(block).is_some() {
                free += u32::from(self.blocks.is_free(block));
                owned += u32::from(listed > 0);
            }
        }
        for (state, counted, found) in
            [("free", self.blocks.free(), free), ("owned", self.blocks.owned(), owned)]
        {
            if counted != found {
                return Err(AuditError::Pool { state, counted, found });
            }
        }
        Ok(())
    }

    fn audit_waiting(&self) -> Result<(), AuditError> {
        let mut waiting = HashSet::new();
        for &block in self.blocks.waiting().flatten() {
            if !waiting.insert(block) || !self.blocks.waits(block) {
                return Err(AuditError::Waiting { block });
            }
        }
        match (0..self.blocks.capacity())
            .map(BlockId)
            .find(|b| self.blocks.waits(*b) && !waiting.contains(b))
        {
            Some(block) => Err(AuditError::Waiting { block }),
            None => Ok(()),
        }
    }

    fn audit_tables(&self) -> Result<(), AuditError> {
        for (_, life) in self.lives.iter().filter(|(_, life)| life.live) {
            for (at, table) in life.tables.iter().enumerate() {
                let (extent, patch) = (table.extent, table.patch);
                let mut last = 0;
                for position in extent.front..extent.len {
                    // SAFETY: a live table's storage is alive.
                    let entry = unsafe { table.tree.root.entry(position) };
                    let patched = patch.meets(position.into(), u64::from(position) + 1);
                    let ordered = entry.is_some_and(|entry| {
                        entry.since <= table.youngest
                            && (patched || (entry.since >= last && entry.block.is_some()))
                    });
                    if !ordered {
                        return Err(AuditError::Order {
                            key: life.key,
                            group: GroupId(at as u32),
                            position,
                        });
                    }
                    if let Some(entry) = entry.filter(|_| !patched) {
                        last = entry.since;
                    }
                }
            }
        }
        Ok(())
    }

    fn audit_leases(&self) -> Result<(), AuditError> {
        for (slot, place) in self.slots.iter().enumerate() {
            let Some(life) = place.life.and_then(|life| self.lives.get(life)) else { continue };
            let key = life.key;
            let lease = self.shared.lease(slot as u32);
            // SAFETY: the newest lease of a slot is alive.
            let shows = unsafe { lease.as_ref() }.is_some_and(|lease| {
                let shown = |(at, table): (usize, &super::Table)| {
                    let cells = lease.cells(at);
                    let state = table.state();
                    cells.extent() == state.extent
                        && cells.patch() == state.patch
                        && cells.youngest() == state.youngest
                        && cells.root() == state.root
                        && lease.committed(cells) == table.floor.max(life.raised)
                };
                lease.key == key
                    && lease.ended == Ended::No
                    && life.tables.iter().enumerate().all(shown)
            });
            if !shows {
                return Err(AuditError::Lease { key });
            }
        }
        let found = self.leases.iter().filter(|(_, record)| record.undrained).count();
        if found != self.undrained {
            return Err(AuditError::Draining { counted: self.undrained, found });
        }
        // A lease that is closed and has no pins any more is on its way here, or has been noted.
        let unnoted = self.leases.iter().filter(|(_, record)| {
            // SAFETY: alive while its record exists.
            let word = Word(unsafe { (*record.lease).word.load(Ordering::Relaxed) });
            word.is_closed() && word.pins() > 0 && !record.undrained
        });
        match unnoted.count() {
            0 => Ok(()),
            more => Err(AuditError::Draining { counted: self.undrained, found: found + more }),
        }
    }
}
