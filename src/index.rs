//! The readers' end: planning, pinning, checking and looking.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc as StdArc;

use thiserror::Error;

use crate::error::{Budget, PlanError, Refused, Stale};
use crate::geometry::Geometry;
use crate::ids::{Epoch, GroupId, Groups, IndexId, RequestKey};
use crate::lease::Lease;
use crate::pin::{self, Pin, Take};
use crate::recorder::{Recorded, Recorder};
use crate::request::{Kind, SaveRequest};
use crate::shared::Shared;
use crate::snapshot::{Snapshot, TableView, at_epoch};
use crate::stats::{Gauged, Stats};
use crate::sync::{Arc, Ordering, fence};
use crate::tally::Tally;
use crate::verdict::{self, visible_len};
use crate::word::Hull;

/// A handle on the index for any thread: plans reads, pins what they need, and looks at the
/// published tables. Cloning it is one reference count; nothing it does ever blocks the scheduler
/// or another reader.
///
/// ```
/// use tenure::{BlockId, Config, GroupId, Groups, Refused, Stale};
/// let (mut scheduler, index) = Config::new(8).build()?;
/// let request = scheduler.admit("r1")?;
/// scheduler.assign(request, GroupId(0), &[BlockId(3), BlockId(5)])?;
/// scheduler.publish();
///
/// let plan = index.plan(request, 0..32, Groups::ALL)?; // Copy: queue it, send it
/// scheduler.release(request)?;                         // and meanwhile the request ends
/// assert_eq!(index.pin(&plan).unwrap_err(), Refused::Stale(Stale::Gone));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Index {
    shared: Arc<Shared>,
}

