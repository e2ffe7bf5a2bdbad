//! Reading a script. Any bytes give a script or an error that names the line; nothing is run.

use thiserror::Error;

use super::ast::{Command, IndexSpec, Line, Place, PlanSpec, Query, Script};
use super::pattern::Pattern;
use super::words::{Fault, Words, group, number, span};

/// The largest pool that a script can ask for: an index takes memory for all of its blocks.
pub const MAX_POOL: u32 = 1 << 22;

/// The largest number of groups.
pub const MAX_GROUPS: usize = tenure::Groups::MAX as usize;

/// A line that is not of the language.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("expected {expected}, found {}", found.as_deref().map_or("the end of the line".to_owned(), |word| format!("`{word}`")))]
pub struct ParseError {
    /// Its place in the file, from 1.
    pub line: usize,
    /// What should stand there.
    pub expected: String,
    /// The word that stands there; `None` for the end of the line.
    pub found: Option<String>,
}

/// Reads a whole script.
///
/// ```
/// use tenure_cli::scenario::parse;
/// let script = parse(b"index blocks 8\nadmit r1 -> ok   # a comment").unwrap();
/// assert_eq!(script.lines[1].text, "admit r1 -> ok");
///
/// let error = parse(b"index blocks 8\nassign r1 x").unwrap_err();
/// assert_eq!(error.line, 2);
/// assert_eq!(error.to_string(), "expected a block number, found `x`");
/// ```
///
/// # Errors
/// [`ParseError`] for the first line that is not of the language.
pub fn parse(script: &[u8]) -> Result<Script, ParseError> {
    let mut lines = Vec::new();
    for (i, bytes) in script.split(|&byte| byte == b'\n').enumerate() {
        let number = i + 1;
        let at = |fault: Fault| ParseError {
            line: number,
            expected: fault.expected,
            found: fault.found,
        };
        let bytes = bytes.split(|&byte| byte == b'#').next().unwrap_or_default();
        let text = std::str::from_utf8(bytes)
            .map_err(|_| at(Fault::new("text in UTF-8", Some(&String::from_utf8_lossy(bytes)))))?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let (command, expected) = line(&words).map_err(at)?;
        if lines.is_empty() && !matches!(command, Command::Index(_)) {
            return Err(at(Fault::new(
                "an `index` line before any other command",
                words.first().copied(),
            )));
        }
        lines.push(Line { number, text: words.join(" "), command, expected });
    }
    Ok(Script { lines })
}

fn line(words: &[&str]) -> Result<(Command, Option<Pattern>), Fault> {
    let arrow = words.iter().position(|&word| word == "->");
    let (before, after) = match arrow {
        Some(at) => (words.get(..at).unwrap_or_default(), words.get(at + 1..)),
        None => (words, None),
    };
    let mut rest = Words::new(before);
    let command = command(&mut rest)?;
    rest.end(match arrow {
        Some(_) => "`->`",
        None => "`->` or the end of the line",
    })?;
    Ok((command, after.map(answer).transpose()?))
}

fn answer(words: &[&str]) -> Result<Pattern, Fault> {
    if words.is_empty() {
        return Err(Fault::new("an answer after `->`", None));
    }
    Words::new(words).pattern("one answer", |word| (word != "->").then(|| word.to_owned()))
}

const COMMANDS: &str = "a command (index, admit, assign, share, commit, vacate, truncate, replace, \
    preempt, release, invalidate, step, publish, reset, drain, plan, forge, check, replan, pin, \
    complete, force, hold, jobs, track, next, abandon, expect or audit)";

const LABEL: &str = "the label of a request";
const SAVE: &str = "the name of a save";
const JOB: &str = "the name of a job";
const STEP: &str = "the name of a step";
const TOKENS: &str = "a number of tokens";
const TOKEN_RANGE: &str = "a token range like 0..48";
const POSITION_RANGE: &str = "a position range like 0..2";
const NUMBER: &str = "a number";

