//! How long something takes, in steps.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp};
use thiserror::Error;

/// The longest latency that can be asked for, in steps.
pub const MAX_STEPS: u64 = 1_000_000;

/// A distribution of whole steps: `fixed:N` (or just `N`), `uniform:A..B` (both ends included) or
/// `exp:MEAN`.
///
/// ```
/// use tenure_cli::sim::latency::Latency;
///
/// let latency: Latency = "uniform:1..8".parse()?;
/// assert_eq!(latency.to_string(), "uniform:1..8");
/// assert!("uniform:8..1".parse::<Latency>().is_err());
/// # Ok::<(), tenure_cli::sim::latency::BadLatency>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Latency {
    /// Always the same.
    Fixed(u64),
    /// Any number from the first to the second.
    Uniform(u64, u64),
    /// Exponential with this mean, rounded, at most [`MAX_STEPS`].
    Exp(f64),
}

impl Latency {
    /// Draws one.
    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        match *self {
            Latency::Fixed(steps) => steps,
            Latency::Uniform(least, most) => rng.random_range(least..=most),
            Latency::Exp(mean) => match Exp::new(1.0 / mean) {
                Ok(exp) => (exp.sample(rng).round() as u64).min(MAX_STEPS),
                Err(_) => 0,
            },
        }
    }

    /// Its mean, in steps.
    pub fn mean(&self) -> f64 {
        match *self {
            Latency::Fixed(steps) => steps as f64,
            Latency::Uniform(least, most) => (least + most) as f64 / 2.0,
            Latency::Exp(mean) => mean,
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Latency::Fixed(steps) => write!(f, "fixed:{steps}"),
            Latency::Uniform(least, most) => write!(f, "uniform:{least}..{most}"),
            Latency::Exp(mean) => write!(f, "exp:{mean}"),
        }
    }
}

/// A text that is no [`Latency`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "expected fixed:N, uniform:A..B or exp:MEAN, in steps from 0 to {MAX_STEPS}, as in uniform:1..8"
)]
pub struct BadLatency;

impl FromStr for Latency {
    type Err = BadLatency;

    fn from_str(text: &str) -> Result<Latency, BadLatency> {
        let steps = |text: &str| match text.parse() {
            Ok(steps @ 0..=MAX_STEPS) => Ok(steps),
            _ => Err(BadLatency),
        };
        match text.split_once(':') {
            Some(("fixed", number)) => Ok(Latency::Fixed(steps(number)?)),
            Some(("uniform", range)) => {
                let (least, most) = range.split_once("..").ok_or(BadLatency)?;
                let (least, most) = (steps(least)?, steps(most)?);
                if least <= most { Ok(Latency::Uniform(least, most)) } else { Err(BadLatency) }
            }
            Some(("exp", mean)) => match mean.parse::<f64>() {
                Ok(mean) if mean > 0.0 && mean <= MAX_STEPS as f64 => Ok(Latency::Exp(mean)),
                _ => Err(BadLatency),
            },
            Some(_) => Err(BadLatency),
            None => Ok(Latency::Fixed(steps(text)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn draws_keep_to_the_distribution() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for text in ["fixed:3", "12", "uniform:1..8", "exp:4", "exp:1000"] {
            let latency: Latency = text.parse().unwrap();
            let drawn: Vec<u64> = (0..20_000).map(|_| latency.draw(&mut rng)).collect();
            let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
            assert!((mean / latency.mean() - 1.0).abs() < 0.05, "{text}: mean {mean}");
        }
        assert_eq!("uniform:5..5".parse::<Latency>().unwrap().draw(&mut rng), 5);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "soon", "fixed:", "fixed:-1", "fixed:1000001", "uniform:1", "uniform:2..1"]
        {
            assert_eq!(text.parse::<Latency>(), Err(BadLatency), "{text}");
        }
        for text in ["exp:0", "exp:nan", "exp:inf", "exp:1e9", "exp:-1", "gauss:3"] {
            assert_eq!(text.parse::<Latency>(), Err(BadLatency), "{text}");
        }
    }
}
