//! Building an index.

use thiserror::Error;

use crate::geometry::Geometry;
use crate::ids::{BlockId, Groups};
use crate::index::Index;
use crate::recorder::{Recorder, Recording};
use crate::scheduler::Scheduler;
use crate::shared::Shared;

/// The settings of an index, and its builder.
///
/// ```
/// use tenure::{BlockId, Config};
/// let (scheduler, index) = Config::new(60_000)
///     .block_sizes([16, 64]) // tokens per block, one per KV-cache group
///     .null_block(BlockId(0))
///     .track_commits(true)
///     .build()?;
/// assert_eq!(scheduler.geometry().groups(), 2);
/// assert_eq!(index.epoch().0, 0);
/// # Ok::<(), tenure::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a configuration does nothing until it is built"]
pub struct Config {
    blocks: u32,
    null_block: Option<BlockId>,
    block_sizes: Vec<u32>,
    track_commits: bool,
    max_requests: u32,
    recording: Option<Recording>,
}

/// Why an index could not be built.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The pool is empty or larger than 2^32 - 2 blocks.
    #[error("a pool has 1 to 4294967294 blocks, not {blocks}")]
    Blocks {
        /// What was asked for.
        blocks: u32,
    },
    /// The null block lies outside the pool.
    #[error("the null block {block} lies outside the pool of {blocks}")]
    NullBlock {
        /// The null block.
        block: BlockId,
        /// The size of the pool.
        blocks: u32,
    },
    /// No group, or more than 32.
    #[error("an index has 1 to 32 groups, not {groups}")]
    Groups {
        /// What was asked for.
        groups: usize,
    },
    /// A block of no tokens.
    #[error("group {group} has blocks of no tokens")]
    BlockSize {
        /// The first such group.
        group: usize,
    },
    /// The block sizes do not go together: they have no common multiple below 2^32 tokens, or one is
    /// 2^24 times the greatest common divisor of all or more.
    #[error("the block sizes have no common multiple below 2^32 tokens, or differ too much")]
    Alignment,
    /// No request, or more than 2^24.
    #[error("an index is for 1 to 16777216 live requests, not {max}")]
    MaxRequests {
        /// What was asked for.
        max: u32,
    },
}

impl Config {
    /// A pool of `blocks` blocks with one group of 16 tokens a block, no null block, no commit
    /// tracking and room for 65,536 live requests.
    pub fn new(blocks: u32) -> Config {
        Config {
            blocks,
            null_block: None,
            block_sizes: vec![16],
            track_commits: false,
            max_requests: 65_536,
            recording: None,
        }
    }

    /// Names the placeholder block (vLLM: 0). It is never owned, held or pinned; in a table it
    /// makes a hole.
    pub fn null_block(mut self, block: BlockId) -> Config {
        self.null_block = Some(block);
        self
    }

    /// The tokens in a block, one number per KV-cache group.
    pub fn block_sizes(mut self, tokens: impl IntoIterator<Item = u32>) -> Config {
        self.block_sizes = tokens.into_iter().collect();
        self
    }

    /// Whether saves are refused over tokens that [`commit`](crate::Scheduler::commit) has not
    /// named as written.
    pub fn track_commits(mut self, yes: bool) -> Config {
        self.track_commits = yes;
        self
    }

    /// How many requests can be live at once. Costs 8 bytes each from the start.
    pub fn max_requests(mut self, max: u32) -> Config {
        self.max_requests = max;
        self
    }

    /// Turns the [flight recorder](crate::Recorder) on. Off by default: while it is on, calls and pins
    /// wait for each other.
    pub fn record(mut self, recording: Recording) -> Config {
        self.recording = Some(recording);
        self
    }

    /// Builds the index: its one writer and a first handle for readers.
    ///
    /// # Errors
    /// [`ConfigError`] names the setting that cannot be.
    pub fn build(self) -> Result<(Scheduler, Index), ConfigError> {
        let Config { blocks, null_block, block_sizes, track_commits, max_requests, recording } =
            self;
        if blocks == 0 || blocks == u32::MAX {
            return Err(ConfigError::Blocks { blocks });
        }
        if let Some(block) = null_block.filter(|b| b.0 >= blocks) {
            return Err(ConfigError::NullBlock { block, blocks });
        }
        if block_sizes.is_empty() || block_sizes.len() > Groups::MAX as usize {
            return Err(ConfigError::Groups { groups: block_sizes.len() });
        }
        if let Some(group) = block_sizes.iter().position(|&size| size == 0) {
            return Err(ConfigError::BlockSize { group });
        }
        if max_requests == 0 || max_requests > 1 << 24 {
            return Err(ConfigError::MaxRequests { max: max_requests });
        }
        let geometry = Geometry::new(blocks, null_block, track_commits, &block_sizes)
            .ok_or(ConfigError::Alignment)?;
        let recorder = recording.map(|recording| Recorder::new(&recording, &geometry));
        let shared = Shared::new(geometry, max_requests, recorder);
        let index = Index::new(shared.clone());
        Ok((Scheduler::new(shared), index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(config: Config) -> ConfigError {
        config.build().err().unwrap()
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        assert_eq!(error(Config::new(0)), ConfigError::Blocks { blocks: 0 });
        assert_eq!(error(Config::new(u32::MAX)), ConfigError::Blocks { blocks: u32::MAX });
        let null = Config::new(4).null_block(BlockId(4));
        assert_eq!(error(null), ConfigError::NullBlock { block: BlockId(4), blocks: 4 });
        assert_eq!(error(Config::new(4).block_sizes([])), ConfigError::Groups { groups: 0 });
        assert_eq!(error(Config::new(4).block_sizes([1; 33])), ConfigError::Groups { groups: 33 });
        assert_eq!(error(Config::new(4).block_sizes([16, 0])), ConfigError::BlockSize { group: 1 });
        assert_eq!(error(Config::new(4).block_sizes([65_537, 65_539])), ConfigError::Alignment);
        assert_eq!(error(Config::new(4).max_requests(0)), ConfigError::MaxRequests { max: 0 });
        assert!(Config::new(4).max_requests(1).block_sizes([1; 32]).build().is_ok());
    }
}
