//! Where the positions of a table live: a persistent tree of chunks that never move.
//!
//! A chunk holds [`FAN`] entries, a node [`FAN`] children; a root is a pointer to the topmost piece
//! tagged with its height. An entry is written before the length that makes it readable is stored,
//! and is never written again while anyone may read it: what changes a readable entry copies the
//! path to it ([`Tree::rebuild`]), and the next version of the table uses the copies. So growing
//! writes in place, truncating with regrowth copies one path whatever the length of the table, and
//! a version of the table that is still read keeps its own pieces.
//!
//! All writing and freeing is the one scheduler's. Readers only read entries, under a guard or
//! a pin, below a length they have loaded before the root.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{self, NonNull};

use crate::ids::BlockId;
use crate::lease::Lease;
use crate::sync::{Alive, UnsafeCell};

/// Positions in a chunk, and children of a node, as a power of two. Small under test
/// configurations, so that tests reach deep trees.
#[cfg(not(any(loom, tenure_small)))]
const BITS: u32 = 6;
#[cfg(any(loom, tenure_small))]
const BITS: u32 = 1;

/// Positions in a chunk, and children of a node.
pub(crate) const FAN: usize = 1 << BITS;

/// The block of an entry that is a hole.
const HOLE: u32 = u32::MAX;

/// How far the base of a chunk is set back when an old chunk takes a new entry whose epoch is too
/// far from its base. That is further back than requests are believed
/// ([`Stale::EpochUnknown`](crate::Stale::EpochUnknown)), so rounding older entries up to the new
/// base changes no answer.
const REBASE: u64 = 3 << 30;

/// One position: the block it shows (or a hole) and the epoch from which that is visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) block: Option<BlockId>,
    pub(crate) since: u64,
}

#[derive(Clone, Copy)]
struct Packed {
    block: u32,
    /// In epochs after the chunk's base.
    since: u32,
}

/// Numbers the versions of all tables in the order of their making.
pub(crate) type Version = u64;

#[repr(align(32))]
struct Chunk {
    born: Version,
    base: u64,
    entries: [UnsafeCell<Packed>; FAN],
    alive: Alive,
}

#[repr(align(32))]
struct Node {
    born: Version,
    children: [UnsafeCell<*mut ()>; FAN],
    alive: Alive,
}

impl Chunk {
    fn set_up(&mut self, born: Version, base: u64) {
        self.born = born;
        self.base = base;
        self.alive = Alive::new();
    }

    fn entry(&self, at: usize) -> Entry {
        self.alive.seen();
        // SAFETY: the caller reads below a length it has loaded, so the entry was written before
        // that length was stored and is not written again; or the caller is the scheduler, which
        // is the only one to write.
        let packed = self.entries[at].with(|entry| unsafe { *entry });
        Entry {
            block: (packed.block != HOLE).then_some(BlockId(packed.block)),
            since: self.base + u64::from(packed.since),
        }
    }

    /// Writes an entry nobody can read yet.
    fn write(&self, at: usize, entry: Entry) {
        let since = entry.since.saturating_sub(self.base);
        debug_assert!(since <= u64::from(u32::MAX));
        let packed = Packed { block: entry.block.map_or(HOLE, |b| b.0), since: since as u32 };
        // SAFETY: only the scheduler writes, and only entries at or past every length that anyone
        // has loaded for this chunk, or of a chunk that no version in a slot lists yet.
        self.entries[at].with_mut(|entry| unsafe { *entry = packed });
    }
}

impl Node {
    fn child(&self, at: usize) -> *mut () {
        // SAFETY: like an entry: written before the length that leads a reader here was stored.
        self.children[at].with(|child| unsafe { *child })
    }

    fn set_child(&self, at: usize, to: *mut ()) {
        // SAFETY: only the scheduler writes, and only children past every length that anyone has
        // loaded for this node, or of a node that no version in a slot lists yet.
        self.children[at].with_mut(|child| unsafe { *child = to });
    }
}

/// A table's topmost piece: a [`Chunk`] at height 0, a [`Node`] above; null where nothing is
/// stored. The height is in the low bits of the pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Root(*mut ());

