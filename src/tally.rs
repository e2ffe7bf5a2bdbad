//! Counts that readers keep, each thread its own, so that counting touches no shared word.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::error::{Budget, Refused, Stale};

/// One thread's counts at one index. Only the thread that has claimed it writes, but for the
/// [common](Tallies::common) one.
#[derive(Default)]
pub(crate) struct Tally {
    common: bool,
    pins: AtomicU64,
    refused: [AtomicU64; Stale::COUNT],
    replannable: AtomicU64,
    over_budget: AtomicU64,
    snapshots: AtomicU64,
}

impl Tally {
    /// Relaxed: counts carry nothing, and each has one writer at a time (the claim of a tally is
    /// handed on with acquire and release).
    #[inline(always)]
    fn add(&self, count: &AtomicU64, more: u64) {
        if self.common {
            count.fetch_add(more, Ordering::Relaxed);
        } else {
            count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn pinned(&self, pins: u64) {
        self.add(&self.pins, pins);
    }

    #[cold]
    pub(crate) fn refused(&self, refused: &Refused) {
        match refused {
            Refused::Stale(stale) => self.add(&self.refused[stale.ordinal()], 1),
            Refused::Budget(Budget::Pins | Budget::Jobs { .. } | Budget::Blocks { .. }) => {
                self.add(&self.over_budget, 1);
            }
        }
    }

    /// One that was just counted as refused would have been taken had it been planned anew.
    #[cold]
    pub(crate) fn replannable(&self) {
        self.add(&self.replannable, 1);
    }

    pub(crate) fn built_snapshot(&self) {
        self.add(&self.snapshots, 1);
    }
}

/// The sums over all threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) pins: u64,
    pub(crate) refused: [u64; Stale::COUNT],
    pub(crate) replannable: u64,
    pub(crate) over_budget: u64,
    pub(crate) snapshots: u64,
}

struct Entry {
    tally: CachePadded<Tally>,
    claimed: AtomicBool,
    next: *const Entry,
}

/// All tallies of an index: a list that only grows, by as many as threads ever counted at once.
pub(crate) struct Tallies {
    head: AtomicPtr<Entry>,
    common: CachePadded<Tally>,
}

impl Tallies {
    pub(crate) fn new() -> Tallies {
        let common = Tally { common: true, ..Tally::default() };
        Tallies { head: AtomicPtr::new(ptr::null_mut()), common: CachePadded::new(common) }
    }

    /// The one that threads count on which have none of their own any more.
    pub(crate) fn common(&self) -> &Tally {
        &self.common
    }

    #[allow(unsafe_code)]
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        // Acquire: pairs with the release in `claim`, so that the entry is found written.
        let mut next = self.head.load(Ordering::Acquire).cast_const();
        std::iter::from_fn(move || {
            // SAFETY: entries are made as boxes, linked before they are pushed, and freed only with
            // the list.
            let entry = unsafe { next.as_ref() }?;
            next = entry.next;
            Some(entry)
        })
    }

    /// A tally for the calling thread alone, until it is [given back](Tallies::give_back). One that
    /// another thread gave back keeps its counts. Lock-free.
    pub(crate) fn claim(&self) -> &Tally {
        // Acquire: pairs with the release in `give_back`: this thread counts on from there.
        let free = |entry: &&Entry| {
            !entry.claimed.load(Ordering::Relaxed) && !entry.claimed.swap(true, Ordering::Acquire)
        };
        if let Some(entry) = self.entries().find(free) {
            return &entry.tally;
        }
        self.push()
    }

    #[allow(unsafe_code)]
    fn push(&self) -> &Tally {
        let entry = Box::into_raw(Box::new(Entry {
            tally: CachePadded::default(),
            claimed: AtomicBool::new(true),
            next: ptr::null(),
        }));
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: not pushed yet, so this thread's alone.
            unsafe { (*entry).next = head };
            // Release: pairs with the acquire load in `entries`.
            match self.head.compare_exchange_weak(head, entry, Ordering::Release, Ordering::Relaxed)
            {
                // SAFETY: freed only with the list, which is borrowed.
                Ok(_) => return unsafe { &(*entry).tally },
                Err(now) => head = now,
            }
        }
    }

    /// Lets another thread count on where this one stops.
    pub(crate) fn give_back(&self, tally: *const Tally) {
        if let Some(entry) = self.entries().find(|entry| ptr::eq(&raw const *entry.tally, tally)) {
            // Release: pairs with the acquire swap in `claim`.
            entry.claimed.store(false, Ordering::Release);
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        let own = self.entries().map(|entry| &*entry.tally);
        for tally in own.chain([&*self.common]) {
            sum.pins += tally.pins.load(Ordering::Relaxed);
            for (total, count) in sum.refused.iter_mut().zip(&tally.refused) {
                *total += count.load(Ordering::Relaxed);
            }
            sum.replannable += tally.replannable.load(Ordering::Relaxed);
            sum.over_budget += tally.over_budget.load(Ordering::Relaxed);
            sum.snapshots += tally.snapshots.load(Ordering::Relaxed);
        }
        sum
    }
}

#[allow(unsafe_code)]
impl Drop for Tallies {
    fn drop(&mut self) {
        let mut next = *self.head.get_mut();
        while !next.is_null() {
            // SAFETY: entries are made as boxes, each is in the list once, and nobody else has the
            // list any more.
            next = unsafe { Box::from_raw(next) }.next.cast_mut();
        }
    }
}

// SAFETY: the raw pointers lead to entries that the list owns and that are shared like references.
#[allow(unsafe_code)]
unsafe impl Send for Tallies {}
// SAFETY: as above; all that is written through a shared reference is atomic.
#[allow(unsafe_code)]
unsafe impl Sync for Tallies {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_on_where_another_stopped() {
        let tallies = Tallies::new();
        let first = tallies.claim();
        let second = tallies.claim();
        assert!(!ptr::eq(first, second));
        first.pinned(1);
        second.pinned(1);
        second.refused(&Refused::Stale(Stale::Gone));
        tallies.give_back(first);
        let third = tallies.claim();
        assert!(ptr::eq(first, third));
        third.pinned(1);
        third.refused(&Refused::Budget(Budget::Pins));
        third.built_snapshot();
        let totals = tallies.totals();
        assert_eq!((totals.pins, totals.over_budget, totals.snapshots), (3, 1, 1));
        assert_eq!(totals.refused[Stale::Gone.ordinal()], 1);
        assert_eq!(totals.refused.iter().sum::<u64>(), 1);
    }
}
