//! Ratios of times of one run, which must hold on any machine.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use tenure_benches::ops::{self, LIVE, PIN_BLOCKS};
use tenure_benches::peers;
use tenure_benches::rounds::{self, Figure};

use crate::Check;

const ROUNDS: usize = 51;
const SLICE: Duration = Duration::from_micros(400);

/// Noise can only be in the way: a machine where all holds once is a machine where all holds.
const ATTEMPTS: usize = 3;

/// From this length on Tenure is ahead of every peer.
const AHEAD_FROM: u32 = 64;
/// At this length it is ahead by [`AHEAD_BY`].
const FAR_AHEAD_AT: u32 = 512;
const AHEAD_BY: f64 = 5.0;

/// Measures, again where something did not hold.
pub fn checks() -> Result<Vec<Check>, Box<dyn Error>> {
    if !cfg!(feature = "kvbm") {
        println!("SKIPPED kvbm-logical: not in this build (--features kvbm)");
    }
    let mut checks = Vec::new();
    for attempt in 1..=ATTEMPTS {
        checks = compare(&measure()?)?;
        if checks.iter().all(|check| check.holds) {
            break;
        }
        println!("ratios: attempt {attempt} of {ATTEMPTS} does not hold");
    }
    Ok(checks)
}

fn measure() -> Result<Vec<Figure>, Box<dyn Error>> {
    let mut operations = ops::hot()?;
    operations.extend(peers::pin_unpin(&peer_blocks())?);
    Ok(rounds::measure(&mut operations, ROUNDS, SLICE, || {}))
}

fn peer_blocks() -> Vec<u32> {
    PIN_BLOCKS.into_iter().filter(|&blocks| blocks >= AHEAD_FROM).collect()
}

fn compare(figures: &[Figure]) -> Result<Vec<Check>, Box<dyn Error>> {
    let ns: HashMap<&str, f64> = figures.iter().map(|f| (f.name.as_str(), f.median)).collect();
    let of = |name: String| {
        let found = ns.get(name.as_str()).copied();
        found.ok_or_else(|| format!("{name} was not measured"))
    };
    let mut checks = Vec::new();
    let [shortest, longer @ ..] = PIN_BLOCKS;
    for blocks in longer {
        let (a, b) = (of(format!("pin_unpin/{shortest}"))?, of(format!("pin_unpin/{blocks}"))?);
        checks.push(alike(
            &format!("pin + unpin of {blocks} blocks and of {shortest}"),
            b / a,
            0.1,
        ));
    }
    let [fewest, more @ ..] = LIVE;
    for live in more {
        let (a, b) = (of(format!("publish/{fewest}"))?, of(format!("publish/{live}"))?);
        checks.push(alike(&format!("publish with {live} live and with {fewest}"), b / a, 0.2));
    }
    let ours = ["pin_unpin", "publish"];
    for Figure { name, median, .. } in figures {
        let Some((peer, blocks)) = name.rsplit_once('/') else { continue };
        if ours.contains(&peer) {
            continue;
        }
        let factor = median / of(format!("pin_unpin/{blocks}"))?;
        let least = if blocks.parse() == Ok(FAR_AHEAD_AT) { AHEAD_BY } else { 1.0 };
        checks.push(Check {
            holds: factor > least,
            text: format!("{peer}, {blocks} blocks: {factor:.1} times Tenure, more than {least}"),
        });
    }
    Ok(checks)
}

fn alike(what: &str, ratio: f64, within: f64) -> Check {
    Check {
        holds: (ratio - 1.0).abs() <= within,
        text: format!("{what}: {ratio:.3} to 1, within {:.0} %", within * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(peer_at_512: f64, longest: f64) -> Vec<Figure> {
        let figure = |name: String, median| Figure { name, median, lower: 0.0, upper: 0.0 };
        let mut figures: Vec<Figure> =
            PIN_BLOCKS.iter().map(|n| figure(format!("pin_unpin/{n}"), 10.0)).collect();
        figures.iter_mut().last().unwrap().median = longest;
        figures.extend(LIVE.iter().map(|n| figure(format!("publish/{n}"), 1.0)));
        figures.push(figure("a map/64".to_owned(), 11.0));
        figures.push(figure("a map/512".to_owned(), peer_at_512));
        figures
    }

    fn failed(figures: &[Figure]) -> usize {
        compare(figures).unwrap().iter().filter(|check| !check.holds).count()
    }

    #[test]
    fn each_ratio_can_fail() {
        assert_eq!(failed(&figures(51.0, 10.9)), 0);
        assert_eq!(failed(&figures(49.0, 10.9)), 1);
        assert_eq!(failed(&figures(51.0, 11.1)), 1);
        assert_eq!(failed(&figures(51.0, 8.9)), 1);
    }
}
