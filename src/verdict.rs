//! Whether ownership is unchanged: the one judgement behind `pin`, `check`, `plan` and `replan`.
//!
//! [`clear`] is the hot path: a few loads from the lease, none from the table's storage. It says
//! yes only where [`examine`] would; [`examine`] is the whole definition, told in order of reasons.

#![allow(unsafe_code)]

use crate::error::Stale;
use crate::geometry::{Geometry, GroupShape};
use crate::ids::{Epoch, GroupId, Groups, RequestKey};
use crate::lease::{Cells, Ended, Lease};
use crate::request::Kind;

/// What is asked of a lease.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) groups: Groups,
    /// Not empty.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) epoch: Epoch,
    pub(crate) kind: Kind,
}

impl Question<'_> {
    fn needs_commits(&self) -> bool {
        self.geometry.tracks_commits() && self.kind == Kind::Save
    }

    fn each_group<'l>(
        &self,
        lease: &'l Lease,
    ) -> impl Iterator<Item = (GroupId, &GroupShape, &'l Cells)> {
        let shapes = self.geometry.shapes().iter().enumerate();
        shapes
            .map(|(at, shape)| (GroupId(at as u32), shape, lease.cells(at)))
            .filter(|(group, ..)| self.groups.contains(*group))
    }
}

/// Whether the lease is of the life that is asked about, and alive; else how that life ended.
#[inline(always)]
pub(crate) fn life(lease: &Lease, key: RequestKey) -> Result<(), Stale> {
    if lease.key == key && lease.ended == Ended::No { Ok(()) } else { Err(ended(lease, key)) }
}

#[cold]
fn ended(lease: &Lease, key: RequestKey) -> Stale {
    let ended = if lease.key == key {
        lease.ended
    } else if key.incarnation < lease.key.incarnation {
        lease.history.ended(lease.key.incarnation - key.incarnation)
    } else {
        // Never issued.
        Ended::Released
    };
    if ended == Ended::Preempted { Stale::NewLife } else { Stale::Gone }
}

/// Whether everything is well at a glance: the range lies between the front and the end, meets no
/// hole and no replaced position, nothing in the whole table is younger than the epoch, and all
/// tokens are committed.
#[inline(always)]
pub(crate) fn clear(lease: &Lease, ask: &Question<'_>) -> bool {
    let mut left = ask.groups.bits();
    let needs_commits = ask.needs_commits();
    while left != 0 {
        let group = left.trailing_zeros() as usize;
        left &= left - 1;
        let Some(shape) = ask.geometry.shapes().get(group) else { return false };
        let cells = lease.cells(group);
        let (lo, hi) = shape.cover(ask.start, ask.end);
        let extent = cells.extent();
        let fits = u64::from(extent.front) <= lo && hi <= u64::from(extent.len);
        let plain = !cells.patch().meets(lo, hi) && cells.youngest() <= ask.epoch.0;
        if !fits || !plain || (needs_commits && lease.committed(cells) < ask.end) {
            return false;
        }
    }
    true
}

/// The verdict on a lease of a live life, with the first reason in order. Where `planning`,
/// positions at the tail that are not visible at the epoch count as past the table.
///
/// # Safety
/// The lease's storage is alive: the caller holds a guard since before it loaded the lease.
pub(crate) unsafe fn examine(
    lease: &Lease,
    ask: &Question<'_>,
    planning: bool,
) -> Result<(), Stale> {
    let epoch = ask.epoch.0;
    for (group, shape, cells) in ask.each_group(lease) {
        let (_, hi) = shape.cover(ask.start, ask.end);
        // SAFETY: the caller's.
        let len = if planning { unsafe { visible_len(cells, epoch) } } else { cells.extent().len };
        if hi > u64::from(len) {
            return Err(Stale::Truncated { group, len });
        }
    }
    for (group, shape, cells) in ask.each_group(lease) {
        // SAFETY: the caller's; the range lies below the length, as was just seen.
        if let Some(position) = unsafe { first_hole(cells, cover(shape, ask)) } {
            return Err(Stale::Hole { group, position });
        }
    }
    for (group, shape, cells) in ask.each_group(lease) {
        // SAFETY: as above.
        if let Some(position) = unsafe { first_younger(cells, cover(shape, ask), epoch) } {
            return Err(Stale::Reassigned { group, position });
        }
    }
    if ask.needs_commits() {
        for (_, _, cells) in ask.each_group(lease) {
            let committed = lease.committed(cells);
            if committed < ask.end {
                return Err(Stale::NotCommitted { committed });
            }
        }
    }
    Ok(())
}

/// The positions that are asked about, known to lie below a length.
fn cover(shape: &GroupShape, ask: &Question<'_>) -> (u32, u32) {
    let (lo, hi) = shape.cover(ask.start, ask.end);
    (lo as u32, hi as u32)
}

/// How many positions of the table are visible at the epoch: all, less those at the tail that came
/// later.
///
/// # Safety
/// As for [`examine`].
pub(crate) unsafe fn visible_len(cells: &Cells, epoch: u64) -> u32 {
    let len = cells.extent().len;
    let patch = cells.patch();
    if cells.youngest() <= epoch {
        return len;
    }
    let root = cells.root();
    // SAFETY: the caller's, and every position asked for is below the length loaded first.
    let visible =
        |position| unsafe { root.entry(position) }.is_none_or(|entry| entry.since <= epoch);
    let sorted = patch.hi.max(cells.extent().front).min(len);
    let behind = partition(sorted, len, visible);
    if behind > sorted {
        return behind;
    }
    (0..behind).rev().find(|&position| visible(position)).map_or(0, |position| position + 1)
}

/// The first position of `lo..hi`, `hi` where there is none, for which `holds` is false; it holds
/// for all before that, and for none after.
fn partition(mut lo: u32, mut hi: u32, holds: impl Fn(u32) -> bool) -> u32 {
    while lo < hi {
        let middle = lo + (hi - lo) / 2;
        if holds(middle) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    lo
}

/// # Safety
/// As for [`examine`], and the range lies below a length loaded before.
unsafe fn first_hole(cells: &Cells, (lo, hi): (u32, u32)) -> Option<u32> {
    if lo < cells.extent().front {
        return Some(lo);
    }
    let patch = cells.patch().within(lo, hi);
    let root = cells.root();
    // SAFETY: the caller's.
    (patch.lo..patch.hi)
        .find(|&position| unsafe { root.entry(position) }.is_none_or(|e| e.block.is_none()))
}

/// # Safety
/// As for [`first_hole`].
unsafe fn first_younger(cells: &Cells, (lo, hi): (u32, u32), epoch: u64) -> Option<u32> {
    if cells.youngest() <= epoch {
        return None;
    }
    let patch = cells.patch().within(lo, hi);
    let root = cells.root();
    // SAFETY: the caller's.
    let old = |position| unsafe { root.entry(position) }.is_none_or(|entry| entry.since <= epoch);
    // Where `since` never decreases, the last position answers for all.
    let sorted = |lo: u32, hi: u32| {
        if lo >= hi || old(hi - 1) { None } else { Some(partition(lo, hi, old)) }
    };
    if patch.is_empty() {
        return sorted(lo, hi);
    }
    sorted(lo, patch.lo)
        .or_else(|| (patch.lo..patch.hi).find(|&position| !old(position)))
        .or_else(|| sorted(patch.hi, hi))
}
