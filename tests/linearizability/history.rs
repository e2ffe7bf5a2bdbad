//! What was called, when, and what was answered.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::{BlockId, Epoch, Stale};

/// Orders invocations and responses over all threads.
#[derive(Default)]
pub struct Clock(AtomicU64);

impl Clock {
    pub fn tick(&self) -> u64 {
        // What a thread did before a tick happened before what another does after a later one.
        self.0.fetch_add(1, Ordering::AcqRel)
    }
}

/// Names a pin within a run.
pub type PinNumber = u64;

/// What a call that takes something away told.
#[derive(Clone, Debug)]
pub struct Given {
    pub freed: Vec<BlockId>,
    pub held: u32,
}

/// One call about one life, with its answer; a call that takes something away is two of them. One
/// group of blocks of one token: a token range is a range of positions.
#[derive(Clone, Debug)]
pub enum Op {
    Admit {
        published: Epoch,
    },
    Assign {
        blocks: Vec<BlockId>,
    },
    Commit {
        tokens: u64,
    },
    /// From here on nobody pins what is lost.
    Vacate {
        positions: Range<u32>,
    },
    Truncate {
        len: u32,
    },
    Replace {
        position: u32,
        block: BlockId,
    },
    Release,
    Preempt,
    /// The second half of the five before: what is lost is free, or held by who has pinned it.
    Account {
        given: Given,
    },
    Publish {
        epoch: Epoch,
    },
    /// The part of the answer that is about blocks this life has lost.
    Reclaim {
        blocks: Vec<BlockId>,
    },
    /// `since` was published when the call began, or before.
    Plan {
        since: Epoch,
        tokens: Range<u64>,
        answer: Result<Epoch, Stale>,
    },
    Pin {
        tokens: Range<u64>,
        planned: Epoch,
        answer: Result<PinNumber, Stale>,
    },
    Check {
        tokens: Range<u64>,
        planned: Epoch,
        answer: Result<(), Stale>,
    },
    Unpin {
        pin: PinNumber,
    },
    /// `since` as for a plan.
    View {
        since: Epoch,
        answer: Result<(Epoch, Vec<Option<BlockId>>), Stale>,
    },
}

/// A call between two ticks of the clock.
#[derive(Clone, Debug)]
pub struct Event {
    pub called: u64,
    pub returned: u64,
    pub op: Op,
}

/// All calls about one life, by thread, each in order. The scheduler's are the first.
#[derive(Clone, Default)]
pub struct History {
    pub threads: Vec<Vec<Event>>,
}

impl History {
    pub fn len(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

/// The calls around the one that fits in no order, as they began.
pub struct Around<'h>(pub &'h History, pub usize);

impl fmt::Display for Around<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Around(history, explained) = *self;
        let threads = history.threads.iter().enumerate();
        let mut all: Vec<_> =
            threads.flat_map(|(at, events)| events.iter().map(move |event| (at, event))).collect();
        all.sort_by_key(|(_, event)| event.called);
        let shown = all.iter().skip(explained.saturating_sub(60)).take(80);
        shown.into_iter().try_for_each(|(thread, Event { called, returned, op })| {
            writeln!(f, "  {called}..{returned} thread {thread}: {op:?}")
        })
    }
}
