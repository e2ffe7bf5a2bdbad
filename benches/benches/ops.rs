//! Every operation alone: `cargo bench -p tenure-benches --bench ops`.
//!
//! Times are CPU times of the thread.

use std::error::Error;

use criterion::Criterion;
use tenure_benches::ops;
use tenure_benches::rounds::time_of;

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default().configure_from_args();
    for mut operation in ops::all()? {
        let name = operation.name().to_owned();
        criterion.bench_function(&name, |bencher| {
            bencher.iter_custom(|calls| time_of(&mut *operation, calls));
        });
    }
    criterion.final_summary();
    Ok(())
}
