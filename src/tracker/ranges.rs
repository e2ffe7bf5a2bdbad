//! A set of token numbers as sorted ranges.

use std::ops::Range;

/// Ranges that are not empty, ascend, and neither overlap nor touch.
#[derive(Clone, Default, Debug)]
pub(super) struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|held| held.end < range.start);
        let to = self.0.partition_point(|held| held.start <= range.end);
        let merged = self
            .0
            .get(from..to)
            .into_iter()
            .flatten()
            .fold(range, |all, held| all.start.min(held.start)..all.end.max(held.end));
        self.0.splice(from..to, [merged]);
    }

    /// The end of what the set covers without a gap from 0.
    pub(super) fn covered_from_zero(&self) -> u64 {
        self.0.first().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    /// The first range that the set lacks: it ends where the set goes on, or never.
    pub(super) fn first_gap(&self) -> Range<u64> {
        let start = self.covered_from_zero();
        let end = self.0.iter().find(|held| held.start > start).map_or(u64::MAX, |held| held.start);
        start..end
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> RangeSet {
        let mut set = RangeSet::default();
        for range in ranges {
            set.insert(range.clone());
        }
        set
    }

    #[test]
    fn neighbours_become_one_range() {
        assert_eq!(set(&[0..16, 32..48, 16..32]).0, [0..48]);
        assert_eq!(set(&[32..48, 0..16]).0, [0..16, 32..48]);
        assert_eq!(set(&[0..16, 32..48, 64..80, 8..70]).0, [0..80]);
        assert_eq!(set(&[16..32, 20..24]).0, [16..32]);
        assert_eq!(set(&[5..5]).0, []);
    }

    #[test]
    fn the_first_gap_starts_at_the_lowest_missing_token() {
        assert_eq!(set(&[]).first_gap(), 0..u64::MAX);
        assert_eq!(set(&[0..16]).first_gap(), 16..u64::MAX);
        assert_eq!(set(&[0..16, 48..64]).first_gap(), 16..48);
        assert_eq!(set(&[16..32]).first_gap(), 0..16);
    }

    #[test]
    fn the_watermark_stops_at_a_gap() {
        assert_eq!(set(&[16..32]).covered_from_zero(), 0);
        assert_eq!(set(&[0..16, 32..48]).covered_from_zero(), 16);
    }
}
