//! The words of the script language.

use std::fmt::{self, Display, Write};

use crate::error::{Error, Refused, Stale};
use crate::geometry::Geometry;
use crate::ids::{BlockId, GroupId, Groups};

/// A label as one word that the language takes for a name.
pub(super) fn label(label: &str) -> String {
    let mut word = String::with_capacity(label.len());
    for c in label.chars() {
        if c.is_whitespace() || c.is_control() || matches!(c, '#' | '%') {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(word, "%{byte:02x}");
            }
        } else {
            word.push(c);
        }
    }
    match word.as_str() {
        "" => "%".to_owned(),
        // These stand for others.
        "*" => "%2a".to_owned(),
        "..." => "%2e..".to_owned(),
        "->" => "%2d>".to_owned(),
        _ => word,
    }
}

/// The settings of an index.
pub(super) fn index(geometry: &Geometry) -> String {
    let mut line = format!("index blocks {}", geometry.blocks());
    if let Some(null) = geometry.null_block() {
        let _ = write!(line, " null {null}");
    }
    let sizes = geometry.all_groups().iter().filter_map(|group| geometry.block_size(group));
    let sizes: Vec<String> = sizes.map(|size| size.to_string()).collect();
    let _ = write!(line, " block-size {}", sizes.join(","));
    if geometry.tracks_commits() {
        line.push_str(" commits");
    }
    line
}

/// Blocks, each with a blank before it.
pub(super) struct List<'a>(pub(super) &'a [BlockId]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|block| write!(f, " {block}"))
    }
}

/// A table of a life: its group with a blank before it, where it is not the first.
pub(super) struct Of(pub(super) GroupId);

impl Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            GroupId(0) => Ok(()),
            group => write!(f, " {group}"),
        }
    }
}

/// The groups of a plan with a blank before them, where they are not all.
pub(super) fn groups(groups: Groups, geometry: &Geometry) -> String {
    if groups == geometry.all_groups() {
        return String::new();
    }
    let groups: Vec<String> = groups.iter().map(|group| group.to_string()).collect();
    format!(" {}", groups.join(","))
}

/// The answer of a call that was refused; `None` where the language has no word for it.
pub(super) fn refused(error: &Error) -> Option<String> {
    Some(match error {
        Error::AlreadyLive { .. } => "already-live".to_owned(),
        Error::AlreadyReleased { .. } => "already-released".to_owned(),
        Error::UnknownGroup { group } => format!("error unknown-group {group}"),
        Error::UnknownBlock { block, .. } => format!("error unknown-block {block}"),
        Error::NullBlock { block } => format!("error null-block {block}"),
        Error::InUse { block, .. } => format!("in-use {block}"),
        Error::NotOwned { block } => format!("not-owned {block}"),
        Error::BeyondTable { .. } => "beyond-table".to_owned(),
        Error::BadRange(_) => "error bad-range".to_owned(),
        Error::TableFull { .. } => "error table-full".to_owned(),
        Error::Busy { blocks } => format!("busy {blocks}"),
        Error::Draining => "stale draining".to_owned(),
        Error::UnknownKey { .. }
        | Error::TooManyRequests { .. }
        | Error::TooOftenUsed { .. }
        | Error::UnknownStep { .. } => return None,
    })
}

/// The answer of a pin.
pub(super) fn pinned(answer: Result<(), &Refused>, geometry: &Geometry) -> String {
    match answer {
        Ok(()) => "ok".to_owned(),
        Err(Refused::Budget(_)) => "refused budget".to_owned(),
        Err(Refused::Stale(reason)) => stale(reason, geometry),
    }
}

pub(super) fn stale(stale: &Stale, geometry: &Geometry) -> String {
    let name = stale.name();
    let place = |group: &GroupId, number: &u32| match geometry.groups() {
        1 => format!(" {number}"),
        _ => format!(" {group} {number}"),
    };
    let rest = match stale {
        Stale::Truncated { group, len } => place(group, len),
        Stale::Hole { group, position } | Stale::Reassigned { group, position } => {
            place(group, position)
        }
        Stale::NotCommitted { committed } => format!(" {committed}"),
        _ => String::new(),
    };
    format!("stale {name}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_one_word_and_no_two_are_the_same() {
        let labels = [
            "r1", "chat 7", "a#b", "a%23b", "", "%", "*", "%2a", "...", "->", "\u{2003}", "日本",
            "\n",
        ];
        let words: Vec<String> = labels.iter().map(|l| label(l)).collect();
        for word in &words {
            assert_eq!(word.split_whitespace().collect::<Vec<_>>(), [word.as_str()]);
            assert!(!word.contains('#') && !matches!(word.as_str(), "*" | "..." | "->"));
        }
        let distinct: std::collections::HashSet<&String> = words.iter().collect();
        assert_eq!(distinct.len(), labels.len(), "{words:?}");
        assert_eq!(label("日本"), "日本");
    }
}
