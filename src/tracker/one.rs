//! The tracker of one request.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ranges::RangeSet;
use crate::error::{BadRange, PlanError};
use crate::ids::{Groups, RequestKey};
use crate::index::Index;
use crate::jobs::Outcome;
use crate::request::SaveRequest;

/// Names one offer of one tracker. Never issued twice in a process, so the outcome of an offer
/// never reaches a tracker that was started afresh.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId {
    tracker: u64,
    serial: u64,
}

impl fmt::Debug for OfferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tracker, self.serial)
    }
}

/// A save that a tracker offers: what to pin, and by which name to settle it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "its tokens are in flight until it is settled"]
pub struct Offer {
    /// The name to settle it by.
    pub id: OfferId,
    /// The plan. Once it is stale, so is the offer: the tracker makes a new one.
    pub request: SaveRequest,
}

/// What became of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settled {
    /// Every rank has stored its part: the tokens are durable.
    Saved,
    /// The plan was stale when it was to be pinned.
    Stale,
    /// Some rank failed.
    Failed,
    /// The job was ended by force.
    Forced,
    /// Planned, and not going to be pinned.
    Abandoned,
    /// Refused for lack of budget: nothing changes, the offer stands.
    Budget,
}

impl From<Outcome> for Settled {
    fn from(outcome: Outcome) -> Settled {
        match outcome {
            Outcome::Done => Settled::Saved,
            Outcome::Failed => Settled::Failed,
        }
    }
}

/// What this instance of the engine does for the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    /// Saves and loads.
    #[default]
    Both,
    /// Saves only.
    Producer,
    /// Loads only: its trackers never offer a save.
    Consumer,
}

impl Role {
    /// Whether saves are offered in this role.
    pub const fn saves(self) -> bool {
        !matches!(self, Role::Consumer)
    }
}

/// Follows one request and plans its saves.
///
/// Holds nothing of the index; the caller says at each step under which key the request lives.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{BlockId, Config, GroupId, SaveTracker, Settled};
///
/// let (mut scheduler, index) = Config::new(8).build()?;
/// let mut life = scheduler.admit("r1")?;
/// scheduler.assign(life, GroupId(0), &[BlockId(1), BlockId(2)])?;
/// scheduler.publish();
///
/// let mut tracker = SaveTracker::new();
/// let offer = tracker.next(&index, life, 20)?.expect("a whole block of 16 is computed");
/// assert_eq!(offer.request.tokens(), 0..16);
/// assert_eq!(tracker.next(&index, life, 20)?, None); // that block is in flight
///
/// life = scheduler.preempt(life)?.successor; // before it was pinned
/// tracker.settle(offer.id, Settled::Stale);
/// scheduler.assign(life, GroupId(0), &[BlockId(5), BlockId(6)])?;
/// scheduler.publish();
///
/// let offer = tracker.next(&index, life, 32)?.expect("offered again, under the new life");
/// tracker.settle(offer.id, Settled::Saved);
/// assert_eq!(tracker.watermark(), 32);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SaveTracker {
    id: u64,
    next_serial: u64,
    role: Role,
    end: u64,
    /// Offers are whole multiples of it: the least common multiple of the groups' block sizes, as
    /// the last offer found it.
    alignment: u64,
    saved: RangeSet,
    /// What can never be saved, as it was told.
    skipped: RangeSet,
    /// The tokens of each offer in flight, by its serial number.
    in_flight: BTreeMap<u64, Range<u64>>,
}

impl Default for SaveTracker {
    fn default() -> SaveTracker {
        SaveTracker::new()
    }
}

impl SaveTracker {
    /// A tracker of a request of which nothing is saved yet.
    pub fn new() -> SaveTracker {
        static TRACKERS: AtomicU64 = AtomicU64::new(0);
        SaveTracker {
            // Relaxed: only that no number is given twice matters.
            id: TRACKERS.fetch_add(1, Ordering::Relaxed),
            next_serial: 0,
            role: Role::default(),
            end: u64::MAX,
            alignment: 1,
            saved: RangeSet::default(),
            skipped: RangeSet::default(),
            in_flight: BTreeMap::new(),
        }
    }

    /// Offers only tokens below `end`: the end of the prompt, where decoded tokens are not saved.
    #[must_use]
    pub fn end(self, end: u64) -> SaveTracker {
        SaveTracker { end, ..self }
    }

    /// What this instance does for the store. In a role that does not save, nothing is offered.
    #[must_use]
    pub fn role(self, role: Role) -> SaveTracker {
        SaveTracker { role, ..self }
    }

    /// Plans the next save under the life `key`: whole blocks (of the least common multiple of the
    /// groups' block sizes) from the lowest token that is neither saved, in flight nor skipped, up to
    /// the next that is, and at most up to the least of `upto` (the tokens computed so far), the
    /// tracker's end, the committed tokens and the published table. `None` where no whole block is
    /// to be saved.
    ///
    /// # Errors
    /// [`PlanError::Stale`] where nothing can be planned whatever there is to save (draining, a
    /// reset, the end of the life), and where the range cannot be read (a hole in it).
    pub fn next(
        &mut self,
        index: &Index,
        key: RequestKey,
        upto: u64,
    ) -> Result<Option<Offer>, PlanError> {
        if !self.role.saves() {
            return Ok(None);
        }
        let alignment = index.geometry().alignment();
        let (table, committed) = index.visible_tokens(key, Groups::ALL)?;
        let limit = upto.min(self.end).min(table).min(committed);
        let gap = self.first_free(alignment);
        let end = gap.end.min(limit - limit % alignment);
        if gap.start >= end {
            return Ok(None);
        }
        let request = index.plan(key, gap.start..end, Groups::ALL)?;
        self.alignment = alignment;
        Ok(Some(self.offer(request)))
    }

