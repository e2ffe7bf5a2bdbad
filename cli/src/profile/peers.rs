//! Pin and unpin beside what else could be used.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tenure_benches::ops::PIN_BLOCKS;
use tenure_benches::peers::{self, Pair, Peer, Requests, Visitor};
use tenure_benches::rounds;

use super::Failure;
use super::operations::{ByNumber, Figures};

/// What peers do not do.
pub const NOTE: &str = "none of the peers checks that ownership is unchanged";

/// The table lengths over which two threads pin.
const PAIR_BLOCKS: [u32; 4] = [1, 64, 512, 4096];

/// Nanoseconds of pin and unpin of a request's whole table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Peers {
    /// What peers do not do.
    pub peers_note: &'static str,
    /// One thread, by peer and blocks.
    pub peers: BTreeMap<String, ByNumber>,
    /// Two threads, by the clock on the wall, the fastest of some rounds, by peer (and Tenure) and
    /// blocks.
    pub two_threads: BTreeMap<String, TwoThreads>,
}

/// Nanoseconds that each of two threads takes while both pin.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct TwoThreads {
    /// On different requests.
    pub different: ByNumber,
    /// On the same request.
    pub same: ByNumber,
}

/// Runs all peers in interleaved rounds.
pub fn measure(rounds: usize, slice: Duration, progress: impl FnMut()) -> Result<Peers, Failure> {
    let mut operations = peers::pin_unpin(&PIN_BLOCKS)?;
    let figures = Figures(rounds::measure(&mut operations, rounds, slice, progress));
    drop(operations);
    let mut named = BTreeMap::new();
    for figure in &figures.0 {
        if let Some((name, _)) = figure.name.rsplit_once('/') {
            named.entry(name.to_owned()).or_insert_with(|| figures.by_number(name));
        }
    }
    let mut pairs = Pairs { rounds: rounds.min(11), slice, found: BTreeMap::new() };
    peers::visit_tenure(&mut pairs)?;
    peers::visit_peers(&mut pairs)?;
    Ok(Peers { peers_note: NOTE, peers: named, two_threads: pairs.found })
}

struct Pairs {
    rounds: usize,
    slice: Duration,
    found: BTreeMap<String, TwoThreads>,
}

impl Visitor for Pairs {
    fn visit<P: Peer>(&mut self) -> Result<(), Failure> {
        let mut found = TwoThreads::default();
        for blocks in PAIR_BLOCKS {
            let pair = Pair::<P>::new(blocks)?;
            found.different.insert(blocks, self.fastest(&pair, Requests::Different));
            found.same.insert(blocks, self.fastest(&pair, Requests::Same));
        }
        self.found.insert(P::NAME.to_owned(), found);
        Ok(())
    }
}

impl Pairs {
    /// The fastest round: on a machine that has other things to do, the others tell how often the
    /// threads were stopped.
    fn fastest<P: Peer>(&self, pair: &Pair<P>, requests: Requests) -> f64 {
        (0..self.rounds).map(|_| pair.run(requests, self.slice * 4)).fold(f64::INFINITY, f64::min)
    }
}
