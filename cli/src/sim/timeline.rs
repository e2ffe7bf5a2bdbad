//! The blocks by state over a whole replay, in as many samples as a picture can show.

use super::index::Occupancy;

/// The blocks by state at one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The step.
    pub step: u64,
    /// The blocks when it had ended.
    pub blocks: Occupancy,
}

/// Samples at even distances, however long the replay becomes: when there are too many, every
/// second one is dropped, and from then on half as many are taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    samples: Vec<Sample>,
    /// Steps from one sample to the next.
    stride: u64,
    next: u64,
}

/// More are not kept.
const MOST: usize = 480;

impl Timeline {
    /// Takes a sample if one is due.
    pub fn record(&mut self, step: u64, blocks: Occupancy) {
        if step < self.next {
            return;
        }
        if self.samples.len() == MOST {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride = self.stride.saturating_mul(2);
        }
        self.samples.push(Sample { step, blocks });
        self.next = step.saturating_add(self.stride);
    }

    /// The samples, by step.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { samples: Vec::new(), stride: 1, next: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_a_long_replay_with_few_samples() {
        let mut timeline = Timeline::default();
        for step in 0..100_000 {
            let blocks = Occupancy { free: step as u32, owned: 0, held: 0 };
            timeline.record(step, blocks);
        }
        let samples = timeline.samples();
        assert!((MOST / 2..=MOST).contains(&samples.len()), "{}", samples.len());
        assert_eq!(samples[0].step, 0);
        assert!(samples.iter().all(|sample| sample.blocks.free as u64 == sample.step));
        let gaps = samples.windows(2).map(|pair| pair[1].step - pair[0].step);
        let (least, most) = (gaps.clone().min().unwrap(), gaps.max().unwrap());
        assert!(most <= 2 * least, "{least}..{most}");
        assert!(samples.last().unwrap().step > 99_000);
    }
}
