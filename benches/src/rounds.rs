//! Medians of interleaved rounds: whatever drifts (clock rate, neighbours on the machine) drifts
//! for all operations alike, so that their ratios hold.

use std::time::Duration;

use crate::clock;

/// Something that can be timed.
pub trait Operation {
    /// What it is called in reports.
    fn name(&self) -> &str;

    /// How often it happens in one [`run`](Operation::run): the time of a run is divided by this.
    fn calls(&self) -> u32;

    /// Brings about what a run starts from. Not timed.
    fn prepare(&mut self) {}

    /// The timed part.
    fn run(&mut self);

    /// Undoes what a run has done. Not timed.
    fn restore(&mut self) {}

    /// Makes a run this long, where it can be of any length.
    fn set_repeats(&mut self, _repeats: u32) {}
}

/// An operation that leaves everything as it found it, so that it can be run again at once.
pub struct Repeated<F> {
    name: String,
    repeats: u32,
    /// How often the operation happens in one repeat.
    each: u32,
    call: F,
}

/// The least time that a run should take, or reading the clock would show.
const RUN: Duration = Duration::from_micros(50);

impl<F: FnMut()> Repeated<F> {
    /// Finds out by itself how many repeats make a run of useful length.
    pub fn new(name: impl Into<String>, call: F) -> Repeated<F> {
        let mut repeated = Repeated { name: name.into(), repeats: 1, each: 1, call };
        loop {
            let start = clock::thread_time();
            repeated.run();
            if clock::thread_time().saturating_sub(start) >= RUN || repeated.repeats >= 1 << 20 {
                return repeated;
            }
            repeated.repeats *= 2;
        }
    }

    /// Each repeat is so many of the operation.
    pub fn of(self, each: u32) -> Repeated<F> {
        Repeated { each, ..self }
    }
}

impl<F: FnMut()> Operation for Repeated<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn calls(&self) -> u32 {
        self.repeats * self.each
    }

    fn run(&mut self) {
        for _ in 0..self.repeats {
            (self.call)();
        }
    }

    fn set_repeats(&mut self, repeats: u32) {
        self.repeats = repeats;
    }
}

/// What the rounds found for one operation, in nanoseconds a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// The operation's name.
    pub name: String,
    /// The median of the rounds.
    pub median: f64,
    /// A quarter of the rounds were faster.
    pub lower: f64,
    /// A quarter of the rounds were slower.
    pub upper: f64,
}

/// Runs all operations in turn, `rounds` times, each for at least `slice` of its own time a round.
///
/// `progress` is called after every round.
pub fn measure(
    operations: &mut [Box<dyn Operation>],
    rounds: usize,
    slice: Duration,
    mut progress: impl FnMut(),
) -> Vec<Figure> {
    let overhead = clock::overhead();
    let mut samples = vec![Vec::with_capacity(rounds); operations.len()];
    for round in 0..rounds {
        // Every other round the other way: no operation always follows the same one.
        let mut order: Vec<usize> = (0..operations.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            samples[at].push(sample(&mut *operations[at], slice, overhead));
        }
        progress();
    }
    operations.iter().zip(samples).map(|(operation, s)| figure(operation.name(), s)).collect()
}

/// Nanoseconds a call, over one slice.
fn sample(operation: &mut dyn Operation, slice: Duration, overhead: Duration) -> f64 {
    // Once for the caches.
    operation.prepare();
    operation.run();
    operation.restore();
    let (mut spent, mut calls) = (Duration::ZERO, 0_u64);
    while spent < slice {
        spent += timed(operation, overhead);
        calls += u64::from(operation.calls());
    }
    spent.as_nanos() as f64 / calls as f64
}

/// The CPU time that about so many calls take, scaled to exactly as many.
pub fn time_of(operation: &mut dyn Operation, calls: u64) -> Duration {
    let overhead = clock::overhead();
    let (mut spent, mut done) = (Duration::ZERO, 0_u64);
    while done < calls {
        spent += timed(operation, overhead);
        done += u64::from(operation.calls());
    }
    spent.mul_f64(calls as f64 / done.max(1) as f64)
}

/// The CPU time of one run.
fn timed(operation: &mut dyn Operation, overhead: Duration) -> Duration {
    operation.prepare();
    let start = clock::thread_time();
    operation.run();
    let run = clock::thread_time().saturating_sub(start);
    operation.restore();
    run.saturating_sub(overhead).max(Duration::from_nanos(1))
}

fn figure(name: &str, mut samples: Vec<f64>) -> Figure {
    samples.sort_by(f64::total_cmp);
    let quantile = |share: f64| samples[((samples.len() - 1) as f64 * share).round() as usize];
    Figure {
        name: name.to_owned(),
        median: quantile(0.5),
        lower: quantile(0.25),
        upper: quantile(0.75),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_counted() {
        let count = std::cell::Cell::new(0);
        let mut operation = Repeated::new("add", || count.set(count.get() + 1)).of(3);
        operation.set_repeats(5);
        assert_eq!(operation.calls(), 15);
        count.set(0);
        operation.run();
        assert_eq!(count.get(), 5);
    }

    #[test]
    fn every_operation_gets_a_figure_per_call() {
        let mut operations: Vec<Box<dyn Operation>> = vec![
            Box::new(Repeated::new("a", || {
                std::hint::black_box(1);
            })),
            Box::new(Repeated::new("b", || {
                std::hint::black_box(2);
            })),
        ];
        let mut rounds = 0;
        let slice = Duration::from_micros(1);
        let figures = measure(&mut operations, 3, slice, || rounds += 1);
        assert_eq!(rounds, 3);
        assert_eq!(figures.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        for Figure { lower, median, upper, .. } in figures {
            assert!(0.0 < lower && lower <= median && median <= upper);
        }
        assert!(time_of(&mut *operations[0], 10) > Duration::ZERO);
    }
}
