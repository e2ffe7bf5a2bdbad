//! What else could keep a request's blocks from reuse: locked and lock-free maps with a count for
//! each block, and the published crate `kvbm-logical`.
//!
//! They do less than Tenure: **none of them checks that ownership is unchanged** since the read was
//! planned. A peer's pin finds the request's table as it is now and counts its blocks up; the drop
//! counts them down. To their advantage, their pins borrow from the peer, where a Tenure pin
//! outlives everything.

mod counted;
#[cfg(feature = "kvbm")]
mod kvbm;
mod locked;
mod maps;
mod pair;
mod tenure;

use std::hint::black_box;
use std::sync::Arc;

pub use counted::{Counted, CountedPin, Counts, Map};
pub use locked::{Books, Lock, Locked, LockedPin};
pub use maps::{RwLockMap, StdMutex};
pub use pair::{Pair, Requests};

use crate::rounds::{Operation, Repeated};

/// The blocks of a request. Shared with the pins on it, so that a pin copies no list.
pub type Table = Arc<Vec<u32>>;

/// A thread's handle to something that pins.
pub trait Peer: Clone + Send + 'static {
    /// What it is called in reports.
    const NAME: &'static str;

    /// Keeps the blocks from reuse until it is dropped.
    type Pin<'a>
    where
        Self: 'a;

    /// A peer over tables from [`tables`]; the requests are named by their place in the list.
    ///
    /// # Errors
    /// None that a correct peer gives.
    fn build(tables: &[Table]) -> Result<Self, Box<dyn std::error::Error>>;

    /// Pins the whole table of a request.
    fn pin(&self, request: usize) -> Option<Self::Pin<'_>>;
}

/// Something to be done with each peer.
pub trait Visitor {
    /// Does it with one.
    ///
    /// # Errors
    /// The peer's.
    fn visit<P: Peer>(&mut self) -> Result<(), Box<dyn std::error::Error>>;
}

/// Visits Tenure.
///
/// # Errors
/// The visitor's.
pub fn visit_tenure(visitor: &mut impl Visitor) -> Result<(), Box<dyn std::error::Error>> {
    visitor.visit::<tenure::Tenure>()
}

/// Visits all peers of this build.
///
/// # Errors
/// The visitor's.
pub fn visit_peers(visitor: &mut impl Visitor) -> Result<(), Box<dyn std::error::Error>> {
    visitor.visit::<Locked<maps::StdMutex>>()?;
    visitor.visit::<Locked<maps::ParkingLotMutex>>()?;
    visitor.visit::<Counted<maps::RwLockMap>>()?;
    visitor.visit::<Counted<maps::ParkingLotRwLock>>()?;
    visitor.visit::<Counted<maps::Dash>>()?;
    visitor.visit::<Counted<maps::Papaya>>()?;
    visitor.visit::<Counted<maps::Scc>>()?;
    visitor.visit::<Counted<maps::LeftRight>>()?;
    visitor.visit::<Counted<maps::Swapped>>()?;
    #[cfg(feature = "kvbm")]
    {
        visitor.visit::<kvbm::Handles>()?;
        visitor.visit::<kvbm::Matching>()?;
    }
    Ok(())
}

/// Pin and unpin on one thread, for every peer and each of the table lengths, which are given once
/// each. The operations are called `peer/blocks`.
///
/// # Errors
/// None that correct peers give.
pub fn pin_unpin(lengths: &[u32]) -> Result<Vec<Box<dyn Operation>>, Box<dyn std::error::Error>> {
    struct Collect<'a> {
        lengths: &'a [u32],
        operations: Vec<Box<dyn Operation>>,
    }
    impl Visitor for Collect<'_> {
        fn visit<P: Peer>(&mut self) -> Result<(), Box<dyn std::error::Error>> {
            let peer = P::build(&tables(self.lengths))?;
            for (request, length) in self.lengths.iter().enumerate() {
                let peer = peer.clone();
                if peer.pin(request).is_none() {
                    return Err(format!("{} does not know request {request}", P::NAME).into());
                }
                let name = format!("{}/{length}", P::NAME);
                self.operations.push(Box::new(Repeated::new(name, move || {
                    black_box(&peer.pin(black_box(request)));
                })));
            }
            Ok(())
        }
    }
    let mut collect = Collect { lengths, operations: Vec::new() };
    visit_peers(&mut collect)?;
    Ok(collect.operations)
}

/// One table of each length, over blocks of its own, which lie anywhere in the pool, as they do
/// once a pool has been in use for a while.
pub fn tables(lengths: &[u32]) -> Vec<Table> {
    let pool = lengths.iter().sum::<u32>().next_power_of_two();
    let mut next = 0_u32;
    let each = |&length: &u32| {
        next += length;
        // Every number below a power of two once, in an order that looks like none.
        let scattered = |at: u32| at.wrapping_mul(0x9E37_79B1) % pool;
        Arc::new((next - length..next).map(scattered).collect())
    };
    lengths.iter().map(each).collect()
}

/// How large a pool the blocks of [`tables`] are from.
fn capacity(tables: &[Table]) -> usize {
    tables.iter().map(|table| table.len()).sum::<usize>().next_power_of_two()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_peer_knows_every_table() {
        assert!(!pin_unpin(&[1, 3]).unwrap().is_empty());
    }

    #[test]
    fn tables_have_no_block_in_common() {
        let lengths = [3, 64, 100];
        let tables = tables(&lengths);
        let all: BTreeSet<u32> = tables.iter().flat_map(|table| table.iter().copied()).collect();
        assert_eq!(all.len() as u32, lengths.iter().sum::<u32>());
        assert!(all.last().is_some_and(|&last| (last as usize) < capacity(&tables)));
    }

    #[test]
    fn two_threads_take_some_time() {
        let pair = Pair::<tenure::Tenure>::new(2).unwrap();
        for requests in [Requests::Different, Requests::Same] {
            let ns = pair.run(requests, std::time::Duration::from_millis(1));
            assert!(ns.is_finite() && ns > 0.0);
        }
    }

    #[test]
    fn names_are_told_apart() {
        struct Names(Vec<&'static str>);
        impl Visitor for Names {
            fn visit<P: Peer>(&mut self) -> Result<(), Box<dyn std::error::Error>> {
                self.0.push(P::NAME);
                Ok(())
            }
        }
        let mut names = Names(Vec::new());
        visit_tenure(&mut names).unwrap();
        visit_peers(&mut names).unwrap();
        let all = names.0.len();
        names.0.sort();
        names.0.dedup();
        assert_eq!(names.0.len(), all);
    }
}
