//! A hold on the blocks of a planned read.
//!
//! Taking a pin is one compare-exchange on the lease's word ([`take`]), giving it back one
//! subtraction ([`give_back`]); what happens in between, to the scheduler, the index or the request,
//! changes nothing for the reader.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc as StdArc;

use crate::drain::{DrainStack, Push};
use crate::error::BadRange;
use crate::geometry::GroupShape;
use crate::ids::{BlockId, GroupId, Groups, RequestKey};
use crate::lease::{Ended, Held, History, Lease, NO_RECORD, NewLease, Reader};
use crate::recorder::Recorded;
use crate::request::{Kind, SaveRequest};
use crate::shared::Shared;
use crate::sync::{Arc, Ordering};
use crate::word::{Hull, Word};

/// A hold on the blocks of a token range (or on listed blocks): while it lives, none of them is
/// handed out again, whatever becomes of the request, the scheduler or the index.
///
/// It is `'static` and can be sent to another thread or kept in a ledger. Dropping it gives the
/// blocks back: one atomic subtraction, whatever the number of blocks. Leaking it
/// (`std::mem::forget`) keeps its blocks held for good, and the shared state of the index alive
/// after everything else has gone; nothing else.
///
/// ```
/// use tenure::{BlockId, Config, GroupId, Groups};
/// let (mut scheduler, index) = Config::new(8).build()?;
/// let request = scheduler.admit("r1")?;
/// scheduler.assign(request, GroupId(0), &[BlockId(3), BlockId(5)])?;
/// scheduler.publish();
///
/// let plan = index.plan(request, 0..32, Groups::ALL)?;
/// let pin = index.pin(&plan)?;
/// assert_eq!(scheduler.release(request)?.held(), 2); // still being read
/// assert_eq!(pin.blocks(), [BlockId(3), BlockId(5)]);
/// drop(pin);
/// assert_eq!(scheduler.reclaim(), [BlockId(3), BlockId(5)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a pin gives its blocks back at once"]
pub struct Pin {
    lease: NonNull<Lease>,
    /// In tokens: no table covers more than fit.
    start: u32,
    end: u32,
    /// One bit a group.
    groups: u32,
    kind: Kind,
}

// Small enough to be moved in registers.
const _: () = assert!(size_of::<Pin>() <= 24);

// SAFETY: the lease is kept alive by the pin, and shared by all who pin it: what a pin does with it
// is atomic, or reads what was written before the pin was taken.
unsafe impl Send for Pin {}
// SAFETY: as above; a shared pin only reads.
unsafe impl Sync for Pin {}

/// What became of taking a pin on a lease.
#[derive(PartialEq, Eq)]
pub(crate) enum Take {
    Taken,
    /// The lease is closed: the slot holds its successor, or the index is draining.
    Closed,
    /// No more pins can be counted.
    Full,
}

/// Takes one pin over a range that was just judged on the same lease. Lock-free: a retry means that
/// another pin, an unpin or the close went through.
#[inline(always)]
pub(crate) fn take(lease: &Lease, range: Hull) -> Take {
    // Relaxed: only a closed word tells anything about other words, see below.
    let mut word = Word(lease.word.load(Ordering::Relaxed));
    loop {
        if word.is_closed() {
            // Acquire: pairs with the release half of the close: the slot is loaded next, and must
            // hold at least the successor that was stored before the close.
            let _ = lease.word.load(Ordering::Acquire);
            return Take::Closed;
        }
        let Some(pinned) = word.with_pin(range) else { return Take::Full };
        // Relaxed: success proves that the lease was not closed since it was judged, which is all
        // that is needed; it stays in the release sequence of earlier unpins, so that the close
        // acquires them. Failure: as for the load above.
        match lease.word.compare_exchange_weak(
            word.0,
            pinned.0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Take::Taken,
            Err(now) => word = Word(now),
        }
    }
}

/// Ends one pin.
///
/// # Safety
/// The caller holds one pin on the lease and does not use it again.
#[inline(always)]
unsafe fn give_back(lease: *mut Lease) {
    // SAFETY: the pin keeps the lease alive up to the subtraction. From then on, unless this was
    // the last pin of a closed lease, the scheduler may free it at any time: no reference to it is
    // held, and what is needed afterwards was read before.
    let (before, shared) = unsafe {
        (*lease).alive.seen();
        let shared = (*lease).shared;
        // Release: pairs with the acquire half of the close, or of the unpin that drains the lease
        // and hands it to the scheduler: whatever this reader did with the blocks happened before
        // they are handed out again. Acquire: the last unpin passes on what the others released.
        (Word((*lease).word.fetch_sub(Word::ONE_PIN, Ordering::AcqRel)), shared)
    };
    if before.drains() {
        // SAFETY: this unpin has drained the lease, which happens once.
        unsafe { hand_back(lease, shared) };
    }
}

