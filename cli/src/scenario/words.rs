//! The words of one line, taken one after another.

use super::ast::Span;
use super::pattern::{Pattern, Slot};

/// What a line should have had, and what it has instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub(super) expected: String,
    /// `None` at the end of the line.
    pub(super) found: Option<String>,
}

impl Fault {
    pub(super) fn new(expected: impl Into<String>, found: Option<&str>) -> Fault {
        Fault { expected: expected.into(), found: found.map(str::to_owned) }
    }
}

pub(super) struct Words<'a> {
    rest: std::slice::Iter<'a, &'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [&'a str]) -> Words<'a> {
        Words { rest: words.iter() }
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.rest.as_slice().first().copied()
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.rest.next().copied()
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        if there {
            self.next();
        }
        there
    }

    /// Takes the next word, which must be this one.
    pub(super) fn keyword(&mut self, word: &str) -> Result<(), Fault> {
        match self.next() {
            Some(found) if found == word => Ok(()),
            found => Err(Fault::new(format!("`{word}`"), found)),
        }
    }

    /// A name or label: any word that does not stand for others.
    pub(super) fn name(&mut self, what: &str) -> Result<String, Fault> {
        match self.next() {
            Some(word) if word != "*" && word != "..." => Ok(word.to_owned()),
            found => Err(Fault::new(what, found)),
        }
    }

    pub(super) fn number(&mut self, what: &str) -> Result<u64, Fault> {
        let word = self.next();
        word.and_then(number).ok_or_else(|| Fault::new(what, word))
    }

    pub(super) fn number_u32(&mut self, what: &str) -> Result<u32, Fault> {
        let word = self.next();
        let value = word.and_then(number).and_then(|value| u32::try_from(value).ok());
        value.ok_or_else(|| Fault::new(what, word))
    }

    pub(super) fn span(&mut self, what: &str) -> Result<Span, Fault> {
        let word = self.next();
        word.and_then(span).ok_or_else(|| Fault::new(what, word))
    }

    /// A group like `g1`, where the next word is one.
    pub(super) fn group(&mut self) -> Option<u64> {
        let group = self.peek().and_then(group)?;
        self.next();
        Some(group)
    }

    /// Numbers up to the end of the line, at least one.
    pub(super) fn blocks(&mut self) -> Result<Vec<u64>, Fault> {
        let mut blocks = vec![self.number("a block number")?];
        while self.peek().is_some() {
            blocks.push(self.number("a block number")?);
        }
        Ok(blocks)
    }

    /// A word of numbers with commas between them.
    pub(super) fn list_u32(&mut self, what: &str) -> Result<Vec<u32>, Fault> {
        let word = self.next();
        let parse = |word: &str| {
            word.split(',').map(|part| number(part).and_then(|n| u32::try_from(n).ok())).collect()
        };
        word.and_then(parse).ok_or_else(|| Fault::new(what, word))
    }

    pub(super) fn end(&mut self, what: &str) -> Result<(), Fault> {
        match self.next() {
            None => Ok(()),
            found => Err(Fault::new(what, found)),
        }
    }

    /// The rest of the line as an expected answer; `form` says of each word that stands for itself
    /// how it reads, or that it cannot stand here.
    pub(super) fn pattern(
        &mut self,
        what: &str,
        form: impl Fn(&str) -> Option<String>,
    ) -> Result<Pattern, Fault> {
        let mut slots = Vec::new();
        while let Some(word) = self.next() {
            match word {
                "..." => {
                    self.end("the end of the line after `...`")?;
                    return Ok(Pattern { slots, open: true });
                }
                "*" => slots.push(Slot::Any),
                word => {
                    let word = form(word).ok_or_else(|| Fault::new(what, Some(word)))?;
                    slots.push(Slot::Word(word));
                }
            }
        }
        Ok(Pattern { slots, open: false })
    }
}

/// A decimal number without a sign.
pub(super) fn number(word: &str) -> Option<u64> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if digits { word.parse().ok() } else { None }
}

pub(super) fn span(word: &str) -> Option<Span> {
    let (start, end) = word.split_once("..")?;
    Some(Span { start: number(start)?, end: number(end)? })
}

pub(super) fn group(word: &str) -> Option<u64> {
    number(word.strip_prefix('g')?)
}
