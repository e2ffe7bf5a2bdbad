//! The simulated scheduler by itself: what it does in each step, and that it does the same over
//! either index where nobody pins.

use std::sync::Arc;

use tenure_cli::sim::engine::Engine;
use tenure_cli::sim::figures::StepFigures;
use tenure_cli::sim::index::mutex::MutexIndex;
use tenure_cli::sim::index::tenure::TenureIndex;
use tenure_cli::sim::index::{BlockIndex, Occupancy};
use tenure_cli::sim::memory::DeviceMemory;
use tenure_cli::sim::settings::Limits;
use tenure_cli::trace::{TraceRequest, synthetic};

const LIMITS: Limits = Limits {
    blocks: 100,
    block_size: 16,
    token_budget: 64,
    max_running: 8,
    window: None,
    in_flight: 0,
};

fn request(prompt_tokens: u32, output_tokens: u32) -> TraceRequest {
    TraceRequest { arrival_us: 0, prompt_tokens, output_tokens, segments: Box::default() }
}

fn engine(limits: Limits) -> Engine<MutexIndex> {
    over(limits, MutexIndex::new(limits.blocks, limits.block_size))
}

fn over<I: BlockIndex>(limits: Limits, index: I) -> Engine<I> {
    Engine::new(limits, index, Arc::new(DeviceMemory::new(limits.blocks)))
}

/// One step: what it did, the blocks by state after it, and which requests were released.
fn step<I: BlockIndex>(engine: &mut Engine<I>) -> (StepFigures, Occupancy, Vec<u32>) {
    let dispatched = engine.dispatch().unwrap();
    if engine.results_are_due(dispatched) {
        engine.complete(&mut Vec::new()).unwrap();
    }
    let mut released = Vec::new();
    engine.release_finished(&mut released).unwrap();
    let numbers = released.iter().map(|request| request.number).collect();
    (engine.take_figures(), engine.index_mut().occupancy(), numbers)
}

#[test]
fn prompts_are_computed_in_chunks_behind_the_decodes() {
    let mut engine = engine(LIMITS);
    assert!(engine.arrive(0, &request(40, 3)));
    assert!(engine.arrive(1, &request(50, 1)));
    let (first, blocks, _) = step(&mut engine);
    assert_eq!((first.requests, first.tokens), (2, 64), "40 of the first, 24 of the second");
    assert_eq!((first.assigned, first.assign_calls, blocks.owned), (3 + 2, 2, 5));
    let (second, _, released) = step(&mut engine);
    assert_eq!((second.tokens, released), (1 + 26, vec![1]), "a decode, then the rest");
    let (third, blocks, released) = step(&mut engine);
    assert_eq!((third.tokens, released, blocks.free), (1, vec![0], 100));
    assert!(engine.is_idle());
}

#[test]
fn no_more_requests_run_than_may() {
    let mut engine = engine(Limits { max_running: 2, ..LIMITS });
    (0..5).for_each(|number| assert!(engine.arrive(number, &request(16, 1))));
    let requests: Vec<u64> = (0..3).map(|_| step(&mut engine).0.requests).collect();
    assert_eq!(requests, [2, 2, 1]);
}

#[test]
fn the_youngest_is_preempted_and_starts_again() {
    let mut engine = engine(Limits { blocks: 6, ..LIMITS });
    assert!(engine.arrive(0, &request(32, 34)));
    assert!(engine.arrive(1, &request(32, 34)));
    let mut preemptions = Vec::new();
    let mut order = Vec::new();
    for number in 0.. {
        let (figures, _, released) = step(&mut engine);
        if figures.preemptions > 0 {
            // Both have three blocks and need a fourth.
            preemptions.push((number, figures.preemptions, figures.recomputed, figures.requests));
        }
        order.extend(released);
        if engine.is_idle() {
            break;
        }
    }
    assert_eq!(preemptions, [(17, 1, 48, 1)]);
    assert_eq!(order, [0, 1], "the older one ends first");
}

