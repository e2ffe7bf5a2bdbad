//! Random operations. What they are about is chosen relative to the state they meet, so that most
//! of them mean something; some are garbage on purpose.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use tenure::BlockId;

use super::shape::Shape;

/// The labels requests are admitted under.
pub const LABELS: [&str; 4] = ["a", "b", "c", ""];

#[derive(Clone, Debug)]
pub enum Op {
    Admit {
        label: u8,
    },
    /// As a step does: all tables grow by about so many blocks, what they cover is committed, and
    /// the step is published.
    Grow {
        who: Who,
        blocks: u8,
    },
    Assign {
        who: Who,
        group: OfGroup,
        blocks: Vec<OfBlock>,
    },
    Share {
        who: Who,
        group: OfGroup,
        blocks: Vec<OfBlock>,
    },
    /// Shares one block many times, which makes a long table out of a small pool.
    ShareOften {
        who: Who,
        group: OfGroup,
        block: OfBlock,
        times: u8,
    },
    Commit {
        who: Who,
        tokens: Reach,
    },
    Vacate {
        who: Who,
        group: OfGroup,
        from: Place,
        len: i16,
    },
    Truncate {
        who: Who,
        group: OfGroup,
        len: Place,
    },
    Replace {
        who: Who,
        group: OfGroup,
        position: Place,
        block: OfBlock,
    },
    Preempt {
        who: Who,
    },
    Release {
        who: Who,
    },
    Invalidate {
        blocks: Vec<OfBlock>,
    },
    BeginStep,
    EndStep {
        step: u8,
    },
    EndStepThatIsNotOpen,
    Publish,
    Reclaim,
    Hold {
        blocks: Vec<OfBlock>,
    },
    Reset,
    ResetForce,
    BeginDrain,
    Plan {
        who: Who,
        tokens: Span,
        groups: OfGroups,
        load: bool,
    },
    Forge {
        who: Who,
        tokens: Span,
        groups: OfGroups,
        kind: u8,
        epoch: OfEpoch,
        foreign: bool,
    },
    Replan {
        request: u8,
    },
    Pin {
        request: u8,
    },
    PinLoad {
        who: Who,
        tokens: Span,
        groups: OfGroups,
    },
    PinBatch {
        requests: Vec<u8>,
    },
    Narrow {
        pin: u8,
        tokens: Span,
    },
    Drop {
        pin: u8,
    },
}

impl Op {
    /// The life it is about.
    pub fn who(&self) -> Option<Who> {
        match *self {
            Op::Grow { who, .. }
            | Op::Assign { who, .. }
            | Op::Share { who, .. }
            | Op::ShareOften { who, .. }
            | Op::Commit { who, .. }
            | Op::Vacate { who, .. }
            | Op::Truncate { who, .. }
            | Op::Replace { who, .. }
            | Op::Preempt { who }
            | Op::Release { who }
            | Op::Plan { who, .. }
            | Op::Forge { who, .. }
            | Op::PinLoad { who, .. } => Some(who),
            _ => None,
        }
    }
}

/// Operations in the order they are run, written one a line.
#[derive(Clone)]
pub struct Sequence(pub Vec<Op>);

impl Debug for Sequence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|op| write!(f, "\n    {op:?}"))
    }
}

/// Up to `most` operations.
pub fn sequence(op: impl Strategy<Value = Op>, most: usize) -> impl Strategy<Value = Sequence> {
    vec(op, 1..most).prop_map(Sequence)
}

/// A life. Numbers choose among what is there, cyclically; so in all that follows.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// Where none lives, one is admitted.
    Live(u8),
    /// Any that ever was, the youngest first.
    Ever(u8),
    /// Never issued.
    Stranger(u8),
}

#[derive(Clone, Copy, Debug)]
pub enum OfGroup {
    /// The one whose table covers the fewest tokens.
    Shortest,
    Known(u8),
    Raw(u32),
}

