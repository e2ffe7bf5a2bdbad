//! Whether ownership is unchanged: the one judgement behind `pin`, `check`, `plan` and `replan`.
//!
//! [`clear`] is the hot path: a few loads from the lease, and one look into the table's storage where
//! the table has grown since the plan. It says yes only where [`examine`] would; [`examine`] is the
//! whole definition, told in order of reasons.

#![allow(unsafe_code)]

use crate::error::Stale;
use crate::geometry::{Geometry, GroupShape};
use crate::ids::{GroupId, Groups, RequestKey};
use crate::lease::{Cells, Ended, Lease};
use crate::request::{Kind, SaveRequest};

/// Whether the lease is of the life that is asked about, and alive.
#[inline(always)]
pub(crate) fn lives(lease: &Lease, key: RequestKey) -> bool {
    lease.key == key && lease.ended == Ended::No
}

/// How a life ended that the lease is not of, or not alive.
#[cold]
pub(crate) fn ended(lease: &Lease, key: RequestKey) -> Stale {
    let ended = if lease.key == key {
        lease.ended
    } else if key.incarnation() < lease.key.incarnation() {
        lease.history.ended(lease.key.incarnation() - key.incarnation())
    } else {
        // Never issued.
        Ended::Released
    };
    if ended == Ended::Preempted { Stale::NewLife } else { Stale::Gone }
}

fn needs_commits(geometry: &Geometry, request: &SaveRequest) -> bool {
    geometry.tracks_commits() && request.kind == Kind::Save
}

/// Whether everything is well at a glance: the lease is of the life, the range lies between the
/// front and the end, meets no hole and no replaced position, its last position is not younger than
/// the epoch, and all tokens are committed. There are groups, and they are known to exist.
///
/// Whether the life is alive need not be asked: the lease that ends a life has empty tables, and no
/// range is empty.
///
/// # Safety
/// As for [`examine`].
#[inline(always)]
pub(crate) unsafe fn clear(lease: &Lease, geometry: &Geometry, request: &SaveRequest) -> bool {
    lease.key == request.key
        && if request.groups == Groups::only(GroupId(0)) {
            // SAFETY: the caller's.
            unsafe { clear_in(lease, lease.first(), geometry, geometry.first(), request) }
        } else {
            // SAFETY: the caller's.
            unsafe { clear_in_all(lease, geometry, request) }
        }
}

/// # Safety
/// As for [`examine`].
#[inline(never)]
unsafe fn clear_in_all(lease: &Lease, geometry: &Geometry, request: &SaveRequest) -> bool {
    each_group(lease, geometry, request)
        // SAFETY: the caller's.
        .all(|(_, shape, cells)| unsafe { clear_in(lease, cells, geometry, shape, request) })
}

/// # Safety
/// As for [`examine`].
#[inline(always)]
unsafe fn clear_in(
    lease: &Lease,
    cells: &Cells,
    geometry: &Geometry,
    shape: &GroupShape,
    request: &SaveRequest,
) -> bool {
    let (lo, hi) = shape.cover(request.start, request.end);
    let extent = cells.extent();
    u64::from(extent.front) <= lo
        && hi <= u64::from(extent.len)
        && !cells.patch().meets(lo, hi)
        // SAFETY: the caller's; the range lies below the length.
        && (cells.youngest() <= request.epoch.0 || unsafe { ends_old(cells, hi, request.epoch.0) })
        && (!needs_commits(geometry, request) || lease.committed(cells) >= request.end)
}

/// Whether nothing in a range that does not meet the patch, and ends at `hi`, is younger than the
/// epoch: `since` never decreases there, so the last position answers for all.
///
/// # Safety
/// As for [`examine`], and `hi` lies below a length loaded before.
#[inline(never)]
unsafe fn ends_old(cells: &Cells, hi: u64, epoch: u64) -> bool {
    // SAFETY: the caller's.
    unsafe { cells.root().entry(hi as u32 - 1) }.is_none_or(|last| last.since <= epoch)
}

/// The groups of a request, with what a lease shows of them.
fn each_group<'a>(
    lease: &'a Lease,
    geometry: &'a Geometry,
    request: &SaveRequest,
) -> impl Iterator<Item = (GroupId, &'a GroupShape, &'a Cells)> {
    let groups = request.groups;
    let shapes = geometry.shapes().iter().enumerate();
    shapes
        .map(|(at, shape)| (GroupId(at as u32), shape, lease.cells(at)))
        .filter(move |(group, ..)| groups.contains(*group))
}

/// The verdict on a lease of a live life, with the first reason in order. Where `planning`,
/// positions at the tail that are not visible at the epoch count as past the table.
///
/// # Safety
/// The lease's storage is alive: the caller holds a guard since before it loaded the lease.
pub(crate) unsafe fn examine(
    lease: &Lease,
    geometry: &Geometry,
    request: &SaveRequest,
    planning: bool,
) -> Result<(), Stale> {
    let epoch = request.epoch.0;
    let groups = || each_group(lease, geometry, request);
    for (group, shape, cells) in groups() {
        let (_, hi) = shape.cover(request.start, request.end);
        // SAFETY: the caller's.
        let len = if planning { unsafe { visible_len(cells, epoch) } } else { cells.extent().len };
        if hi > u64::from(len) {
            return Err(Stale::Truncated { group, len });
        }
    }
    for (group, shape, cells) in groups() {
        // SAFETY: the caller's; the range lies below the length, as was just seen.
        if let Some(position) = unsafe { first_hole(cells, cover(shape, request)) } {
            return Err(Stale::Hole { group, position });
        }
    }
    for (group, shape, cells) in groups() {
        // SAFETY: as above.
        if let Some(position) = unsafe { first_younger(cells, cover(shape, request), epoch) } {
            return Err(Stale::Reassigned { group, position });
        }
    }
    if needs_commits(geometry, request) {
        for (_, _, cells) in groups() {
            let committed = lease.committed(cells);
            if committed < request.end {
                return Err(Stale::NotCommitted { committed });
            }
        }
    }
    Ok(())
}

/// The positions that are asked about, known to lie below a length.
fn cover(shape: &GroupShape, request: &SaveRequest) -> (u32, u32) {
    let (lo, hi) = shape.cover(request.start, request.end);
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
