//! Whether what threads were answered could have been answered one call after the other.
//!
//! Runs record when each call about a request began and returned, and what it answered. For each
//! life an order is searched that agrees with those times and in which a sequential life
//! ([`spec::Life`]) answers the same: then every call took effect at one moment between its beginning
//! and its end. Calls about different lives meet in publishes and reclaims only, which each history
//! includes; that a publish shows all lives at once is tested by `stress` and `tagged_memory`.
//!
//! `TENURE_LINEARIZABILITY_SECONDS` sets how long the search goes on, `TENURE_STRESS_SEED` where it
//! starts.

#[path = "linearizability/history.rs"]
mod history;
#[allow(dead_code)] // shared with another test, which uses all of it
#[path = "tagged_memory/memory.rs"]
mod memory;
#[path = "linearizability/recorder.rs"]
mod recorder;
#[path = "linearizability/search.rs"]
mod search;
#[path = "linearizability/spec.rs"]
mod spec;

use std::thread;
use std::time::{Duration, Instant};

use history::{Around, History};
use recorder::{Churn, Reader, Run};
use search::{Found, search};

const READERS: u64 = 3;
/// Steps of the scheduler in one run.
const STEPS: usize = if cfg!(miri) { 6 } else { 300 };

#[test]
fn every_call_takes_effect_at_one_moment() {
    let (mut lives, mut calls, mut longest) = (0, 0, 0);
    for seed in seeds() {
        for history in record(seed, None).0 {
            match search(&history) {
                Found::Linearizable => {}
                Found::Cut => panic!("gave up on a history of {} calls", history.len()),
                Found::Not { explained } => {
                    let around = Around(&history, explained);
                    panic!("no order explains more than {explained} calls (seed {seed}):\n{around}")
                }
            }
            lives += 1;
            calls += history.len();
            longest = longest.max(history.len());
        }
    }
    println!("linearizability: {lives} lives, {calls} calls, at most {longest} in a life");
    assert!(lives > 0 && calls > lives);
}

/// One answer in a thousand is written down wrong, and the search finds no order then.
#[test]
fn a_wrong_answer_fits_in_no_order() {
    let (mut lied_about, mut found) = (0, 0);
    for seed in seeds() {
        for history in record(seed, Some(1000)).1 {
            lied_about += 1;
            found += u32::from(matches!(search(&history), Found::Not { .. }));
        }
        if lied_about >= 200 {
            break;
        }
    }
    println!("linearizability: {found} of {lied_about} lives with a wrong answer found");
    // Where an ending overlaps with what was asked, both answers may be right.
    assert!(cfg!(miri) || lied_about >= 10 && found * 10 >= lied_about * 9);
}

fn seeds() -> impl Iterator<Item = u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
        Some(text.parse::<f64>().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let seconds = number("TENURE_LINEARIZABILITY_SECONDS").unwrap_or(2.0);
    let first = number("TENURE_STRESS_SEED").unwrap_or(1.0) as u64;
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    (first..).enumerate().take_while(move |&(at, _)| at == 0 || Instant::now() < until).map(|s| s.1)
}

/// The histories of the lives of one run: those that were written down as they were, and those with
/// wrong answers.
fn record(seed: u64, lies: Option<usize>) -> (Vec<History>, Vec<History>) {
    let run = Run::new(lies);
    let (scheduler, index) = Run::build();
    let mut churn = Churn::new(&run, scheduler, seed);
    thread::scope(|scope| {
        let readers: Vec<_> = (1..=READERS)
            .map(|at| Reader::new(&run, index.clone(), seed * 1000 + at))
            .map(|reader| scope.spawn(|| reader.record()))
            .collect();
        for _ in 0..STEPS {
            churn.step();
            thread::yield_now();
        }
        churn.stop();
        let logs = readers.into_iter().map(|reader| reader.join().expect("a reader")).collect();
        churn.histories(logs)
    })
}
