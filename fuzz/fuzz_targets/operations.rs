//! Sequences of calls, answered by the index and by the sequential reference model of the tests. The
//! bytes are the randomness from which the calls are drawn, as in the property tests.

#![no_main]

#[path = "../../tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use model::driver::run;
use model::ops::{any_op, hull_op, long_table_op, roomy_shapes, sequence, small_shapes};

fn draw<T>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>) -> Option<T> {
    Some(strategy.new_tree(runner).ok()?.current())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, randomness)) = bytes.split_first() else { return };
    let rng = TestRng::from_seed(RngAlgorithm::PassThrough, randomness);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let drawn = match kind % 3 {
        0 => draw(&mut runner, (small_shapes(), sequence(any_op(), 120))),
        1 => draw(&mut runner, (roomy_shapes(), sequence(hull_op(), 120))),
        _ => draw(&mut runner, (roomy_shapes(), sequence(long_table_op(), 80))),
    };
    if let Some((shape, calls)) = drawn
        && let Err(difference) = run(shape, &calls, kind & 0x80 != 0)
    {
        panic!("{difference}");
    }
});
