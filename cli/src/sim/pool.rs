//! The engine's own block pool: a free queue in least-recently-used order that remembers what its
//! blocks hold until they are used again, as vLLM's does.
//!
//! The pool knows nothing of owners, pins or steps. A block comes in only when the index says that
//! it is free.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tenure::BlockId;

/// The free queue and the prefix cache over all blocks, free or not.
pub struct Pool {
    /// The queue as a doubly linked list through the blocks, so that a cached block can leave it
    /// from the middle. One entry more than there are blocks: the last is the list's anchor.
    links: Vec<Link>,
    free: u32,
    /// The word that a block is cached under, or 0.
    word_of: Vec<u64>,
    cached: HashMap<u64, BlockId, BuildHasherDefault<WordHasher>>,
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

/// A link of a block that is not in the queue.
const OUT: Link = Link { before: u32::MAX, after: u32::MAX };

impl Pool {
    /// A pool in which all of `blocks` blocks are free and hold nothing.
    pub fn new(blocks: u32) -> Pool {
        let mut links = vec![OUT; blocks as usize + 1];
        links[blocks as usize] = Link { before: blocks, after: blocks };
        let mut pool =
            Pool { links, free: 0, word_of: vec![0; blocks as usize], cached: HashMap::default() };
        for block in 0..blocks {
            pool.give_back(BlockId(block));
        }
        pool
    }

    /// How many blocks are in the free queue.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Whether the block is in the free queue.
    pub fn is_free(&self, block: BlockId) -> bool {
        self.links[block.0 as usize].after != OUT.after
    }

    /// Puts a block that has become free at the end of the queue. It stays cached.
    pub fn give_back(&mut self, block: BlockId) {
        debug_assert!(!self.is_free(block), "block {block} given back twice");
        let anchor = self.anchor();
        let last = self.links[anchor as usize].before;
        self.links[block.0 as usize] = Link { before: last, after: anchor };
        self.links[last as usize].after = block.0;
        self.links[anchor as usize].before = block.0;
        self.free += 1;
    }

    /// Takes a free block out of the queue for the content that it holds.
    pub fn touch(&mut self, block: BlockId) {
        debug_assert!(self.is_free(block), "block {block} touched though not free");
        let Link { before, after } = std::mem::replace(&mut self.links[block.0 as usize], OUT);
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        self.free -= 1;
    }

    /// Takes the `count` blocks that were free for longest; what they held is forgotten. Takes none
    /// and answers `false` where there are fewer.
    pub fn take(&mut self, count: u32, out: &mut Vec<BlockId>) -> bool {
        if count > self.free {
            return false;
        }
        for _ in 0..count {
            let block = BlockId(self.links[self.anchor() as usize].after);
            self.touch(block);
            self.forget(block);
            out.push(block);
        }
        true
    }

    /// The block that holds the content of this word, free or not.
    pub fn lookup(&self, word: u64) -> Option<BlockId> {
        self.cached.get(&word).copied()
    }

    /// Notes that a block is full and holds this content. Where another block does already, that
    /// one stays the one to be found.
    pub fn remember(&mut self, block: BlockId, word: u64) {
        let found = *self.cached.entry(word).or_insert(block);
        if found == block {
            self.word_of[block.0 as usize] = word;
        }
    }

    fn forget(&mut self, block: BlockId) {
        let word = std::mem::take(&mut self.word_of[block.0 as usize]);
        if word != 0 {
            self.cached.remove(&word);
        }
    }

    fn anchor(&self) -> u32 {
        self.word_of.len() as u32
    }
}

/// Content words are hashes already.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pool: &mut Pool, count: u32) -> Vec<u32> {
        let mut out = Vec::new();
        assert!(pool.take(count, &mut out));
        out.into_iter().map(|block| block.0).collect()
    }

    #[test]
    fn reuses_the_block_that_was_free_for_longest() {
        let mut pool = Pool::new(4);
        assert_eq!(taken(&mut pool, 3), [0, 1, 2]);
        pool.give_back(BlockId(1));
        pool.give_back(BlockId(0));
        assert_eq!(pool.free(), 3);
        assert_eq!(taken(&mut pool, 3), [3, 1, 0]);
        assert!(!pool.take(1, &mut Vec::new()));
    }

    #[test]
    fn remembers_content_until_reuse() {
        let mut pool = Pool::new(3);
        taken(&mut pool, 2);
        pool.remember(BlockId(0), 70);
        pool.remember(BlockId(1), 71);
        pool.give_back(BlockId(1));
        pool.give_back(BlockId(0));
        assert_eq!(pool.lookup(71), Some(BlockId(1)));
        assert_eq!(taken(&mut pool, 2), [2, 1]);
        assert_eq!((pool.lookup(70), pool.lookup(71)), (Some(BlockId(0)), None));
        pool.touch(BlockId(0));
        assert_eq!(pool.free(), 0);
        assert_eq!(pool.lookup(70), Some(BlockId(0)));
    }

    #[test]
    fn a_second_block_of_the_same_content_is_not_cached() {
        let mut pool = Pool::new(2);
        taken(&mut pool, 2);
        pool.remember(BlockId(0), 70);
        pool.remember(BlockId(1), 70);
        pool.give_back(BlockId(1));
        taken(&mut pool, 1);
        assert_eq!(pool.lookup(70), Some(BlockId(0)));
    }
}
