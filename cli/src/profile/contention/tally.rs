//! What is counted while a case runs.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Times of one kind.
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        // Three digits are within what a histogram can have.
        Times(Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits")))
    }
}

impl Times {
    /// Takes one in.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        // It grows as it needs to.
        let _ = self.0.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes all of another in.
    pub fn add(&mut self, other: &Times) {
        // As above.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The figures that are told.
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            p50: self.0.value_at_quantile(0.5),
            p99: self.0.value_at_quantile(0.99),
            p99_9: self.0.value_at_quantile(0.999),
            max: self.0.max(),
        }
    }
}

/// Nanoseconds; 0 where nothing was timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// One in a hundred is longer.
    pub p99: u64,
    /// One in a thousand is longer.
    pub p99_9: u64,
    /// The longest.
    pub max: u64,
}

/// The sum over all rounds of a case with one index.
#[derive(Default)]
pub struct Tally {
    /// Steps, by the clock on the wall.
    pub step: Times,
    /// Steps, by the scheduler thread's CPU time.
    pub step_cpu: Times,
    /// Pins.
    pub pin: Times,
    /// Pins that succeeded.
    pub pins: u64,
    /// Pins that were refused.
    pub refused: u64,
    /// How long readers ran.
    pub wall: Duration,
    /// CPU time of the threads that pin.
    pub cpu: Duration,
}

impl Tally {
    /// Takes in what a reader has counted.
    pub fn add(&mut self, other: &Tally) {
        self.pin.add(&other.pin);
        self.pins += other.pins;
        self.refused += other.refused;
        self.cpu += other.cpu;
    }
}
