//! The published crate `kvbm-logical`.

use std::sync::Arc;

use kvbm_logical::blocks::LifecyclePinRef;
use kvbm_logical::manager::FrequencyTrackingCapacity;
use kvbm_logical::{BlockManager, BlockRegistry, ImmutableBlock, SequenceHash};

use super::{Peer, Table, capacity};

/// The tier that blocks belong to.
#[derive(Clone)]
pub struct Device;

/// A manager with all tables registered, and their handles.
struct Registered {
    manager: BlockManager<Device>,
    hashes: Vec<Vec<SequenceHash>>,
    handles: Vec<Vec<ImmutableBlock<Device>>>,
}

impl Registered {
    fn new(tables: &[Table]) -> Result<Registered, Box<dyn std::error::Error>> {
        let tracker = FrequencyTrackingCapacity::Medium.create_tracker();
        let manager = BlockManager::<Device>::builder()
            .block_count(capacity(tables))
            .block_size(16)
            .registry(BlockRegistry::builder().frequency_tracker(tracker).build())
            .with_lru_backend()
            .build()?;
        let mut registered = Registered { manager, hashes: Vec::new(), handles: Vec::new() };
        for table in tables {
            let mut parent = None;
            let mut hashes = Vec::new();
            for (position, &block) in table.iter().enumerate() {
                // Any number that looks like a hash and is different for each block.
                let own = (u64::from(block) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                hashes.push(SequenceHash::new(own, parent, position as u64));
                parent = Some(own);
            }
            registered.register(hashes)?;
        }
        Ok(registered)
    }

    fn register(&mut self, hashes: Vec<SequenceHash>) -> Result<(), Box<dyn std::error::Error>> {
        let blocks = self.manager.allocate_blocks(hashes.len()).ok_or("the pool is too small")?;
        let stage = |(block, &hash): (kvbm_logical::MutableBlock<Device>, _)| {
            block.stage(hash, 16).map_err(|_| "a block of another size")
        };
        let staged = blocks.into_iter().zip(&hashes).map(stage).collect::<Result<_, _>>()?;
        self.handles.push(self.manager.register_blocks(staged));
        self.hashes.push(hashes);
        Ok(())
    }
}

/// `pin()` on handles that are held already: no lookup at all.
#[derive(Clone)]
pub struct Handles(Arc<Registered>);

impl Peer for Handles {
    const NAME: &'static str = "kvbm-logical pin() on held handles";
    type Pin<'a> = Vec<LifecyclePinRef>;

    fn build(tables: &[Table]) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(Handles(Arc::new(Registered::new(tables)?)))
    }

    #[inline]
    fn pin(&self, request: usize) -> Option<Vec<LifecyclePinRef>> {
        Some(self.0.handles.get(request)?.iter().map(ImmutableBlock::pin).collect())
    }
}

/// `match_blocks` by content.
#[derive(Clone)]
pub struct Matching(Arc<Registered>);

impl Peer for Matching {
    const NAME: &'static str = "kvbm-logical match_blocks";
    type Pin<'a> = Vec<ImmutableBlock<Device>>;

    fn build(tables: &[Table]) -> Result<Self, Box<dyn std::error::Error>> {
        let registered = Registered::new(tables)?;
        for hashes in &registered.hashes {
            let found = registered.manager.match_blocks(hashes).len();
            if found != hashes.len() {
                return Err(format!("found {found} of {} blocks", hashes.len()).into());
            }
        }
        Ok(Matching(Arc::new(registered)))
    }

    #[inline]
    fn pin(&self, request: usize) -> Option<Vec<ImmutableBlock<Device>>> {
        Some(self.0.manager.match_blocks(self.0.hashes.get(request)?))
    }
}
