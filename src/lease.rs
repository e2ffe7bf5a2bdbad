//! One version of a life's table: what readers find in a slot, judge, and pin.
//!
//! Whatever a verdict reads in an open lease changes only in the pinner's favour (a table grows,
//! more tokens are committed). Everything that can turn a yes into a no makes a new lease: the
//! successor is stored in the slot first, then the old lease is closed.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc as StdArc;

use crate::ids::{BlockId, RequestKey};
use crate::recorder::Recorded;
use crate::request::Kind;
use crate::shared::Shared;
use crate::storage::Root;
use crate::sync::{Alive, AtomicPtr, AtomicU64, Ordering, UnsafeCell};
use crate::word::Word;

/// How the life of a lease has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    No,
    Released,
    Preempted,
}

/// How the last 64 lives of a slot ended. Bit `i` is set where the life `i + 1` incarnations before
/// the lease's own was preempted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct History(u64);

impl History {
    /// The history for a life after one that ended so.
    pub(crate) fn followed_by(self, ended: Ended) -> History {
        History(self.0 << 1 | u64::from(ended == Ended::Preempted))
    }

    /// How the life `distance >= 1` incarnations back ended; too old to know counts as released.
    pub(crate) fn ended(self, distance: u32) -> Ended {
        let preempted = distance <= 64 && self.0 >> (distance - 1) & 1 == 1;
        if preempted { Ended::Preempted } else { Ended::Released }
    }
}

/// The part of one group's table that is published in one word: everything below `front` is
/// vacated, and there are `len` positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) front: u32,
    pub(crate) len: u32,
}

/// The positions outside of which `since` never decreases and nothing is a hole; `lo == hi` where
/// there are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Patch {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
}

impl Patch {
    pub(crate) fn is_empty(self) -> bool {
        self.lo >= self.hi
    }

    /// Whether a range of positions meets it.
    #[inline(always)]
    pub(crate) fn meets(self, lo: u64, hi: u64) -> bool {
        lo < u64::from(self.hi) && u64::from(self.lo) < hi
    }

    pub(crate) fn with(self, lo: u32, hi: u32) -> Patch {
        if self.is_empty() {
            Patch { lo, hi }
        } else {
            Patch { lo: self.lo.min(lo), hi: self.hi.max(hi) }
        }
    }

    /// What is left of it within `lo..hi`.
    pub(crate) fn within(self, lo: u32, hi: u32) -> Patch {
        let cut = Patch { lo: self.lo.max(lo), hi: self.hi.min(hi) };
        if cut.is_empty() { Patch::default() } else { cut }
    }
}

/// One group's table as readers see it. Written by the scheduler alone; while the lease is open,
/// only by appending and committing.
pub(crate) struct Cells {
    /// `front | len << 32`.
    extent: AtomicU64,
    /// `lo | hi << 32`.
    patch: AtomicU64,
    /// The largest `since` of all positions.
    youngest: AtomicU64,
    root: AtomicPtr<()>,
    /// Tokens that were committed when the lease was made. Never written again.
    floor: u64,
}

fn pack(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// What a group's table starts from in a new lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableState {
    pub(crate) extent: Extent,
    pub(crate) patch: Patch,
    pub(crate) youngest: u64,
    pub(crate) root: Root,
}

impl Cells {
    pub(crate) fn new(table: TableState, floor: u64) -> Cells {
        Cells {
            extent: AtomicU64::new(pack(table.extent.front, table.extent.len)),
            patch: AtomicU64::new(pack(table.patch.lo, table.patch.hi)),
            youngest: AtomicU64::new(table.youngest),
            root: AtomicPtr::new(table.root.into_raw()),
            floor,
        }
    }

