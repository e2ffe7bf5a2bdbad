//! The way back: leases whose last pin has ended, for the scheduler to take whole.
//!
//! A stack of leases linked through [`Lease::next_drained`]. Anyone pushes; only the scheduler
//! takes, always everything, so no link is ever followed that someone else may change. When the
//! scheduler ends it closes the stack with a mark that is never taken off.

#![allow(unsafe_code)]

use std::ptr;

use crate::lease::Lease;
use crate::sync::{AtomicPtr, Ordering};

/// On cache lines of its own, as any thread may push.
#[repr(align(128))]
pub(crate) struct DrainStack {
    head: AtomicPtr<Lease>,
    /// Written before the stack is closed and read by who finds it closed, so that loom sees
    /// whether the one happened before the other.
    #[cfg(loom)]
    sealed: loom::cell::Cell<bool>,
}

/// The mark of a closed stack. Never dereferenced.
fn closed() -> *mut Lease {
    ptr::without_provenance_mut(1)
}

/// What became of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    Taken,
    /// The scheduler has ended and nobody will take it.
    Closed,
}

impl DrainStack {
    pub(crate) fn new() -> DrainStack {
        DrainStack {
            head: AtomicPtr::new(ptr::null_mut()),
            #[cfg(loom)]
            sealed: loom::cell::Cell::new(false),
        }
    }

    /// Hands a drained lease to the scheduler. Lock-free: a retry means that another push or take
    /// went through.
    ///
    /// # Safety
    /// `stack` is alive until a push has gone through or was answered with `Closed`. The lease is
    /// drained, and the caller is the one that drained it.
    pub(crate) unsafe fn push(stack: *const DrainStack, lease: *mut Lease) -> Push {
        // Acquire: pairs with the release half of the swap in `close`. Whoever finds the stack
        // closed may drop the last count of the shared state and free everything, so all that the
        // scheduler did before must have happened before.
        // SAFETY: the stack is alive, as nothing was pushed yet.
        let mut head = unsafe { (*stack).head.load(Ordering::Acquire) };
        loop {
            if head == closed() {
                // SAFETY: as for the load above.
                #[cfg(loom)]
                assert!(unsafe { &(*stack).sealed }.get());
                return Push::Closed;
            }
            // SAFETY: the lease is the caller's alone until it is pushed.
            unsafe { (*lease).next_drained.with_mut(|next| *next = head) };
            // Release: pairs with the acquire swap in `take`: the scheduler that takes the lease
            // finds its link, and everything that any of its readers did under the pin (the unpins
            // before this one are in the release sequence that the last one acquired).
            // Acquire on failure: as for the load above.
            // SAFETY: the stack is alive, as nothing was pushed yet.
            match unsafe {
                (*stack).head.compare_exchange_weak(
                    head,
                    lease,
                    Ordering::Release,
                    Ordering::Acquire,
                )
            } {
                Ok(_) => return Push::Taken,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything that was pushed, the last first. For the scheduler alone.
    #[inline]
    pub(crate) fn take(&self) -> Drained {
        // Relaxed: a push that this misses is found by the next call. Loom goes without: its search
        // overlooks that a load races with the compare-exchange of a thread that has loaded, too.
        if !cfg!(loom) && self.head.load(Ordering::Relaxed).is_null() {
            return Drained { next: ptr::null_mut() };
        }
        // Acquire: pairs with the release in `push`. One swap, not a load and a store, or a push
        // between the two would be lost.
        Drained { next: self.head.swap(ptr::null_mut(), Ordering::Acquire) }
    }

    /// Closes the stack for good and answers what was still on it.
    pub(crate) fn close(&self) -> Drained {
        #[cfg(loom)]
        self.sealed.set(true);
        // Acquire: as in `take`. Release: pairs with the acquire loads in `push`.
        Drained { next: self.head.swap(closed(), Ordering::AcqRel) }
    }
}

/// Leases taken off the stack, now the scheduler's alone.
pub(crate) struct Drained {
    next: *mut Lease,
}

impl Iterator for Drained {
    type Item = *mut Lease;

    fn next(&mut self) -> Option<*mut Lease> {
        let lease = self.next;
        if lease.is_null() {
            return None;
        }
        // SAFETY: it was pushed, so it is alive, and its link is the scheduler's since it was taken.
        self.next = unsafe { (*lease).next_drained.with(|next| *next) };
        Some(lease)
    }
}
