//! What each block of a request holds, as one word a block.

use crate::trace::{SEGMENT_TOKENS, TraceRequest};

/// The content words of a request's block positions, from its first to its last.
///
/// A word stands for the content of a whole block *and* of everything before it, as a prefix-cache
/// key does: two requests have equal words exactly where their prompts are equal from the start to
/// the end of the block. Blocks that hold generated tokens, and prompts of which the trace tells no
/// content, have words of their own. No word is 0.
#[derive(Debug)]
pub struct Content {
    words: Box<[u64]>,
}

impl Content {
    /// The words of request number `number` of a trace, in blocks of `block_size` tokens.
    pub fn new(number: u32, request: &TraceRequest, block_size: u32) -> Content {
        let block_size = u64::from(block_size);
        let prompt = u64::from(request.prompt_tokens);
        let tokens = prompt + u64::from(request.output_tokens);
        let own = mix(OWN ^ u64::from(number));
        let mut prefix = Prefix { segments: &request.segments, taken: 0, hash: SHARED };
        let words = (0..tokens.div_ceil(block_size)).map(|position| {
            let end = (position + 1) * block_size;
            let shared = if end <= prompt { prefix.through(end) } else { None };
            mix(shared.unwrap_or(own).wrapping_add(position)).max(1)
        });
        Content { words: words.collect() }
    }

    /// What the block at `position` holds once it is computed; 0 past the end of the request.
    pub fn word(&self, position: usize) -> u64 {
        self.words.get(position).copied().unwrap_or(0)
    }
}

const OWN: u64 = 0x6f77_6e00_0000_0000;
const SHARED: u64 = 0x7368_6172_6564_0000;

/// A running hash over the segments of a prompt.
struct Prefix<'a> {
    segments: &'a [u64],
    taken: u64,
    hash: u64,
}

impl Prefix<'_> {
    /// The hash of all segments that start before token `end`; `None` where the trace tells none.
    fn through(&mut self, end: u64) -> Option<u64> {
        while self.taken * u64::from(SEGMENT_TOKENS) < end {
            let (&segment, rest) = self.segments.split_first()?;
            self.segments = rest;
            self.hash = mix(self.hash ^ mix(segment));
            self.taken += 1;
        }
        Some(self.hash)
    }
}

/// A bijection that spreads its input over all bits (the finaliser of splitmix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prompt_tokens: u32, segments: &[u64]) -> TraceRequest {
        TraceRequest { arrival_us: 0, prompt_tokens, output_tokens: 40, segments: segments.into() }
    }

    /// How many leading blocks two requests have in common.
    fn shared(a: &TraceRequest, b: &TraceRequest, block_size: u32) -> usize {
        let (a, b) = (Content::new(1, a, block_size), Content::new(2, b, block_size));
        a.words.iter().zip(&b.words).take_while(|(a, b)| a == b).count()
    }

    #[test]
    fn full_blocks_of_equal_segments_are_shared() {
        let (a, b) = (request(1100, &[0, 1, 2]), request(1400, &[0, 1, 3]));
        assert_eq!(shared(&a, &b, 16), 64);
        // A block of 48 tokens ends inside a segment at 1008, and crosses into the third at 1056.
        assert_eq!(shared(&a, &b, 48), 21);
        assert_eq!(shared(&a, &b, 1024), 1);
        assert_eq!(shared(&a, &b, 2048), 0);
    }

    #[test]
    fn the_partly_filled_end_of_a_prompt_is_its_own() {
        let a = request(1000, &[0, 1]);
        assert_eq!(shared(&a, &a, 16), 62);
        assert_eq!(Content::new(1, &a, 16).words.len(), 65);
    }

    #[test]
    fn prompts_without_ids_share_nothing() {
        let a = request(1024, &[]);
        assert_eq!(shared(&a, &a, 16), 0);
    }

    #[test]
    fn equal_ids_after_unequal_ones_are_not_shared() {
        assert_eq!(shared(&request(1024, &[0, 5]), &request(1024, &[1, 5]), 16), 0);
    }

    #[test]
    fn words_differ_by_position() {
        let content = Content::new(0, &request(4096, &[0, 1, 2, 3, 4, 5, 6, 7]), 16);
        let distinct: std::collections::HashSet<_> = content.words.iter().collect();
        assert_eq!(distinct.len(), content.words.len());
        assert_eq!(content.word(1 << 40), 0);
    }
}