fn command(words: &mut Words<'_>) -> Result<Command, Fault> {
    let name = words.next();
    Ok(match name.unwrap_or_default() {
        "index" => Command::Index(index(words)?),
        "admit" => Command::Admit { label: words.name(LABEL)? },
        "assign" => {
            let (label, group) = table(words)?;
            Command::Assign { label, group, blocks: words.blocks()? }
        }
        "share" => {
            let (label, group) = table(words)?;
            Command::Share { label, group, blocks: words.blocks()? }
        }
        "commit" => Command::Commit { label: words.name(LABEL)?, tokens: words.number(TOKENS)? },
        "vacate" => {
            let (label, group) = table(words)?;
            Command::Vacate { label, group, positions: words.span(POSITION_RANGE)? }
        }
        "truncate" => {
            let (label, group) = table(words)?;
            Command::Truncate { label, group, len: words.number("a length in positions")? }
        }
        "replace" => {
            let (label, group) = table(words)?;
            let position = words.number("a position")?;
            Command::Replace { label, group, position, block: words.number("a block number")? }
        }
        "preempt" => Command::Preempt { label: words.name(LABEL)? },
        "release" => Command::Release { label: words.name(LABEL)? },
        "invalidate" => Command::Invalidate { blocks: words.blocks()? },
        "step" => match words.next() {
            Some("begin") => Command::StepBegin { step: words.name(STEP)? },
            Some("end") => Command::StepEnd { step: words.name(STEP)? },
            found => return Err(Fault::new("`begin` or `end`", found)),
        },
        "publish" => Command::Publish,
        "reset" => Command::Reset { force: words.take("force") },
        "drain" => Command::Drain,
        "plan" => Command::Plan(plan(words, None)?),
        "forge" => {
            let mut epoch = None;
            let plan = plan(words, Some(&mut epoch))?;
            let epoch = epoch.ok_or_else(|| Fault::new("`epoch`", words.peek()))?;
            Command::Forge { plan, epoch }
        }
        "check" => Command::Check { save: words.name(SAVE)? },
        "replan" => Command::Replan { save: words.name(SAVE)? },
        "pin" => {
            let save = words.name(SAVE)?;
            words.keyword("as")?;
            let job = words.name(JOB)?;
            let ranks = match words.take("ranks") {
                true => words.list_u32("ranks like 0,1")?,
                false => vec![0],
            };
            Command::Pin { save, job, ranks }
        }
        "complete" => {
            let (job, rank) = (words.name(JOB)?, words.number_u32("a rank")?);
            Command::Complete { job, rank, failed: words.take("failed") }
        }
        "force" => Command::Force { job: words.name(JOB)? },
        "hold" => {
            let mut blocks = vec![words.number("a block number")?];
            while words.peek().and_then(number).is_some() {
                blocks.push(words.number("a block number")?);
            }
            if !words.take("as") {
                return Err(Fault::new("a block number or `as`", words.peek()));
            }
            Command::Hold { blocks, job: words.name(JOB)? }
        }
        "jobs" => {
            words.keyword("max")?;
            let max = words.number("a number of jobs")?;
            let blocks = option(words, "blocks", "a number of blocks")?;
            Command::Jobs { max, blocks }
        }
        "track" => Command::Track { label: words.name(LABEL)?, end: option(words, "end", TOKENS)? },
        "next" => {
            let (save, label) = (words.name(SAVE)?, words.name(LABEL)?);
            Command::Next { save, label, upto: option(words, "upto", TOKENS)? }
        }
        "abandon" => Command::Abandon { save: words.name(SAVE)? },
        "expect" => expect(words)?,
        "audit" => Command::Audit,
        _ => return Err(Fault::new(COMMANDS, name)),
    })
}

/// A label and the group of its table, 0 where none is named.
fn table(words: &mut Words<'_>) -> Result<(String, u64), Fault> {
    Ok((words.name(LABEL)?, words.group().unwrap_or(0)))
}

fn option(words: &mut Words<'_>, keyword: &str, what: &str) -> Result<Option<u64>, Fault> {
    words.take(keyword).then(|| words.number(what)).transpose()
}

fn index(words: &mut Words<'_>) -> Result<IndexSpec, Fault> {
    words.keyword("blocks")?;
    let word = words.peek();
    let blocks = words.number(NUMBER)?;
    let blocks = u32::try_from(blocks)
        .ok()
        .filter(|blocks| (1..=MAX_POOL).contains(blocks))
        .ok_or_else(|| Fault::new(format!("a pool of 1 to {MAX_POOL} blocks"), word))?;
    let mut spec = IndexSpec { blocks, null: None, block_sizes: Vec::new(), commits: false };
    loop {
        if spec.null.is_none() && words.take("null") {
            spec.null = Some(words.number_u32("a block number")?);
        } else if spec.block_sizes.is_empty() && words.take("block-size") {
            let word = words.peek();
            let what = format!("1 to {MAX_GROUPS} block sizes in tokens, like 16 or 16,32");
            spec.block_sizes = words.list_u32(&what)?;
            if spec.block_sizes.len() > MAX_GROUPS || spec.block_sizes.contains(&0) {
                return Err(Fault::new(what, word));
            }
        } else if !spec.commits && words.take("commits") {
            spec.commits = true;
        } else {
            return Ok(spec);
        }
    }
}

