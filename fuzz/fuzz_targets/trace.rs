//! Trace files from anywhere: each is refused with a reason, or read as requests in order of arrival.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_cli::trace::Trace;

fuzz_target!(|bytes: &[u8]| {
    match Trace::parse("fuzzed", bytes) {
        Ok(trace) => {
            assert!(!trace.requests.is_empty());
            assert!(trace.requests.is_sorted_by_key(|request| request.arrival_us));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
