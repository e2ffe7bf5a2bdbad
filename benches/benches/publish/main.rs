//! One step's changes made visible to readers, at 64, 1,024 and 65,536 live requests:
//! `cargo bench -p tenure-benches --bench publish`.
//!
//! The step appends a block to 64 requests, ends 8, begins 8, and publishes. Tenure does it beside
//! a read-write lock, a persistent map behind an `ArcSwap`, and a map that is copied whole. They do
//! less: the persistent and the copied map keep no counts at all.

mod copied;
mod persistent;

use std::error::Error;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use tenure_benches::ops::LIVE;
use tenure_benches::step::{Engine, MutexStore, RwLockStore, Sizes, Store, TenureStore};

fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    sizes: Sizes,
    mut store: impl Store,
) -> Result<(), Box<dyn Error>> {
    let mut engine = Engine::start(sizes, &mut store)?;
    let mut refused = None;
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|steps| {
            let mut spent = Duration::ZERO;
            for _ in 0..steps {
                engine.prepare();
                let start = Instant::now();
                let applied = engine.apply(&mut store);
                spent += start.elapsed();
                refused = refused.take().or(applied.err());
                engine.settle(&mut store);
            }
            spent
        });
    });
    refused.map_or(Ok(()), |error| Err(error.into()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for live in LIVE {
        let sizes = Sizes::live(live);
        let mut group = criterion.benchmark_group(format!("step with {live} live requests"));
        bench(&mut group, "tenure", sizes, TenureStore::new(&sizes)?)?;
        bench(&mut group, "mutex", sizes, MutexStore::new(&sizes))?;
        bench(&mut group, "rwlock", sizes, RwLockStore::new(&sizes))?;
        let persistent = persistent::Persistent::new(&sizes);
        bench(&mut group, "ArcSwap of a persistent map", sizes, persistent)?;
        bench(&mut group, "ArcSwap of a copied map", sizes, copied::Copied::new(&sizes))?;
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}
