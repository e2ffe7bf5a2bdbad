//! A scheduler that uses its blocks, and readers that look at them.

use std::ops::Range;

use tenure::{
    BlockId, Config, Epoch, GroupId, Groups, Index, Pin, Refused, Released, RequestKey, Scheduler,
    Stale, StepId, TableView,
};

use crate::memory::{Memory, Tag};
use crate::saw;

const GROUP: GroupId = GroupId(0);

/// An index, its scheduler and its blocks. Every block that the scheduler is told is free is
/// overwritten at once, as its next owner would; being told twice fails the model.
///
/// A block has one token, so tokens are positions; there is one group.
pub struct World {
    /// The scheduler, for what has no method here.
    pub scheduler: Scheduler,
    /// A handle.
    pub index: Index,
    /// The blocks.
    pub memory: Memory,
    free: Vec<bool>,
    written: Vec<Tag>,
    last: Tag,
}

/// What a call freed, and how many more of the blocks it gave up are held.
pub type Given = (Vec<u32>, u32);

impl World {
    /// A pool of so many blocks, and room for two requests.
    #[must_use]
    pub fn new(blocks: u32) -> World {
        World::of(Config::new(blocks).max_requests(2), blocks)
    }

    /// One that tracks commits.
    #[must_use]
    pub fn tracking_commits(blocks: u32) -> World {
        World::of(Config::new(blocks).max_requests(2).track_commits(true), blocks)
    }

    /// One in which block 0 is the null block.
    #[must_use]
    pub fn with_null(blocks: u32) -> World {
        World::of(Config::new(blocks).max_requests(2).null_block(BlockId(0)), blocks)
    }

    fn of(config: Config, blocks: u32) -> World {
        let (scheduler, index) = config.block_sizes([1]).build().unwrap();
        World {
            scheduler,
            index,
            memory: Memory::new(blocks),
            free: vec![true; blocks as usize],
            written: vec![Tag::FOREIGN; blocks as usize],
            last: Tag::FOREIGN,
        }
    }

    /// Admits a request.
    pub fn admit(&mut self, label: &str) -> RequestKey {
        self.scheduler.admit(label).unwrap()
    }

    /// A request over these blocks, published.
    pub fn publish_request(&mut self, label: &str, blocks: &[u32]) -> RequestKey {
        let key = self.admit(label);
        self.assign(key, blocks);
        self.publish();
        key
    }

    /// Appends free blocks, written; or the null block.
    pub fn assign(&mut self, key: RequestKey, blocks: &[u32]) {
        let blocks = ids(blocks);
        self.scheduler.assign(key, GROUP, &blocks).unwrap();
        let null = self.scheduler.geometry().null_block();
        for block in blocks.into_iter().filter(|&block| Some(block) != null) {
            self.taken(block);
        }
    }

    /// Appends blocks in use.
    pub fn share(&mut self, key: RequestKey, blocks: &[u32]) {
        self.scheduler.share(key, GROUP, &ids(blocks)).unwrap();
    }

    fn taken(&mut self, block: BlockId) {
        let free = std::mem::replace(&mut self.free[block.0 as usize], false);
        assert!(free, "block {block} was handed out and never told free");
        self.write(block.0);
    }

    /// Writes new content into a block that the scheduler has.
    pub fn write(&mut self, block: u32) {
        self.last.0 += 1;
        self.written[block as usize] = self.last;
        self.memory.write(BlockId(block), self.last);
    }

    /// See [`Scheduler::publish`].
    pub fn publish(&mut self) -> Epoch {
        self.scheduler.publish()
    }

    /// See [`Scheduler::vacate`].
    pub fn vacate(&mut self, key: RequestKey, positions: Range<u32>) -> Given {
        let answer = given(self.scheduler.vacate(key, GROUP, positions).unwrap());
        self.told(answer)
    }

    /// See [`Scheduler::truncate`].
    pub fn truncate(&mut self, key: RequestKey, len: u32) -> Given {
        let answer = given(self.scheduler.truncate(key, GROUP, len).unwrap());
        self.told(answer)
    }

    /// See [`Scheduler::replace`].
    pub fn replace(&mut self, key: RequestKey, position: u32, block: u32) -> Given {
        let block = BlockId(block);
        let answer = given(self.scheduler.replace(key, GROUP, position, block).unwrap());
        self.taken(block);
        self.told(answer)
    }