#[derive(Clone, Copy, Debug)]
pub enum OfGroups {
    All,
    /// Bits, cut to the groups there are.
    Known(u8),
    Raw(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum OfBlock {
    /// Another one for each in a list, as long as there are enough.
    Free(u8),
    /// Owned or held.
    Used(u8),
    /// The one before in the list once more.
    Again,
    /// A free one where the index has none.
    Null,
    Raw(u32),
}

/// A position or length of a table.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The first that is no hole.
    Front,
    Within(u16),
    FromEnd(u8),
    Raw(u32),
}

/// A number of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    /// All that the shortest table covers.
    All,
    /// Up to that.
    Within(u16),
    Raw(u64),
}

/// A token range.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// All that the shortest of the named tables shows to readers.
    All,
    /// Within that.
    Within {
        start: u16,
        len: u16,
    },
    Raw {
        start: u64,
        end: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum OfEpoch {
    Back(u8),
    Ahead(u8),
}

/// Small pools, in which everything collides.
pub fn small_shapes() -> impl Strategy<Value = Shape> {
    select(vec![
        shape(8, None, &[16], false, 4),
        shape(10, Some(0), &[16], true, 3),
        shape(12, Some(5), &[1], false, 2),
        shape(14, None, &[16, 64], false, 3),
        shape(14, Some(13), &[4, 6], true, 3),
        shape(16, Some(0), &[16, 24, 8], true, 4),
        // The tables of the second group hold three blocks at most.
        shape(12, None, &[1, 1 << 22], true, 3),
    ])
}

/// Room for one or two long tables.
pub fn roomy_shapes() -> impl Strategy<Value = Shape> {
    select(vec![
        shape(40, Some(0), &[2], true, 2),
        shape(48, None, &[4, 6], false, 2),
        shape(120, Some(0), &[16], false, 2),
    ])
}

fn shape(blocks: u32, null: Option<u32>, sizes: &[u32], commits: bool, max_requests: u32) -> Shape {
    let (null, block_sizes) = (null.map(BlockId), sizes.to_vec());
    Shape { blocks, null, block_sizes, commits, max_requests }
}

/// Everything there is.
pub fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![scheduler_ops(), reader_ops()]
}

/// One request that loses positions all the time, around and under pins that come and go.
pub fn hull_op() -> impl Strategy<Value = Op> {
    let who = || Just(Who::Live(0));
    let share = (who(), group(), mostly_used(), 1..4_u8)
        .prop_map(|(who, group, block, times)| Op::ShareOften { who, group, block, times });
    prop_oneof![
        4 => Just(Op::Admit { label: 0 }),
        20 => (who(), 1..12_u8).prop_map(|(who, blocks)| Op::Grow { who, blocks }),
        8 => assign(who(), 1..10),
        4 => share,
        4 => (who(), reach()).prop_map(|(who, tokens)| Op::Commit { who, tokens }),
        20 => vacate(who(), 6),
        12 => truncate(who()),
        12 => replace(who()),
        1 => who().prop_map(|who| Op::Preempt { who }),
        2 => vec(mostly_used(), 1..3).prop_map(|blocks| Op::Invalidate { blocks }),
        2 => Just(Op::BeginStep),
        2 => any::<u8>().prop_map(|step| Op::EndStep { step }),
        20 => Just(Op::Publish),
        30 => (who(), span(), groups())
            .prop_map(|(who, tokens, groups)| Op::PinLoad { who, tokens, groups }),
        4 => (any::<u8>(), span()).prop_map(|(pin, tokens)| Op::Narrow { pin, tokens }),
        30 => any::<u8>().prop_map(|pin| Op::Drop { pin }),
    ]
}