const TAG: usize = 31;
const _: () = assert!(align_of::<Chunk>() > TAG && align_of::<Node>() > TAG);
// The height that holds the longest table fits the tag.
const _: () = assert!(24_usize.div_ceil(BITS as usize) <= TAG);

impl Root {
    pub(crate) const EMPTY: Root = Root(ptr::null_mut());

    pub(crate) fn from_raw(raw: *mut ()) -> Root {
        Root(raw)
    }

    pub(crate) fn into_raw(self) -> *mut () {
        self.0
    }

    fn new(piece: *mut (), height: u32) -> Root {
        Root(piece.map_addr(|address| address | height as usize))
    }

    fn height(self) -> u32 {
        (self.0.addr() & TAG) as u32
    }

    fn piece(self) -> *mut () {
        self.0.map_addr(|address| address & !TAG)
    }

    /// The chunk that holds a position; null where it was dropped or never made.
    ///
    /// # Safety
    /// The pieces of this root are alive.
    #[inline]
    unsafe fn chunk(self, position: u32) -> *const Chunk {
        let mut piece = self.piece();
        let mut height = self.height();
        if u64::from(position) >> (BITS * (height + 1)) != 0 {
            return ptr::null();
        }
        while height > 0 && !piece.is_null() {
            let at = (position >> (BITS * height)) as usize & (FAN - 1);
            // SAFETY: pieces above height 0 are nodes, and the caller keeps them alive.
            let node = unsafe { &*piece.cast::<Node>() };
            node.alive.seen();
            piece = node.child(at);
            height -= 1;
        }
        piece.cast::<Chunk>()
    }

    /// The entry of a position. `None` where it lies in storage that was dropped: then it was
    /// vacated, and visible to every epoch that is still asked about.
    ///
    /// # Safety
    /// The pieces of this root are alive, and the position lies below a length that was loaded
    /// (acquire) from the same version before this root was.
    #[inline]
    pub(crate) unsafe fn entry(self, position: u32) -> Option<Entry> {
        // SAFETY: the caller's.
        let chunk = unsafe { self.chunk(position) };
        // SAFETY: alive, where it is not null.
        unsafe { chunk.as_ref() }.map(|chunk| chunk.entry(position as usize & (FAN - 1)))
    }

    /// Calls `each` for every stored position of the range, ascending.
    ///
    /// # Safety
    /// As for [`entry`](Root::entry), for every position of the range.
    pub(crate) unsafe fn for_each(self, range: Range<u32>, mut each: impl FnMut(u32, Entry)) {
        let mut position = range.start;
        while position < range.end {
            let stop = range.end.min((position | (FAN as u32 - 1)) + 1);
            // SAFETY: the caller's.
            if let Some(chunk) = unsafe { self.chunk(position).as_ref() } {
                for position in position..stop {
                    each(position, chunk.entry(position as usize & (FAN - 1)));
                }
            }
            position = stop;
        }
    }
}

/// Storage that the newest version of a table does not use any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    ptr: *mut (),
    height: u32,
    /// Whether everything below it goes with it.
    whole: bool,
}

impl Piece {
    /// All that a root leads to.
    pub(crate) fn tree(root: Root) -> Option<Piece> {
        let ptr = root.piece();
        (!ptr.is_null()).then(|| Piece { ptr, height: root.height(), whole: true })
    }

    /// The version that made it. Versions before that do not use it.
    ///
    /// # Safety
    /// The piece is alive.
    pub(crate) unsafe fn born(self) -> Version {
        // SAFETY: alive, and a chunk at height 0, a node above.
        unsafe {
            if self.height == 0 {
                (*self.ptr.cast::<Chunk>()).born
            } else {
                (*self.ptr.cast::<Node>()).born
            }
        }
    }

    /// Takes a whole piece apart: calls `each` for every piece in it, none of them whole.
    ///
    /// # Safety
    /// The pieces are alive; `each` may free what it is given.
    pub(crate) unsafe fn for_each(self, each: &mut impl FnMut(Piece)) {
        if self.whole && self.height > 0 {
            for at in 0..FAN {
                // SAFETY: above height 0 it is a node, alive until `each` is called for it below.
                let child = unsafe { (*self.ptr.cast::<Node>()).child(at) };
                if !child.is_null() {
                    // SAFETY: the caller's, for what lies below.
                    unsafe {
                        Piece { ptr: child, height: self.height - 1, whole: true }.for_each(each)
                    };
                }
            }
        }
        each(Piece { whole: false, ..self });
    }

