//! One life, sequentially: what each call may answer, and what it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tenure::{BlockId, Epoch, GroupId, Stale};

use crate::history::{Given, Op, PinNumber};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Position {
    block: Option<BlockId>,
    since: Epoch,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Out {
    positions: Range<u64>,
    blocks: Vec<BlockId>,
}

/// The state between two calls.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Life {
    published: Epoch,
    table: Vec<Position>,
    committed: u64,
    ended: Option<Stale>,
    /// As it was published last; `None` where it was not, or had ended.
    picture: Option<Vec<Option<BlockId>>>,
    pins: BTreeMap<PinNumber, Out>,
    /// The smallest range over all pins since a call of the scheduler last found none out.
    hull: Option<(u64, u64)>,
    /// The first epoch that showed it.
    shown: Option<Epoch>,
    /// Lost, and not yet accounted for.
    lost: Vec<(u64, BlockId)>,
    /// Lost, and not yet told to be free.
    held: BTreeSet<BlockId>,
}

impl Life {
    /// Whether the call can be the next; if so, it is.
    pub fn apply(&mut self, op: &Op) -> bool {
        match op {
            Op::Admit { published } => self.published = *published,
            Op::Assign { blocks } => {
                let since = self.coming();
                let new = blocks.iter().map(|&block| Position { block: Some(block), since });
                self.table.extend(new);
            }
            Op::Commit { tokens } => self.committed = self.committed.max(*tokens),
            Op::Vacate { positions } => {
                for at in positions.clone() {
                    let block = self.table[at as usize].block.take();
                    self.lost.extend(block.map(|block| (at.into(), block)));
                }
            }
            Op::Truncate { len } => {
                self.lose_from(*len as usize);
                self.committed = self.committed.min((*len).into());
            }
            Op::Replace { position, block } => {
                let new = Position { block: Some(*block), since: self.coming() };
                let old = std::mem::replace(&mut self.table[*position as usize], new);
                self.committed = self.committed.min((*position).into());
                self.lost.extend(old.block.map(|block| ((*position).into(), block)));
            }
            Op::Release => self.end(Stale::Gone),
            Op::Preempt => self.end(Stale::NewLife),
            Op::Account { given } => return self.account(given),
            Op::Publish { epoch } => {
                self.published = *epoch;
                let blocks = || self.table.iter().map(|position| position.block).collect();
                self.picture = self.ended.is_none().then(blocks);
                self.shown = self.shown.or(self.picture.is_some().then_some(*epoch));
                return true;
            }
            Op::Reclaim { blocks } => return self.reclaim(blocks),
            Op::Plan { since, tokens, answer } => {
                // The epoch is read first, and the table is judged then.
                let published = since.0..=self.published.0;
                return published
                    .map(Epoch)
                    .any(|epoch| *answer == self.verdict(tokens, epoch, true).map(|()| epoch));
            }
            Op::Pin { tokens, planned, answer } => {
                let right = self.verdict(tokens, *planned, false);
                if let (Ok(pin), Ok(())) = (answer, right) {
                    self.take(*pin, tokens);
                }
                return answer.map(|_| ()) == right;
            }
            Op::Check { tokens, planned, answer } => {
                return *answer == self.verdict(tokens, *planned, false);
            }
            Op::Unpin { pin } => return self.pins.remove(pin).is_some(),
            Op::View { since, answer } => return self.shows(*since, answer),
        }
        true
    }

    fn coming(&self) -> Epoch {
        Epoch(self.published.0 + 1)
    }

    fn verdict(&self, tokens: &Range<u64>, epoch: Epoch, planning: bool) -> Result<(), Stale> {
        let group = GroupId(0);
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        let visible = self.table.iter().rposition(|position| position.since <= epoch);
        let len = if planning { visible.map_or(0, |at| at + 1) } else { self.table.len() } as u32;
        if tokens.end > len.into() {
            return Err(Stale::Truncated { group, len });
        }
        let range = tokens.start as usize..tokens.end as usize;
        let first = |wrong: fn(&Position, Epoch) -> bool| {
            let at = self.table[range.clone()].iter().position(|position| wrong(position, epoch));
            at.map(|at| (range.start + at) as u32)
        };
        if let Some(position) = first(|position, _| position.block.is_none()) {
            return Err(Stale::Hole { group, position });
        }
        if let Some(position) = first(|position, epoch| position.since > epoch) {
            return Err(Stale::Reassigned { group, position });
        }
        if self.committed < tokens.end {
            return Err(Stale::NotCommitted { committed: self.committed });
        }
        Ok(())
    }

    /// A table at one epoch. Of a life that came later it is asked afterwards whether it has ended.
    fn shows(&self, since: Epoch, answer: &Result<(Epoch, Vec<Option<BlockId>>), Stale>) -> bool {
        match answer {
            Ok((epoch, table)) => {
                let right = match &self.picture {
                    Some(picture) => picture == table,
                    None => table.is_empty() && self.ended.is_none(),
                };
                right && *epoch == self.published
            }
            Err(stale) => {
                let unseen = self.picture.is_none() || self.shown.is_none_or(|first| since < first);
                unseen && self.ended == Some(*stale)
            }
        }
    }

    fn take(&mut self, pin: PinNumber, tokens: &Range<u64>) {
        let (lo, hi) = self.hull.unwrap_or((tokens.start, tokens.end));
        self.hull = Some((lo.min(tokens.start), hi.max(tokens.end)));
        let listed = &self.table[tokens.start as usize..tokens.end as usize];
        let blocks = listed.iter().filter_map(|position| position.block).collect();
        self.pins.insert(pin, Out { positions: tokens.clone(), blocks });
    }

    fn lose_from(&mut self, len: usize) {
        let lost = self.table.split_off(len);
        let blocks = (len as u64..).zip(lost);
        self.lost.extend(blocks.filter_map(|(at, position)| Some((at, position.block?))));
    }

    fn end(&mut self, how: Stale) {
        self.lose_from(0);
        self.ended = Some(how);
    }

    fn is_pinned(&self, block: BlockId) -> bool {
        self.pins.values().any(|out| out.blocks.contains(&block))
    }

    /// What lies outside the hull is free at once, and nothing is that a pin covers.
    fn account(&mut self, given: &Given) -> bool {
        let lost = std::mem::take(&mut self.lost);
        let all_lost = |block: &BlockId| lost.iter().any(|&(_, other)| other == *block);
        let kept: Vec<_> = lost.iter().filter(|(_, block)| !given.freed.contains(block)).collect();
        let may_keep = |at: u64| self.hull.is_some_and(|(lo, hi)| (lo..hi).contains(&at));
        let right = given.freed.iter().all(|block| all_lost(block) && !self.is_pinned(*block))
            && kept.len() == given.held as usize
            && kept.len() + given.freed.len() == lost.len()
            && kept.iter().all(|&&(at, _)| may_keep(at));
        self.held.extend(kept.into_iter().map(|&(_, block)| block));
        self.called();
        right
    }

    /// What no pin protects any more is told, once.
    fn reclaim(&mut self, blocks: &[BlockId]) -> bool {
        let right = blocks.iter().all(|block| self.held.remove(block) && !self.is_pinned(*block));
        let all = !self.pins.is_empty() || self.held.is_empty();
        self.called();
        right && all
    }

    /// The scheduler's calls take in what pins have given back.
    fn called(&mut self) {
        if self.pins.is_empty() {
            self.hull = None;
        }
    }
}
