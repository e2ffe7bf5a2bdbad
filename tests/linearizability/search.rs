//! Looks for an order of the calls of a history that a sequential life could have answered so (Wing
//! and Gong's search, with the states already tried remembered, as Lowe does).

use std::collections::HashSet;

use crate::history::{Event, History};
use crate::spec::Life;

/// States that are tried for one history at most, beside one for each call.
const MOST_STATES: usize = 400_000;

pub enum Found {
    /// There is such an order.
    Linearizable,
    /// There is none. After so many calls at best, in some order.
    Not { explained: usize },
    /// The search was given up.
    Cut,
}

/// How far each thread's calls have been put in order, and the state then.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node {
    next: Vec<usize>,
    life: Life,
}

pub fn search(history: &History) -> Found {
    let start = Node { next: vec![0; history.threads.len()], life: Life::default() };
    let (mut tried, mut open, mut explained) = (HashSet::new(), vec![start], 0);
    let mut states = 0;
    while let Some(node) = open.pop() {
        states += 1;
        let done: usize = node.next.iter().sum();
        explained = explained.max(done);
        if done == history.len() {
            return Found::Linearizable;
        }
        if states > history.len() + MOST_STATES {
            return Found::Cut;
        }
        let upcoming = upcoming(history, &node);
        // A call that began after another returned comes after it.
        let first_return = upcoming.iter().map(|(_, event)| event.returned).min().unwrap_or(0);
        let mut candidates: Vec<_> =
            upcoming.into_iter().filter(|(_, event)| event.called < first_return).collect();
        // With one candidate there is nothing to try again.
        if candidates.len() > 1 && !tried.insert(node.clone()) {
            continue;
        }
        // The earliest return last, so that it is tried first: it is the likeliest.
        candidates.sort_by_key(|(_, event)| std::cmp::Reverse(event.returned));
        for (thread, event) in candidates {
            let mut after = node.clone();
            if after.life.apply(&event.op) {
                after.next[thread] += 1;
                open.push(after);
            }
        }
    }
    Found::Not { explained }
}

fn upcoming<'h>(history: &'h History, node: &Node) -> Vec<(usize, &'h Event)> {
    let threads = history.threads.iter().zip(&node.next).enumerate();
    threads.filter_map(|(at, (events, &next))| Some((at, events.get(next)?))).collect()
}