    /// Tells loom that nobody can read it any more.
    ///
    /// # Safety
    /// The piece is alive.
    #[cfg(loom)]
    pub(crate) unsafe fn end(self) {
        // SAFETY: the caller's, and a chunk at height 0, a node above.
        unsafe {
            self.for_each(&mut |piece| match piece.height {
                0 => (*piece.ptr.cast::<Chunk>()).alive.end(),
                _ => (*piece.ptr.cast::<Node>()).alive.end(),
            });
        }
    }
}

/// Memory for making new pieces and leases from: what came back from earlier versions, or the
/// allocator.
#[derive(Default)]
pub(crate) struct Pool {
    #[allow(clippy::vec_box)] // they keep their place in memory
    chunks: Vec<Box<Chunk>>,
    #[allow(clippy::vec_box)]
    nodes: Vec<Box<Node>>,
    #[allow(clippy::vec_box)]
    leases: Vec<Box<MaybeUninit<Lease>>>,
}

/// Pieces and leases that are kept for reuse, of each kind; what comes back beyond that goes to the allocator.
const KEPT: usize = 4096;

impl Pool {
    fn chunk(&mut self, born: Version, base: u64) -> *mut Chunk {
        let mut chunk = self.chunks.pop().unwrap_or_else(|| {
            let empty = |_| UnsafeCell::new(Packed { block: HOLE, since: 0 });
            Box::new(Chunk {
                born: 0,
                base: 0,
                entries: std::array::from_fn(empty),
                alive: Alive::new(),
            })
        });
        chunk.set_up(born, base);
        Box::into_raw(chunk)
    }

    fn node(&mut self, born: Version) -> *mut Node {
        let node = match self.nodes.pop() {
            Some(mut node) => {
                node.born = born;
                node.alive = Alive::new();
                (0..FAN).for_each(|at| node.set_child(at, ptr::null_mut()));
                node
            }
            None => {
                let empty = |_| UnsafeCell::new(ptr::null_mut());
                Box::new(Node { born, children: std::array::from_fn(empty), alive: Alive::new() })
            }
        };
        Box::into_raw(node)
    }

    pub(crate) fn lease(&mut self, lease: Lease) -> NonNull<Lease> {
        let memory = self.leases.pop().unwrap_or_else(Box::new_uninit);
        NonNull::from(Box::leak(Box::write(memory, lease)))
    }

    /// Takes a lease back.
    ///
    /// # Safety
    /// It was made as a box, and nobody can reach it any more.
    pub(crate) unsafe fn take_back_lease(&mut self, lease: *mut Lease) {
        // SAFETY: the caller's. It is dropped in place once, and its memory is a box of the same
        // layout.
        unsafe {
            ptr::drop_in_place(lease);
            if self.leases.len() < KEPT {
                self.leases.push(Box::from_raw(lease.cast()));
            } else {
                drop(Box::<MaybeUninit<Lease>>::from_raw(lease.cast()));
            }
        }
    }

    /// Takes storage back.
    ///
    /// # Safety
    /// The pieces are alive, were made by a pool, and nobody can reach them any more.
    pub(crate) unsafe fn take_back(&mut self, piece: Piece) {
        #[cfg(loom)]
        // SAFETY: the caller's.
        unsafe {
            piece.end();
        }
        // SAFETY: the caller's.
        unsafe {
            piece.for_each(&mut |piece| {
                // SAFETY: pools make pieces as boxes of the type that the height tells.
                if piece.height == 0 {
                    let chunk = Box::from_raw(piece.ptr.cast::<Chunk>());
                    if self.chunks.len() < KEPT {
                        self.chunks.push(chunk);
                    }
                } else {
                    let node = Box::from_raw(piece.ptr.cast::<Node>());
                    if self.nodes.len() < KEPT {
                        self.nodes.push(node);
                    }
                }
            });
        }
    }
}