/// # Safety
/// The caller has drained the lease. `shared` is the lease's.
#[cold]
unsafe fn hand_back(lease: *mut Lease, shared: *const Shared) {
    // SAFETY: this lease is the caller's alone until it is pushed.
    if let Some(recorded) = unsafe { (*lease).held.as_ref() }.and_then(|held| held.recorded.clone())
    {
        // SAFETY: the caller's.
        return unsafe { hand_back_recorded(lease, shared, &recorded) };
    }
    // SAFETY: the caller's.
    unsafe { push(lease, shared) };
}

/// The end of a pin that a flight recorder follows: nothing else that is recorded happens meanwhile.
///
/// # Safety
/// As for [`hand_back`].
unsafe fn hand_back_recorded(lease: *mut Lease, shared: *const Shared, recorded: &Recorded) {
    let mut log = recorded.recorder.lock();
    match NonNull::new(recorded.over) {
        Some(over) => {
            // SAFETY: the scheduler knows nothing of this lease, which was made as a box and holds
            // one pin on the other; nobody has either any more.
            unsafe {
                drop(Box::from_raw(lease));
                give_back(over.as_ptr());
            }
        }
        // SAFETY: the caller's.
        None => unsafe { push(lease, shared) },
    }
    log.ended(recorded.job);
}

/// # Safety
/// As for [`hand_back`].
unsafe fn push(lease: *mut Lease, shared: *const Shared) {
    // SAFETY: until the scheduler takes this lease off the stack it counts as not drained, and for
    // each such lease an ending scheduler leaves a count of the shared state behind.
    unsafe {
        let stack: *const DrainStack = &raw const (*shared).drain;
        if DrainStack::push(stack, lease) == Push::Closed {
            Arc::decrement_strong_count(shared);
        }
    }
}

impl Pin {
    /// # Safety
    /// The caller has taken one pin on the lease over (at least) this range, which lies within its
    /// table, and hands it over.
    #[inline(always)]
    pub(crate) unsafe fn new(lease: NonNull<Lease>, request: &SaveRequest) -> Pin {
        let SaveRequest { start, end, groups, kind, .. } = *request;
        Pin { lease, start: start as u32, end: end as u32, groups: groups.bits() as u32, kind }
    }

    /// # Safety
    /// The caller has made the lease, an exact hold, with one pin, and hands that over.
    pub(crate) unsafe fn exact(lease: NonNull<Lease>) -> Pin {
        Pin { lease, start: 0, end: 0, groups: 0, kind: Kind::Hold }
    }

    fn lease(&self) -> &Lease {
        // SAFETY: the pin keeps the lease alive, and everything that is written while it may be
        // read is atomic or in a cell.
        let lease = unsafe { self.lease.as_ref() };
        lease.alive.seen();
        lease
    }

    /// The life it reads. `None` for an [exact hold](crate::Scheduler::hold).
    pub fn key(&self) -> Option<RequestKey> {
        (self.kind != Kind::Hold).then(|| self.lease().key)
    }

    /// The label of the request it reads. `None` for an [exact hold](crate::Scheduler::hold).
    pub fn label(&self) -> Option<StdArc<str>> {
        (self.kind != Kind::Hold).then(|| self.lease().label.clone())
    }

    /// What it is for.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The token range it covers; empty for an [exact hold](crate::Scheduler::hold).
    pub fn tokens(&self) -> Range<u64> {
        self.start.into()..self.end.into()
    }

    /// The groups it covers.
    pub fn groups(&self) -> Groups {
        Groups::from_bits(self.groups.into())
    }

    /// The blocks it holds, each once, by group and then by position (as they were listed, for an
    /// exact hold). They are the blocks of the plan, whatever the table shows now.
    ///
    /// Costs a walk over the range.
    pub fn blocks(&self) -> Vec<BlockId> {
        let mut blocks = match &self.lease().held {
            Some(held) if self.kind == Kind::Hold => held.blocks.to_vec(),
            _ => self.groups().iter().flat_map(|group| self.blocks_of(group)).collect(),
        };
        keep_first_of_each(&mut blocks);
        blocks
    }

