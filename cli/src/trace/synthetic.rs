//! A generated workload with the statistics of the published Mooncake conversation trace (12,031
//! requests in one hour of a chat service), so that a replay needs no file.
//!
//! What was fitted to that trace, and how it is drawn:
//! - **Arrivals** come in bursts, one every 3 s; the size of a burst is Poisson with mean 10.2.
//! - **Turns**: whether a conversation has a next turn depends on how many it had
//!   (`NEXT_TURN`); the time to the next one is drawn from `PAUSE_S`. What is due fills a
//!   burst first, new conversations the rest.
//! - **Lengths** of a first prompt and of outputs come from their quantiles (`FIRST_PROMPT`,
//!   `OUTPUT`), independently.
//! - **Shared prefixes**: every prompt starts with the same 512 tokens. A next turn keeps all full
//!   512-token segments of the prompt before it in 85 % of cases and adds `GROWTH` tokens; in
//!   the others it keeps a uniformly drawn part of them and adds `REWRITTEN` tokens.
//!
//! The generator is a fixed one (PCG) with a seed, so a workload is the same on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Poisson};
use rand_pcg::Pcg64Mcg;

use super::{Format, SEGMENT_TOKENS, Trace, TraceRequest};

/// Requests that are generated where no number is asked for.
pub const DEFAULT_REQUESTS: usize = 4_000;

const BURST_EVERY_US: u64 = 3_000_000;
const BURST_MEAN: f64 = 10.2;

/// The chance of a next turn after the first, second, ... turn; the last entry holds from there on.
const NEXT_TURN: [f64; 7] = [0.334, 0.436, 0.559, 0.644, 0.667, 0.706, 0.8];

/// How often a next turn keeps the whole prompt before it.
const KEEPS_ALL: f64 = 0.85;

/// No prompt grows longer than this, in tokens.
const LONGEST_PROMPT: u32 = 126_976;

/// Quantiles of the first prompt of a conversation, in tokens.
const FIRST_PROMPT: Quantiles = Quantiles([
    891.0, 897.0, 905.0, 1092.0, 1757.0, 3914.0, 5264.0, 7417.0, 10768.0, 15871.0, 25561.0,
    38464.0, 89867.0, 126195.0,
]);

/// Quantiles of the output, in tokens; first and later turns differ little.
const OUTPUT: Quantiles = Quantiles([
    1.0, 10.0, 24.0, 99.0, 213.0, 291.0, 350.0, 399.0, 448.0, 505.0, 597.0, 698.0, 1120.0, 2000.0,
]);

/// Quantiles of the pause before a next turn, in seconds.
const PAUSE_S: Quantiles = Quantiles([
    3.0, 30.0, 42.0, 60.0, 75.0, 96.0, 123.0, 162.0, 222.0, 318.0, 483.0, 615.0, 1473.0, 3030.0,
]);

/// Quantiles of what a next turn adds to the full segments of the whole prompt before it, in tokens.
const GROWTH: Quantiles = Quantiles([
    10.0, 205.0, 308.0, 437.0, 540.0, 637.0, 728.0, 850.0, 1007.0, 1573.0, 4815.0, 7555.0, 17081.0,
    92318.0,
]);

/// Quantiles of what a next turn adds to the segments that it kept where it kept not all, in tokens.
const REWRITTEN: Quantiles = Quantiles([
    10.0, 896.0, 1789.0, 4995.0, 7013.0, 8540.0, 9567.0, 10946.0, 13687.0, 15905.0, 19886.0,
    26313.0, 39271.0, 94968.0,
]);

/// Generates `requests` requests. The same seed gives the same ones, and a smaller number a prefix
/// of a larger.
///
/// ```
/// use tenure_cli::trace::synthetic::generate;
///
/// let trace = generate(100, 7);
/// assert_eq!(trace.requests.len(), 100);
/// assert_eq!(trace, generate(100, 7));
/// ```
#[must_use]
pub fn generate(requests: usize, seed: u64) -> Trace {
    let mut workload = Workload {
        rng: Pcg64Mcg::seed_from_u64(seed),
        next_segment: 1,
        due: BinaryHeap::new(),
        conversations: Vec::new(),
        requests: Vec::new(),
    };
    let burst = Poisson::new(BURST_MEAN).ok();
    let mut now = 0;
    while workload.requests.len() < requests {
        let size = burst.map_or(BURST_MEAN, |burst| burst.sample(&mut workload.rng)) as usize;
        for _ in 0..size.min(requests - workload.requests.len()) {
            workload.arrive(now);
        }
        now += BURST_EVERY_US;
    }
    Trace {
        name: format!("built-in workload, seed {seed}"),
        format: Format::Synthetic,
        requests: workload.requests,
    }
}

/// A conversation that goes on.
struct Conversation {
    turns: usize,
    /// The full segments of its latest prompt.
    segments: Vec<u64>,
}

