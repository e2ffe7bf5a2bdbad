//! Sequences of calls, answered by the index and by the sequential reference model of the tests.

#![no_main]

#[path = "operations/decode.rs"]
mod decode;
#[path = "../../tests/model/mod.rs"]
mod model;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

use model::driver::run;
use model::ops::Sequence;

/// Each call is followed by a comparison of everything that can be seen.
const LONGEST: usize = 150;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let Ok(shape) = decode::shape(&mut bytes) else { return };
    let scheduler_first = bytes.arbitrary().unwrap_or_default();
    let mut calls = Vec::new();
    while calls.len() < LONGEST
        && !bytes.is_empty()
        && let Ok(call) = decode::op(&mut bytes)
    {
        calls.push(call);
    }
    if let Err(difference) = run(shape, &Sequence(calls), scheduler_first) {
        panic!("{difference}");
    }
});
