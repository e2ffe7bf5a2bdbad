//! A request on its way through the scheduler.

use std::sync::Arc;

use tenure::{BlockId, RequestKey};

use super::content::Content;
use crate::trace::TraceRequest;

/// A request from its arrival to its release.
pub struct Request {
    /// Its place in the trace.
    pub number: u32,
    /// Its label in the index.
    pub label: Arc<str>,
    /// What each of its blocks must hold.
    pub content: Arc<Content>,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens to generate.
    pub output: u32,
    /// Its newest life; `None` before it was first scheduled.
    pub key: Option<RequestKey>,
    /// How often it was preempted.
    pub preemptions: u32,
    /// The block at each position; what stands before `vacated` means nothing.
    pub blocks: Vec<BlockId>,
    /// Positions at the front that are given up.
    pub vacated: u32,
    /// Tokens whose computation was dispatched in this life, or that came from the prefix cache.
    pub dispatched: u32,
    /// Tokens whose computation has ended.
    pub computed: u32,
    /// Tokens that there are to compute: the prompt and what is generated, as far as dispatched.
    pub known: u32,
    /// Tokens generated.
    pub generated: u32,
}

impl Request {
    pub fn new(number: u32, request: &TraceRequest, block_size: u32) -> Request {
        Request {
            number,
            label: format!("request-{number}").into(),
            content: Arc::new(Content::new(number, request, block_size)),
            prompt: request.prompt_tokens,
            output: request.output_tokens,
            key: None,
            preemptions: 0,
            blocks: Vec::new(),
            vacated: 0,
            dispatched: 0,
            computed: 0,
            known: request.prompt_tokens,
            generated: 0,
        }
    }

    /// The tokens that are computed at its end; the last generated one never is.
    pub fn total(prompt: u32, output: u32) -> u32 {
        prompt + output - 1
    }

    /// The tokens that a step could compute now.
    pub fn outstanding(&self) -> u32 {
        self.known - self.dispatched
    }

    /// Whether its last token is generated.
    pub fn is_finished(&self) -> bool {
        self.generated >= self.output
    }

    /// Notes that a step computes the next `tokens` tokens. Answers whether it generates one.
    pub fn dispatch(&mut self, tokens: u32) -> bool {
        self.dispatched += tokens;
        if self.dispatched < self.known {
            return false;
        }
        // The last generated token needs no computation of its own.
        if self.known < Request::total(self.prompt, self.output) {
            self.known += 1;
        }
        true
    }

    /// Forgets what was computed, as a preemption does.
    pub fn restart(&mut self, successor: RequestKey) {
        self.key = Some(successor);
        self.preemptions += 1;
        self.blocks.clear();
        self.vacated = 0;
        self.dispatched = 0;
        self.computed = 0;
        self.known = self.prompt + self.generated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(prompt: u32, output: u32) -> Request {
        let (arrival_us, segments) = (0, Box::default());
        Request::new(
            0,
            &TraceRequest { arrival_us, prompt_tokens: prompt, output_tokens: output, segments },
            16,
        )
    }

    #[test]
    fn computes_all_but_the_last_generated_token() {
        let mut request = request(100, 3);
        assert!(!request.dispatch(60));
        assert_eq!(request.outstanding(), 40);
        assert!(request.dispatch(40));
        assert!(request.dispatch(1));
        assert!(request.dispatch(1));
        assert_eq!((request.dispatched, request.outstanding()), (102, 0));
    }

    #[test]
    fn recomputes_what_it_had_generated() {
        let mut request = request(100, 30);
        request.dispatch(100);
        request.generated = 10;
        request.restart(RequestKey::from_bits(1));
        assert_eq!((request.outstanding(), request.preemptions), (110, 1));
    }
}
