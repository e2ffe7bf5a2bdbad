//! The locks and maps that peers are made of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use left_right::{Absorb, ReadHandle, WriteHandle};

use super::{Books, Lock, Map, Table};

/// `std::sync::Mutex`.
pub struct StdMutex(Mutex<Books>);

impl Lock for StdMutex {
    const NAME: &'static str = "std Mutex<HashMap>, plain counts";

    fn new(books: Books) -> StdMutex {
        StdMutex(Mutex::new(books))
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Books) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `parking_lot::Mutex`.
pub struct ParkingLotMutex(parking_lot::Mutex<Books>);

impl Lock for ParkingLotMutex {
    const NAME: &'static str = "parking_lot Mutex<HashMap>, plain counts";

    fn new(books: Books) -> ParkingLotMutex {
        ParkingLotMutex(parking_lot::Mutex::new(books))
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Books) -> R) -> R {
        f(&mut self.0.lock())
    }
}

/// `std::sync::RwLock`.
#[derive(Clone)]
pub struct RwLockMap(pub Arc<RwLock<HashMap<u64, Table>>>);

impl Map for RwLockMap {
    const NAME: &'static str = "std RwLock<HashMap>, atomic counts";

    fn build(tables: impl Iterator<Item = (u64, Table)>) -> RwLockMap {
        RwLockMap(Arc::new(RwLock::new(tables.collect())))
    }

    #[inline]
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&request).map(f)
    }
}

/// `parking_lot::RwLock`.
#[derive(Clone)]
pub struct ParkingLotRwLock(Arc<parking_lot::RwLock<HashMap<u64, Table>>>);

impl Map for ParkingLotRwLock {
    const NAME: &'static str = "parking_lot RwLock<HashMap>, atomic counts";

    fn build(tables: impl Iterator<Item = (u64, Table)>) -> ParkingLotRwLock {
        ParkingLotRwLock(Arc::new(parking_lot::RwLock::new(tables.collect())))
    }

    #[inline]
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R> {
        self.0.read().get(&request).map(f)
    }
}

/// `dashmap`.
#[derive(Clone)]
pub struct Dash(Arc<DashMap<u64, Table>>);

impl Map for Dash {
    const NAME: &'static str = "dashmap, atomic counts";

    fn build(tables: impl Iterator<Item = (u64, Table)>) -> Dash {
        Dash(Arc::new(tables.collect()))
    }

    #[inline]
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R> {
        self.0.get(&request).map(|table| f(&table))
    }
}

/// `papaya`.
#[derive(Clone)]
pub struct Papaya(Arc<papaya::HashMap<u64, Table>>);

impl Map for Papaya {
    const NAME: &'static str = "papaya, atomic counts";

    fn build(tables: impl Iterator<Item = (u64, Table)>) -> Papaya {
        Papaya(Arc::new(tables.collect()))
    }

    #[inline]
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R> {
        self.0.pin().get(&request).map(f)
    }
}

/// `scc`.
#[derive(Clone)]
pub struct Scc(Arc<scc::HashMap<u64, Table>>);

impl Map for Scc {
    const NAME: &'static str = "scc, atomic counts";

    fn build(tables: impl Iterator<Item = (u64, Table)>) -> Scc {
        Scc(Arc::new(tables.collect()))
    }

    #[inline]
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R> {
        self.0.read_sync(&request, |_, table| f(table))
    }
}

/// `left-right`.
#[derive(Clone)]
pub struct LeftRight {
    reader: ReadHandle<Tables>,
    /// Readers find nothing once it is gone.
    _writer: Arc<parking_lot::Mutex<WriteHandle<Tables, Admit>>>,
}

#[derive(Clone, Default)]
struct Tables(HashMap<u64, Table>);

struct Admit(u64, Table);

impl Absorb<Admit> for Tables {
    fn absorb_first(&mut self, operation: &mut Admit, _: &Self) {
        self.0.insert(operation.0, operation.1.clone());
    }

    fn sync_with(&mut self, first: &Self) {
        *self = first.clone();
    }
}

impl Map for LeftRight {
    const NAME: &'static str = "left-right, atomic counts";

    fn build(tables: impl Iterator<Item = (u64, Table)>) -> LeftRight {
        let (mut writer, reader) = left_right::new::<Tables, Admit>();
        tables.for_each(|(request, table)| {
            writer.append(Admit(request, table));
        });
        writer.publish();
        LeftRight { reader, _writer: Arc::new(parking_lot::Mutex::new(writer)) }
    }

    #[inline]
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R> {
        self.reader.enter()?.0.get(&request).map(f)
    }
}

/// `arc-swap`.
#[derive(Clone)]
pub struct Swapped(Arc<ArcSwap<HashMap<u64, Table>>>);

impl Map for Swapped {
    const NAME: &'static str = "ArcSwap<HashMap>, atomic counts";

    fn build(tables: impl Iterator<Item = (u64, Table)>) -> Swapped {
        Swapped(Arc::new(ArcSwap::from_pointee(tables.collect())))
    }

    #[inline]
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R> {
        self.0.load().get(&request).map(f)
    }
}