    /// The blocks it holds in one group, one per position of its range and in order, so a block may
    /// repeat. Empty for a group it does not cover and for an exact hold.
    pub fn blocks_of(&self, group: GroupId) -> Vec<BlockId> {
        let lease = self.lease();
        if !self.groups().contains(group) {
            return Vec::new();
        }
        if let Some(narrowed) = lease.held.as_ref().and_then(|held| held.narrowed.as_deref()) {
            return narrowed.get(group.index()).map(|blocks| blocks.to_vec()).unwrap_or_default();
        }
        let lease = match lease.recorded().and_then(|recorded| NonNull::new(recorded.over)) {
            // SAFETY: what is recorded keeps a pin on the lease it is over.
            Some(over) => unsafe { over.as_ref() },
            None => lease,
        };
        // SAFETY: the lease, and so the shared state, is alive.
        let shared = unsafe { &*lease.shared };
        let Some(shape) = shared.geometry.shape(group) else { return Vec::new() };
        let (lo, hi) = shape.cover(self.start.into(), self.end.into());
        let mut blocks = Vec::with_capacity((hi - lo) as usize);
        // The storage of an open lease may be replaced by larger storage while it is read.
        let _entered = shared.reclaim.enter();
        // SAFETY: the range was judged to lie below a length of this lease before the pin was
        // taken, and the guard keeps what the root leads to.
        unsafe {
            let root = lease.cells(group.index()).root();
            root.for_each(lo as u32..hi as u32, |_, entry| blocks.extend(entry.block));
        }
        blocks
    }

    /// Gives back all but a part of the range: from the scheduler's next call on, the pin is
    /// a hold on exactly the blocks of `tokens`.
    ///
    /// Lock-free. Costs a walk over the part that stays.
    ///
    /// # Errors
    /// [`BadRange`] where `tokens` is empty, reversed or not within the pin's own range; the pin is
    /// then as it was.
    pub fn narrow(&mut self, tokens: Range<u64>) -> Result<(), BadRange> {
        let Range { start, end } = tokens;
        let whole = self.tokens();
        if start >= end || start < whole.start || end > whole.end {
            return Err(BadRange { start, end });
        }
        if whole != (start..end) {
            self.hold_alone(tokens, self.note());
        }
        Ok(())
    }

