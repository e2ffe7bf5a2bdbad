//! The one place that decides whether atomics and cells are the real ones or loom's.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence},
};

/// `std`'s cell with loom's closures, so that loom sees every access to data that is not atomic.
#[cfg(not(loom))]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Whether something is still there that is reclaimed once nobody can read it. Loom reports whoever
/// reads it at the same time or afterwards; nothing at all otherwise.
pub(crate) struct Alive {
    #[cfg(loom)]
    yes: loom::cell::Cell<bool>,
}

impl Alive {
    pub(crate) fn new() -> Alive {
        Alive {
            #[cfg(loom)]
            yes: loom::cell::Cell::new(true),
        }
    }

    /// Somebody reads it.
    #[inline(always)]
    pub(crate) fn seen(&self) {
        #[cfg(loom)]
        assert!(self.yes.get(), "read after it was reclaimed");
    }

    /// It is reclaimed.
    #[cfg(loom)]
    pub(crate) fn end(&self) {
        self.yes.set(false);
    }
}