/// What a change of a tree works with.
pub(crate) struct Workshop<'a> {
    /// The version that will list the outcome.
    pub(crate) version: Version,
    /// The epoch from which new entries are visible.
    pub(crate) epoch: u64,
    pub(crate) pool: &'a mut Pool,
    /// Takes the pieces that the outcome does not use any more.
    pub(crate) garbage: &'a mut Vec<Piece>,
}

/// The scheduler's end of a table's storage: where the next position goes.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Root,
    /// The first position that is stored: those below were vacated long ago. At a chunk's start.
    first: u32,
    /// Whether versions before may read positions past the end in the pieces of this one, because
    /// it was made by truncating.
    shared_tail: bool,
}

impl Tree {
    pub(crate) const EMPTY: Tree = Tree { root: Root::EMPTY, first: 0, shared_tail: false };

    /// Notes that positions past the new end may be read through versions before.
    pub(crate) fn truncated(&mut self, len: u32) {
        self.shared_tail = true;
        self.first = self.first.min(start_of_chunk(len));
    }

    /// Writes blocks (or holes) behind position `len`, where nobody reads yet.
    pub(crate) fn append(
        &mut self,
        len: u32,
        blocks: impl ExactSizeIterator<Item = Option<BlockId>>,
        workshop: &mut Workshop<'_>,
    ) {
        let mut chunk: *const Chunk = ptr::null();
        for (position, block) in (len..).zip(blocks) {
            let at = position as usize & (FAN - 1);
            if chunk.is_null() || at == 0 {
                chunk = self.tail(position, workshop);
            }
            // SAFETY: `tail` answers with a chunk of this tree, alive; its entry at `at` lies past
            // every length that anyone has loaded for it.
            unsafe { (*chunk).write(at, Entry { block, since: workshop.epoch }) };
        }
    }

    /// The chunk for position `len`, the first past the end, made where it is missing.
    fn tail(&mut self, len: u32, workshop: &mut Workshop<'_>) -> *const Chunk {
        let at = len as usize & (FAN - 1);
        // SAFETY: the tree's pieces are alive while it lists them.
        let too_old = at != 0
            && unsafe { self.root.chunk(len).as_ref() }
                .is_some_and(|chunk| workshop.epoch - chunk.base > u64::from(u32::MAX));
        if self.shared_tail || too_old {
            self.rebuild(len, len..len + 1, workshop);
            self.shared_tail = false;
        }
        self.reach(len, workshop)
    }

    /// The chunk for a position, made where it is missing. One that is missing though positions
    /// before in it are not was dropped: then all in it are holes.
    fn reach(&mut self, position: u32, workshop: &mut Workshop<'_>) -> *const Chunk {
        let mut height = self.root.height();
        while u64::from(position) >> (BITS * (height + 1)) != 0 {
            let node = workshop.pool.node(workshop.version);
            // SAFETY: just made, and nobody else has it.
            unsafe { (*node).set_child(0, self.root.piece()) };
            height += 1;
            self.root = Root::new(node.cast(), height);
        }
        if self.root.piece().is_null() {
            self.root = Root::new(Self::make(height, position, workshop), height);
        }
        let mut piece = self.root.piece();
        while height > 0 {
            let at = (position >> (BITS * height)) as usize & (FAN - 1);
            height -= 1;
            // SAFETY: a node above height 0, alive while the tree lists it. A missing child lies
            // past every length that was loaded for this node, or the node is of the version that
            // is being made.
            unsafe {
                let node = &*piece.cast::<Node>();
                piece = node.child(at);
                if piece.is_null() {
                    piece = Self::make(height, position, workshop);
                    node.set_child(at, piece);
                }
            }
        }
        piece.cast::<Chunk>()
    }

    fn make(height: u32, position: u32, workshop: &mut Workshop<'_>) -> *mut () {
        if height > 0 {
            return workshop.pool.node(workshop.version).cast();
        }
        if position as usize & (FAN - 1) == 0 {
            return workshop.pool.chunk(workshop.version, workshop.epoch).cast();
        }
        // So old that the holes are visible to every epoch that is still asked about.
        let base = workshop.epoch.saturating_sub(REBASE);
        let chunk = workshop.pool.chunk(workshop.version, base);
        for at in 0..FAN {
            // SAFETY: just made, and nobody else has it.
            unsafe { (*chunk).write(at, Entry { block: None, since: base }) };
        }
        chunk.cast()
    }