/// Tables of hundreds of positions with holes and replaced positions, and plans of all ages.
pub fn long_table_op() -> impl Strategy<Value = Op> {
    let who = || (0..2_u8).prop_map(Who::Live);
    let share = (who(), group(), block(0, 95), any::<u8>())
        .prop_map(|(who, group, block, times)| Op::ShareOften { who, group, block, times });
    let plan = (who(), span(), groups(), any::<bool>())
        .prop_map(|(who, tokens, groups, load)| Op::Plan { who, tokens, groups, load });
    prop_oneof![
        4 => any::<u8>().prop_map(|label| Op::Admit { label }),
        10 => (who(), 1..60_u8).prop_map(|(who, blocks)| Op::Grow { who, blocks }),
        4 => assign(who(), 1..70),
        20 => share,
        8 => (who(), reach()).prop_map(|(who, tokens)| Op::Commit { who, tokens }),
        20 => vacate(who(), 150),
        12 => truncate(who()),
        12 => replace(who()),
        1 => who().prop_map(|who| Op::Release { who }),
        20 => Just(Op::Publish),
        40 => plan,
        20 => any::<u8>().prop_map(|request| Op::Pin { request }),
        20 => any::<u8>().prop_map(|pin| Op::Drop { pin }),
    ]
}

fn assign(who: impl Strategy<Value = Who>, count: Range<usize>) -> impl Strategy<Value = Op> {
    (who, group(), vec(mostly_free(), count)).prop_map(|(who, group, blocks)| Op::Assign {
        who,
        group,
        blocks,
    })
}

fn vacate(who: impl Strategy<Value = Who>, most: i16) -> impl Strategy<Value = Op> {
    (who, group(), place(), prop_oneof![9 => 0..most, 1 => -2..0_i16])
        .prop_map(|(who, group, from, len)| Op::Vacate { who, group, from, len })
}

fn truncate(who: impl Strategy<Value = Who>) -> impl Strategy<Value = Op> {
    (who, group(), place()).prop_map(|(who, group, len)| Op::Truncate { who, group, len })
}

fn replace(who: impl Strategy<Value = Who>) -> impl Strategy<Value = Op> {
    (who, group(), place(), mostly_free()).prop_map(|(who, group, position, block)| Op::Replace {
        who,
        group,
        position,
        block,
    })
}

fn scheduler_ops() -> impl Strategy<Value = Op> {
    let share = (who(), group(), vec(mostly_used(), 0..4))
        .prop_map(|(who, group, blocks)| Op::Share { who, group, blocks });
    prop_oneof![
        40 => any::<u8>().prop_map(|label| Op::Admit { label }),
        140 => (who(), 1..6_u8).prop_map(|(who, blocks)| Op::Grow { who, blocks }),
        100 => assign(who(), 0..5),
        60 => share,
        60 => (who(), reach()).prop_map(|(who, tokens)| Op::Commit { who, tokens }),
        40 => vacate(who(), 4),
        40 => truncate(who()),
        35 => replace(who()),
        20 => who().prop_map(|who| Op::Preempt { who }),
        20 => who().prop_map(|who| Op::Release { who }),
        20 => vec(mostly_used(), 0..3).prop_map(|blocks| Op::Invalidate { blocks }),
        25 => Just(Op::BeginStep),
        30 => any::<u8>().prop_map(|step| Op::EndStep { step }),
        2 => Just(Op::EndStepThatIsNotOpen),
        80 => Just(Op::Publish),
        35 => Just(Op::Reclaim),
        20 => vec(mostly_used(), 0..4).prop_map(|blocks| Op::Hold { blocks }),
        4 => Just(Op::Reset),
        3 => Just(Op::ResetForce),
        1 => Just(Op::BeginDrain),
    ]
}

