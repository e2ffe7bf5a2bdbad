//! A series of measured numbers and what is told of it.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Numbers of which the mean and the largest are known exactly, and quantiles to three digits.
#[derive(Clone)]
pub struct Series {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

/// What is told of a series of counts.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// What is told of a series of times, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Times {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

/// Larger numbers are taken as this by the quantiles.
const LARGEST: u64 = 1 << 60;

impl Series {
    /// Takes in one number.
    pub fn record(&mut self, value: u64) {
        // A histogram that grows by itself takes any number.
        let recorded = self.histogram.record(value.min(LARGEST));
        debug_assert!(recorded.is_ok(), "{recorded:?}");
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Takes in all numbers of another series.
    pub fn add(&mut self, other: &Series) {
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "{added:?}");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The sum of all numbers.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean, 99th percentile and largest.
    pub fn summary(&self) -> Summary {
        Summary { mean: self.mean(), p99: self.quantile(0.99), max: self.max }
    }

    /// Mean and percentiles.
    pub fn times(&self) -> Times {
        Times {
            mean: self.mean(),
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: self.max,
        }
    }

    /// How many numbers there are from each of `bounds` (ascending) up to the next.
    pub fn between(&self, bounds: &[u64]) -> Vec<u64> {
        // Counted below each bound: the histogram cannot tell neighbours apart, and so would count
        // what stands at a bound on both sides.
        let below = |&bound: &u64| match bound.min(LARGEST) {
            0 => 0,
            bound => self
                .histogram
                .iter_recorded()
                .take_while(|at| at.value_iterated_to() < bound)
                .map(|at| at.count_at_value())
                .sum::<u64>(),
        };
        let below: Vec<u64> = bounds.iter().map(below).collect();
        below.iter().zip(below.iter().skip(1)).map(|(from, to)| to - from).collect()
    }

    fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// The number that so large a part of all is not above, from 0 to 1.
    pub fn quantile(&self, quantile: f64) -> u64 {
        // The histogram answers the highest number it cannot tell from the right one.
        self.histogram.value_at_quantile(quantile).min(self.max)
    }
}

impl Default for Series {
    fn default() -> Series {
        let histogram = Histogram::new(3).expect("a histogram can have three digits");
        Series { histogram, sum: 0, max: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summarises() {
        let mut series = Series::default();
        assert_eq!(series.summary(), Summary::default());
        (1..=1000).for_each(|value| series.record(value));
        let mut other = Series::default();
        other.record(1_000_000_007);
        series.add(&other);
        let Summary { mean, p99, max } = series.summary();
        assert!((mean - 1_000_500.5).abs() < 1_000.0, "{mean}");
        assert_eq!((p99 / 10, max), (99, 1_000_000_007));
    }

    #[test]
    fn counts_between_bounds() {
        let mut series = Series::default();
        (1..=1000).for_each(|value| series.record(value));
        assert_eq!(series.between(&[0, 1, 10, 100, 2000]), [0, 9, 90, 901]);
        assert_eq!(Series::default().between(&[0, 10]), [0]);
        assert!(series.between(&[5]).is_empty());
    }
}
