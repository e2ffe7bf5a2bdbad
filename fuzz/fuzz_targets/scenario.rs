//! Scenario scripts from anywhere: each is read or refused with a line of it, and what is read can be
//! run.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure_cli::scenario::{Command, Script, parse, run};

/// Larger pools are only read.
const LARGEST_POOL: u32 = 4096;

fn is_small(script: &Script) -> bool {
    script.lines.iter().all(|line| match &line.command {
        Command::Index(index) => index.blocks <= LARGEST_POOL,
        _ => true,
    })
}

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    match parse(bytes) {
        Ok(script) => {
            let numbers: Vec<usize> = script.lines.iter().map(|line| line.number).collect();
            assert!(numbers.is_sorted() && numbers.iter().all(|line| (1..=lines).contains(line)));
            if is_small(&script)
                && let Err(difference) = run(&script)
            {
                assert!(numbers.contains(&difference.line), "{difference:?}");
            }
        }
        Err(error) => {
            assert!((1..=lines).contains(&error.line), "{error:?}");
            assert!(!error.to_string().is_empty());
        }
    }
});
