//! How positions are lost, and which of them a pin's lease keeps.

use std::collections::BTreeSet;

use tenure::{BlockId, BlockState, GroupId, RequestKey};

use super::life::{End, Lease, LeaseId, Life, RuleHull, Table};
use super::pins::Protection;
use super::shape::overlap;
use super::{GivenUp, Model};

/// A position that a table no longer lists.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    pub group: GroupId,
    pub position: u32,
    pub block: BlockId,
}

impl Model {
    /// A life of this key and label with empty tables.
    pub(super) fn open_life(&mut self, key: RequestKey, label: &str) {
        assert!(self.life(key).is_none(), "the key {key} was issued twice");
        let newest = self.open_lease();
        self.lives.push(Life {
            key,
            label: label.into(),
            since: self.coming(),
            tables: vec![Table::default(); self.shape.block_sizes.len()],
            end: None,
            newest,
            queue: Vec::new(),
            hull: RuleHull::default(),
        });
    }

    fn open_lease(&mut self) -> Lease {
        self.leases = LeaseId(self.leases.0 + 1);
        Lease { id: self.leases, closed: self.draining, hull: 0..0, kept: Vec::new() }
    }

    pub(super) fn end_life(&mut self, key: RequestKey, end: End) -> Vec<BlockId> {
        let lost: Vec<Lost> = self
            .life(key)
            .expect("a life")
            .listed()
            .map(|(group, position, block)| Lost { group, position, block })
            .collect();
        let life = self.life_mut(key);
        life.tables.iter_mut().for_each(|table| *table = Table::default());
        life.end = Some(end);
        self.lose(key, lost)
    }

    /// Supersedes the newest lease, after `lost` were taken out of the tables, and gives the lost
    /// blocks up. Answers the blocks, one for each lost position.
    ///
    /// The lease that is closed enters the life's queue if it has pins. A lost position is then
    /// kept by the newest lease of the queue whose hull it meets, and given up entirely otherwise.
    pub(super) fn lose(&mut self, key: RequestKey, lost: Vec<Lost>) -> Vec<BlockId> {
        self.close_newest(key);
        let successor = self.open_lease();
        self.life_mut(key).newest = successor;
        for lost in &lost {
            let keeper = self.keeper(key, lost);
            self.assert_allowed(key, lost, keeper);
            if let Some(lease) = keeper {
                let queue = &mut self.life_mut(key).queue;
                queue.iter_mut().find(|l| l.id == lease).expect("it").kept.push(lost.block);
            }
            if let Some(&(newest_step, _)) = self.steps.last() {
                self.fences.insert(lost.block, newest_step);
            }
        }
        let lives = &self.lives;
        self.arrivals.retain(|&(block, key)| {
            lives.iter().any(|life| life.key == key && life.end.is_none() && life.lists(block))
        });
        lost.iter().map(|lost| lost.block).collect()
    }

    /// Closes the newest lease where it is. Nothing happens to one that is closed already.
    pub(super) fn close_newest(&mut self, key: RequestKey) {
        let life = self.life(key).expect("a life");
        if life.newest.closed {
            return;
        }
        let pinned = self.pins_on(life.newest.id) > 0;
        let life = self.life_mut(key);
        life.newest.closed = true;
        if pinned {
            life.queue.push(life.newest.clone());
        }
    }

    fn keeper(&self, key: RequestKey, lost: &Lost) -> Option<LeaseId> {
        let tokens = self.shape.tokens(lost.group, lost.position);
        let mut newest_first = self.life(key).expect("a life").queue.iter().rev();
        newest_first.find(|lease| overlap(&lease.hull, &tokens)).map(|lease| lease.id)
    }

    /// R7: what lies outside the hull of the life's pins is not kept, and what a pin covers is.
    fn assert_allowed(&self, key: RequestKey, lost: &Lost, keeper: Option<LeaseId>) {
        let hull = &self.life(key).expect("a life").hull;
        let tokens = self.shape.tokens(lost.group, lost.position);
        let in_hull = !hull.counted.is_empty() && overlap(&hull.tokens, &tokens);
        assert!(in_hull || keeper.is_none(), "{lost:?} is kept outside the hull {hull:?}");
        let covered = self.pins.values().any(|pin| {
            matches!(pin.protection, Protection::Lease(_))
                && pin.key == Some(key)
                && pin.listed.contains(&(lost.group, lost.position, lost.block))
        });
        assert!(!covered || keeper.is_some(), "{lost:?} is under a pin and not kept");
    }

    /// What became of the blocks that `call` answers as given up.
    pub(super) fn giving_up(&mut self, call: impl FnOnce(&mut Model) -> Vec<BlockId>) -> GivenUp {
        let free_before = self.free_blocks();
        let given_up: BTreeSet<BlockId> = call(self).into_iter().collect();
        let freed: Vec<BlockId> = self.free_blocks().difference(&free_before).copied().collect();
        let held = given_up.iter().filter(|&&block| self.state(block) == BlockState::Held).count();
        GivenUp { freed, held: held as u32 }
    }
}
