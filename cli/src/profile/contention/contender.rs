//! The indexes that are compared.

use std::hint::black_box;
use std::sync::PoisonError;

use tenure::{Groups, Index, Pin, RequestKey};
use tenure_benches::peers::{Counted, CountedPin, Lock, Locked, LockedPin, RwLockMap, StdMutex};
use tenure_benches::step::{MutexStore, RwLockStore, Sizes, Store, TenureStore};

use crate::profile::Failure;

/// Tokens of a block.
const BLOCK: u64 = 16;

/// Something that a scheduler writes and readers pin.
pub trait Contender: Store + Sized {
    /// What reports call it.
    const NAME: &'static str;

    /// What a reader holds.
    type Reader: Reader;

    /// One for a workload of these sizes.
    fn new(sizes: &Sizes) -> Result<Self, Failure>;

    /// A handle for a reader.
    fn reader(&self) -> Self::Reader;
}

/// A reader's handle.
pub trait Reader: Send {
    /// Keeps blocks from reuse.
    type Pin<'a>
    where
        Self: 'a;

    /// Pins the first blocks of a request; where the index knows plans, it is planned first.
    fn pin(&self, key: u64, blocks: u32) -> Option<Self::Pin<'_>>;

    /// Takes a picture of all tables.
    fn picture(&self);
}

impl Contender for TenureStore {
    const NAME: &'static str = "tenure";
    type Reader = Index;

    fn new(sizes: &Sizes) -> Result<TenureStore, Failure> {
        Ok(TenureStore::new(sizes)?)
    }

    fn reader(&self) -> Index {
        self.index().clone()
    }
}

impl Reader for Index {
    type Pin<'a> = Pin;

    #[inline]
    fn pin(&self, key: u64, blocks: u32) -> Option<Pin> {
        let tokens = 0..u64::from(blocks) * BLOCK;
        let plan = self.plan(RequestKey::from_bits(key), tokens, Groups::ALL).ok()?;
        Index::pin(self, &plan).ok()
    }

    fn picture(&self) {
        black_box(self.snapshot());
    }
}

impl Contender for MutexStore {
    const NAME: &'static str = "mutex";
    type Reader = Locked<StdMutex>;

    fn new(sizes: &Sizes) -> Result<MutexStore, Failure> {
        Ok(MutexStore::new(sizes))
    }

    fn reader(&self) -> Locked<StdMutex> {
        MutexStore::reader(self).clone()
    }
}

impl Reader for Locked<StdMutex> {
    type Pin<'a> = LockedPin<'a, StdMutex>;

    #[inline]
    fn pin(&self, key: u64, blocks: u32) -> Option<LockedPin<'_, StdMutex>> {
        self.pin_first(key, blocks as usize)
    }

    fn picture(&self) {
        black_box(self.0.with(|books| books.tables.clone()));
    }
}

impl Contender for RwLockStore {
    const NAME: &'static str = "rwlock";
    type Reader = Counted<RwLockMap>;

    fn new(sizes: &Sizes) -> Result<RwLockStore, Failure> {
        Ok(RwLockStore::new(sizes))
    }

    fn reader(&self) -> Counted<RwLockMap> {
        RwLockStore::reader(self).clone()
    }
}

impl Reader for Counted<RwLockMap> {
    type Pin<'a> = CountedPin<'a>;

    #[inline]
    fn pin(&self, key: u64, blocks: u32) -> Option<CountedPin<'_>> {
        self.pin_first(key, blocks as usize)
    }

    fn picture(&self) {
        black_box(self.map.0.read().unwrap_or_else(PoisonError::into_inner).clone());
    }
}
