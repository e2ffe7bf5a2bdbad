//! One life of one group, call by call.

use std::ops::Range;

use tenure::Stale;

use super::record::Spec;

/// What was asked of the index, and what it answered. Blocks and positions are plain numbers.
#[derive(Clone, Debug)]
pub enum Event {
    /// A block was appended.
    Append(u32),
    /// The table was cut to a length; these were free at once.
    Truncate(usize, Vec<u32>),
    /// So many tokens were named as written.
    Commit(u64),
    /// The life ended; these were free at once.
    Release(Vec<u32>),
    /// A step was published under this epoch.
    Publish(u64),
    /// These had come back from pins.
    Reclaim(Vec<u32>),
    /// A plan began, under a name.
    Planning(&'static str),
    /// It was made, over a range. A plan looks twice: at the published epoch, and later at the
    /// table and at what is committed; so it may carry an epoch from before what it found.
    Plan(&'static str, Range<usize>, Result<u64, Stale>),
    /// A range planned at an epoch was pinned, under a name; these are its blocks.
    Pin(&'static str, Range<usize>, u64, Result<Vec<u32>, Stale>),
    /// The same by loads alone.
    Check(Range<usize>, u64, Result<(), Stale>),
    /// A pin ended.
    Unpin(&'static str),
}

/// A position shows a block since an epoch.
#[derive(Clone, Copy, Debug)]
struct Position {
    block: u32,
    since: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Life {
    epoch: u64,
    table: Vec<Position>,
    committed: u64,
    live: bool,
    /// Positions that were given up and are not free yet.
    held: Vec<(usize, u32)>,
    pins: Vec<(&'static str, Range<usize>)>,
    /// Of the pins since there were none, as far as the scheduler's calls have seen.
    hull: Option<Range<usize>>,
    /// What was the published epoch when plans began.
    planning: Vec<(&'static str, u64)>,
}

impl Life {
    /// A life that shows these blocks, published at epoch 1, of which so many are committed.
    pub fn new(blocks: &[u32], committed: u64) -> Life {
        let table = blocks.iter().map(|&block| Position { block, since: 1 }).collect();
        let (held, pins, planning) = (Vec::new(), Vec::new(), Vec::new());
        Life { epoch: 1, table, committed, live: true, held, pins, hull: None, planning }
    }

    fn verdict(&self, range: &Range<usize>, epoch: u64, planning: bool) -> Result<(), Stale> {
        let group = tenure::GroupId(0);
        if !self.live {
            return Err(Stale::Gone);
        }
        let seen = self.table.iter().rposition(|position| position.since <= epoch);
        let len = if planning { seen.map_or(0, |last| last + 1) } else { self.table.len() };
        if range.end > len {
            return Err(Stale::Truncated { group, len: len as u32 });
        }
        match range.clone().find(|&position| self.table[position].since > epoch) {
            Some(position) => Err(Stale::Reassigned { group, position: position as u32 }),
            None if self.committed < range.end as u64 => {
                Err(Stale::NotCommitted { committed: self.committed })
            }
            None => Ok(()),
        }
    }

    /// Gives up positions; `freed` is what the scheduler was told.
    fn give_up(&mut self, from: usize, freed: &[u32]) -> bool {
        let lost = self.table.split_off(from);
        self.committed = self.committed.min(from as u64);
        self.held.extend(lost.iter().enumerate().map(|(at, lost)| (from + at, lost.block)));
        self.free(freed, true)
    }

    /// Whether these may be free now, and, where `all`, are all that must be.
    fn free(&mut self, freed: &[u32], all: bool) -> bool {
        let pins = &self.pins;
        let pinned = |position: usize| pins.iter().any(|(_, range)| range.contains(&position));
        let known = freed.iter().all(|block| self.held.iter().any(|(_, held)| held == block));
        let held = std::mem::take(&mut self.held);
        let (gone, left): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(_, block)| freed.contains(block));
        let in_hull = |position| self.hull.as_ref().is_some_and(|hull| hull.contains(&position));
        let right = known
            && gone.iter().all(|&(position, _)| !pinned(position))
            && (!all || left.iter().all(|&(position, _)| in_hull(position)));
        self.held = left;
        right
    }
}

impl Spec for Life {
    type Event = Event;

    fn after(&self, event: &Event) -> Option<Life> {
        let mut next = self.clone();
        let right = match event {
            Event::Append(block) => {
                next.table.push(Position { block: *block, since: self.epoch + 1 });
                true
            }
            Event::Commit(tokens) => {
                next.committed = next.committed.max(*tokens);
                true
            }
            Event::Truncate(len, freed) => next.give_up(*len, freed),
            Event::Release(freed) => {
                next.live = false;
                next.give_up(0, freed)
            }
            Event::Publish(epoch) => {
                next.epoch += 1;
                next.epoch == *epoch
            }
            Event::Reclaim(freed) => next.free(freed, false),
            Event::Planning(name) => {
                next.planning.push((name, self.epoch));
                true
            }
            Event::Plan(name, range, answer) => {
                let planned = next.planning.iter().position(|(planning, _)| planning == name)?;
                let (_, epoch) = next.planning.swap_remove(planned);
                self.verdict(range, epoch, true).map(|()| epoch) == *answer
            }
            Event::Pin(name, range, epoch, answer) => {
                let blocks = || range.clone().map(|position| self.table[position].block).collect();
                if answer.is_ok() {
                    next.pins.push((name, range.clone()));
                    let hull = next.hull.get_or_insert(range.clone());
                    *hull = hull.start.min(range.start)..hull.end.max(range.end);
                }
                self.verdict(range, *epoch, false).map(|()| blocks()) == *answer
            }
            Event::Check(range, epoch, answer) => self.verdict(range, *epoch, false) == *answer,
            Event::Unpin(name) => {
                next.pins.retain(|(pinned, _)| pinned != name);
                true
            }
        };
        let by_the_scheduler = matches!(
            event,
            Event::Append(..)
                | Event::Commit(..)
                | Event::Truncate(..)
                | Event::Release(..)
                | Event::Reclaim(..)
        );
        if by_the_scheduler && next.pins.is_empty() {
            next.hull = None;
        }
        right.then_some(next)
    }
}
