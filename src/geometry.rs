//! How tokens map to positions and blocks: block sizes, grains and limits. Fixed when an index is
//! built.

use std::ops::Range;

use crate::ids::{BlockId, GroupId, Groups};
use crate::word::Hull;

/// The shape of an index: its pool, its groups and their block sizes.
///
/// ```
/// # use tenure::{Config, GroupId};
/// let (_scheduler, index) = Config::new(8).block_sizes([16, 64]).build()?;
/// let shape = index.geometry();
/// assert_eq!(shape.block_size(GroupId(1)), Some(64));
/// assert_eq!(shape.positions(GroupId(0), 5..20), Some(0..2)); // every block the range touches
/// # Ok::<(), tenure::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Geometry {
    blocks: u32,
    null_block: Option<BlockId>,
    tracks_commits: bool,
    /// Tokens in a grain, the unit of hulls: the greatest common divisor of the block sizes, so
    /// that rounding a token range outward to grains never takes in a block it does not touch.
    grain: Divisor,
    alignment: u64,
    all_groups: Groups,
    /// Group 0, which most indices have alone.
    first: GroupShape,
    groups: Box<[GroupShape]>,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupShape {
    block: Divisor,
    grains_per_block: u32,
    /// The longest table, in positions: its last grain must fit a hull, its last token 32 bits.
    max_len: u32,
}

/// Division by a number fixed at build time; a shift where it is a power of two.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: u32,
    shift: u8,
}

const NO_SHIFT: u8 = u8::MAX;

impl Divisor {
    fn new(by: u32) -> Divisor {
        Divisor {
            by,
            shift: if by.is_power_of_two() { by.trailing_zeros() as u8 } else { NO_SHIFT },
        }
    }

    #[inline(always)]
    fn divide(self, tokens: u64) -> u64 {
        if self.shift == NO_SHIFT { tokens / u64::from(self.by) } else { tokens >> self.shift }
    }

    /// The units that a non-empty token range touches.
    #[inline(always)]
    fn cover(self, start: u64, end: u64) -> (u64, u64) {
        (self.divide(start), self.divide(end - 1) + 1)
    }
}

impl Geometry {
    /// `block_sizes` is not empty and has no zero; [`Config`](crate::Config) has checked it.
    /// `None` where their least common multiple does not fit 32 bits, or where not even one block of
    /// the largest size fits a hull.
    pub(crate) fn new(
        blocks: u32,
        null_block: Option<BlockId>,
        tracks_commits: bool,
        block_sizes: &[u32],
    ) -> Option<Geometry> {
        let grain = block_sizes.iter().fold(0, |a, &b| gcd(a, b));
        let mut alignment: u64 = 1;
        for &size in block_sizes {
            let size = u64::from(size);
            alignment = alignment / gcd64(alignment, size) * size;
            if alignment > u64::from(u32::MAX) {
                return None;
            }
        }
        let groups: Box<[_]> = block_sizes
            .iter()
            .map(|&size| {
                let grains_per_block = size / grain;
                GroupShape {
                    block: Divisor::new(size),
                    grains_per_block,
                    max_len: (Hull::MAX_GRAIN / grains_per_block).min(u32::MAX / size),
                }
            })
            .collect();
        if groups.iter().any(|group| group.max_len == 0) {
            return None;
        }
        Some(Geometry {
            blocks,
            null_block,
            tracks_commits,
            grain: Divisor::new(grain),
            alignment,
            all_groups: (0..groups.len() as u32).map(GroupId).collect(),
            first: groups.first()?.clone(),
            groups,
        })
    }

    /// Blocks in the pool, the null block included.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The placeholder that is never owned, held or pinned.
    pub fn null_block(&self) -> Option<BlockId> {
        self.null_block
    }

    /// Whether saves are refused over tokens that were never committed.
    #[inline]
    pub fn tracks_commits(&self) -> bool {
        self.tracks_commits
    }

    /// The number of KV-cache groups.
    pub fn groups(&self) -> u32 {
        self.groups.len() as u32
    }

    /// The set of all groups, named one by one.
    #[inline]
    pub fn all_groups(&self) -> Groups {
        self.all_groups
    }

    /// Whether the set names groups, and only such as there are.
    #[inline(always)]
    pub(crate) fn has_all_of(&self, groups: Groups) -> bool {
        // The bits of all groups are the lowest ones.
        groups.bits().wrapping_sub(1) < self.all_groups.bits()
    }