    /// Offers a plan once more, for a second job over it: for instance one that was settled when
    /// its first job was ended by force, and is still good. `None` where another tracker made it.
    pub fn again(&mut self, offer: &Offer) -> Option<Offer> {
        (offer.id.tracker == self.id).then(|| self.offer(offer.request))
    }

    /// Takes in what became of an offer. Answers whether it was in flight; a second outcome and one
    /// of another tracker's offer change nothing.
    pub fn settle(&mut self, offer: OfferId, outcome: Settled) -> bool {
        if offer.tracker != self.id {
            return false;
        }
        if outcome == Settled::Budget {
            return self.in_flight.contains_key(&offer.serial);
        }
        let Some(ended) = self.in_flight.remove(&offer.serial) else { return false };
        if outcome == Settled::Saved {
            self.saved.insert(ended);
        }
        true
    }

    /// Takes in that of an offer only `tokens` will be saved: the rest is offered again. Blocks
    /// that `tokens` cover in part count as the rest. Answers whether the offer was in flight.
    ///
    /// # Errors
    /// [`BadRange`] where `tokens` is empty, reversed, or not inside the offer's range.
    pub fn narrow(&mut self, offer: OfferId, tokens: Range<u64>) -> Result<bool, BadRange> {
        let bad = BadRange { start: tokens.start, end: tokens.end };
        if tokens.is_empty() {
            return Err(bad);
        }
        if offer.tracker != self.id {
            return Ok(false);
        }
        let Some(held) = self.in_flight.get_mut(&offer.serial) else { return Ok(false) };
        if tokens.start < held.start || tokens.end > held.end {
            return Err(bad);
        }
        // Rounding up cannot overflow: the end of what is in flight is a multiple itself.
        let end = tokens.end - tokens.end % self.alignment;
        *held = tokens.start.next_multiple_of(self.alignment).min(end)..end;
        Ok(true)
    }

    /// Takes in that these tokens can never be saved, as those that a sliding window has left
    /// behind. They are not offered any more, and neither is a block of which some are skipped. What
    /// is durable or in flight already stays so. An empty range changes nothing.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure::{BlockId, Config, GroupId, SaveTracker, Settled};
    ///
    /// let (mut scheduler, index) = Config::new(8).build()?;
    /// let life = scheduler.admit("r1")?;
    /// scheduler.assign(life, GroupId(0), &[BlockId(1), BlockId(2), BlockId(3)])?;
    /// let _released = scheduler.vacate(life, GroupId(0), 0..1)?; // the window moves on
    /// scheduler.publish();
    ///
    /// let mut tracker = SaveTracker::new();
    /// assert!(tracker.next(&index, life, 48).is_err()); // there is a hole now
    /// tracker.skip(0..16);
    /// let offer = tracker.next(&index, life, 48)?.expect("the rest is there");
    /// assert_eq!(offer.request.tokens(), 16..48);
    /// tracker.settle(offer.id, Settled::Saved);
    /// assert_eq!(tracker.watermark(), 48); // all of it is dealt with,
    /// assert!(tracker.saved().eq([16..48])); // and this is durable
    /// # Ok(()) }
    /// ```
    pub fn skip(&mut self, tokens: Range<u64>) {
        self.skipped.insert(tokens);
    }

    /// Everything below it is durable or [skipped](SaveTracker::skip).
    pub fn watermark(&self) -> u64 {
        let mut settled = self.saved.clone();
        self.skipped.iter().for_each(|tokens| settled.insert(tokens));
        settled.covered_from_zero()
    }

    /// What was [skipped](SaveTracker::skip), ascending; ranges that touch are told as one. What was
    /// durable or in flight by then is among it.
    pub fn skipped(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.skipped.iter()
    }

    /// What is durable, ascending; ranges that touch are told as one.
    pub fn saved(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.saved.iter()
    }

    /// The ranges of the offers in flight, ascending. A range that was offered
    /// [again](SaveTracker::again) is told once.
    pub fn in_flight(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> =
            self.in_flight.values().filter(|tokens| !tokens.is_empty()).cloned().collect();
        ranges.sort_unstable_by_key(|tokens| (tokens.start, tokens.end));
        ranges.dedup();
        ranges
    }

    fn first_free(&self, alignment: u64) -> Range<u64> {
        let mut busy = self.saved.clone();
        for Range { start, end } in self.skipped.iter() {
            let end = end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
            busy.insert(start - start % alignment..end);
        }
        for held in self.in_flight.values() {
            busy.insert(held.clone());
        }
        busy.first_gap()
    }

    fn offer(&mut self, request: SaveRequest) -> Offer {
        let id = OfferId { tracker: self.id, serial: self.next_serial };
        self.next_serial += 1;
        self.in_flight.insert(id.serial, request.tokens());
        Offer { id, request }
    }
}
