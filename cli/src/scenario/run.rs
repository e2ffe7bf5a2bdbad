//! Running scripts and telling what differed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::answer::{Answer, Refusal};
use super::ast::{Command, Line, Script};
use super::parse::parse;
use super::world::World;

/// The first line of a script whose answer is not the expected one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Its place in the file, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What it should have answered.
    pub expected: String,
    /// What it answered.
    pub actual: String,
}

/// Runs a script up to the first line that answers something else than expected. What comes after
/// such a line would only tell what follows from it.
///
/// ```
/// use tenure_cli::scenario::{parse, run};
/// let script = parse(b"index blocks 8\nadmit r1\nassign r1 3 3 -> ok").unwrap();
/// let difference = run(&script).unwrap_err();
/// assert_eq!((difference.line, difference.actual.as_str()), (3, "in-use 3"));
/// ```
///
/// # Errors
/// The [`Difference`].
pub fn run(script: &Script) -> Result<(), Difference> {
    let mut world = None;
    script.lines.iter().try_for_each(|line| judge(line, answer(&mut world, &line.command)))
}

fn answer(world: &mut Option<World>, command: &Command) -> Answer {
    if let Command::Index(spec) = command {
        // The old one goes first: two pools need not fit.
        *world = None;
        *world = Some(World::new(spec)?);
        return super::answer::ok();
    }
    match world {
        Some(world) => world.run(command),
        None => Err(Refusal::error("no-index")),
    }
}

fn judge(line: &Line, answer: Answer) -> Result<(), Difference> {
    let refused = answer.is_err();
    let mut actual = match answer {
        Ok(words) | Err(Refusal(words)) => words,
    };
    let expected = match (&line.command, &line.expected) {
        (Command::Expect { query, values }, expected) => {
            let wanted = values.after(&query.to_string());
            match expected {
                None => Some(wanted),
                Some(expected) => {
                    if !refused && wanted.matches(&actual) {
                        actual = "ok".to_owned();
                    }
                    Some(expected.clone())
                }
            }
        }
        (_, expected) => expected.clone(),
    };
    let (fits, expected) = match expected {
        Some(pattern) => (pattern.matches(&actual), pattern.to_string()),
        None => (!refused, "any answer that is not a refusal".to_owned()),
    };
    match fits {
        true => Ok(()),
        false => Err(Difference { line: line.number, text: line.text.clone(), expected, actual }),
    }
}

/// Exit status: every script answered as expected.
const PASSED: u8 = 0;
/// Exit status: some script answered something else.
const DIFFERED: u8 = 1;
/// Exit status: some script could not be read or is not of the language.
const UNREADABLE: u8 = 2;

/// Runs script files and writes, for each that needs it, the first line that differs or is not of
/// the language, and a summary at the end. Answers the exit status: 0 where all scripts passed, 1
/// where some answer differed, 2 where a file could not be read or is not of the language. No file
/// keeps the next from being run, and neither does a reader of `out` that has gone away. With
/// `quiet` there is no summary.
pub fn run_files(files: &[PathBuf], quiet: bool, out: &mut dyn Write) -> u8 {
    let (mut differed, mut unreadable) = (0, 0);
    for file in files {
        let Err((status, report)) = run_file(file) else { continue };
        match status {
            DIFFERED => differed += 1,
            _ => unreadable += 1,
        }
        let _ = writeln!(out, "{report}");
    }
    let passed = files.len() - differed - unreadable;
    let mut summary = format!("{passed} of {} scripts passed", files.len());
    if differed > 0 {
        summary.push_str(&format!(", {differed} differed"));
    }
    if unreadable > 0 {
        summary.push_str(&format!(", {unreadable} could not be read"));
    }
    if !quiet {
        let _ = writeln!(out, "{summary}");
    }
    match (differed, unreadable) {
        (0, 0) => PASSED,
        (_, 0) => DIFFERED,
        _ => UNREADABLE,
    }
}

/// Fails with the exit status that the file calls for, and what to tell.
fn run_file(file: &Path) -> Result<(), (u8, String)> {
    let name = file.display();
    let bytes = fs::read(file).map_err(|error| (UNREADABLE, format!("{name}: {error}")))?;
    let script =
        parse(&bytes).map_err(|error| (UNREADABLE, format!("{name}:{}: {error}", error.line)))?;
    run(&script).map_err(|difference| {
        let Difference { line, text, expected, actual } = difference;
        let told =
            format!("{name}:{line}: {text}\n    expected: {expected}\n    actual:   {actual}");
        (DIFFERED, told)
    })
}
