//! Reclamation by crossbeam-epoch, with a collector of the index's own.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use crossbeam_epoch::{Collector, Guard, LocalHandle};

use super::{Batch, Returns};
use crate::sync::{AtomicPtr, Ordering};
use crate::tally::{Tallies, Tally};

pub(crate) struct Reclaim {
    collector: Collector,
    /// Tells the registries of threads which reclaimer is meant.
    id: u64,
    /// Lets them see that it has gone.
    alive: Arc<()>,
    returned: Arc<Returned>,
    tallies: Arc<Tallies>,
}

/// Whoever holds one may read leases and storage that it found while holding it. It never leaves
/// the crate.
pub(crate) struct Entered<'a> {
    guard: Guard,
    pub(crate) tally: &'a Tally,
}

impl Reclaim {
    pub(crate) fn new() -> Reclaim {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Reclaim {
            collector: Collector::new(),
            // Relaxed: only uniqueness matters.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            alive: Arc::new(()),
            returned: Arc::new(Returned { head: AtomicPtr::new(ptr::null_mut()) }),
            tallies: Arc::new(Tallies::new()),
        }
    }

    /// Begins to read. About as dear as 1.3 uncontended atomic additions; a few loads where the
    /// thread has entered already.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Entered<'_> {
        let last = THREAD.try_with(|thread| thread.last.get()).unwrap_or(ptr::null());
        // SAFETY: `last` is null or leads to an entry of `all`, which are boxes and removed only
        // together with `last`, by this thread and not before this returns.
        match unsafe { last.as_ref() } {
            Some(registered) if registered.id == self.id => self.enter_as(registered),
            _ => self.enter_anew(),
        }
    }

    #[inline(always)]
    fn enter_as(&self, registered: &Registered) -> Entered<'_> {
        // SAFETY: the tally lives as long as the list, which `self` holds too.
        Entered { guard: registered.handle.pin(), tally: unsafe { &*registered.tally } }
    }

    /// The thread has not read here before, or elsewhere since.
    #[cold]
    #[inline(never)]
    fn enter_anew(&self) -> Entered<'_> {
        // SAFETY: `find` answers with an entry of `all`; nothing removes it before this returns.
        let entered = THREAD.try_with(|thread| self.enter_as(unsafe { &*thread.find(self) }));
        entered.unwrap_or_else(|_| self.enter_in_teardown())
    }

    /// The thread is ending and its registry has gone: works without one.
    #[cold]
    fn enter_in_teardown(&self) -> Entered<'_> {
        Entered { guard: self.collector.register().pin(), tally: self.tallies.common() }
    }

    /// Hands over what no new reader can reach. It comes back through
    /// [`returned`](Reclaim::returned).
    pub(crate) fn retire(&self, batch: Box<Batch>) {
        let entered = self.enter();
        let returned = self.returned.clone();
        // SAFETY: `Returned` and `Batch` may be used by any thread at any time; the batch owns
        // what it lists and frees it where nobody takes it.
        unsafe { entered.guard.defer_unchecked(move || returned.push(batch)) };
        entered.guard.flush();
    }

    /// Helps time along where few threads enter.
    pub(crate) fn nudge(&self) {
        self.enter().guard.flush();
    }

    /// The batches that nobody can read any more. For the scheduler alone.
    #[inline]
    pub(crate) fn returned(&self) -> Returns {
        self.returned.take()
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }
}

/// Batches on their way back: anyone pushes, the scheduler takes all.
struct Returned {
    head: AtomicPtr<Batch>,
}

impl Returned {
    fn push(&self, batch: Box<Batch>) {
        let batch = Box::into_raw(batch);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: this thread's alone until it is pushed.
            unsafe { (*batch).next.with_mut(|next| *next = head) };
            // Release: pairs with the acquire swap in `take`.
            match self.head.compare_exchange_weak(head, batch, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn take(&self) -> Returns {
        // Relaxed: a push that this misses is found by the next call. Loom goes without, as in
        // `DrainStack::take`.
        if !cfg!(loom) && self.head.load(Ordering::Relaxed).is_null() {
            return Returns { next: ptr::null_mut() };
        }
        // Acquire: pairs with the release in `push`.
        Returns { next: self.head.swap(ptr::null_mut(), Ordering::Acquire) }
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// One thread at one index.
struct Registered {
    id: u64,
    handle: LocalHandle,
    tally: *const Tally,
    tallies: Arc<Tallies>,
    alive: Weak<()>,
    /// Dropped after the handle: a handle must not be the last that holds its collector.
    _collector: Collector,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.tallies.give_back(self.tally);
    }
}

/// What one thread keeps for the indices it has read.
struct Registry {
    /// The entry used last.
    last: Cell<*const Registered>,
    #[allow(clippy::vec_box)] // `last` and callers point to them
    all: RefCell<Vec<Box<Registered>>>,
}

#[cfg(not(loom))]
thread_local! {
    static THREAD: Registry = const { Registry::new() };
}

#[cfg(loom)]
loom::thread_local! {
    static THREAD: Registry = Registry::new();
}

impl Registry {
    const fn new() -> Registry {
        Registry { last: Cell::new(ptr::null()), all: RefCell::new(Vec::new()) }
    }

    #[cold]
    fn find(&self, reclaim: &Reclaim) -> *const Registered {
        // Nothing below comes back to this function, so the borrow is the only one.
        let mut all = self.all.borrow_mut();
        if let Some(found) = all.iter().find(|registered| registered.id == reclaim.id) {
            self.last.set(&raw const **found);
            return self.last.get();
        }
        self.last.set(ptr::null());
        all.retain(|registered| registered.alive.strong_count() > 0);
        let tallies = reclaim.tallies.clone();
        let registered = Box::new(Registered {
            id: reclaim.id,
            handle: reclaim.collector.register(),
            tally: tallies.claim(),
            tallies,
            alive: Arc::downgrade(&reclaim.alive),
            _collector: reclaim.collector.clone(),
        });
        self.last.set(&raw const *registered);
        all.push(registered);
        self.last.get()
    }
}
