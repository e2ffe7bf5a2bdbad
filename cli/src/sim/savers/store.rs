//! What the ranks of a job read, and whether it is what must be there.

use std::ops::Range;
use std::sync::Arc;

use tenure::BlockId;

use crate::sim::content::Content;
use crate::sim::memory::DeviceMemory;

/// A store under way.
pub struct Store {
    /// The job that it belongs to.
    pub job: u64,
    positions: Range<usize>,
    blocks: Vec<BlockId>,
    content: Arc<Content>,
    /// The positions that held other content when the store began.
    wrong: Vec<usize>,
}

impl Store {
    /// Begins to store `positions` of a request, at which `blocks` are said to stand: reads all of
    /// them once.
    pub fn begin(
        job: u64,
        positions: Range<usize>,
        blocks: Vec<BlockId>,
        content: Arc<Content>,
        memory: &DeviceMemory,
    ) -> Store {
        let mut store = Store { job, positions, blocks, content, wrong: Vec::new() };
        store.wrong = store.read(memory);
        store
    }

    /// Reads all blocks again, and counts the positions that held other content than they must,
    /// now or at the beginning.
    pub fn end(&self, memory: &DeviceMemory) -> u64 {
        let now = self.read(memory);
        let only_now = now.iter().filter(|position| !self.wrong.contains(position)).count();
        (self.wrong.len() + only_now) as u64
    }

    /// The positions that hold other content than they must. One without a block holds none.
    fn read(&self, memory: &DeviceMemory) -> Vec<usize> {
        let holds = |position: usize| {
            let block = self.blocks.get(position - self.positions.start);
            block.map_or(0, |&block| memory.read(block))
        };
        let wrong = |&position: &usize| holds(position) != self.content.word(position);
        self.positions.clone().filter(wrong).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceRequest;

    #[test]
    fn counts_each_position_that_was_ever_wrong_once() {
        let request = TraceRequest {
            arrival_us: 0,
            prompt_tokens: 160,
            output_tokens: 1,
            segments: Box::default(),
        };
        let content = Arc::new(Content::new(0, &request, 16));
        let memory = DeviceMemory::new(8);
        let blocks: Vec<BlockId> = (0..6).map(BlockId).collect();
        for (position, &block) in (2..).zip(&blocks) {
            memory.write(block, content.word(position));
        }
        let begin =
            |positions| Store::begin(1, positions, blocks.clone(), content.clone(), &memory);
        assert_eq!(begin(2..8).end(&memory), 0);
        assert_eq!(begin(2..9).end(&memory), 1, "a position without a block");

        memory.write(BlockId(3), 7);
        let store = begin(2..8);
        memory.write(BlockId(3), content.word(5));
        memory.write(BlockId(4), 7);
        memory.write(BlockId(5), 7);
        assert_eq!(store.end(&memory), 3);
    }
}
