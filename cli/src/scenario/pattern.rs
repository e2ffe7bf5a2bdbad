//! Expected answers: words, `*` for any one word, `...` for the rest.

use std::fmt;

/// An expected answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pattern {
    pub(super) slots: Vec<Slot>,
    /// Ends with `...`.
    pub(super) open: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Word(String),
    Any,
}

impl Pattern {
    /// Whether an answer is of this form.
    pub fn matches(&self, answer: &str) -> bool {
        let mut words = answer.split_whitespace();
        let fits = self.slots.iter().all(|slot| match (slot, words.next()) {
            (_, None) => false,
            (Slot::Any, Some(_)) => true,
            (Slot::Word(expected), Some(word)) => expected == word,
        });
        fits && (self.open || words.next().is_none())
    }

    /// The same with these words before it.
    pub(super) fn after(&self, words: &str) -> Pattern {
        let before = words.split_whitespace().map(|word| Slot::Word(word.to_owned()));
        Pattern { slots: before.chain(self.slots.iter().cloned()).collect(), open: self.open }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.slots.iter().map(|slot| match slot {
            Slot::Word(word) => word.as_str(),
            Slot::Any => "*",
        });
        for (i, word) in words.chain(self.open.then_some("...")).enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(words: &str, open: bool) -> Pattern {
        let slots = words.split_whitespace().map(|word| match word {
            "*" => Slot::Any,
            word => Slot::Word(word.to_owned()),
        });
        Pattern { slots: slots.collect(), open }
    }

    #[test]
    fn a_star_is_exactly_one_word() {
        assert!(pattern("freed * held 2", false).matches("freed 0 held 2"));
        assert!(!pattern("freed * held 2", false).matches("freed held 2"));
        assert!(!pattern("epoch *", false).matches("epoch"));
        assert!(!pattern("ok", false).matches("ok 0..16"));
    }

    #[test]
    fn three_dots_are_any_rest_or_none() {
        assert!(pattern("stale", true).matches("stale hole g1 3"));
        assert!(pattern("ok", true).matches("ok"));
        assert!(pattern("", true).matches("anything at all"));
        assert!(!pattern("stale", true).matches("ok"));
    }

    #[test]
    fn it_is_shown_as_it_is_written() {
        assert_eq!(pattern("freed * held 2", true).to_string(), "freed * held 2 ...");
        assert_eq!(pattern("1 2", false).after("table r1").to_string(), "table r1 1 2");
    }
}
