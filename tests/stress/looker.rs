//! Readers of whole pictures: one table that takes long to copy, two that change together, and
//! everything at one epoch.

use std::collections::HashSet;

use tenure::{GroupId, Index, TableView};

use crate::memory::Dice;
use crate::world::{Tally, World, key_in};

pub struct Looker<'w> {
    world: &'w World,
    index: Index,
    dice: Dice,
    tally: Tally,
}

impl<'w> Looker<'w> {
    pub fn new(world: &'w World, index: Index, seed: u64) -> Looker<'w> {
        Looker { world, index, dice: Dice::new(seed), tally: Tally::default() }
    }

    pub fn look(mut self) -> Tally {
        while !self.world.stopped() {
            match self.dice.below(64) {
                0 => self.at_all(),
                1..24 => self.at_the_giant(),
                _ => self.at_the_twins(),
            }
        }
        self.tally
    }

    fn view(&mut self, place: impl Fn(&World) -> Option<tenure::RequestKey>) -> Option<TableView> {
        let key = place(self.world)?;
        self.tally.operations += 1;
        self.tally.views += 1;
        Some(self.index.view(key).expect("it lives as long as the run"))
    }

    /// The reader that keeps the others' garbage waiting.
    fn at_the_giant(&mut self) {
        let Some(view) = self.view(|world| key_in(&world.giant)) else { return };
        let table = view.table(GroupId(0));
        let longest = self.world.scale.giant as usize;
        assert!(table.is_empty() || table.len() > longest / 2, "{} of {longest}", table.len());
        assert!(table.iter().all(Option::is_some), "a hole in the giant");
    }

    /// Two tables that are published together.
    fn at_the_twins(&mut self) {
        let one = self.view(|world| key_in(&world.twins[0]));
        let other = self.view(|world| key_in(&world.twins[1]));
        if let (Some(one), Some(other)) = (one, other)
            && one.epoch == other.epoch
        {
            self.compare(&one, &other);
        }
    }

    fn compare(&self, one: &TableView, other: &TableView) {
        for (a, b) in one.tables().zip(other.tables()) {
            assert_eq!(a.len(), b.len(), "half of a step at epoch {}", one.epoch);
        }
    }

    fn at_all(&mut self) {
        self.tally.operations += 1;
        self.tally.pictures += 1;
        let snapshot = self.index.snapshot();
        let [one, other] = &self.world.twins;
        if let (Some(one), Some(other)) = (key_in(one), key_in(other))
            && let (Some(one), Some(other)) = (snapshot.get(one), snapshot.get(other))
        {
            self.compare(one, other);
        }
        if self.dice.one_in(16) {
            // At one epoch, no block is listed twice by tables that do not share.
            let mut listed = HashSet::new();
            let own = (0..self.world.scale.lives).filter(|&at| World::is_own(at));
            for view in own.filter_map(|at| snapshot.get(self.world.target(at)?.key)) {
                for &block in view.tables().flatten().flatten() {
                    assert!(listed.insert(block), "{block} twice at epoch {}", snapshot.epoch());
                }
            }
        }
    }
}