    /// Makes appended positions readable. The entries are written already.
    pub(crate) fn grow(&self, table: TableState) {
        // Release: pairs with the acquire load in `root`: whoever finds the new root finds the
        // pieces it leads to.
        self.root.store(table.root.into_raw(), Ordering::Release);
        // Relaxed, both: read after `extent`, whose store below carries them. Without that order a
        // reader could take a new position for an old one, or for no hole.
        self.patch.store(pack(table.patch.lo, table.patch.hi), Ordering::Relaxed);
        self.youngest.store(table.youngest, Ordering::Relaxed);
        // Release: pairs with the acquire load in `extent`: whoever finds the length finds the
        // entries below it, the patch, the youngest epoch and a root that leads to them.
        self.extent.store(pack(table.extent.front, table.extent.len), Ordering::Release);
    }

    /// To be loaded before everything else of the table.
    #[inline(always)]
    pub(crate) fn extent(&self) -> Extent {
        // Acquire: pairs with the release store in `grow`.
        let word = self.extent.load(Ordering::Acquire);
        Extent { front: word as u32, len: (word >> 32) as u32 }
    }

    /// At least the patch that belongs to an extent loaded before.
    #[inline(always)]
    pub(crate) fn patch(&self) -> Patch {
        // Relaxed: ordered by the acquire load of `extent` before it.
        let word = self.patch.load(Ordering::Relaxed);
        Patch { lo: word as u32, hi: (word >> 32) as u32 }
    }

    /// At least the largest `since` below an extent loaded before.
    #[inline(always)]
    pub(crate) fn youngest(&self) -> u64 {
        // Relaxed: ordered by the acquire load of `extent` before it.
        self.youngest.load(Ordering::Relaxed)
    }

    /// A root that leads to every position below an extent loaded before.
    #[inline(always)]
    pub(crate) fn root(&self) -> Root {
        // Acquire: pairs with the release store in `grow`. The extent loaded before carries some
        // root; this load may find a newer one, whose pieces only this order makes visible.
        Root::from_raw(self.root.load(Ordering::Acquire))
    }
}

/// What a lease of exact blocks holds.
pub(crate) struct Held {
    /// Each once.
    pub(crate) blocks: Box<[BlockId]>,
    /// For a narrowed pin: the blocks of its range, by group and position.
    pub(crate) narrowed: Option<Box<[Box<[BlockId]>]>>,
    /// The lease whose pin is to be given back once the scheduler has taken this one in
    /// ([`Pin::narrow`](crate::Pin::narrow)); null for none. Only the scheduler reads it.
    pub(crate) instead_of: *mut Lease,
    /// What the one pin over it is for, for people.
    pub(crate) reader: Reader,
    /// Tells a flight recorder of the end of the one pin over it.
    pub(crate) recorded: Option<Recorded>,
}

/// What a pin with a lease of its own is for.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) kind: Kind,
    pub(crate) tokens: Range<u64>,
    pub(crate) note: Option<&'static str>,
}

impl Reader {
    /// The reader of an exact hold.
    pub(crate) const HOLD: Reader = Reader { kind: Kind::Hold, tokens: 0..0, note: None };
}

/// Marks a lease that the scheduler has no record of yet.
pub(crate) const NO_RECORD: u32 = u32::MAX;

/// See the module. The first cache line is written by pinners, the second by the scheduler.
#[repr(C, align(64))]
pub(crate) struct Lease {
    pub(crate) word: AtomicU64,
    /// The next lease on the drain stack. Written by whoever has drained this one, then read by
    /// the scheduler.
    pub(crate) next_drained: UnsafeCell<*mut Lease>,
    pub(crate) shared: *const Shared,
    /// The version that was visible before this one; may dangle once this one is visible.
    pub(crate) before: *const Lease,
    /// The epoch from which it is visible.
    pub(crate) opened: u64,
    pub(crate) label: StdArc<str>,
    /// The scheduler's record of it.
    pub(crate) record: UnsafeCell<u32>,

