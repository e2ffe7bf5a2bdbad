//! The memory of the blocks: cells that loom watches, so that a block that is written while a
//! reader may still read it is seen as a data race, whether or not the bytes came out wrong.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use tenure::BlockId;

/// What was written into a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u32);

impl Tag {
    /// What is written into a block as soon as it is free.
    pub const FOREIGN: Tag = Tag(0);
}

/// One cell a block. Clones are the same memory.
#[derive(Clone)]
pub struct Memory(Arc<[UnsafeCell<Tag>]>);

impl Memory {
    /// Blocks that nobody has written.
    pub fn new(blocks: u32) -> Memory {
        Memory((0..blocks).map(|_| UnsafeCell::new(Tag::FOREIGN)).collect())
    }

    /// Writes a block, as its owner may.
    pub fn write(&self, block: BlockId, tag: Tag) {
        // SAFETY: loom reports whoever accesses the cell at the same time.
        self.0[block.0 as usize].with_mut(|content| unsafe { *content = tag });
    }

    /// Reads a block, as a pin allows.
    pub fn read(&self, block: BlockId) -> Tag {
        // SAFETY: as above.
        self.0[block.0 as usize].with(|content| unsafe { *content })
    }
}
