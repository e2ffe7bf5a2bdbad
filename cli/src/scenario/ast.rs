//! What a script says, line by line.

use std::fmt;

use super::pattern::Pattern;

/// A script that was read as a whole: every line of it is of the language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// Its commands, in order, without blank lines and comments.
    pub lines: Vec<Line>,
}

/// One command and what it must answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its place in the file, from 1.
    pub number: usize,
    /// The line without its comment, its words one blank apart.
    pub text: String,
    /// What to do.
    pub command: Command,
    /// What stands behind `->`.
    pub expected: Option<Pattern>,
}

/// A range of tokens or positions as written; it may be empty or reversed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its first number.
    pub start: u64,
    /// The number past its last.
    pub end: u64,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// The settings of a fresh index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSpec {
    /// Blocks in the pool.
    pub blocks: u32,
    /// The placeholder block.
    pub null: Option<u32>,
    /// Tokens in a block, one for each group; empty where the default is meant.
    pub block_sizes: Vec<u32>,
    /// Whether commits are tracked.
    pub commits: bool,
}

/// What a planned or forged request is to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanSpec {
    /// The name it gets.
    pub save: String,
    /// The label whose newest life is read.
    pub label: String,
    /// The tokens.
    pub tokens: Span,
    /// The groups as listed; empty for all.
    pub groups: Vec<u64>,
    /// An inbound write.
    pub load: bool,
}

/// Block, group and position numbers are kept as written: that the index has no such thing is an
/// answer, not a mistake in the script.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Command {
    Index(IndexSpec),
    Admit { label: String },
    Assign { label: String, group: u64, blocks: Vec<u64> },
    Share { label: String, group: u64, blocks: Vec<u64> },
    Commit { label: String, tokens: u64 },
    Vacate { label: String, group: u64, positions: Span },
    Truncate { label: String, group: u64, len: u64 },
    Replace { label: String, group: u64, position: u64, block: u64 },
    Preempt { label: String },
    Release { label: String },
    Invalidate { blocks: Vec<u64> },
    StepBegin { step: String },
    StepEnd { step: String },
    Publish,
    Reset { force: bool },
    Drain,
    Plan(PlanSpec),
    Forge { plan: PlanSpec, epoch: u64 },
    Check { save: String },
    Replan { save: String },
    Pin { save: String, job: String, ranks: Vec<u32> },
    Complete { job: String, rank: u32, failed: bool },
    Force { job: String },
    Hold { blocks: Vec<u64>, job: String },
    Jobs { max: u64, blocks: Option<u64> },
    Track { label: String, end: Option<u64> },
    Next { save: String, label: String, upto: Option<u64> },
    Abandon { save: String },
    Expect { query: Query, values: Pattern },
    Audit,
}

/// Where a block can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Place {
    Free,
    Held,
    Owned,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Free => "free",
            Place::Held => "held",
            Place::Owned => "owned",
        })
    }
}

/// What an `expect` line asks about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Query {
    Count(Place),
    /// Whether all the blocks listed are in this place.
    Blocks(Place, Vec<u64>),
    Owner {
        block: u64,
    },
    /// `named` tells whether the group was written out.
    Table {
        label: String,
        group: u64,
        named: bool,
    },
    Reclaimable {
        label: String,
    },
    Epoch,
    PendingJobs,
    Pins {
        label: String,
    },
    Drained,
    NotDrained,
    PinnedBlocks {
        job: String,
    },
    Watermark {
        label: String,
    },
    InFlight {
        label: String,
    },
    RanksLeft {
        job: String,
    },
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Query::Count(place) => write!(f, "{place}"),
            Query::Blocks(place, blocks) => {
                write!(f, "{place} blocks")?;
                blocks.iter().try_for_each(|block| write!(f, " {block}"))
            }
            Query::Owner { block } => write!(f, "owner {block}"),
            Query::Table { label, group, named: true } => write!(f, "table {label} g{group}"),
            Query::Table { label, .. } => write!(f, "table {label}"),
            Query::Reclaimable { label } => write!(f, "reclaimable {label}"),
            Query::Epoch => f.write_str("epoch"),
            Query::PendingJobs => f.write_str("pending-jobs"),
            Query::Pins { label } => write!(f, "pins {label}"),
            Query::Drained => f.write_str("drained"),
            Query::NotDrained => f.write_str("not-drained"),
            Query::PinnedBlocks { job } => write!(f, "pinned-blocks {job}"),
            Query::Watermark { label } => write!(f, "watermark {label}"),
            Query::InFlight { label } => write!(f, "in-flight {label}"),
            Query::RanksLeft { job } => write!(f, "ranks-left {job}"),
        }
    }
}
