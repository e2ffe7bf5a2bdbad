//! What a saver has to do, by the step it is due at.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A queue by due step; what is due at the same step comes out in the order it was put in.
pub struct Agenda<T> {
    entries: BinaryHeap<Entry<T>>,
    serial: u64,
}

struct Entry<T> {
    due: u64,
    serial: u64,
    what: T,
}

impl<T> Agenda<T> {
    /// Nothing to do.
    pub fn new() -> Agenda<T> {
        Agenda { entries: BinaryHeap::new(), serial: 0 }
    }

    /// Notes what is to be done at step `due`.
    pub fn at(&mut self, due: u64, what: T) {
        self.serial += 1;
        self.entries.push(Entry { due, serial: self.serial, what });
    }

    /// Takes out what is due at step `now` or earlier, earliest first.
    pub fn pop(&mut self, now: u64) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.entries.pop().map(|entry| entry.what)
    }

    /// The step at which something is due next.
    pub fn next_due(&self) -> Option<u64> {
        self.entries.peek().map(|entry| entry.due)
    }
}

impl<T> Ord for Entry<T> {
    /// The entry that is due first is the greatest, as the heap gives out the greatest.
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        (other.due, other.serial).cmp(&(self.due, self.serial))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_out_what_is_due_in_order() {
        let mut agenda = Agenda::new();
        for (due, what) in [(5, 'c'), (2, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            agenda.at(due, what);
        }
        let due: String = std::iter::from_fn(|| agenda.pop(5)).collect();
        assert_eq!((due.as_str(), agenda.next_due()), ("abcd", Some(9)));
    }
}
