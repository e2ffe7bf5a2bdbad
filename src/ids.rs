//! The names by which blocks, groups, lives and epochs are called.

use std::fmt;

/// One physical KV-cache block of the pool, `0..capacity`.
///
/// ```
/// use tenure::BlockId;
/// let block = BlockId(7);
/// assert_eq!(block.to_string(), "7");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct BlockId(pub u32);

impl BlockId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A KV-cache group: layers that share one block table and one block size. Groups are numbered
/// from 0 in the order of their block sizes in [`Config`](crate::Config).
///
/// ```
/// use tenure::GroupId;
/// assert_eq!(GroupId(1).to_string(), "g1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct GroupId(pub u32);

impl GroupId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// A set of KV-cache groups.
///
/// ```
/// use tenure::{GroupId, Groups};
/// let groups: Groups = [GroupId(0), GroupId(2)].into_iter().collect();
/// assert!(groups.contains(GroupId(2)) && !groups.contains(GroupId(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Groups(u64);

impl Groups {
    /// The largest number of groups an index can have.
    pub const MAX: u32 = 32;

    /// Every group the index has.
    pub const ALL: Groups = Groups(u64::MAX);

    /// No group; useful as the start of a set.
    pub const NONE: Groups = Groups(0);

    /// Exactly one group. Group numbers that no index can have (63 and more) are kept as one such
    /// number, so that planning over them is refused rather than lost.
    #[inline]
    pub const fn only(group: GroupId) -> Groups {
        Groups(1 << if group.0 < 63 { group.0 } else { 63 })
    }

    /// The set with one group more.
    #[must_use]
    pub const fn with(self, group: GroupId) -> Groups {
        Groups(self.0 | Groups::only(group).0)
    }

    /// Whether the group is in the set.
    #[inline]
    pub const fn contains(self, group: GroupId) -> bool {
        self.0 & Groups::only(group).0 != 0
    }

    /// Whether the set names no group.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The groups of the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = GroupId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let group = left.trailing_zeros();
            left &= left - 1;
            Some(GroupId(group))
        })
    }

    /// The set as one bit per group, for storing a [`SaveRequest`](crate::SaveRequest).
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set that [`bits`](Groups::bits) described.
    #[inline]
    pub const fn from_bits(bits: u64) -> Groups {
        Groups(bits)
    }
}

impl FromIterator<GroupId> for Groups {
    fn from_iter<I: IntoIterator<Item = GroupId>>(groups: I) -> Groups {
        groups.into_iter().fold(Groups::NONE, Groups::with)
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Groups::ALL {
            return f.write_str("all");
        }
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A number of publishes. Epoch 0 is before the first one.
///
/// ```
/// use tenure::Epoch;
/// assert!(Epoch(3) > Epoch(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct Epoch(pub u64);

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names one life of a request: one span from [`admit`](crate::Scheduler::admit) to its release or
/// preemption. Keys are never issued twice by an index, whatever becomes of the label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(u64);

impl RequestKey {
    pub(crate) const fn new(slot: u32, incarnation: u32) -> RequestKey {
        RequestKey((slot as u64) << 32 | incarnation as u64)
    }

    /// The place it lives in.
    #[inline(always)]
    pub(crate) const fn slot(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Which of the lives of its place it is, from 1 on.
    #[inline(always)]
    pub(crate) const fn incarnation(self) -> u32 {
        self.0 as u32
    }

    /// The key as one number, for storing it outside this process.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The key that [`to_bits`](RequestKey::to_bits) gave. A number that never was a key names a
    /// life that never was: the index answers [`Stale::Gone`](crate::Stale::Gone) for it.
    pub const fn from_bits(bits: u64) -> RequestKey {
        RequestKey(bits)
    }
}

impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot(), self.incarnation())
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot(), self.incarnation())
    }
}

/// Names a dispatched device step, from [`begin_step`](crate::Scheduler::begin_step) to
/// [`end_step`](crate::Scheduler::end_step).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub(crate) u64);

impl fmt::Debug for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// 64 random bits drawn when an index is built: a save request of another index, another rank or
/// an earlier run never matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexId(pub u64);

impl fmt::Debug for IndexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for IndexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
