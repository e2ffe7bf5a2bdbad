//! Calls out of bytes. Numbers in them are small, or choose among what is there, most of the time: see
//! the strategies of `tests/model/ops.rs`, which mean the same.

use arbitrary::{Result, Unstructured};

use crate::model::ops::{OfBlock, OfEpoch, OfGroup, OfGroups, Op, Place, Reach, Span, Who};
use crate::model::shape::Shape;
use tenure::BlockId;

pub fn shape(u: &mut Unstructured<'_>) -> Result<Shape> {
    let choices: [(u32, Option<u32>, &[u32], bool, u32); 6] = [
        (8, None, &[16], false, 4),
        (10, Some(0), &[16], true, 3),
        (12, Some(5), &[1], false, 2),
        (14, Some(13), &[4, 6], true, 3),
        (16, Some(0), &[16, 24, 8], true, 4),
        (120, None, &[16], true, 2),
    ];
    let &(blocks, null, sizes, commits, max_requests) = u.choose(&choices)?;
    let (null, block_sizes) = (null.map(BlockId), sizes.to_vec());
    Ok(Shape { blocks, null, block_sizes, commits, max_requests })
}

pub fn op(u: &mut Unstructured<'_>) -> Result<Op> {
    Ok(match u.int_in_range(0..=35)? {
        0 => Op::Admit { label: u.arbitrary()? },
        1..=3 => Op::Grow { who: who(u)?, blocks: u.int_in_range(0..=12)? },
        4 | 5 => Op::Assign { who: who(u)?, group: group(u)?, blocks: blocks(u)? },
        6 => Op::Share { who: who(u)?, group: group(u)?, blocks: blocks(u)? },
        7 => {
            let (who, group, block) = (who(u)?, group(u)?, block(u)?);
            Op::ShareOften { who, group, block, times: u.arbitrary()? }
        }
        8 => Op::Commit { who: who(u)?, tokens: reach(u)? },
        9 | 10 => {
            let (who, group, from) = (who(u)?, group(u)?, place(u)?);
            Op::Vacate { who, group, from, len: u.int_in_range(-1..=8)? }
        }
        11 | 12 => Op::Truncate { who: who(u)?, group: group(u)?, len: place(u)? },
        13 | 14 => {
            let (who, group, position) = (who(u)?, group(u)?, place(u)?);
            Op::Replace { who, group, position, block: block(u)? }
        }
        15 => Op::Preempt { who: who(u)? },
        16 => Op::Release { who: who(u)? },
        17 => Op::Invalidate { blocks: blocks(u)? },
        18 => Op::BeginStep,
        19 => Op::EndStep { step: u.arbitrary()? },
        20 => Op::EndStepThatIsNotOpen,
        21 | 22 => Op::Publish,
        23 => Op::Reclaim,
        24 => Op::Hold { blocks: blocks(u)? },
        // Rare: little can happen after them.
        25 => match u.int_in_range(0..=15)? {
            0 => Op::BeginDrain,
            1 => Op::ResetForce,
            _ => Op::Reset,
        },
        26 | 27 => {
            let (who, tokens, groups) = (who(u)?, span(u)?, groups(u)?);
            Op::Plan { who, tokens, groups, load: u.arbitrary()? }
        }
        28 => {
            let (who, tokens, groups) = (who(u)?, span(u)?, groups(u)?);
            let (kind, epoch) = (u.arbitrary()?, epoch(u)?);
            Op::Forge { who, tokens, groups, kind, epoch, foreign: u.arbitrary()? }
        }
        29 => Op::Replan { request: u.arbitrary()? },
        30 | 31 => Op::Pin { request: u.arbitrary()? },
        32 => Op::PinLoad { who: who(u)?, tokens: span(u)?, groups: groups(u)? },
        33 => {
            let count = u.int_in_range(0..=5)?;
            Op::PinBatch { requests: (0..count).map(|_| u.arbitrary()).collect::<Result<_>>()? }
        }
        34 => Op::Narrow { pin: u.arbitrary()?, tokens: span(u)? },
        _ => Op::Drop { pin: u.arbitrary()? },
    })
}

fn who(u: &mut Unstructured<'_>) -> Result<Who> {
    Ok(match u.int_in_range(0..=15)? {
        0 => Who::Stranger(u.arbitrary()?),
        1 | 2 => Who::Ever(u.arbitrary()?),
        at => Who::Live(at),
    })
}

fn group(u: &mut Unstructured<'_>) -> Result<OfGroup> {
    Ok(match u.int_in_range(0..=15)? {
        0 => OfGroup::Raw(u.arbitrary()?),
        1..=4 => OfGroup::Shortest,
        at => OfGroup::Known(at),
    })
}

fn groups(u: &mut Unstructured<'_>) -> Result<OfGroups> {
    Ok(match u.int_in_range(0..=15)? {
        0 => OfGroups::Raw(u.arbitrary()?),
        1..=4 => OfGroups::Known(u.arbitrary()?),
        _ => OfGroups::All,
    })
}

fn block(u: &mut Unstructured<'_>) -> Result<OfBlock> {
    Ok(match u.int_in_range(0..=15)? {
        0 => OfBlock::Raw(u.arbitrary()?),
        1 => OfBlock::Null,
        2 => OfBlock::Again,
        3..=6 => OfBlock::Used(u.arbitrary()?),
        at => OfBlock::Free(at),
    })
}

fn blocks(u: &mut Unstructured<'_>) -> Result<Vec<OfBlock>> {
    let count = u.int_in_range(0..=6)?;
    (0..count).map(|_| block(u)).collect()
}

fn place(u: &mut Unstructured<'_>) -> Result<Place> {
    Ok(match u.int_in_range(0..=15)? {
        0 => Place::Raw(u.arbitrary()?),
        1..=4 => Place::Front,
        5..=8 => Place::FromEnd(u.int_in_range(0..=6)?),
        _ => Place::Within(u.arbitrary()?),
    })
}

fn reach(u: &mut Unstructured<'_>) -> Result<Reach> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Reach::Raw(u.arbitrary()?),
        1..=4 => Reach::All,
        _ => Reach::Within(u.arbitrary()?),
    })
}

fn span(u: &mut Unstructured<'_>) -> Result<Span> {
    Ok(match u.int_in_range(0..=15)? {
        0 => Span::Raw { start: u.arbitrary()?, end: u.arbitrary()? },
        1..=6 => Span::All,
        _ => Span::Within { start: u.arbitrary()?, len: u.arbitrary()? },
    })
}

fn epoch(u: &mut Unstructured<'_>) -> Result<OfEpoch> {
    Ok(match u.int_in_range(0..=7)? {
        0 => OfEpoch::Ahead(u.arbitrary()?),
        _ => OfEpoch::Back(u.int_in_range(0..=8)?),
    })
}
