//! Steps that are dispatched to the device and have not ended.

use slab::Slab;
use tenure::BlockId;

use super::memory::DeviceMemory;
use super::request::Request;

/// What a step does for one request.
pub struct Work {
    /// The request.
    pub slot: usize,
    /// Tells its life from later ones in the same slot.
    life: (u32, u32),
    start: u32,
    /// The token up to which the request is computed when the step has ended.
    pub through: u32,
    /// Whether the step generates a token.
    pub generates: bool,
}

impl Work {
    /// The work of computing a request from token `start` to where it is dispatched now.
    pub fn new(slot: usize, request: &Request, start: u32, generates: bool) -> Work {
        Work { slot, life: life(request), start, through: request.dispatched, generates }
    }

    /// The request, unless that life of it has ended.
    pub fn request_of<'a>(&self, requests: &'a mut Slab<Request>) -> Option<&'a mut Request> {
        requests.get_mut(self.slot).filter(|request| life(request) == self.life)
    }
}

fn life(request: &Request) -> (u32, u32) {
    (request.number, request.preemptions)
}

/// A step on the device: what it does for whom, and what it writes where.
pub struct Dispatched<S> {
    /// The index's name for it.
    pub step: S,
    /// Its work, by request.
    pub works: Vec<Work>,
    /// Blocks that preemptions have given up while it was the newest step, and that it may protect
    /// until its end.
    pub given_up: u32,
    /// The device writes these whatever becomes of the requests.
    writes: Vec<(BlockId, u64)>,
}

impl<S> Dispatched<S> {
    /// A step over `works`, each of which has its blocks.
    pub fn new(
        step: S,
        works: Vec<Work>,
        requests: &Slab<Request>,
        block_size: u32,
    ) -> Dispatched<S> {
        let mut writes = Vec::with_capacity(works.len());
        for work in &works {
            let Some(request) = requests.get(work.slot) else { continue };
            let positions = work.start / block_size..work.through.div_ceil(block_size);
            writes.extend(positions.filter_map(|position| {
                let position = position as usize;
                Some((*request.blocks.get(position)?, request.content.word(position)))
            }));
        }
        Dispatched { step, works, given_up: 0, writes }
    }

    /// Writes what the step computes.
    pub fn write(&self, memory: &DeviceMemory) {
        for &(block, word) in &self.writes {
            memory.write(block, word);
        }
    }
}