    /// See [`Scheduler::preempt`].
    pub fn preempt(&mut self, key: RequestKey) -> RequestKey {
        let preempted = self.scheduler.preempt(key).unwrap();
        let (successor, answer) = (preempted.successor, given(preempted.released));
        self.told(answer);
        successor
    }

    /// See [`Scheduler::release`].
    pub fn release(&mut self, key: RequestKey) -> Given {
        let answer = given(self.scheduler.release(key).unwrap());
        self.told(answer)
    }

    /// See [`Scheduler::reset_force`].
    pub fn reset_force(&mut self) -> Given {
        let answer = given(self.scheduler.reset_force());
        self.told(answer)
    }

    /// See [`Scheduler::end_step`].
    pub fn end_step(&mut self, step: StepId) -> Given {
        let answer = given(self.scheduler.end_step(step).unwrap());
        self.told(answer)
    }

    /// See [`Scheduler::reclaim`].
    pub fn reclaim(&mut self) -> Vec<u32> {
        let freed = self.scheduler.reclaim().iter().map(|block| block.0).collect();
        self.told((freed, 0)).0
    }

    fn told(&mut self, answer: Given) -> Given {
        for &block in &answer.0 {
            let before = std::mem::replace(&mut self.free[block as usize], true);
            assert!(!before, "block {block} was told free twice");
            self.written[block as usize] = Tag::FOREIGN;
            self.memory.write(BlockId(block), Tag::FOREIGN);
        }
        answer
    }

    /// A reader with a plan over some positions as they are now.
    #[must_use]
    pub fn saver(&self, key: RequestKey, positions: Range<u64>) -> Saver {
        let request = self.index.plan(key, positions.clone(), Groups::ALL).unwrap();
        let table = self.index.view(key).unwrap();
        let blocks = &table.table(GROUP)[positions.start as usize..positions.end as usize];
        let expected = blocks.iter().map(|block| block.unwrap());
        let expected = expected.map(|block| (block, self.written[block.0 as usize])).collect();
        Saver { index: self.index.clone(), memory: self.memory.clone(), request, expected }
    }

    /// Once all threads are joined and all pins dropped: every block comes back, once.
    pub fn end(mut self) {
        self.reset_force();
        self.publish();
        self.reclaim();
        self.scheduler.audit().unwrap();
        let null = self.scheduler.geometry().null_block();
        for (block, free) in self.free.iter().enumerate() {
            assert!(*free || Some(BlockId(block as u32)) == null, "block {block} never came back");
        }
    }
}

fn ids(blocks: &[u32]) -> Vec<BlockId> {
    blocks.iter().copied().map(BlockId).collect()
}

fn given(released: Released<'_>) -> Given {
    (released.freed().iter().map(|block| block.0).collect(), released.held())
}

/// A reader with a planned save.
#[derive(Clone)]
pub struct Saver {
    /// Its handle.
    pub index: Index,
    /// What it planned.
    pub request: tenure::SaveRequest,
    memory: Memory,
    expected: Vec<(BlockId, Tag)>,
}

impl Saver {
    /// Pins, and reads what was planned.
    ///
    /// # Errors
    /// As for [`Index::pin`].
    pub fn pin(&self) -> Result<Pin, Refused> {
        let pin = self.index.pin(&self.request)?;
        self.read();
        Ok(pin)
    }

    /// Reads, under a pin, what was planned.
    pub fn read(&self) {
        for &(block, tag) in &self.expected {
            assert_eq!(self.memory.read(block), tag, "foreign content in block {block}");
        }
    }

    /// Pins, reads, and gives the pin back. [Sees](saw) `pinned`, or the reason why not.
    pub fn save(&self) {
        saw(name(self.pin().map(drop)));
    }

    /// Reads under a pin that was taken before, and gives it back.
    pub fn finish(&self, pin: Pin) {
        self.read();
        drop(pin);
    }

    /// The blocks that were planned.
    #[must_use]
    pub fn blocks(&self) -> Vec<BlockId> {
        self.expected.iter().map(|&(block, _)| block).collect()
    }
}

/// The positions of a table as block numbers.
#[must_use]
pub fn shown(view: &TableView) -> Vec<Option<u32>> {
    view.table(GROUP).iter().map(|block| block.map(|block| block.0)).collect()
}

/// `pinned`, or the reason why not.
#[must_use]
pub fn name(answer: Result<(), Refused>) -> &'static str {
    match answer {
        Ok(()) => "pinned",
        Err(Refused::Stale(stale)) => Stale::name(&stale),
        Err(Refused::Budget(_)) => "over-budget",
    }
}
