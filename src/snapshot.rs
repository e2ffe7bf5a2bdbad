//! Owned pictures of the published tables.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

use crate::geometry::Geometry;
use crate::ids::{BlockId, Epoch, GroupId, IndexId, RequestKey};
use crate::lease::{Ended, Lease};
use crate::shared::Shared;
use crate::verdict::visible_len;

/// The tables of one life at one epoch, from [`Index::view`](crate::Index::view) or a [`Snapshot`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableView {
    /// The life.
    pub key: RequestKey,
    /// The request's own name.
    pub label: Arc<str>,
    /// The epoch it is a picture of.
    pub epoch: Epoch,
    groups: Box<[Box<[Option<BlockId>]>]>,
}

impl TableView {
    /// The positions of a group's table, each a block or a hole (`None`). Empty for a group the
    /// index does not have.
    pub fn table(&self, group: GroupId) -> &[Option<BlockId>] {
        self.groups.get(group.index()).map_or(&[], |table| table)
    }

    /// The tables of all groups, in order.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &[Option<BlockId>]> {
        self.groups.iter().map(|table| &**table)
    }

    #[cfg(feature = "serde")]
    pub(crate) fn from_parts(
        key: RequestKey,
        label: Arc<str>,
        epoch: Epoch,
        groups: Box<[Box<[Option<BlockId>]>]>,
    ) -> TableView {
        TableView { key, label, epoch, groups }
    }

    pub(crate) fn empty(
        key: RequestKey,
        label: Arc<str>,
        epoch: Epoch,
        geometry: &Geometry,
    ) -> TableView {
        TableView {
            key,
            label,
            epoch,
            groups: geometry.shapes().iter().map(|_| Box::default()).collect(),
        }
    }

    /// Copies out what a lease shows at an epoch.
    ///
    /// # Safety
    /// The lease's storage is alive: the caller holds a guard since before it loaded the lease.
    pub(crate) unsafe fn of(lease: &Lease, epoch: Epoch, geometry: &Geometry) -> TableView {
        let table = |group: usize| {
            let cells = lease.cells(group);
            // SAFETY: the caller's.
            let len = unsafe { visible_len(cells, epoch.0) };
            let front = cells.extent().front.min(len);
            let mut table = vec![None; len as usize];
            // SAFETY: the caller's; the visible length is at most one that was loaded before.
            unsafe {
                cells
                    .root()
                    .for_each(front..len, |position, entry| table[position as usize] = entry.block);
            }
            table.into_boxed_slice()
        };
        let groups = (0..geometry.shapes().len()).map(table).collect();
        TableView { key: lease.key, label: lease.label.clone(), epoch, groups }
    }
}

/// The version of a slot that was newest at `epoch`: walks back from the newest.
///
/// # Safety
/// The caller holds a guard since before it loaded `epoch`, and loaded `newest` after that.
pub(crate) unsafe fn at_epoch(mut newest: *const Lease, epoch: Epoch) -> *const Lease {
    // SAFETY: the newest lease is alive under the guard. A lease that is not visible yet links to
    // one that is retired only after a publish that this guard began before.
    while let Some(lease) = unsafe { newest.as_ref() } {
        lease.alive.seen();
        if lease.opened <= epoch.0 {
            break;
        }
        newest = lease.before;
    }
    newest
}

/// The whole block table at one epoch: every live request in full. Owned, so it can be kept, walked
/// and stored at leisure while the index moves on.
///
/// What is committed is not part of it: commits take effect between publishes.
///
/// ```
/// use tenure::{BlockId, Config, GroupId};
/// let (mut scheduler, index) = Config::new(8).build()?;
/// let request = scheduler.admit("r1")?;
/// scheduler.assign(request, GroupId(0), &[BlockId(3)])?;
/// scheduler.publish();
///
/// let snapshot = index.snapshot();
/// assert_eq!(snapshot.by_label("r1").unwrap().table(GroupId(0)), [Some(BlockId(3))]);
/// assert_eq!(&*snapshot.owners(BlockId(3))[0].label, "r1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    index: IndexId,
    epoch: Epoch,
    lives: Box<[TableView]>,
    by_label: HashMap<Arc<str>, usize>,
}

impl Snapshot {
    /// Builds the picture of the published epoch, under one guard. The cost grows with all tables.
    pub(crate) fn build(shared: &Shared) -> Snapshot {
        let entered = shared.reclaim.enter();
        entered.tally.built_snapshot();
        let epoch = shared.epoch();
        let mut lives = Vec::new();
        for slot in 0..shared.slots_used() {
            // SAFETY: under the guard, the epoch first and then the slot.
            if let Some(lease) = unsafe { at_epoch(shared.lease(slot), epoch).as_ref() }
                && lease.ended == Ended::No
            {
                // SAFETY: as above.
                lives.push(unsafe { TableView::of(lease, epoch, &shared.geometry) });
            }
        }
        Snapshot::from_parts(shared.id, epoch, lives)
    }

    pub(crate) fn from_parts(index: IndexId, epoch: Epoch, lives: Vec<TableView>) -> Snapshot {
        let by_label =
            lives.iter().enumerate().map(|(at, life)| (life.label.clone(), at)).collect();
        Snapshot { index, epoch, lives: lives.into(), by_label }
    }

    /// The index it is a picture of.
    pub fn index(&self) -> IndexId {
        self.index
    }

    /// The epoch it is a picture of.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Live requests.
    pub fn len(&self) -> usize {
        self.lives.len()
    }

    /// Whether no request is live.
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// Every live request, in no order that means anything.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TableView> {
        self.lives.iter()
    }

    /// One life's tables; `None` where it was not live at this epoch. Costs a search.
    pub fn get(&self, key: RequestKey) -> Option<&TableView> {
        self.lives.iter().find(|life| life.key == key)
    }

    /// The tables of the request that was live under this label.
    pub fn by_label(&self, label: &str) -> Option<&TableView> {
        self.by_label.get(label).and_then(|&at| self.lives.get(at))
    }

    /// Every life that lists the block. Costs a search through all tables.
    pub fn owners(&self, block: BlockId) -> Vec<&TableView> {
        let lists = |life: &&TableView| life.tables().any(|table| table.contains(&Some(block)));
        self.lives.iter().filter(lists).collect()
    }
}

/// The last snapshot that was built, for as long as its epoch is the published one: readers who
/// want the whole table share one build, and the scheduler never pays for it.
pub(crate) struct SnapshotCache {
    /// Invisible to loom, and so left out of its models.
    #[cfg(not(loom))]
    last: arc_swap::ArcSwapOption<Snapshot>,
}

impl SnapshotCache {
    pub(crate) fn new() -> SnapshotCache {
        SnapshotCache {
            #[cfg(not(loom))]
            last: arc_swap::ArcSwapOption::empty(),
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn get(&self, shared: &Shared) -> Arc<Snapshot> {
        let last = self.last.load_full();
        if let Some(last) = last
            && last.epoch == shared.epoch()
        {
            return last;
        }
        let built = Arc::new(Snapshot::build(shared));
        // Another reader may have stored a newer one meanwhile; that one is then built once more.
        self.last.store(Some(built.clone()));
        built
    }

    #[cfg(loom)]
    pub(crate) fn get(&self, shared: &Shared) -> Arc<Snapshot> {
        Arc::new(Snapshot::build(shared))
    }
}