    /// Copies the pieces that hold the `fresh` positions, so that the version being made may write
    /// them, and lets go of those that hold no position of `first..len`.
    pub(crate) fn rebuild(&mut self, len: u32, fresh: Range<u32>, workshop: &mut Workshop<'_>) {
        let height = self.root.height();
        let mut cut = Rebuild { keep: self.first..len, fresh, workshop };
        let piece = cut.piece(self.root.piece(), height, 0);
        self.root = if piece.is_null() { Root::EMPTY } else { Root::new(piece, height) };
    }

    /// Like [`rebuild`](Tree::rebuild), and makes what was dropped of the `fresh` positions, as
    /// holes.
    pub(crate) fn restore(&mut self, len: u32, fresh: Range<u32>, workshop: &mut Workshop<'_>) {
        self.first = self.first.min(start_of_chunk(fresh.start));
        self.rebuild(len, fresh.clone(), workshop);
        for chunk in (start_of_chunk(fresh.start)..fresh.end).step_by(FAN) {
            self.reach(chunk | (FAN as u32 - 1), workshop);
        }
    }

    /// Overwrites a position that was just made fresh.
    pub(crate) fn overwrite(&mut self, position: u32, entry: Entry) {
        // SAFETY: the tree's pieces are alive while it lists them.
        if let Some(chunk) = unsafe { self.root.chunk(position).as_ref() } {
            chunk.write(position as usize & (FAN - 1), entry);
        }
    }

    /// Lets go of chunks that lie wholly below `front`, as far as every entry in them was visible
    /// at the `published` epoch.
    pub(crate) fn drop_front(
        &mut self,
        front: u32,
        len: u32,
        published: u64,
        workshop: &mut Workshop<'_>,
    ) {
        let before = self.first;
        while front - self.first >= FAN as u32 {
            let mut published_all = true;
            let chunk = self.first..self.first + FAN as u32;
            // SAFETY: the tree's pieces are alive while it lists them, and only the scheduler,
            // which runs this, writes them.
            unsafe {
                self.root.for_each(chunk, |_, entry| published_all &= entry.since <= published)
            };
            if !published_all {
                break;
            }
            self.first += FAN as u32;
        }
        if self.first != before {
            self.rebuild(len, 0..0, workshop);
        }
    }
}

fn start_of_chunk(position: u32) -> u32 {
    position & !(FAN as u32 - 1)
}

struct Rebuild<'a, 'b> {
    keep: Range<u32>,
    fresh: Range<u32>,
    workshop: &'a mut Workshop<'b>,
}

impl Rebuild<'_, '_> {
    fn piece(&mut self, piece: *mut (), height: u32, start: u64) -> *mut () {
        let end = start + (1 << (BITS * (height + 1)));
        let meets = |range: &Range<u32>| {
            !range.is_empty() && start < u64::from(range.end) && u64::from(range.start) < end
        };
        let fresh = meets(&self.fresh);
        let within = u64::from(self.keep.start) <= start && end <= u64::from(self.keep.end);
        if piece.is_null() || (within && !fresh) {
            return piece;
        }
        if !meets(&self.keep) {
            self.workshop.garbage.push(Piece { ptr: piece, height, whole: true });
            return ptr::null_mut();
        }
        let copy = match height {
            0 if !fresh => return piece,
            0 => self.chunk(piece.cast::<Chunk>(), start).cast(),
            _ => match self.node(piece.cast::<Node>(), height, start, fresh) {
                Some(node) => node.cast(),
                None => return piece,
            },
        };
        self.workshop.garbage.push(Piece { ptr: piece, height, whole: false });
        copy
    }

    fn chunk(&mut self, old: *const Chunk, start: u64) -> *mut Chunk {
        // SAFETY: the tree's pieces are alive, and only the scheduler, which runs this, writes.
        let old = unsafe { &*old };
        let epoch = self.workshop.epoch;
        let base = if epoch - old.base > u64::from(u32::MAX) { epoch - REBASE } else { old.base };
        let copy = self.workshop.pool.chunk(self.workshop.version, base);
        let filled = (u64::from(self.keep.end) - start).min(FAN as u64) as usize;
        for at in 0..filled {
            // SAFETY: just made, and nobody else has it.
            unsafe { (*copy).write(at, old.entry(at)) };
        }
        copy
    }