fn reader_ops() -> impl Strategy<Value = Op> {
    let plan = (who(), span(), groups(), prop::bool::weighted(0.3))
        .prop_map(|(who, tokens, groups, load)| Op::Plan { who, tokens, groups, load });
    let forge = (who(), span(), groups(), any::<u8>(), epoch(), prop::bool::weighted(0.05))
        .prop_map(|(who, tokens, groups, kind, epoch, foreign)| Op::Forge {
            who,
            tokens,
            groups,
            kind,
            epoch,
            foreign,
        });
    prop_oneof![
        150 => plan,
        50 => forge,
        30 => any::<u8>().prop_map(|request| Op::Replan { request }),
        120 => any::<u8>().prop_map(|request| Op::Pin { request }),
        40 => (who(), span(), groups())
            .prop_map(|(who, tokens, groups)| Op::PinLoad { who, tokens, groups }),
        20 => vec(any::<u8>(), 0..4).prop_map(|requests| Op::PinBatch { requests }),
        30 => (any::<u8>(), span()).prop_map(|(pin, tokens)| Op::Narrow { pin, tokens }),
        150 => any::<u8>().prop_map(|pin| Op::Drop { pin }),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        90 => any::<u8>().prop_map(Who::Live),
        8 => any::<u8>().prop_map(Who::Ever),
        2 => any::<u8>().prop_map(Who::Stranger),
    ]
}

fn group() -> impl Strategy<Value = OfGroup> {
    prop_oneof![
        60 => Just(OfGroup::Shortest),
        38 => any::<u8>().prop_map(OfGroup::Known),
        2 => select(vec![3, 31, 63, 64, u32::MAX]).prop_map(OfGroup::Raw),
    ]
}

fn groups() -> impl Strategy<Value = OfGroups> {
    prop_oneof![
        60 => Just(OfGroups::All),
        38 => any::<u8>().prop_map(OfGroups::Known),
        2 => select(vec![0, 1 << 3, 1 << 31, 1 << 63, u64::MAX >> 1]).prop_map(OfGroups::Raw),
    ]
}

fn mostly_free() -> impl Strategy<Value = OfBlock> {
    block(88, 6)
}

fn mostly_used() -> impl Strategy<Value = OfBlock> {
    block(3, 90)
}

fn block(free: u32, used: u32) -> impl Strategy<Value = OfBlock> {
    prop_oneof![
        free => any::<u8>().prop_map(OfBlock::Free),
        used => any::<u8>().prop_map(OfBlock::Used),
        4 => Just(OfBlock::Null),
        5 => Just(OfBlock::Again),
        1 => (0..60_u32).prop_map(OfBlock::Raw),
        1 => Just(OfBlock::Raw(u32::MAX)),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        15 => Just(Place::Front),
        35 => any::<u16>().prop_map(Place::Within),
        45 => (0..3_u8).prop_map(Place::FromEnd),
        4 => (0..12_u32).prop_map(Place::Raw),
        1 => Just(Place::Raw(u32::MAX)),
    ]
}

fn reach() -> impl Strategy<Value = Reach> {
    prop_oneof![
        60 => Just(Reach::All),
        35 => any::<u16>().prop_map(Reach::Within),
        4 => (0..200_u64).prop_map(Reach::Raw),
        1 => Just(Reach::Raw(u64::MAX)),
    ]
}

fn span() -> impl Strategy<Value = Span> {
    let far = select(vec![0, 1, 1 << 24, 1 << 32, 1 << 48, u64::MAX - 1, u64::MAX]);
    prop_oneof![
        30 => Just(Span::All),
        60 => (any::<u16>(), any::<u16>()).prop_map(|(start, len)| Span::Within { start, len }),
        8 => (0..120_u64, 0..120_u64).prop_map(|(start, end)| Span::Raw { start, end }),
        2 => (far.clone(), far).prop_map(|(start, end)| Span::Raw { start, end }),
    ]
}

fn epoch() -> impl Strategy<Value = OfEpoch> {
    prop_oneof![
        9 => (0..6_u8).prop_map(OfEpoch::Back),
        1 => (0..3_u8).prop_map(OfEpoch::Ahead),
    ]
}
