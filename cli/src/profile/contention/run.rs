//! One run of a case.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tenure_benches::clock::thread_time;
use tenure_benches::step::{Engine, Store};

use super::contender::{Contender, Reader};
use super::tally::Tally;
use super::{Load, Settings, Setup};
use crate::profile::Failure;

/// Steps at the start that are not timed.
const WARM_UP: u32 = 16;

/// Pins that a reader keeps while it takes more.
const HELD: usize = 4;

/// Every so many pins one is timed: reading the clock costs about as much as a pin.
const TIMED: u64 = 8;

/// How long the sleeping reader sleeps.
const SLEEP: Duration = Duration::from_millis(5);

/// What the scheduler tells readers: the keys of the running requests, and when to end.
struct Board {
    keys: Vec<AtomicU64>,
    stop: AtomicBool,
}

impl Board {
    fn show(&self, store: &impl Store) {
        for (place, shown) in (0..).zip(&self.keys) {
            let key = store.key(place);
            // Written only where it has changed, or readers would miss the line at every look.
            if shown.load(Ordering::Relaxed) != key {
                shown.store(key, Ordering::Relaxed);
            }
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Runs a case once over an index and adds to its tally.
pub fn run<C: Contender>(
    setup: Setup,
    settings: &Settings,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let sizes = setup.load.sizes();
    let mut store = C::new(&sizes)?;
    let mut engine = Engine::start(sizes, &mut store)?;
    // The running requests, and the hot one last.
    let keys = (0..=sizes.hot()).map(|_| AtomicU64::new(0)).collect();
    let board = Board { keys, stop: AtomicBool::new(false) };
    board.show(&store);
    thread::scope(|scope| {
        let board = &board;
        let mut readers = Vec::new();
        for seed in 0..setup.threads as u64 {
            let reader = store.reader();
            readers.push(scope.spawn(move || pin(&reader, setup.load, board, seed)));
        }
        if setup.load.companions() > 0 {
            let reader = store.reader();
            scope.spawn(move || accompany(&reader, setup.load, board));
        }
        let begun = Instant::now();
        let stepped = steps(&mut engine, &mut store, setup.paced, settings, board, tally);
        tally.wall += begun.elapsed();
        board.stop.store(true, Ordering::Relaxed);
        for reader in readers {
            tally.add(&reader.join().map_err(|_| "a reader's thread has panicked")?);
        }
        stepped
    })
}

fn steps(
    engine: &mut Engine,
    store: &mut impl Store,
    paced: bool,
    settings: &Settings,
    board: &Board,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut next = begun;
    let mut step = 0_u32;
    // At least one step is timed, however short the time.
    while begun.elapsed() < settings.time || step <= WARM_UP {
        engine.prepare();
        if paced {
            next += settings.pace;
            sleep(next.saturating_duration_since(Instant::now()));
        }
        let cpu = thread_time();
        let start = Instant::now();
        engine.apply(store)?;
        let took = start.elapsed();
        let cpu = thread_time().saturating_sub(cpu);
        if step >= WARM_UP {
            tally.step.record(took);
            tally.step_cpu.record(cpu);
        }
        step = step.saturating_add(1);
        engine.settle(store);
        board.show(store);
    }
    Ok(())
}

/// Pins until told to stop.
fn pin<R: Reader>(reader: &R, load: Load, board: &Board, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut held: [Option<R::Pin<'_>>; HELD] = std::array::from_fn(|_| None);
    let blocks = load.pinned();
    let hot = board.keys.len() - 1;
    let began = thread_time();
    let mut at = 0_u64;
    while board.goes_on() {
        let place = if load == Load::OneHotRequest { hot } else { random.random_range(0..hot) };
        let key = board.keys[place].load(Ordering::Relaxed);
        let pin = if at.is_multiple_of(TIMED) {
            let start = Instant::now();
            let pin = black_box(reader.pin(key, blocks));
            tally.pin.record(start.elapsed());
            pin
        } else {
            reader.pin(key, blocks)
        };
        match &pin {
            Some(_) => tally.pins += 1,
            None => tally.refused += 1,
        }
        held[at as usize % HELD] = pin;
        at += 1;
    }
    drop(held);
    tally.cpu = thread_time().saturating_sub(began);
    tally
}

/// The one more thread of some loads.
fn accompany<R: Reader>(reader: &R, load: Load, board: &Board) {
    while board.goes_on() {
        if load == Load::SnapshotReader {
            reader.picture();
        } else {
            let key = board.keys[0].load(Ordering::Relaxed);
            let _pin = reader.pin(key, load.pinned());
            sleep(SLEEP);
        }
    }
}