    pub(crate) key: RequestKey,
    pub(crate) history: History,
    /// Tokens committed in all groups since the lease was made.
    raised: AtomicU64,
    first: Cells,
    others: Box<[Cells]>,
    pub(crate) ended: Ended,
    pub(crate) held: Option<Box<Held>>,
    pub(crate) alive: Alive,
}

const _: () = assert!(cfg!(loom) || size_of::<Lease>() <= 256);

/// What a new lease is made from.
pub(crate) struct NewLease<'a> {
    pub(crate) shared: *const Shared,
    pub(crate) word: Word,
    pub(crate) before: *const Lease,
    pub(crate) opened: u64,
    pub(crate) label: StdArc<str>,
    pub(crate) record: u32,
    pub(crate) key: RequestKey,
    pub(crate) history: History,
    pub(crate) ended: Ended,
    pub(crate) tables: &'a mut dyn ExactSizeIterator<Item = Cells>,
    pub(crate) held: Option<Held>,
}

impl Lease {
    pub(crate) fn new(new: NewLease<'_>) -> Lease {
        let empty = TableState {
            extent: Extent::default(),
            patch: Patch::default(),
            youngest: 0,
            root: Root::EMPTY,
        };
        let first = new.tables.next().unwrap_or_else(|| Cells::new(empty, 0));
        Lease {
            word: AtomicU64::new(new.word.0),
            next_drained: UnsafeCell::new(std::ptr::null_mut()),
            shared: new.shared,
            before: new.before,
            opened: new.opened,
            label: new.label,
            record: UnsafeCell::new(new.record),
            key: new.key,
            history: new.history,
            raised: AtomicU64::new(0),
            first,
            others: new.tables.collect(),
            ended: new.ended,
            held: new.held.map(Box::new),
            alive: Alive::new(),
        }
    }

    /// Where a flight recorder follows its one pin.
    pub(crate) fn recorded(&self) -> Option<&Recorded> {
        self.held.as_ref()?.recorded.as_ref()
    }

    /// The table of group 0.
    #[inline(always)]
    pub(crate) fn first(&self) -> &Cells {
        &self.first
    }

    /// One group's table. An ended lease has none: the group is then empty.
    #[inline(always)]
    pub(crate) fn cells(&self, group: usize) -> &Cells {
        if group == 0 { &self.first } else { self.others.get(group - 1).unwrap_or(&self.first) }
    }

    /// Names tokens of all groups as written.
    pub(crate) fn raise(&self, tokens: u64) {
        // Release: pairs with the acquire load in `committed`: whoever finds the tokens committed
        // finds them written.
        self.raised.store(tokens, Ordering::Release);
    }

    /// The tokens of one group that are known to be written.
    #[inline(always)]
    pub(crate) fn committed(&self, cells: &Cells) -> u64 {
        // Acquire: pairs with the release store in `raise`.
        self.raised.load(Ordering::Acquire).max(cells.floor)
    }
}

#[cfg(loom)]
impl Drop for Lease {
    fn drop(&mut self) {
        self.alive.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_tells_the_last_64_lives_apart() {
        let mut history = History::default();
        for life in 1..=70_u32 {
            history =
                history.followed_by(if life % 3 == 0 { Ended::Preempted } else { Ended::Released });
        }
        let asked = 71;
        for life in 1..=70_u32 {
            let known = asked - life <= 64 && life % 3 == 0;
            let expected = if known { Ended::Preempted } else { Ended::Released };
            assert_eq!(history.ended(asked - life), expected, "life {life}");
        }
    }

    #[test]
    fn a_patch_is_cut_and_widened() {
        let patch = Patch::default().with(3, 5).with(8, 9);
        assert_eq!(patch, Patch { lo: 3, hi: 9 });
        assert!(patch.meets(8, 20) && !patch.meets(9, 20) && !patch.meets(0, 3));
        assert_eq!(patch.within(4, 6), Patch { lo: 4, hi: 6 });
        assert!(patch.within(9, 20).is_empty() && patch.within(0, 3) == Patch::default());
    }
}