/// What is planned; where there is a place for an epoch, it may stand among the options.
fn plan(words: &mut Words<'_>, mut epoch: Option<&mut Option<u64>>) -> Result<PlanSpec, Fault> {
    let (save, label) = (words.name(SAVE)?, words.name(LABEL)?);
    let tokens = words.span(TOKEN_RANGE)?;
    let mut plan = PlanSpec { save, label, tokens, groups: Vec::new(), load: false };
    loop {
        let listed = || words.peek()?.split(',').map(group).collect::<Option<Vec<u64>>>();
        if plan.groups.is_empty()
            && let Some(groups) = listed()
        {
            words.next();
            plan.groups = groups;
        } else if !plan.load && words.take("load") {
            plan.load = true;
        } else if let Some(epoch) = epoch.as_deref_mut()
            && epoch.is_none()
            && words.take("epoch")
        {
            *epoch = Some(words.number("an epoch")?);
        } else {
            return Ok(plan);
        }
    }
}

fn expect(words: &mut Words<'_>) -> Result<Command, Fault> {
    let name = words.next();
    let query = match name.unwrap_or_default() {
        "free" => return place(Place::Free, words),
        "held" => return place(Place::Held, words),
        "owned" => return place(Place::Owned, words),
        "owner" => Query::Owner { block: words.number("a block number")? },
        "table" => {
            let label = words.name(LABEL)?;
            let group = words.group();
            Query::Table { label, group: group.unwrap_or(0), named: group.is_some() }
        }
        "reclaimable" => Query::Reclaimable { label: words.name(LABEL)? },
        "epoch" => Query::Epoch,
        "pending-jobs" => Query::PendingJobs,
        "pins" => Query::Pins { label: words.name(LABEL)? },
        "drained" => Query::Drained,
        "not-drained" => Query::NotDrained,
        "pinned-blocks" => Query::PinnedBlocks { job: words.name(JOB)? },
        "watermark" => Query::Watermark { label: words.name(LABEL)? },
        "in-flight" => Query::InFlight { label: words.name(LABEL)? },
        "ranks-left" => Query::RanksLeft { job: words.name(JOB)? },
        _ => {
            let what = "what to expect (free, held, owned, owner, table, reclaimable, epoch, \
                pending-jobs, pins, drained, not-drained, pinned-blocks, watermark, in-flight or \
                ranks-left)";
            return Err(Fault::new(what, name));
        }
    };
    let values = match &query {
        Query::Owner { .. } => words.pattern(LABEL, |word| Some(word.to_owned()))?,
        Query::Table { .. } => words.pattern("a block number or `-`", |word| match word {
            "-" => Some(word.to_owned()),
            word => in_digits(word),
        })?,
        Query::PinnedBlocks { .. } => words.pattern("a block number", in_digits)?,
        Query::RanksLeft { .. } => words.pattern("a rank", in_digits)?,
        Query::InFlight { .. } => {
            words.pattern(TOKEN_RANGE, |word| span(word).map(|span| span.to_string()))?
        }
        Query::Drained | Query::NotDrained => Pattern::default(),
        _ => one_number(words)?,
    };
    Ok(Command::Expect { query, values })
}

fn place(place: Place, words: &mut Words<'_>) -> Result<Command, Fault> {
    if words.take("blocks") {
        let blocks = if words.peek().is_some() { words.blocks()? } else { Vec::new() };
        return Ok(Command::Expect {
            query: Query::Blocks(place, blocks),
            values: Pattern::default(),
        });
    }
    Ok(Command::Expect { query: Query::Count(place), values: one_number(words)? })
}

fn one_number(words: &mut Words<'_>) -> Result<Pattern, Fault> {
    let word = words.next();
    let one = [word.ok_or_else(|| Fault::new(NUMBER, None))?];
    Words::new(&one).pattern(NUMBER, in_digits)
}

/// A number as answers show it.
fn in_digits(word: &str) -> Option<String> {
    number(word).map(|number| number.to_string())
}
