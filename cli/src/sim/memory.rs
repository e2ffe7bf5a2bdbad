//! The device's memory: one content word a block.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure::BlockId;

/// What every block of the pool holds. A word is 0 until a step has computed the block.
pub struct DeviceMemory {
    words: Box<[AtomicU64]>,
}

impl DeviceMemory {
    /// Memory of `blocks` blocks, none of which is computed.
    pub fn new(blocks: u32) -> DeviceMemory {
        DeviceMemory { words: (0..blocks).map(|_| AtomicU64::new(0)).collect() }
    }

    /// What the block holds now; 0 outside the pool. Acquire: pairs with [`write`](Self::write), so
    /// that a reader that checks ownership after a copy checks no earlier than it copied.
    pub fn read(&self, block: BlockId) -> u64 {
        self.words.get(block.0 as usize).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Overwrites the block, as a device step does.
    pub fn write(&self, block: BlockId, word: u64) {
        if let Some(slot) = self.words.get(block.0 as usize) {
            slot.store(word, Ordering::Release);
        }
    }
}
