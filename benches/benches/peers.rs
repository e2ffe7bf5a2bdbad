//! Pin and unpin of one request's whole table, beside what else could be used: one thread, two
//! threads on different requests, two on the same. With the peer that is dear to build:
//! `cargo bench -p tenure-benches --features kvbm --bench peers`.
//!
//! **None of the peers checks that ownership is unchanged.**

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use tenure_benches::ops::PIN_BLOCKS;
use tenure_benches::peers::{Pair, Peer, Requests, Visitor, tables, visit_peers, visit_tenure};

/// How long two threads pin for a sample.
const PAIR_TIME: Duration = Duration::from_millis(5);

struct Bench<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    blocks: u32,
}

impl Visitor for Bench<'_> {
    fn visit<P: Peer>(&mut self) -> Result<(), Box<dyn Error>> {
        let peer = P::build(&tables(&[self.blocks]))?;
        self.group.bench_function(format!("{}, one thread", P::NAME), |bencher| {
            bencher.iter(|| black_box(&peer.pin(black_box(0))).is_some());
        });
        let pair = Pair::<P>::new(self.blocks)?;
        for (requests, which) in [(Requests::Different, "different"), (Requests::Same, "same")] {
            let name = format!("{}, two threads, {which}", P::NAME);
            self.group.bench_function(name, |bencher| {
                bencher.iter_custom(|calls| {
                    let ns = pair.run(requests, PAIR_TIME);
                    Duration::from_nanos((ns * calls as f64) as u64)
                });
            });
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    for blocks in PIN_BLOCKS {
        let group = criterion.benchmark_group(format!("pin + unpin of {blocks} blocks"));
        let mut bench = Bench { group, blocks };
        visit_tenure(&mut bench)?;
        visit_peers(&mut bench)?;
        bench.group.finish();
    }
    criterion.final_summary();
    Ok(())
}