    /// The node with its children rebuilt, where that changed any or the path must be fresh.
    fn node(
        &mut self,
        old: *const Node,
        height: u32,
        start: u64,
        fresh: bool,
    ) -> Option<*mut Node> {
        let mut children = [ptr::null_mut(); FAN];
        let mut changed = fresh;
        // Children between the first and the last that is kept stay as they are, unless fresh.
        let child_of = |position: u32| u64::from(position).saturating_sub(start) >> (BITS * height);
        let kept = child_of(self.keep.start)..child_of(self.keep.end);
        let fresh = child_of(self.fresh.start)..child_of(self.fresh.end) + 1;
        for (at, child) in children.iter_mut().enumerate() {
            // SAFETY: the tree's pieces are alive, and only the scheduler, which runs this, writes.
            let old = unsafe { (*old).child(at) };
            let within = kept.start < at as u64 && (at as u64) < kept.end;
            *child = if old.is_null() || (within && !fresh.contains(&(at as u64))) {
                old
            } else {
                self.piece(old, height - 1, start + ((at as u64) << (BITS * height)))
            };
            changed |= *child != old;
        }
        changed.then(|| {
            let node = self.workshop.pool.node(self.workshop.version);
            for (at, child) in children.into_iter().enumerate() {
                // SAFETY: just made, and nobody else has it.
                unsafe { (*node).set_child(at, child) };
            }
            node
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one version of a table shows, as plainly as can be.
    #[derive(Clone)]
    struct Version {
        root: Root,
        front: u32,
        entries: Vec<Entry>,
    }

    /// A table with every version it ever had.
    struct History {
        tree: Tree,
        now: Version,
        before: Vec<Version>,
        version: u64,
        epoch: u64,
        next_block: u32,
        pool: Pool,
        garbage: Vec<Piece>,
    }

    impl History {
        fn new() -> History {
            History {
                tree: Tree::EMPTY,
                now: Version { root: Root::EMPTY, front: 0, entries: Vec::new() },
                before: Vec::new(),
                version: 1,
                epoch: 1,
                next_block: 0,
                pool: Pool::default(),
                garbage: Vec::new(),
            }
        }

        fn len(&self) -> u32 {
            self.now.entries.len() as u32
        }

        fn change(&mut self, change: impl FnOnce(&mut Tree, &mut Vec<Entry>, &mut Workshop<'_>)) {
            let mut workshop = Workshop {
                version: self.version,
                epoch: self.epoch,
                pool: &mut self.pool,
                garbage: &mut self.garbage,
            };
            change(&mut self.tree, &mut self.now.entries, &mut workshop);
            self.now.root = self.tree.root;
        }

        fn append(&mut self, count: u32) {
            let blocks: Vec<_> = (self.next_block..self.next_block + count).map(BlockId).collect();
            self.next_block += count;
            self.change(|tree, entries, workshop| {
                let blocks = blocks.into_iter().map(Some);
                tree.append(entries.len() as u32, blocks.clone(), workshop);
                entries.extend(blocks.map(|block| Entry { block, since: workshop.epoch }));
            });
        }

        fn next_version(&mut self) {
            self.before.push(self.now.clone());
            self.version += 1;
            self.epoch += 1;
        }

        fn truncate(&mut self, len: u32) {
            self.next_version();
            self.now.front = self.now.front.min(len);
            self.change(|tree, entries, _| {
                tree.truncated(len);
                entries.truncate(len as usize);
            });
        }

        fn replace(&mut self, position: u32) {
            self.next_version();
            let (front, block) = (self.now.front, Some(BlockId(self.next_block)));
            self.next_block += 1;
            self.now.front = front.min(position);
            self.change(|tree, entries, workshop| {
                let end = if position < front { front } else { position + 1 };
                tree.restore(entries.len() as u32, position..end, workshop);
                for hole in position + 1..end {
                    entries[hole as usize].block = None;
                    tree.overwrite(hole, entries[hole as usize]);
                }
                entries[position as usize] = Entry { block, since: workshop.epoch };
                tree.overwrite(position, entries[position as usize]);
            });
        }

        fn slide(&mut self, front: u32) {
            self.next_version();
            let published = self.epoch - 1;
            self.now.front = front;
            self.change(|tree, entries, workshop| {
                tree.drop_front(front, entries.len() as u32, published, workshop);
            });
        }

        /// Every version shows what it always showed.
        fn check(&self) {
            for version in self.before.iter().chain([&self.now]) {
                for position in version.front..version.entries.len() as u32 {
                    // SAFETY: nothing is freed before the end, and the position is stored.
                    let entry = unsafe { version.root.entry(position) }.unwrap();
                    let expected = version.entries[position as usize];
                    assert_eq!(entry.block, expected.block, "position {position}");
                    assert!(entry.block.is_none() || entry.since == expected.since);
                }
            }
        }
    }

    impl Drop for History {
        fn drop(&mut self) {
            let all = self.garbage.drain(..).chain(Piece::tree(self.tree.root));
            for piece in all {
                // SAFETY: each piece left the newest tree once, or is in it still.
                unsafe { self.pool.take_back(piece) };
            }
        }
    }

    /// Lengths around every border of chunks and nodes.
    fn borders() -> impl Iterator<Item = u32> {
        let fan = FAN as u32;
        [1, 2, fan - 1, fan, fan + 1, fan * fan - 1, fan * fan, fan * fan + 1, 2 * fan * fan + 7]
            .into_iter()
    }

    #[test]
    fn versions_keep_what_they_showed() {
        for len in borders() {
            let mut table = History::new();
            table.append(len);
            for to in [len, len.saturating_sub(1), len / 2, len.saturating_sub(FAN as u32), 0] {
                if to < table.len() {
                    table.truncate(to);
                }
                table.append(3);
                table.append(len);
            }
            table.check();
        }
    }

    #[test]
    fn a_sliding_window_lets_go_of_its_front() {
        let window = 2 * FAN as u32;
        let mut table = History::new();
        table.append(window);
        for front in 1..20 * FAN as u32 {
            table.slide(front);
            table.append(1);
            table.before.clear(); // only the newest is looked at
        }
        table.check();
        let mut stored = 0;
        if let Some(piece) = Piece::tree(table.tree.root) {
            // SAFETY: nothing is freed before the end.
            unsafe { piece.for_each(&mut |part| stored += usize::from(part.height == 0)) };
        }
        assert!(stored <= 5, "{stored} chunks for a window of two");
        table.truncate(3);
        table.append(2 * FAN as u32);
        table.check();
    }

    #[test]
    fn a_vacated_front_can_be_filled_again() {
        for len in borders().filter(|&len| len > 2) {
            let mut table = History::new();
            table.append(len);
            table.slide(len - 1);
            table.replace(len / 3);
            table.check();
            table.slide(len);
            table.replace(0);
            table.append(FAN as u32);
            table.check();
        }
    }

    #[test]
    fn entries_far_apart_in_time_share_a_chunk() {
        let mut table = History::new();
        table.append(1);
        table.epoch += u64::from(u32::MAX) + 5;
        table.append(1);
        // SAFETY: nothing is freed before the end.
        let since = |at| unsafe { table.tree.root.entry(at) }.unwrap().since;
        assert_eq!(since(1), table.epoch);
        // Rounded up, but to before what is still believed.
        assert!(since(0) > 1 && since(0) < table.epoch - (1 << 31));
        table.epoch += u64::from(u32::MAX) + 5;
        table.next_version();
        table.replace(0);
        // SAFETY: as above.
        let since = |at| unsafe { table.tree.root.entry(at) }.unwrap().since;
        assert_eq!(since(0), table.epoch);
        assert!(since(1) < table.epoch - (1 << 31));
    }

    #[test]
    fn memory_that_came_back_is_used_again() {
        let mut table = History::new();
        for _ in 0..100 {
            table.append(3 * FAN as u32);
            table.truncate(0);
            table.append(1);
            table.truncate(0);
            table.before.clear();
            for piece in std::mem::take(&mut table.garbage) {
                // SAFETY: the versions that used it have just been forgotten.
                unsafe { table.pool.take_back(piece) };
            }
        }
        assert!(table.pool.chunks.len() <= 8 && table.pool.nodes.len() <= 8);
    }
}
