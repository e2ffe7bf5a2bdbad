//! What a saver thread counts, and how the counts of all of them add up.

use tenure::Stale;

use super::account::Account;
use crate::sim::series::Series;

/// The counts of one saver thread, or of all.
#[derive(Clone, Default)]
pub struct Tally {
    /// Saves that were planned.
    pub planned: u64,
    /// Of them, those of tokens of which an earlier save had come to nothing.
    pub retried: u64,
    /// Saves that could not even be planned, by [`Stale::ordinal`].
    pub not_planned: [u64; Stale::COUNT],
    /// Saves that were stale when they were to be pinned, by [`Stale::ordinal`].
    pub stale: [u64; Stale::COUNT],
    /// Pins that were refused for now and tried again.
    pub over_budget: u64,
    /// Saves that were stored by all ranks.
    pub completed: u64,
    /// The blocks that they covered.
    pub blocks_saved: u64,
    /// Saves that a rank failed to store.
    pub failed: u64,
    /// Saves of which a report never came, ended by force.
    pub forced: u64,
    /// Reports that were lost, late, and sent twice on purpose.
    pub disturbed: Disturbed,
    /// Reports that the ledger ignored: duplicates and late ones.
    pub reports_ignored: u64,
    /// Blocks of which a rank read other content than their position must hold.
    pub wrong_blocks: u64,
    /// Stores, each of one rank, that read such a block.
    pub wrong_stores: u64,
    /// The step at which one was read first.
    pub first_wrong_step: Option<u64>,
    /// The step at which a save was stale first.
    pub first_stale_step: Option<u64>,
    /// Nanoseconds that a pin took, with its books.
    pub pin_ns: Series,
    /// Steps from the plan to the end of its job, of completed saves.
    pub store_steps: Series,
    /// The account of what is durable.
    pub account: Account,
}

/// Reports of completion that were disturbed on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disturbed {
    /// Never sent.
    pub lost: u64,
    /// Sent much later.
    pub late: u64,
    /// Sent twice.
    pub duplicated: u64,
}

impl Tally {
    /// Adds what another saver counted.
    pub fn add(&mut self, other: &Tally) {
        self.planned += other.planned;
        self.retried += other.retried;
        for (sum, count) in self.not_planned.iter_mut().zip(other.not_planned) {
            *sum += count;
        }
        for (sum, count) in self.stale.iter_mut().zip(other.stale) {
            *sum += count;
        }
        self.over_budget += other.over_budget;
        self.completed += other.completed;
        self.blocks_saved += other.blocks_saved;
        self.failed += other.failed;
        self.forced += other.forced;
        self.disturbed.lost += other.disturbed.lost;
        self.disturbed.late += other.disturbed.late;
        self.disturbed.duplicated += other.disturbed.duplicated;
        self.reports_ignored += other.reports_ignored;
        self.wrong_blocks += other.wrong_blocks;
        self.wrong_stores += other.wrong_stores;
        self.first_wrong_step = earliest(self.first_wrong_step, other.first_wrong_step);
        self.first_stale_step = earliest(self.first_stale_step, other.first_stale_step);
        self.pin_ns.add(&other.pin_ns);
        self.store_steps.add(&other.store_steps);
        self.account.add(&other.account);
    }

    /// All saves that were stale when they were to be pinned.
    pub fn all_stale(&self) -> u64 {
        self.stale.iter().sum()
    }
}

fn earliest(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}
