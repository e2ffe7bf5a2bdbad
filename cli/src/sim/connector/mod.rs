//! What stands between the scheduler and the store: plans saves, keeps what they read, and hears
//! how they went. One implementation for each policy and index.

mod baseline;
mod ledger;
mod mirror;
mod pipeline;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use tenure::{BlockId, Budget, OfferId, Outcome, Rank, RequestKey, SaveRequest, Stale};

pub use baseline::Baseline;
pub use mirror::Mirror;
pub use pipeline::Pipeline;

/// What the scheduler says of a request that has more full blocks than before.
#[derive(Clone, Debug)]
pub struct Computed {
    /// The request's label.
    pub label: Arc<str>,
    /// The life that it computes them in.
    pub key: RequestKey,
    /// The tokens to save, in whole blocks. Trackers find by themselves what of them is not saved yet;
    /// what is before them cannot be saved any more.
    pub tokens: Range<u64>,
    /// The blocks that hold them: only for a connector that keeps a mirror of the table.
    pub blocks: Vec<BlockId>,
}

/// A save that is planned and not pinned yet.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The request's label.
    pub label: Arc<str>,
    /// The tokens that it saves.
    pub tokens: Range<u64>,
    /// What it reads.
    pub plan: Plan,
}

/// How a planned save names what it reads.
#[derive(Clone, Debug)]
pub enum Plan {
    /// As a plan of the index, and the tracker's offer that it carries out, if any.
    Request(SaveRequest, Option<OfferId>),
    /// As the blocks that the table showed when it was planned.
    Blocks(Vec<BlockId>),
}

/// A save that may be read now.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The name to complete it by.
    pub job: u64,
    /// The tokens that it saves.
    pub tokens: Range<u64>,
    /// The block at each of their positions.
    pub blocks: Vec<BlockId>,
}

/// Why a planned save cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotPinned {
    /// Never again.
    Stale(Stale),
    /// Not now.
    Budget(Budget),
}

/// How a report about a job was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reported {
    /// More ranks are to report.
    Pending,
    /// It was the last report; so went the job, and its blocks are given back.
    Last(Outcome),
    /// It said nothing new: a duplicate, or about a job that has ended.
    Ignored,
}

/// The connector of one saver thread.
pub trait Connector: Send {
    /// A request is heard of for the first time; `prompt_only` where only its tokens below that
    /// number are to be saved.
    fn follow(&mut self, _label: &str, _prompt_only: Option<u64>) {}

    /// Plans what is to be saved of a request now; `None` where nothing is.
    fn plan(&mut self, computed: &Computed) -> Result<Option<Planned>, Stale>;

    /// Takes the pin of a planned save, for as many ranks as the replay has.
    fn pin(&mut self, planned: Planned, now: Instant) -> Result<Pinned, NotPinned>;

    /// Takes in that a rank has ended its part of a job.
    fn complete(&mut self, job: u64, rank: Rank, outcome: Outcome) -> Reported;

    /// Ends a job of which reports are missing. Answers `false` where it had ended.
    fn force_end(&mut self, job: u64, now: Instant) -> bool;

    /// Stops to follow a request, and tells how many of its tokens are durable; `None` where the
    /// connector keeps no account of that.
    fn forget(&mut self, _label: &str) -> Option<u64> {
        None
    }

    /// Whether what could not be saved is offered again by [`plan`](Connector::plan).
    fn offers_again(&self) -> bool {
        false
    }

    /// Jobs that have not ended.
    fn pending(&self) -> usize;
}
