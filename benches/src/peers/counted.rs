//! A map from requests to tables, and an atomic count for each block.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::{Peer, Table, capacity};

/// A kind of map, as a thread holds it.
pub trait Map: Clone + Send + 'static {
    /// What the peer over it is called.
    const NAME: &'static str;

    /// A map of these tables.
    fn build(tables: impl Iterator<Item = (u64, Table)>) -> Self;

    /// Calls `f` with the table of a request, under the map's own protection for readers.
    fn with<R>(&self, request: u64, f: impl FnOnce(&Table) -> R) -> Option<R>;
}

/// Per block: its owners and its pins.
pub struct Counts {
    counts: Box<[AtomicU32]>,
    /// Blocks that a pin was the last to hold.
    given_back: Mutex<Vec<u32>>,
}

impl Counts {
    /// Nobody holds any of the `blocks` blocks.
    pub fn new(blocks: usize) -> Counts {
        let counts = (0..blocks).map(|_| AtomicU32::new(0)).collect();
        Counts { counts, given_back: Mutex::new(Vec::new()) }
    }

    /// One more holder of each.
    pub fn up(&self, blocks: &[u32]) {
        for &block in blocks {
            // Relaxed: whoever counts up is protected by another holder, as with `Arc`.
            self.counts[block as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One holder of each less; appends those that are left without one to `freed`.
    pub fn down(&self, blocks: &[u32], freed: &mut Vec<u32>) {
        for &block in blocks {
            // AcqRel: the last holder gives the block on, after all that the others did with it.
            if self.counts[block as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                freed.push(block);
            }
        }
    }

    /// What pins were the last to hold since it was last asked.
    pub fn take_back(&self, freed: &mut Vec<u32>) {
        freed.append(&mut self.given_back.lock());
    }
}

/// The peer.
#[derive(Clone)]
pub struct Counted<M> {
    /// The tables.
    pub map: M,
    /// The counts.
    pub counts: Arc<Counts>,
}

/// The first blocks of a table, counted up.
pub struct CountedPin<'a> {
    counts: &'a Counts,
    table: Table,
    blocks: usize,
}

impl<M: Map> Counted<M> {
    /// Pins the first `blocks` blocks of a request, where it has as many.
    pub fn pin_first(&self, request: u64, blocks: usize) -> Option<CountedPin<'_>> {
        self.pin_where(request, |_| blocks)
    }

    fn pin_where(
        &self,
        request: u64,
        blocks: impl FnOnce(&Table) -> usize,
    ) -> Option<CountedPin<'_>> {
        let pin = self.map.with(request, |table| {
            let blocks = blocks(table);
            self.counts.up(table.get(..blocks)?);
            Some(CountedPin { counts: &self.counts, table: table.clone(), blocks })
        });
        pin.flatten()
    }
}

impl Drop for CountedPin<'_> {
    fn drop(&mut self) {
        let Some(blocks) = self.table.get(..self.blocks) else { return };
        // Allocates only where something is given back.
        let mut freed = Vec::new();
        self.counts.down(blocks, &mut freed);
        if !freed.is_empty() {
            self.counts.given_back.lock().append(&mut freed);
        }
    }
}

impl<M: Map> Peer for Counted<M> {
    const NAME: &'static str = M::NAME;
    type Pin<'a> = CountedPin<'a>;

    fn build(tables: &[Table]) -> Result<Self, Box<dyn std::error::Error>> {
        let counts = Counts::new(capacity(tables));
        tables.iter().for_each(|table| counts.up(table));
        let map = M::build((0..).zip(tables.iter().cloned()));
        Ok(Counted { map, counts: Arc::new(counts) })
    }

    #[inline]
    fn pin(&self, request: usize) -> Option<CountedPin<'_>> {
        self.pin_where(request as u64, |table| table.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::maps::RwLockMap;

    #[test]
    fn a_pinned_block_is_given_back_once_after_its_release() {
        let table = Arc::new(vec![0, 1, 2]);
        let peer = Counted::<RwLockMap>::build(std::slice::from_ref(&table)).unwrap();
        let pin = peer.pin_first(0, 2);
        let mut freed = Vec::new();
        peer.counts.down(&table, &mut freed);
        assert_eq!(freed, [2]);
        drop(pin);
        let mut back = Vec::new();
        peer.counts.take_back(&mut back);
        assert_eq!(back, [0, 1]);
        assert!(peer.pin_first(0, 4).is_none());
    }
}
