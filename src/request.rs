//! What a planner hands to a reader: a small, `Copy` description of what is to be read, and when
//! it was planned. It keeps nothing alive.

use std::ops::Range;

use crate::error::BadRange;
use crate::ids::{Epoch, Groups, IndexId, RequestKey};

/// What a pin is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Kind {
    /// Reads blocks whose content is written: refused over tokens that are not committed, where
    /// commits are tracked.
    Save,
    /// Writes blocks from outside: needs no committed tokens.
    Load,
    /// Holds exactly the listed blocks, whoever owns them: [`Scheduler::hold`](crate::Scheduler::hold).
    Hold,
}

/// A planned read (or, for [`Kind::Load`], an inbound write) of a token range of one life, and the
/// epoch it was planned against.
///
/// Made by [`Index::plan`](crate::Index::plan); judged by [`Index::pin`](crate::Index::pin) and
/// [`Index::check`](crate::Index::check). It holds no block and keeps nothing alive: it can be
/// queued, copied, stored and sent to another process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SaveRequest {
    pub(crate) index: IndexId,
    pub(crate) key: RequestKey,
    pub(crate) epoch: Epoch,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) groups: Groups,
    pub(crate) kind: Kind,
}

impl SaveRequest {
    /// Puts a request together from its parts, as a decoder does. Nothing about it is believed:
    /// the index judges it like any other. The groups are named one by one
    /// ([`Geometry::all_groups`](crate::Geometry::all_groups)); a set with others in it, like
    /// [`Groups::ALL`], is of no index.
    ///
    /// # Errors
    /// [`BadRange`] where `tokens` is empty or reversed.
    pub fn from_parts(
        index: IndexId,
        key: RequestKey,
        epoch: Epoch,
        tokens: Range<u64>,
        groups: Groups,
        kind: Kind,
    ) -> Result<SaveRequest, BadRange> {
        let Range { start, end } = tokens;
        if start >= end {
            return Err(BadRange { start, end });
        }
        Ok(SaveRequest { index, key, epoch, start, end, groups, kind })
    }

    /// The index it was planned at.
    pub fn index(&self) -> IndexId {
        self.index
    }

    /// The life it reads.
    pub fn key(&self) -> RequestKey {
        self.key
    }

    /// The epoch it was planned against.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The token range, never empty.
    pub fn tokens(&self) -> Range<u64> {
        self.start..self.end
    }

    /// The groups it reads.
    pub fn groups(&self) -> Groups {
        self.groups
    }

    /// Whether it saves or loads.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}
