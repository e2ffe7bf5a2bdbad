//! What an index is built with, and the arithmetic of token ranges over its groups.

use std::ops::Range;

use tenure::{BlockId, Config, GroupId, Groups};

/// The longest table, in grains (the greatest common divisor of the block sizes).
const LONGEST_TABLE: u64 = (1 << 24) - 1;

/// The construction parameters of an index, for the model and the real one alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    pub blocks: u32,
    pub null: Option<BlockId>,
    pub block_sizes: Vec<u32>,
    pub commits: bool,
    pub max_requests: u32,
}

impl Shape {
    /// The real index's configuration of this shape.
    pub fn config(&self) -> Config {
        let config = Config::new(self.blocks)
            .block_sizes(self.block_sizes.iter().copied())
            .track_commits(self.commits)
            .max_requests(self.max_requests);
        match self.null {
            Some(block) => config.null_block(block),
            None => config,
        }
    }

    /// The blocks that can be owned: all but the null block.
    pub fn pool(&self) -> impl Iterator<Item = BlockId> {
        let null = self.null;
        (0..self.blocks).map(BlockId).filter(move |&block| Some(block) != null)
    }

    pub fn has_group(&self, group: GroupId) -> bool {
        (group.0 as usize) < self.block_sizes.len()
    }

    /// The groups of the index, ascending.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.block_sizes.len() as u32).map(GroupId)
    }

    /// The groups a set names, ascending; [`Groups::ALL`] names those of the index. The error is the
    /// lowest group that the index has not.
    pub fn named(&self, groups: Groups) -> Result<Vec<GroupId>, GroupId> {
        if groups == Groups::ALL {
            return Ok(self.groups().collect());
        }
        match groups.iter().find(|&group| !self.has_group(group)) {
            Some(unknown) => Err(unknown),
            None => Ok(groups.iter().collect()),
        }
    }

    /// The block size of a group, in tokens.
    pub fn block_size(&self, group: GroupId) -> u64 {
        u64::from(self.block_sizes[group.0 as usize])
    }

    /// The positions whose blocks a token range touches.
    pub fn positions(&self, group: GroupId, tokens: &Range<u64>) -> Range<u64> {
        tokens.start / self.block_size(group)..tokens.end.div_ceil(self.block_size(group))
    }

    /// The tokens of one position.
    pub fn tokens(&self, group: GroupId, position: u32) -> Range<u64> {
        let start = u64::from(position) * self.block_size(group);
        start..start + self.block_size(group)
    }

    /// A token range widened to whole grains.
    pub fn in_grains(&self, tokens: &Range<u64>) -> Range<u64> {
        let grain = self.grain();
        tokens.start / grain * grain..tokens.end.div_ceil(grain) * grain
    }

    /// The smallest token range, in whole blocks of all the named groups, around `tokens`.
    pub fn in_whole_blocks(&self, groups: &[GroupId], tokens: &Range<u64>) -> Range<u64> {
        groups.iter().fold(tokens.clone(), |around, &group| {
            let positions = self.positions(group, tokens);
            let size = self.block_size(group);
            union(&around, &(positions.start * size..positions.end * size))
        })
    }

    /// The longest table of a group, in positions.
    pub fn longest_table(&self, group: GroupId) -> u32 {
        (LONGEST_TABLE / (self.block_size(group) / self.grain())).min(u64::from(u32::MAX)) as u32
    }

    fn grain(&self) -> u64 {
        self.block_sizes.iter().fold(0, |a, &b| gcd(a, u64::from(b)))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The smallest range that covers both.
pub fn union(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.min(b.start)..a.end.max(b.end)
}

pub fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