    /// Tokens in a block of the group; `None` where there is no such group.
    pub fn block_size(&self, group: GroupId) -> Option<u32> {
        self.groups.get(group.index()).map(|g| g.block.by)
    }

    /// The least common multiple of the block sizes: token ranges aligned to it cut no block.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The positions of the group's table that a token range touches; `None` where there is no
    /// such group. An empty range touches nothing.
    pub fn positions(&self, group: GroupId, tokens: Range<u64>) -> Option<Range<u64>> {
        let shape = self.groups.get(group.index())?;
        if tokens.start >= tokens.end {
            let at = shape.block.divide(tokens.start);
            return Some(at..at);
        }
        let (lo, hi) = shape.block.cover(tokens.start, tokens.end);
        Some(lo..hi)
    }

    pub(crate) fn shape(&self, group: GroupId) -> Option<&GroupShape> {
        self.groups.get(group.index())
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> &GroupShape {
        &self.first
    }

    #[inline]
    pub(crate) fn shapes(&self) -> &[GroupShape] {
        &self.groups
    }

    /// The grains that a non-empty token range touches, or `None` where they lie past the longest
    /// table.
    #[inline(always)]
    pub(crate) fn hull(&self, start: u64, end: u64) -> Option<Hull> {
        let (lo, hi) = self.grain.cover(start, end);
        if hi <= u64::from(Hull::MAX_GRAIN) {
            Some(Hull { lo: lo as u32, hi: hi as u32 })
        } else {
            None
        }
    }
}

impl Geometry {
    /// The tokens of a hull.
    pub(crate) fn tokens(&self, hull: Hull) -> Range<u64> {
        let grain = u64::from(self.grain.by);
        u64::from(hull.lo) * grain..u64::from(hull.hi) * grain
    }
}

impl GroupShape {
    /// The positions that a non-empty token range touches.
    #[inline(always)]
    pub(crate) fn cover(&self, start: u64, end: u64) -> (u64, u64) {
        self.block.cover(start, end)
    }

    pub(crate) fn max_len(&self) -> u32 {
        self.max_len
    }

    /// Tokens that a table of this length covers.
    pub(crate) fn tokens(&self, len: u32) -> u64 {
        u64::from(len) * u64::from(self.block.by)
    }

    /// The grains of one position below `max_len`.
    pub(crate) fn grains(&self, position: u32) -> Hull {
        let lo = position * self.grains_per_block;
        Hull { lo, hi: lo + self.grains_per_block }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn gcd64(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd64(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(sizes: &[u32]) -> Geometry {
        Geometry::new(8, None, false, sizes).unwrap()
    }

    #[test]
    fn ranges_take_in_every_block_they_touch() {
        let g = geometry(&[16, 24]);
        assert_eq!(g.positions(GroupId(0), 5..20), Some(0..2));
        assert_eq!(g.positions(GroupId(1), 5..20), Some(0..1));
        assert_eq!(g.positions(GroupId(1), 23..25), Some(0..2));
        assert_eq!(g.positions(GroupId(0), 32..32), Some(2..2));
        assert_eq!(g.positions(GroupId(2), 0..1), None);
        assert_eq!(g.alignment(), 48);
        assert_eq!(g.hull(5, 20), Some(Hull { lo: 0, hi: 3 }));
    }

    #[test]
    fn no_table_outgrows_a_hull() {
        for sizes in [&[16][..], &[16, 24], &[1, 7], &[1, Hull::MAX_GRAIN], &[4096], &[u32::MAX]] {
            let g = geometry(sizes);
            for shape in g.shapes() {
                let last = shape.grains(shape.max_len() - 1);
                assert!(last.hi <= Hull::MAX_GRAIN);
                assert!(shape.tokens(shape.max_len()) <= u64::from(u32::MAX));
                assert_eq!(
                    g.hull(shape.tokens(shape.max_len() - 1), shape.tokens(shape.max_len())),
                    Some(last)
                );
            }
        }
    }

    #[test]
    fn the_last_token_of_all_is_past_every_table() {
        assert_eq!(geometry(&[1]).hull(u64::MAX - 1, u64::MAX), None);
    }

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        assert!(Geometry::new(8, None, false, &[65_537, 65_539]).is_none());
        assert!(Geometry::new(8, None, false, &[1, Hull::MAX_GRAIN + 1]).is_none());
    }
}
