//! Random operation sequences, answered by the index and by the sequential model in `model`.
//!
//! `PROPTEST_CASES` sets how many sequences each test runs.

mod model;
#[path = "model/stories.rs"]
mod stories;

use proptest::prelude::*;

use model::driver::run;
use model::ops::{
    Op, Sequence, Who, any_op, hull_op, long_table_op, roomy_shapes, sequence, small_shapes,
};
use model::shape::Shape;

/// `cases` unless the environment says how many.
fn config(cases: u32) -> ProptestConfig {
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default().cases,
        None => cases,
    };
    // A failure is told as a list of calls, which makes a test that outlives changes to the
    // strategies; a stored seed does not.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn index_and_model_agree(
        shape in small_shapes(),
        ops in sequence(any_op(), 120),
        scheduler_first in any::<bool>(),
    ) {
        run(shape, &ops, scheduler_first)?;
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn index_and_model_agree_on_what_pins_keep(
        shape in roomy_shapes(),
        ops in sequence(hull_op(), 120),
        scheduler_first in any::<bool>(),
    ) {
        run(shape, &ops, scheduler_first)?;
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn index_and_model_agree_on_long_tables(
        shape in roomy_shapes(),
        ops in sequence(long_table_op(), 80),
        scheduler_first in any::<bool>(),
    ) {
        run(shape, &ops, scheduler_first)?;
    }
}

/// More lives in one slot than a lease remembers the ends of.
#[test]
fn index_and_model_agree_on_how_old_lives_ended() {
    let shape =
        Shape { blocks: 4, null: None, block_sizes: vec![16], commits: false, max_requests: 1 };
    let who = Who::Live(0);
    let ends = (0..150).flat_map(|life| match life % 3 {
        0 => vec![Op::Grow { who, blocks: 1 }, Op::Release { who }],
        1 => vec![Op::Preempt { who }],
        _ => vec![Op::Preempt { who }, Op::Publish],
    });
    run(shape, &Sequence(ends.collect()), false).unwrap();
}