#[test]
fn a_request_waits_until_all_of_it_fits() {
    let mut engine = engine(Limits { blocks: 8, ..LIMITS });
    assert!(engine.arrive(0, &request(60, 2)));
    assert!(engine.arrive(1, &request(80, 2)));
    assert!(!engine.arrive(2, &request(129, 1)), "it could never run");
    assert_eq!(step(&mut engine).0.requests, 1, "four blocks are free and it needs five");
    assert_eq!(step(&mut engine).0.requests, 1);
    assert_eq!(step(&mut engine).0.requests, 1, "the second alone");
}

#[test]
fn content_is_found_while_owned_and_while_free() {
    let shared = TraceRequest { segments: [7].into(), ..request(64, 2) };
    let mut engine = engine(Limits { token_budget: 1000, ..LIMITS });
    assert!(engine.arrive(0, &shared));
    assert_eq!(step(&mut engine).0.found, 0);
    assert!(engine.arrive(1, &shared));
    let (owned, blocks, _) = step(&mut engine);
    // The block of the last token is computed again.
    assert_eq!((owned.found, owned.assigned, owned.tokens), (3, 1 + 1, 1 + 16));
    assert_eq!(blocks.owned, 4, "the first has been released");
    step(&mut engine);
    assert!(engine.arrive(2, &shared));
    let (free, blocks, _) = step(&mut engine);
    assert_eq!((free.found, free.assigned, blocks.owned), (3, 1, 4));
}

#[test]
fn a_window_keeps_only_what_it_looks_back_on() {
    let mut engine = engine(Limits { window: Some(48), ..LIMITS });
    assert!(engine.arrive(0, &request(1000, 500)), "94 blocks, but never at once");
    let mut most = 0;
    while !engine.is_idle() {
        most = most.max(step(&mut engine).1.owned);
    }
    assert_eq!(most, 7, "47 tokens and the chunk of 64 behind them");
}

#[test]
fn blocks_of_a_preempted_request_wait_for_the_steps_in_flight() {
    let limits = Limits { blocks: 6, in_flight: 2, ..LIMITS };
    let mut engine = over(limits, TenureIndex::new(6, 16, 8, None).unwrap());
    assert!(engine.arrive(0, &request(32, 34)));
    assert!(engine.arrive(1, &request(32, 34)));
    let mut held = Vec::new();
    while !engine.is_idle() {
        let (figures, blocks, _) = step(&mut engine);
        if figures.preemptions > 0 || held.last().is_some_and(|&held: &u32| held > 0) {
            held.push(blocks.held);
        }
    }
    assert_eq!(held, [3, 0], "free once the newer of two steps in flight has ended");
}

/// All steps of a workload over an index.
fn steps<I: BlockIndex>(
    limits: Limits,
    index: I,
    requests: &[TraceRequest],
) -> Vec<(StepFigures, Occupancy, Vec<u32>)> {
    let mut engine = over(limits, index);
    for (number, request) in (0..).zip(requests) {
        engine.arrive(number, request);
    }
    let mut steps = Vec::new();
    while !engine.is_idle() {
        steps.push(step(&mut engine));
    }
    engine.index_mut().audit().unwrap();
    steps
}

#[test]
fn both_indexes_answer_the_same() {
    let requests = synthetic::generate(60, 5).requests;
    let tight = Limits { blocks: 8000, token_budget: 2048, max_running: 40, ..LIMITS };
    for limits in [
        tight,
        Limits { in_flight: 1, ..tight },
        Limits { in_flight: 4, blocks: 4000, ..tight },
        Limits { window: Some(1000), blocks: 1000, in_flight: 2, ..tight },
        Limits { block_size: 48, blocks: 3000, ..tight },
    ] {
        let Limits { blocks, block_size, .. } = limits;
        let tenure = TenureIndex::new(blocks, block_size, 40, None).unwrap();
        let tenure = steps(limits, tenure, &requests);
        let mutex = steps(limits, MutexIndex::new(blocks, block_size), &requests);
        assert_eq!(tenure.len(), mutex.len());
        for (number, (tenure, mutex)) in tenure.iter().zip(&mutex).enumerate() {
            assert_eq!(tenure, mutex, "step {number} of {limits:?}");
        }
        let (_, at_end, _) = tenure.last().unwrap();
        assert_eq!(at_end.free, blocks);
    }
}
