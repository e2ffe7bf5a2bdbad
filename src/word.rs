//! The lease word: one `u64` that decides whether a pin may be taken and when a lease has drained.
//! Pure values, no atomics.
//!
//! ```text
//! bit 63      62..48        47..24           23..0
//! closed | pins (15) | hull start (24) | hull end (24)      hull in grains, end exclusive
//! ```
//!
//! | from | by | to |
//! |---|---|---|
//! | open, 0 pins | pin (compare-exchange) | open, 1 pin, hull = its range |
//! | open, n pins | pin (compare-exchange) | open, n + 1 pins, hull widened by its range |
//! | any, n > 0 pins | unpin (`fetch_sub` of one pin) | same state, n - 1 pins, same hull |
//! | open, n pins | close (`fetch_add` of the closed bit), once | closed, n pins, same hull |
//! | closed, 1 pin | unpin | closed, 0 pins: drained, once |
//!
//! A closed word never opens and never gains a pin, so it reaches `closed, 0 pins` at most once by
//! an unpin. Only compare-exchange takes a pin: an addition that is undone would reach zero twice.

/// A range of grains, `lo..hi`, not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hull {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
}

impl Hull {
    /// The largest exclusive end that fits the word.
    pub(crate) const MAX_GRAIN: u32 = (1 << 24) - 1;

    pub(crate) fn overlaps(self, other: Hull) -> bool {
        self.lo < other.hi && other.lo < self.hi
    }

    #[inline(always)]
    fn widened_by(self, other: Hull) -> Hull {
        Hull { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    pub(crate) const CLOSED: u64 = 1 << 63;
    pub(crate) const ONE_PIN: u64 = 1 << 48;
    pub(crate) const MAX_PINS: u32 = (1 << 15) - 1;

    pub(crate) const OPEN: Word = Word(0);

    /// A word that is born closed, with this many pins out.
    pub(crate) const fn born_closed(pins: u64) -> Word {
        Word(Word::CLOSED | (pins * Word::ONE_PIN))
    }

    #[inline(always)]
    pub(crate) fn is_closed(self) -> bool {
        self.0 & Word::CLOSED != 0
    }

    #[inline(always)]
    pub(crate) fn pins(self) -> u32 {
        (self.0 >> 48) as u32 & Word::MAX_PINS
    }

    /// The hull of the pins; means nothing where there are none.
    #[inline(always)]
    pub(crate) fn hull(self) -> Hull {
        Hull { lo: (self.0 >> 24) as u32 & Hull::MAX_GRAIN, hi: self.0 as u32 & Hull::MAX_GRAIN }
    }

    /// The open word with one pin more, or `None` where there is no room for it.
    #[inline(always)]
    pub(crate) fn with_pin(self, range: Hull) -> Option<Word> {
        debug_assert!(!self.is_closed());
        let pins = self.pins();
        if pins == Word::MAX_PINS {
            return None;
        }
        let hull = if pins == 0 { range } else { self.hull().widened_by(range) };
        Some(Word(u64::from(pins + 1) << 48 | u64::from(hull.lo) << 24 | u64::from(hull.hi)))
    }

    /// Whether taking one pin off this word drains its lease.
    #[inline(always)]
    pub(crate) fn drains(self) -> bool {
        self.0 & (Word::CLOSED | u64::from(Word::MAX_PINS) << 48) == Word::CLOSED | Word::ONE_PIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Hull = Hull { lo: 2, hi: 5 };
    const B: Hull = Hull { lo: 9, hi: 10 };

    #[test]
    fn the_first_pin_overwrites_the_hull_and_others_widen_it() {
        let one = Word::OPEN.with_pin(A).unwrap();
        assert_eq!((one.pins(), one.hull()), (1, A));
        let two = one.with_pin(B).unwrap();
        assert_eq!((two.pins(), two.hull()), (2, Hull { lo: 2, hi: 10 }));
        let none = Word(two.0 - 2 * Word::ONE_PIN);
        assert_eq!(none.with_pin(B).unwrap().hull(), B);
    }

    #[test]
    fn closing_keeps_pins_and_hull_and_the_last_unpin_drains() {
        let two = Word::OPEN.with_pin(A).unwrap().with_pin(B).unwrap();
        let closed = Word(two.0 + Word::CLOSED);
        assert!(closed.is_closed() && !closed.drains());
        assert_eq!((closed.pins(), closed.hull()), (2, two.hull()));
        let one = Word(closed.0 - Word::ONE_PIN);
        assert!(one.drains());
        assert!(!Word(one.0 - Word::ONE_PIN).drains());
        assert!(!Word(one.0 - Word::CLOSED).drains());
    }

    #[test]
    fn the_last_pin_that_fits_leaves_every_other_field_alone() {
        let max = Hull { lo: Hull::MAX_GRAIN - 1, hi: Hull::MAX_GRAIN };
        let mut word = Word::OPEN;
        for _ in 0..Word::MAX_PINS {
            word = word.with_pin(max).unwrap();
        }
        assert_eq!((word.pins(), word.hull(), word.is_closed()), (Word::MAX_PINS, max, false));
        assert_eq!(word.with_pin(max), None);
        let closed = Word(word.0 + Word::CLOSED);
        assert_eq!((closed.pins(), closed.hull(), closed.is_closed()), (Word::MAX_PINS, max, true));
    }

    #[test]
    fn hulls_that_touch_do_not_overlap() {
        assert!(!A.overlaps(Hull { lo: 5, hi: 6 }) && !A.overlaps(Hull { lo: 0, hi: 2 }));
        assert!(A.overlaps(Hull { lo: 4, hi: 6 }) && A.overlaps(Hull { lo: 0, hi: 9 }));
    }
}