    /// Says what the pin is for: [`Scheduler::draining`](crate::Scheduler::draining) shows it. From
    /// the scheduler's next call on, the pin is a hold on exactly its blocks, listed there by itself
    /// for as long as it is out. A note given before is replaced.
    ///
    /// Lock-free. Costs a walk over the range, so it is for pins that are kept long rather than for
    /// every pin. Once the scheduler has ended nobody asks, and nothing is noted.
    ///
    /// ```
    /// use tenure::{BlockId, Config, GroupId, Groups};
    /// let (mut scheduler, index) = Config::new(8).build()?;
    /// let request = scheduler.admit("r1")?;
    /// scheduler.assign(request, GroupId(0), &[BlockId(3), BlockId(5)])?;
    /// scheduler.publish();
    /// let plan = index.plan(request, 0..32, Groups::ALL)?;
    /// std::mem::forget(index.pin(&plan)?.with_note("offload to host"));
    ///
    /// let _ = scheduler.release(request)?;
    /// let leak = &scheduler.draining()[0];
    /// assert_eq!((leak.note, leak.tokens.clone()), (Some("offload to host"), 0..32));
    /// assert_eq!(leak.blocks, [BlockId(3), BlockId(5)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_note(mut self, note: &'static str) -> Pin {
        self.hold_alone(self.tokens(), Some(note));
        self
    }

    /// Its name in the flight recorder.
    pub(crate) fn recorded_name(&self) -> Option<u64> {
        self.lease().recorded().map(|recorded| recorded.job)
    }

    /// What it was said to be for.
    pub fn note(&self) -> Option<&'static str> {
        self.lease().held.as_ref().and_then(|held| held.reader.note)
    }

    /// Moves the pin to a lease of its own, over exactly the blocks of a part of its range, for the
    /// scheduler to take in and to end the old pin then. Where there is no scheduler any more all
    /// stays as it is.
    fn hold_alone(&mut self, tokens: Range<u64>, note: Option<&'static str>) {
        let (blocks, narrowed) = if self.kind == Kind::Hold {
            (self.blocks(), None)
        } else {
            let parts = self.parts(&tokens);
            let mut blocks: Vec<BlockId> = parts.iter().flatten().copied().collect();
            keep_first_of_each(&mut blocks);
            (blocks, Some(parts))
        };
        let lease = self.lease();
        let recorded = lease.recorded().cloned();
        let over = recorded.as_ref().and_then(|recorded| NonNull::new(recorded.over));
        let new = Box::new(Lease::new(NewLease {
            shared: lease.shared,
            // One pin is this one; the other is the scheduler's, until it has taken the hold in.
            word: Word::born_closed(2),
            before: ptr::null(),
            opened: lease.opened,
            label: lease.label.clone(),
            record: NO_RECORD,
            key: lease.key,
            history: History::default(),
            ended: Ended::No,
            tables: &mut std::iter::empty(),
            held: Some(Held {
                blocks: blocks.into(),
                narrowed,
                instead_of: over.unwrap_or(self.lease).as_ptr(),
                reader: Reader { kind: self.kind, tokens: tokens.clone(), note },
                recorded: recorded.as_ref().map(Recorded::successor),
            }),
        }));
        let shared = lease.shared;
        let new = NonNull::from(Box::leak(new));
        let turn = recorded.as_ref().map(|recorded| recorded.recorder.lock());
        // SAFETY: the shared state is alive, as the old lease is pinned. The new lease is this
        // pin's alone until it is pushed.
        unsafe {
            let stack: *const DrainStack = &raw const (*shared).drain;
            match DrainStack::push(stack, new.as_ptr()) {
                // The old pin is the scheduler's to end now.
                Push::Taken => {
                    if over.is_some() {
                        // Made as a box and known to this pin alone; the pin that it held is the
                        // one that the scheduler ends.
                        drop(Box::from_raw(self.lease.as_ptr()));
                    }
                    self.lease = new;
                    (self.start, self.end) = (tokens.start as u32, tokens.end as u32);
                }
                // There is no scheduler to give anything back to: all stays as it is.
                Push::Closed => drop(Box::from_raw(new.as_ptr())),
            }
        }
        drop(turn);
    }

    /// The blocks of a part of its range, by group and position.
    fn parts(&self, tokens: &Range<u64>) -> Box<[Box<[BlockId]>]> {
        let whole = self.tokens();
        // SAFETY: the lease, and so the shared state, is alive.
        let shapes = unsafe { (*self.lease().shared).geometry.shapes() };
        let part = |(group, shape): (usize, &GroupShape)| -> Box<[BlockId]> {
            let mut blocks = self.blocks_of(GroupId(group as u32));
            if !blocks.is_empty() {
                let ((first, _), (lo, hi)) =
                    (shape.cover(whole.start, whole.end), shape.cover(tokens.start, tokens.end));
                blocks.truncate((hi - first) as usize);
                blocks.drain(..(lo - first) as usize);
            }
            blocks.into()
        };
        shapes.iter().enumerate().map(part).collect()
    }
}

/// Puts a lease that only the recorder knows around one that was just pinned, and hands the pin over
/// to it.
pub(crate) fn recorded(lease: NonNull<Lease>, recorded: Recorded) -> NonNull<Lease> {
    // SAFETY: pinned, so alive.
    let over = unsafe { lease.as_ref() };
    let new = Lease::new(NewLease {
        shared: over.shared,
        word: Word::born_closed(1),
        before: ptr::null(),
        opened: over.opened,
        label: over.label.clone(),
        record: NO_RECORD,
        key: over.key,
        history: History::default(),
        ended: Ended::No,
        tables: &mut std::iter::empty(),
        held: Some(Held {
            blocks: Box::default(),
            narrowed: None,
            instead_of: ptr::null_mut(),
            reader: Reader::HOLD,
            recorded: Some(Recorded { over: lease.as_ptr(), ..recorded }),
        }),
    });
    NonNull::from(Box::leak(Box::new(new)))
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the pin's one claim, given back once.
        unsafe { give_back(self.lease.as_ptr()) };
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin")
            .field("label", &self.label())
            .field("key", &self.key())
            .field("kind", &self.kind)
            .field("tokens", &self.tokens())
            .field("groups", &self.groups)
            .finish()
    }
}

/// Drops repetitions, keeping the order.
pub(crate) fn keep_first_of_each(blocks: &mut Vec<BlockId>) {
    const FEW: usize = 16;
    if blocks.len() <= FEW {
        let mut kept = 0;
        for at in 0..blocks.len() {
            if !blocks[..kept].contains(&blocks[at]) {
                blocks[kept] = blocks[at];
                kept += 1;
            }
        }
        blocks.truncate(kept);
    } else {
        let mut seen = std::collections::HashSet::with_capacity(blocks.len());
        blocks.retain(|block| seen.insert(*block));
    }
}
