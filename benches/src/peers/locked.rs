//! Tables and plain counts behind one mutex.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Peer, Table, capacity};

/// What the mutex guards.
pub struct Books {
    /// By request.
    pub tables: HashMap<u64, Table>,
    /// Per block: its owners and its pins.
    pub counts: Vec<u32>,
    /// Blocks that a pin was the last to hold.
    pub given_back: Vec<u32>,
}

impl Books {
    /// No tables, over a pool of `blocks` blocks.
    pub fn new(blocks: usize) -> Books {
        Books { tables: HashMap::new(), counts: vec![0; blocks], given_back: Vec::new() }
    }

    fn count_up(&mut self, blocks: &[u32]) {
        for &block in blocks {
            self.counts[block as usize] += 1;
        }
    }

    /// Adds a request that owns these blocks.
    pub fn admit(&mut self, request: u64, table: Table) {
        self.count_up(&table);
        self.tables.insert(request, table);
    }

    /// Appends one block to the table of a request.
    pub fn append(&mut self, request: u64, block: u32) {
        if let Some(table) = self.tables.get_mut(&request) {
            Arc::make_mut(table).push(block);
            self.counts[block as usize] += 1;
        }
    }

    /// Ends a request and appends what nobody holds any more to `freed`.
    pub fn release(&mut self, request: u64, freed: &mut Vec<u32>) {
        let Some(table) = self.tables.remove(&request) else { return };
        self.count_down(&table, freed);
    }

    fn count_down(&mut self, blocks: &[u32], freed: &mut Vec<u32>) {
        for &block in blocks {
            let count = &mut self.counts[block as usize];
            *count -= 1;
            if *count == 0 {
                freed.push(block);
            }
        }
    }
}

/// A kind of mutex.
pub trait Lock: Send + Sync + 'static {
    /// What the peer over it is called.
    const NAME: &'static str;

    /// An unlocked one.
    fn new(books: Books) -> Self;

    /// Calls `f` while it is locked.
    fn with<R>(&self, f: impl FnOnce(&mut Books) -> R) -> R;
}

/// The peer.
pub struct Locked<L>(pub Arc<L>);

impl<L> Clone for Locked<L> {
    fn clone(&self) -> Self {
        Locked(self.0.clone())
    }
}

/// The first blocks of a table, counted up.
pub struct LockedPin<'a, L: Lock> {
    lock: &'a L,
    table: Table,
    blocks: usize,
}

impl<L: Lock> Locked<L> {
    /// Pins the first `blocks` blocks of a request, where it has as many.
    pub fn pin_first(&self, request: u64, blocks: usize) -> Option<LockedPin<'_, L>> {
        self.pin_where(request, |_| blocks)
    }

    fn pin_where(
        &self,
        request: u64,
        blocks: impl FnOnce(&Table) -> usize,
    ) -> Option<LockedPin<'_, L>> {
        let lock: &L = &self.0;
        lock.with(|books| {
            let table = books.tables.get(&request)?.clone();
            let blocks = blocks(&table);
            books.count_up(table.get(..blocks)?);
            Some(LockedPin { lock, table, blocks })
        })
    }
}

impl<L: Lock> Drop for LockedPin<'_, L> {
    fn drop(&mut self) {
        let Some(blocks) = self.table.get(..self.blocks) else { return };
        self.lock.with(|books| {
            let mut freed = std::mem::take(&mut books.given_back);
            books.count_down(blocks, &mut freed);
            books.given_back = freed;
        });
    }
}

impl<L: Lock> Peer for Locked<L> {
    const NAME: &'static str = L::NAME;
    type Pin<'a> = LockedPin<'a, L>;

    fn build(tables: &[Table]) -> Result<Self, Box<dyn std::error::Error>> {
        let mut books = Books::new(capacity(tables));
        for (request, table) in tables.iter().enumerate() {
            books.admit(request as u64, table.clone());
        }
        Ok(Locked(Arc::new(L::new(books))))
    }

    #[inline]
    fn pin(&self, request: usize) -> Option<LockedPin<'_, L>> {
        self.pin_where(request as u64, |table| table.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::maps::StdMutex;

    #[test]
    fn a_pinned_block_is_given_back_once_after_its_release() {
        let tables = [Arc::new(vec![0, 1, 2])];
        let peer = Locked::<StdMutex>::build(&tables).unwrap();
        let pin = peer.pin_first(0, 2);
        let mut freed = Vec::new();
        peer.0.with(|books| books.release(0, &mut freed));
        assert_eq!(freed, [2]);
        drop(pin);
        assert_eq!(peer.0.with(|books| books.given_back.clone()), [0, 1]);
        assert!(peer.pin(0).is_none());
    }
}
