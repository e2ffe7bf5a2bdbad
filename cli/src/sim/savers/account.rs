//! Which tokens should be durable, which are, and why the others are not.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use tenure::Stale;

/// Why tokens could not be saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The save was stale when it was to be planned or pinned.
    Stale(Stale),
    /// A rank failed.
    Failed,
    /// A report never came, and the job was ended by force.
    Forced,
}

impl Cause {
    /// The name under which it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Stale(stale) => stale.name(),
            Cause::Failed => "failed",
            Cause::Forced => "lost-completion",
        }
    }
}

/// What became of one block position of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Untold,
    InFlight,
    Lost(Cause),
    Durable,
}

/// The account of one request.
#[derive(Debug, Default)]
pub struct RequestAccount {
    fates: Vec<Fate>,
}

impl RequestAccount {
    /// The scheduler has told that these positions, and all before them, are computed.
    pub fn due(&mut self, positions: usize) {
        let len = self.fates.len().max(positions);
        self.fates.resize(len, Fate::Untold);
    }

    /// A save of these positions is planned. Answers whether an earlier one of any of them had come
    /// to nothing.
    pub fn planned(&mut self, positions: Range<usize>) -> bool {
        let lost = |fate: &Fate| matches!(fate, Fate::Lost(_));
        let again = self.fates.get(positions.clone()).is_some_and(|fates| fates.iter().any(lost));
        self.change(positions, Fate::InFlight);
        again
    }

    /// A planned save of these positions came to nothing.
    pub fn lost(&mut self, positions: Range<usize>, cause: Cause) {
        self.change(positions, Fate::Lost(cause));
    }

    /// A save of these positions is done.
    pub fn saved(&mut self, positions: Range<usize>) {
        self.change(positions, Fate::Durable);
    }

    /// No save of these positions could be planned; those that one was planned of before are left
    /// to it.
    pub fn not_planned(&mut self, positions: Range<usize>, cause: Cause) {
        for fate in self.fates.get_mut(positions).into_iter().flatten() {
            if *fate == Fate::Untold {
                *fate = Fate::Lost(cause);
            }
        }
    }

    /// What is durable stays so.
    fn change(&mut self, positions: Range<usize>, to: Fate) {
        let end = positions.end.min(self.fates.len());
        for fate in self.fates.get_mut(positions.start.min(end)..end).into_iter().flatten() {
            if *fate != Fate::Durable {
                *fate = to;
            }
        }
    }
}

/// Tokens that should be durable and are not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// The request's place in the trace.
    pub request: u32,
    /// The first of the tokens.
    pub from: u64,
    /// The token after the last of them.
    pub to: u64,
    /// Why the last save of them came to nothing; `None` where nobody knows.
    pub cause: Option<&'static str>,
}

/// The account of all requests, in blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Account {
    /// Blocks that should be durable.
    pub due_blocks: u64,
    /// Blocks that are.
    pub durable_blocks: u64,
    /// Blocks that are not, by the reason why the last save of them came to nothing.
    pub missing_blocks: BTreeMap<&'static str, u64>,
    /// Blocks that are not, for no reason.
    pub unexplained_blocks: u64,
    /// Requests of which the tracker's account is another one.
    pub tracker_mismatches: u64,
    /// Jobs that had not ended at the end.
    pub open_jobs: u64,
    /// What is missing, range by range.
    #[serde(skip)]
    pub missing: Vec<Missing>,
}

impl Account {
    /// Closes the account of a request of which the tracker says that `tracked` blocks, each of
    /// `block_size` tokens, are durable.
    pub fn close(
        &mut self,
        number: u32,
        request: &RequestAccount,
        tracked: Option<u64>,
        block_size: u32,
    ) {
        let token = |position: usize| position as u64 * u64::from(block_size);
        let mut durable = 0;
        let mut position = 0;
        for run in request.fates.chunk_by(Fate::eq) {
            let blocks = run.len() as u64;
            let cause = match run[0] {
                Fate::Durable => {
                    durable += blocks;
                    None
                }
                Fate::Lost(cause) => {
                    *self.missing_blocks.entry(cause.name()).or_default() += blocks;
                    Some(Some(cause.name()))
                }
                Fate::Untold | Fate::InFlight => {
                    self.unexplained_blocks += blocks;
                    Some(None)
                }
            };
            let (from, to) = (token(position), token(position + run.len()));
            self.missing.extend(cause.map(|cause| Missing { request: number, from, to, cause }));
            position += run.len();
        }
        self.due_blocks += request.fates.len() as u64;
        self.durable_blocks += durable;
        self.tracker_mismatches += u64::from(tracked.is_some_and(|tracked| tracked != durable));
    }

    /// Adds what another saver keeps account of.
    pub fn add(&mut self, other: &Account) {
        self.due_blocks += other.due_blocks;
        self.durable_blocks += other.durable_blocks;
        self.unexplained_blocks += other.unexplained_blocks;
        self.tracker_mismatches += other.tracker_mismatches;
        self.open_jobs += other.open_jobs;
        for (&cause, blocks) in &other.missing_blocks {
            *self.missing_blocks.entry(cause).or_default() += blocks;
        }
        self.missing.extend_from_slice(&other.missing);
        self.missing.sort_unstable_by_key(|missing| (missing.request, missing.from));
    }

    /// Whether every block that should be durable is durable or listed with the reason, no save is
    /// left open, and the trackers agree.
    pub fn is_balanced(&self) -> bool {
        let missing: u64 = self.missing_blocks.values().sum();
        self.unexplained_blocks == 0
            && self.tracker_mismatches == 0
            && self.open_jobs == 0
            && self.due_blocks == self.durable_blocks + missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_durable_or_missing_for_a_reason() {
        let mut request = RequestAccount::default();
        request.due(4);
        assert!(!request.planned(0..4));
        request.saved(0..2);
        request.lost(1..3, Cause::Stale(Stale::Gone));
        let mut account = Account::default();
        account.close(7, &request, Some(2), 16);
        assert_eq!((account.is_balanced(), account.unexplained_blocks), (false, 1));

        request.lost(3..4, Cause::Failed);
        let mut account = Account::default();
        account.close(7, &request, Some(2), 16);
        assert!(account.is_balanced(), "{account:?}");
        assert_eq!(account.missing_blocks, BTreeMap::from([("gone", 1), ("failed", 1)]));
        let missing = |from, to, cause| Missing { request: 7, from, to, cause: Some(cause) };
        assert_eq!(account.missing, [missing(32, 48, "gone"), missing(48, 64, "failed")]);

        account.close(7, &request, Some(3), 16);
        assert!(!account.is_balanced(), "the tracker's account is another one");
    }

    #[test]
    fn what_was_lost_is_planned_again() {
        let mut request = RequestAccount::default();
        request.due(4);
        request.lost(2..3, Cause::Failed);
        assert!(!request.planned(0..2));
        assert!(request.planned(0..4));
        request.saved(0..4);
        request.lost(0..4, Cause::Failed);
        assert!(!request.planned(0..4), "what is durable stays so");
    }
}