struct Workload {
    rng: Pcg64Mcg,
    next_segment: u64,
    /// When a conversation has its next turn, and which.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    conversations: Vec<Conversation>,
    requests: Vec<TraceRequest>,
}

impl Workload {
    fn arrive(&mut self, now: u64) {
        match self.due.peek() {
            Some(&Reverse((at, index))) if at <= now => {
                self.due.pop();
                self.next_turn(now, index);
            }
            _ => self.first_turn(now),
        }
    }

    fn first_turn(&mut self, now: u64) {
        let prompt_tokens = FIRST_PROMPT.draw(&mut self.rng);
        self.conversations.push(Conversation { turns: 0, segments: vec![0] });
        self.turn(now, self.conversations.len() - 1, prompt_tokens);
    }

    fn next_turn(&mut self, now: u64, index: usize) {
        let segments = &mut self.conversations[index].segments;
        let added = if self.rng.random_bool(KEEPS_ALL) {
            GROWTH.draw(&mut self.rng)
        } else {
            let kept = self.rng.random_range(1..=segments.len());
            segments.truncate(kept);
            REWRITTEN.draw(&mut self.rng)
        };
        let kept_tokens = segments.len() as u32 * SEGMENT_TOKENS;
        self.turn(now, index, (kept_tokens + added).min(LONGEST_PROMPT));
    }

    /// Lets a conversation, whose `segments` are those that its next prompt keeps, say
    /// `prompt_tokens` tokens.
    fn turn(&mut self, now: u64, index: usize, prompt_tokens: u32) {
        let output_tokens = OUTPUT.draw(&mut self.rng);
        let conversation = &mut self.conversations[index];
        conversation.turns += 1;

        let started = prompt_tokens.div_ceil(SEGMENT_TOKENS) as usize;
        let kept = &mut conversation.segments;
        kept.truncate(started);
        let new = (started - kept.len()) as u64;
        kept.extend(self.next_segment..self.next_segment + new);
        self.next_segment += new;
        self.requests.push(TraceRequest {
            arrival_us: now,
            prompt_tokens,
            output_tokens,
            segments: kept.as_slice().into(),
        });
        kept.truncate((prompt_tokens / SEGMENT_TOKENS).max(1) as usize);

        let again = NEXT_TURN[(conversation.turns - 1).min(NEXT_TURN.len() - 1)];
        if self.rng.random_bool(again) {
            let pause_us = u64::from(PAUSE_S.draw(&mut self.rng)) * 1_000_000;
            self.due.push(Reverse((now + pause_us, index)));
        } else {
            self.conversations[index].segments = Vec::new();
        }
    }
}

/// A distribution by its values at [`Quantiles::AT`], on a logarithmic scale between them.
struct Quantiles([f64; 14]);

impl Quantiles {
    const AT: [f64; 14] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

    fn draw(&self, rng: &mut Pcg64Mcg) -> u32 {
        let at: f64 = rng.random();
        let upper = Self::AT.partition_point(|&quantile| quantile <= at).clamp(1, 13);
        let part = (at - Self::AT[upper - 1]) / (Self::AT[upper] - Self::AT[upper - 1]);
        let (low, high) = (self.0[upper - 1].ln(), self.0[upper].ln());
        (low + part * (high - low)).exp().round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_statistics_it_was_fitted_to() {
        let requests = generate(12_000, 1).requests;
        let mean = |sum: u64| sum as f64 / requests.len() as f64;
        let prompt = mean(requests.iter().map(|r| u64::from(r.prompt_tokens)).sum());
        let output = mean(requests.iter().map(|r| u64::from(r.output_tokens)).sum());
        let seconds = requests.last().unwrap().arrival_us as f64 / 1e6;
        let mut seen = std::collections::HashSet::new();
        let (mut hits, mut all) = (0, 0);
        for request in &requests {
            hits += request.segments.iter().take_while(|&id| seen.contains(id)).count();
            all += request.segments.len();
            seen.extend(request.segments.iter().copied());
        }
        let shared = hits as f64 / all as f64;

        // The trace: 12,035 and 343 tokens, 3,537 s, 36.6 % of segments seen before.
        assert!((10_800.0..13_200.0).contains(&prompt), "mean prompt {prompt}");
        assert!((320.0..375.0).contains(&output), "mean output {output}");
        assert!((3_350.0..3_700.0).contains(&seconds), "{seconds} s");
        assert!((0.32..0.45).contains(&shared), "{shared} shared");
    }

    #[test]
    fn ids_form_a_prefix_tree() {
        let mut place = std::collections::HashMap::new();
        for request in generate(3_000, 2).requests {
            assert_eq!(request.segments.len() as u32, request.prompt_tokens.div_ceil(512));
            let mut before = None;
            for &id in &request.segments {
                assert_eq!(*place.entry(id).or_insert(before), before, "id {id}");
                before = Some(id);
            }
        }
    }
}