/// Why an inbound write was not pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PinLoadError {
    /// Nothing could be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Planned, and then refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl Index {
    pub(crate) fn new(shared: Arc<Shared>) -> Index {
        Index { shared }
    }

    /// Which index this is.
    pub fn id(&self) -> IndexId {
        self.shared.id
    }

    /// Its pool, groups and block sizes.
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// The published epoch: 0 before the first publish.
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch()
    }

    /// Whether the index is shutting down.
    pub fn is_draining(&self) -> bool {
        self.shared.is_draining()
    }

    /// Plans a read of a token range of one life, in the named groups, at the published epoch. The
    /// range takes in every block it touches. Wait-free.
    ///
    /// # Errors
    /// [`PlanError::BadRange`], [`PlanError::NoGroup`] and [`PlanError::UnknownGroup`] for what was
    /// asked; [`PlanError::Stale`] where a pin would be refused: positions that are not published
    /// yet count as past the table.
    #[inline]
    pub fn plan(
        &self,
        key: RequestKey,
        tokens: Range<u64>,
        groups: Groups,
    ) -> Result<SaveRequest, PlanError> {
        self.plan_kind(key, tokens, groups, Kind::Save)
    }

    /// Plans an inbound write, which needs no committed tokens. Otherwise like
    /// [`plan`](Index::plan).
    ///
    /// # Errors
    /// As for [`plan`](Index::plan).
    #[inline]
    pub fn plan_load(
        &self,
        key: RequestKey,
        tokens: Range<u64>,
        groups: Groups,
    ) -> Result<SaveRequest, PlanError> {
        self.plan_kind(key, tokens, groups, Kind::Load)
    }

    #[inline]
    fn plan_kind(
        &self,
        key: RequestKey,
        tokens: Range<u64>,
        groups: Groups,
        kind: Kind,
    ) -> Result<SaveRequest, PlanError> {
        let Range { start, end } = tokens;
        if start >= end {
            return Err(PlanError::BadRange { start, end });
        }
        let groups = self.known_groups(groups)?;
        let _entered = self.shared.reclaim.enter();
        let epoch = self.shared.epoch();
        let request = SaveRequest { index: self.id(), key, epoch, start, end, groups, kind };
        // SAFETY: under the guard.
        match unsafe { self.verdict(&request, true) } {
            Ok(()) => Ok(request),
            Err(stale) => Err(PlanError::Stale(stale)),
        }
    }

    #[inline]
    fn known_groups(&self, groups: Groups) -> Result<Groups, PlanError> {
        let all = self.geometry().all_groups();
        if groups == Groups::ALL {
            return Ok(all);
        }
        let unknown = Groups::from_bits(groups.bits() & !all.bits());
        match unknown.iter().next() {
            Some(group) => Err(PlanError::UnknownGroup { group }),
            None if groups.is_empty() => Err(PlanError::NoGroup),
            None => Ok(groups),
        }
    }

    /// The same life, range, groups and kind, planned at today's epoch. Wait-free.
    ///
    /// # Errors
    /// [`Stale::EpochUnknown`] and [`Stale::Reset`] by the epoch the request carries; the other
    /// reasons as for [`plan`](Index::plan).
    pub fn replan(&self, request: &SaveRequest) -> Result<SaveRequest, Stale> {
        let _entered = self.shared.reclaim.enter();
        let published = self.shared.epoch();
        if !self.known(request, published) {
            return Err(Stale::EpochUnknown);
        }
        if let Some(stale) = self.shared.overriding(request.epoch) {
            return Err(stale);
        }
        let today = SaveRequest { epoch: published, ..*request };
        // SAFETY: under the guard.
        unsafe { self.verdict(&today, true) }?;
        Ok(today)
    }

    /// Pins the blocks of a planned read, if and only if ownership is unchanged since the plan: the
    /// life is the same, and every position of the range has shown the same block without
    /// interruption (and is committed, where commits are tracked and the plan is a save). What else
    /// has changed, in this table or another, does not matter.
    ///
    /// Costs a few uncontended atomic operations, whatever the number of blocks. Lock-free.
    ///
    /// # Errors
    /// [`Refused::Stale`] says what was lost; the plan can never be pinned again, unless it was
    /// `NotCommitted`. [`Refused::Budget`] says that the table has all the pins it can count now.
    /// A refused pin leaves no trace.
    #[inline]
    pub fn pin(&self, request: &SaveRequest) -> Result<Pin, Refused> {
        let entered = self.shared.reclaim.enter();
        // SAFETY: under the guard.
        let answer = unsafe { self.pin_judged(self.clear_lease(request), request, entered.tally) };
        entered.tally.pinned(u64::from(answer.is_ok()));
        answer
    }

    /// Pins every request of a list under one guard, which makes each cheaper. Appends one answer
    /// per request to `out`, in order; each stands for itself.
    pub fn pin_batch(&self, requests: &[SaveRequest], out: &mut Vec<Result<Pin, Refused>>) {
        let entered = self.shared.reclaim.enter();
        let mut taken = 0;
        out.extend(requests.iter().map(|request| {
            // SAFETY: under the guard.
            let answer =
                unsafe { self.pin_judged(self.clear_lease(request), request, entered.tally) };
            taken += u64::from(answer.is_ok());
            answer
        }));
        entered.tally.pinned(taken);
    }

    /// Plans and pins an inbound write in one call.
    ///
    /// # Errors
    /// As for [`plan`](Index::plan) and [`pin`](Index::pin).
    pub fn pin_load(
        &self,
        key: RequestKey,
        tokens: Range<u64>,
        groups: Groups,
    ) -> Result<Pin, PinLoadError> {
        let request = self.plan_load(key, tokens, groups)?;
        Ok(self.pin(&request)?)
    }

    /// The newest lease of the life and the range to pin, where the request is
    /// [clear](verdict::clear) on it.
    ///
    /// # Safety
    /// The caller is under a guard.
    #[inline(always)]
    unsafe fn clear_lease(&self, request: &SaveRequest) -> Option<(NonNull<Lease>, Hull)> {
        // The epoch before the slot, or a request for the coming epoch could be judged on a lease
        // from before it.
        let published = self.shared.epoch();
        let lease = NonNull::new(self.shared.lease(request.key.slot()))?;
        // SAFETY: loaded from its slot under the guard.
        let open = unsafe { lease.as_ref() };
        open.alive.seen();
        let well = self.known(request, published)
            // SAFETY: under the guard, since before the lease was loaded.
            && unsafe { verdict::clear(open, &self.shared.geometry, request) };
        if well { Some((lease, self.hull(request)?)) } else { None }
    }

    /// # Safety
    /// The caller is under a guard since before it judged the lease.
    #[inline(always)]
    unsafe fn pin_judged(
        &self,
        judged: Option<(NonNull<Lease>, Hull)>,
        request: &SaveRequest,
        tally: &Tally,
    ) -> Result<Pin, Refused> {
        let lease = match judged {
            // SAFETY: judged under the guard, so alive.
            Some((lease, range)) if pin::take(unsafe { lease.as_ref() }, range) == Take::Taken => {
                lease
            }
            // SAFETY: the caller's.
            _ => unsafe { self.pin_at_length(request, tally) }?,
        };
        // SAFETY: one pin was just taken on it, over a range that was judged to lie in its table.
        Ok(unsafe { Pin::new(lease, request) })
    }

    #[inline(always)]
    fn hull(&self, request: &SaveRequest) -> Option<Hull> {
        self.shared.geometry.hull(request.start, request.end)
    }

    /// Takes a pin, or tells why not, where a glance was not enough.
    ///
    /// # Safety
    /// The caller is under a guard.
    #[cold]
    unsafe fn pin_at_length(
        &self,
        request: &SaveRequest,
        tally: &Tally,
    ) -> Result<NonNull<Lease>, Refused> {
        let pinned = match &self.shared.recorder {
            // SAFETY: the caller's.
            None => unsafe { self.pin_newest(request) },
            // SAFETY: the caller's.
            Some(recorder) => unsafe { self.pin_recorded(request, recorder) },
        };
        if let Err(refused) = &pinned {
            tally.refused(refused);
            let reassigned = matches!(refused, Refused::Stale(Stale::Reassigned { .. }));
            // SAFETY: the caller's.
            if reassigned && unsafe { self.is_plannable(request) } {
                tally.replannable();
            }
        }
        pinned
    }

    /// Whether the request would be planned today.
    ///
    /// # Safety
    /// The caller is under a guard.
    unsafe fn is_plannable(&self, request: &SaveRequest) -> bool {
        let today = SaveRequest { epoch: self.shared.epoch(), ..*request };
        // SAFETY: the caller's.
        unsafe { self.judged_lease(&today, true) }.is_ok()
    }

    /// # Safety
    /// The caller is under a guard.
    unsafe fn pin_recorded(
        &self,
        request: &SaveRequest,
        recorder: &Recorder,
    ) -> Result<NonNull<Lease>, Refused> {
        let mut log = recorder.lock();
        // SAFETY: the caller's.
        let pinned = unsafe { self.pin_newest(request) };
        let recorded = Recorded::new(recorder);
        log.pinned(request, pinned.as_ref().map(|_| recorded.job));
        pinned.map(|lease| pin::recorded(lease, recorded))
    }

    /// # Safety
    /// The caller is under a guard.
    unsafe fn pin_newest(&self, request: &SaveRequest) -> Result<NonNull<Lease>, Refused> {
        let mut closed = ptr::null_mut();
        loop {
            // SAFETY: the caller's.
            let lease = unsafe { self.judged_lease(request, false) }?;
            if lease.as_ptr() == closed {
                // Closed where it stands: only a drain, or the scheduler's end, does that.
                return Err(self.settle(request, Stale::Draining).into());
            }
            let Some(range) = self.hull(request) else { return Err(Budget::Pins.into()) };
            // SAFETY: loaded from its slot under the guard.
            match pin::take(unsafe { lease.as_ref() }, range) {
                Take::Taken => return Ok(lease),
                Take::Full => return Err(Budget::Pins.into()),
                Take::Closed => closed = lease.as_ptr(),
            }
        }
    }

    /// The verdict that [`pin`](Index::pin) would give, by loads alone and holding nothing: for
    /// readers that check before *and after* a copy and throw the copy away on a refusal. Wait-free.
    ///
    /// The copy must be made by volatile or atomic loads, and whoever writes a block after its
    /// release must have received it through a release/acquire hand-over (a channel, a lock). The
    /// check orders the caller's earlier loads before its own. A reader that cannot promise this
    /// pins.
    ///
    /// # Errors
    /// As for [`pin`](Index::pin).
    #[inline]
    pub fn check(&self, request: &SaveRequest) -> Result<(), Stale> {
        // Acquire: pairs with the release by which whoever wrote the copied bytes had them handed
        // over: if the caller's loads found such bytes, the loads below find that the block was
        // lost before. The caller's loads are no acquires, hence a fence.
        fence(Ordering::Acquire);
        let _entered = self.shared.reclaim.enter();
        // SAFETY: under the guard.
        unsafe { self.verdict(request, false) }
    }

    /// # Safety
    /// The caller is under a guard.
    #[inline(always)]
    unsafe fn verdict(&self, request: &SaveRequest, planning: bool) -> Result<(), Stale> {
        // SAFETY: the caller's.
        if unsafe { self.clear_lease(request) }.is_some() && !self.shared.is_draining() {
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe { self.verdict_at_length(request, planning) }
    }

    /// # Safety
    /// The caller is under a guard.
    #[cold]
    unsafe fn verdict_at_length(&self, request: &SaveRequest, planning: bool) -> Result<(), Stale> {
        let mut log = match &self.shared.recorder {
            Some(recorder) if planning => Some(recorder.lock()),
            _ => None,
        };
        // SAFETY: the caller's.
        let verdict = unsafe { self.judged_lease(request, planning) }.and_then(|_| {
            // Nothing of a table from before a reset is left to say yes to; a drain leaves it.
            if self.shared.is_draining() { Err(Stale::Draining) } else { Ok(()) }
        });
        if let Some(log) = &mut log {
            let published = self.shared.epoch();
            match &verdict {
                Ok(()) => log.planned(request, published),
                Err(stale) if request.epoch == published => log.not_planned(request, stale),
                // The answer of an epoch that has passed since.
                Err(_) => {}
            }
        }
        verdict
    }

    /// The newest lease of the life, where it allows what is requested.
    ///
    /// # Safety
    /// The caller is under a guard.
    unsafe fn judged_lease(
        &self,
        request: &SaveRequest,
        planning: bool,
    ) -> Result<NonNull<Lease>, Stale> {
        let published = self.shared.epoch();
        if !self.known(request, published) {
            return Err(Stale::EpochUnknown);
        }
        let lease = NonNull::new(self.shared.lease(request.key.slot()));
        let verdict = match lease {
            None => Err(Stale::Gone),
            // SAFETY: loaded from its slot under the guard.
            Some(lease) => match unsafe { lease.as_ref() } {
                open if !verdict::lives(open, request.key) => {
                    Err(verdict::ended(open, request.key))
                }
                // SAFETY: under the guard.
                open => unsafe { verdict::examine(open, &self.shared.geometry, request, planning) }
                    .map(|()| lease),
            },
        };
        verdict.map_err(|stale| self.settle(request, stale))
    }

    /// Whether the request can be one of this index at all.
    #[inline(always)]
    fn known(&self, request: &SaveRequest, published: Epoch) -> bool {
        request.index == self.shared.id
            && Shared::believes(request.epoch, published)
            && self.shared.geometry.has_all_of(request.groups)
            && request.kind != Kind::Hold
    }

    /// The reason to tell, where the lease gave this one.
    #[cold]
    fn settle(&self, request: &SaveRequest, stale: Stale) -> Stale {
        self.shared.overriding(request.epoch).unwrap_or(stale)
    }

    /// The table of one life at the published epoch; empty where the life is not visible yet.
    /// Losses since the publish still show. Copies the table out; wait-free but for allocation.
    ///
    /// # Errors
    /// [`Stale::Gone`] or [`Stale::NewLife`] where the life had ended by then.
    pub fn view(&self, key: RequestKey) -> Result<TableView, Stale> {
        let _entered = self.shared.reclaim.enter();
        let epoch = self.shared.epoch();
        let newest = self.shared.lease(key.slot());
        // SAFETY: under the guard, the epoch first and then the slot.
        let (visible, newest) = unsafe { (at_epoch(newest, epoch).as_ref(), newest.as_ref()) };
        match visible {
            Some(lease) if lease.key.incarnation() >= key.incarnation() => {
                alive(lease, key)?;
                // SAFETY: under the guard.
                Ok(unsafe { TableView::of(lease, epoch, self.geometry()) })
            }
            _ => {
                let newest = newest.ok_or(Stale::Gone)?;
                alive(newest, key)?;
                Ok(TableView::empty(key, newest.label.clone(), epoch, self.geometry()))
            }
        }
    }

    /// How far a save of one life could reach now: the tokens that the published tables of all
    /// `groups` cover, and the tokens committed in all of them (where commits are not tracked, the
    /// same number). Wait-free.
    ///
    /// # Errors
    /// [`Stale`] where no save of this life can be planned at all.
    pub fn visible_tokens(&self, key: RequestKey, groups: Groups) -> Result<(u64, u64), Stale> {
        let _entered = self.shared.reclaim.enter();
        let epoch = self.shared.epoch();
        let lease = self.shared.lease(key.slot());
        // SAFETY: loaded from its slot under the guard.
        let alive = unsafe { lease.as_ref() }.ok_or(Stale::Gone).and_then(|lease| {
            lease.alive.seen();
            alive(lease, key).map(|()| lease)
        });
        if let Some(stale) = self.shared.overriding(epoch) {
            return Err(stale);
        }
        let lease = alive?;
        let (mut table, mut committed) = (u64::MAX, u64::MAX);
        for (at, shape) in self.geometry().shapes().iter().enumerate() {
            if groups.contains(GroupId(at as u32)) {
                let cells = lease.cells(at);
                // SAFETY: under the guard.
                table = table.min(shape.tokens(unsafe { visible_len(cells, epoch.0) }));
                committed = committed.min(lease.committed(cells));
            }
        }
        if table == u64::MAX {
            (table, committed) = (0, 0);
        }
        Ok((table, if self.geometry().tracks_commits() { committed } else { table }))
    }

    /// The whole published table, consistent at one epoch. Built by the first who asks after a
    /// publish, at a cost that grows with all tables, and shared by all who ask until the next.
    pub fn snapshot(&self) -> StdArc<Snapshot> {
        self.shared.snapshots.get(&self.shared)
    }

    /// The flight recorder, where the index has one.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.shared.recorder.as_ref()
    }

    /// What the index holds and what has happened to it.
    pub fn stats(&self) -> Stats {
        let gauged = self.shared.gauges.get();
        let totals = self.shared.reclaim.tallies().totals();
        let epoch = self.epoch();
        let draining_age = match gauged.draining_since {
            Gauged::NOTHING_DRAINS => 0,
            since => epoch.0.saturating_sub(since),
        };
        Stats {
            epoch,
            free: gauged.free,
            owned: gauged.owned,
            held: gauged.held,
            live: gauged.live,
            draining: gauged.draining,
            draining_blocks: gauged.draining_blocks,
            draining_age,
            retained: gauged.retained,
            retained_pieces: gauged.retained_pieces,
            pins: totals.pins,
            refused: totals.refused,
            refused_but_replannable: totals.replannable,
            over_budget: totals.over_budget,
            snapshots: totals.snapshots,
        }
    }
}

/// Whether the lease is of the life asked about, and alive; else how that life ended.
fn alive(lease: &Lease, key: RequestKey) -> Result<(), Stale> {
    if verdict::lives(lease, key) { Ok(()) } else { Err(verdict::ended(lease, key)) }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("id", &self.id()).field("epoch", &self.epoch()).finish()
    }
}
