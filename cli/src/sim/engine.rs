//! A paged-KV scheduler that behaves like vLLM's (V1, first come first served).
//!
//! Each step it first schedules the running requests in their order, then admits waiting ones, all
//! within one token budget: prompts in chunks, one token a step for each decode. When blocks run
//! out the youngest running request is preempted and starts again at the head of the queue. Full
//! blocks are cached by content and found again at admission, also while they are free. A step is
//! dispatched to the device, and its results come back `in_flight` steps later.

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;
use tenure::{BlockId, Error};

use super::device::{Dispatched, Work};
use super::figures::StepFigures;
use super::index::BlockIndex;
use super::memory::DeviceMemory;
use super::pool::Pool;
use super::request::Request;
use super::settings::Limits;
use crate::trace::TraceRequest;

/// A live or waiting request of an [`Engine`].
pub type Slot = usize;

/// A request that has more full blocks computed than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grown {
    /// Which.
    pub slot: Slot,
    /// How many it had.
    pub from: u32,
    /// How many it has.
    pub to: u32,
}

/// The scheduler, over any index.
pub struct Engine<I: BlockIndex> {
    limits: Limits,
    index: I,
    pool: Pool,
    memory: Arc<DeviceMemory>,
    requests: Slab<Request>,
    running: Vec<Slot>,
    waiting: VecDeque<Slot>,
    dispatched: VecDeque<Dispatched<I::Step>>,
    figures: StepFigures,
    /// What a call on the index has freed; empty between calls.
    scratch: Vec<BlockId>,
}

impl<I: BlockIndex> Engine<I> {
    /// An engine whose pool is free and whose index is empty.
    pub fn new(limits: Limits, index: I, memory: Arc<DeviceMemory>) -> Engine<I> {
        Engine {
            limits,
            index,
            pool: Pool::new(limits.blocks),
            memory,
            requests: Slab::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            dispatched: VecDeque::new(),
            figures: StepFigures::default(),
            scratch: Vec::new(),
        }
    }

    /// The index, for its checks.
    pub fn index_mut(&mut self) -> &mut I {
        &mut self.index
    }

    /// The request in a slot; `None` once it is released.
    pub fn request(&self, slot: Slot) -> Option<&Request> {
        self.requests.get(slot)
    }

    /// Whether there is nothing to schedule and nothing in flight.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.dispatched.is_empty()
    }

    /// How many requests wait to be admitted.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Queues a request. Answers `false` where it could not run even if it were alone.
    pub fn arrive(&mut self, number: u32, request: &TraceRequest) -> bool {
        let tokens = Request::total(request.prompt_tokens, request.output_tokens);
        let positions = tokens.div_ceil(self.limits.block_size);
        if self.limits.at_once(positions) > self.limits.blocks {
            return false;
        }
        let request = Request::new(number, request, self.limits.block_size);
        let slot = self.requests.insert(request);
        self.waiting.push_back(slot);
        true
    }

    /// Schedules one step and dispatches it. Answers whether it computes anything.
    pub fn dispatch(&mut self) -> Result<bool, Error> {
        self.reclaim();
        let mut works = Vec::new();
        let mut budget = self.limits.token_budget;
        let preempted = self.schedule_running(&mut budget, &mut works)?;
        if !preempted {
            self.admit_waiting(&mut budget, &mut works)?;
        }
        let step = (!works.is_empty()).then(|| self.index.begin_step());
        self.index.publish();
        let Some(step) = step else { return Ok(false) };
        self.figures.requests = works.len() as u64;
        self.figures.tokens = u64::from(self.limits.token_budget - budget);
        let dispatched = Dispatched::new(step, works, &self.requests, self.limits.block_size);
        self.dispatched.push_back(dispatched);
        Ok(true)
    }

    /// Whether the results of the oldest dispatched step are due, now that `dispatched` says
    /// whether another one was dispatched behind it.
    pub fn results_are_due(&self, dispatched: bool) -> bool {
        let wait_for = if dispatched { self.limits.in_flight } else { 0 };
        self.dispatched.len() > wait_for
    }

    /// Takes in the results of the oldest dispatched step: the device's memory holds what it
    /// computed, and the index knows. Tells the requests that have more full blocks than before;
    /// those that have finished stay until [`release_finished`](Self::release_finished).
    pub fn complete(&mut self, grown: &mut Vec<Grown>) -> Result<(), Error> {
        let Some(dispatched) = self.dispatched.pop_front() else { return Ok(()) };
        dispatched.write(&self.memory);
        self.freeing(|index, freed| index.end_step(dispatched.step, freed))?;

        let block_size = self.limits.block_size;
        let mut commits = Vec::new();
        for work in &dispatched.works {
            // A request that was preempted or released since computes for nobody.
            let Some(request) = work.request_of(&mut self.requests) else { continue };
            let from = request.computed / block_size;
            request.computed = work.through;
            request.generated += u32::from(work.generates);
            let to = request.computed / block_size;
            if let (true, Some(key)) = (to > from, request.key) {
                commits.push((key, u64::from(to) * u64::from(block_size)));
                grown.push(Grown { slot: work.slot, from, to });
            }
        }
        if commits.is_empty() { Ok(()) } else { self.index.commit(&commits) }
    }

    /// Releases the requests that have generated their last token, and tells which they were.
    pub fn release_finished(&mut self, released: &mut Vec<Request>) -> Result<(), Error> {
        let requests = &self.requests;
        let finished = |&slot: &Slot| requests.get(slot).is_some_and(Request::is_finished);
        let slots: Vec<Slot> = self.running.extract_if(.., |slot| finished(slot)).collect();
        for slot in slots {
            let request = self.requests.remove(slot);
            self.figures.releases += 1;
            self.figures.released += request.blocks.len() as u64 - u64::from(request.vacated);
            if let Some(key) = request.key {
                self.freeing(|index, freed| index.release(key, freed))?;
            }
            released.push(request);
        }
        Ok(())
    }

    /// Stops in the middle: takes in what is in flight and releases every request.
    pub fn stop(&mut self) -> Result<(), Error> {
        while !self.dispatched.is_empty() {
            self.complete(&mut Vec::new())?;
        }
        for request in std::mem::take(&mut self.requests) {
            if let Some(key) = request.1.key {
                self.freeing(|index, freed| index.release(key, freed))?;
            }
        }
        self.running.clear();
        self.waiting.clear();
        Ok(())
    }

    /// What was done since this was last asked.
    pub fn take_figures(&mut self) -> StepFigures {
        std::mem::take(&mut self.figures)
    }

    /// Takes in the blocks that pins have given back.
    pub fn reclaim(&mut self) {
        self.index.reclaim(&mut self.scratch);
        self.take_in_freed();
    }

    fn schedule_running(&mut self, budget: &mut u32, works: &mut Vec<Work>) -> Result<bool, Error> {
        let mut preempted = false;
        let mut place = 0;
        while *budget > 0
            && let Some(&slot) = self.running.get(place)
        {
            let tokens = self.requests[slot].outstanding().min(*budget);
            place += 1;
            if tokens == 0 {
                continue;
            }
            self.slide_window(slot)?;
            let before = self.figures.preemptions;
            let scheduled = self.make_room(slot, tokens)?;
            preempted |= self.figures.preemptions > before;
            if !scheduled {
                break;
            }
            self.compute(slot, tokens, works)?;
            *budget -= tokens;
        }
        Ok(preempted)
    }

    /// Preempts the youngest requests until the blocks are free that `slot` needs for `tokens` more
    /// tokens. Answers `false` where it cannot be scheduled in this step: it was preempted itself,
    /// or what the preempted ones gave up is enough but not free yet.
    fn make_room(&mut self, slot: Slot, tokens: u32) -> Result<bool, Error> {
        let need = self.new_blocks(slot, tokens);
        while self.pool.free() < need {
            let coming: u32 = self.dispatched.iter().map(|step| step.given_up).sum();
            if coming > 0 && self.pool.free() + coming >= need {
                return Ok(false);
            }
            let Some(victim) = self.running.pop() else { return Ok(false) };
            self.preempt(victim)?;
            if victim == slot {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn preempt(&mut self, slot: Slot) -> Result<(), Error> {
        let Some(key) = self.requests[slot].key else { return Ok(()) };
        let (successor, held) = self.freeing(|index, freed| index.preempt(key, freed))?;
        if let Some(newest) = self.dispatched.back_mut() {
            newest.given_up += held;
        }
        self.figures.preemptions += 1;
        self.figures.recomputed += u64::from(self.requests[slot].dispatched);
        self.requests[slot].restart(successor);
        self.waiting.push_front(slot);
        Ok(())
    }

    fn admit_waiting(&mut self, budget: &mut u32, works: &mut Vec<Work>) -> Result<(), Error> {
        while *budget > 0
            && self.running.len() < self.limits.max_running
            && let Some(&slot) = self.waiting.front()
        {
            let request = &self.requests[slot];
            let found = self.find_prefix(request);
            // As vLLM does: not before the whole sequence fits, and what is found but free is
            // taken from the free queue too.
            let free = found.blocks.iter().filter(|&&block| self.pool.is_free(block)).count();
            let positions = request.known.div_ceil(self.limits.block_size);
            let missing = self.limits.at_once(positions - found.len());
            if missing + free as u32 > self.pool.free() {
                break;
            }
            self.waiting.pop_front();
            self.running.push(slot);
            self.take_prefix(slot, &found)?;
            let tokens = self.requests[slot].outstanding().min(*budget);
            self.compute(slot, tokens, works)?;
            *budget -= tokens;
        }
        Ok(())
    }

    /// The longest run of full blocks at the front that are cached; with a sliding window, the run
    /// that leaves the least to compute, with holes where the window does not look back. At least
    /// one token is left to compute.
    fn find_prefix(&self, request: &Request) -> Found {
        let most = (request.known - 1) / self.limits.block_size;
        let cached = |position: u32| self.pool.lookup(request.content.word(position as usize));
        let Some(window) = self.limits.window else {
            return Found { holes: 0, blocks: (0..most).map_while(cached).collect() };
        };
        let enough = (window - 1).div_ceil(self.limits.block_size) as usize;
        let mut run = VecDeque::new();
        for position in (0..most).rev() {
            match cached(position) {
                Some(block) => run.push_front(block),
                None => run.clear(),
            }
            if run.len() == enough {
                return Found { holes: position, blocks: run.into() };
            }
        }
        Found { holes: 0, blocks: run.into() }
    }

    /// Begins the request's life, or goes on with the one it got at its preemption, with what was
    /// found of its prefix.
    fn take_prefix(&mut self, slot: Slot, found: &Found) -> Result<(), Error> {
        let request = &mut self.requests[slot];
        let key = match request.key {
            Some(key) => key,
            None => *request.key.insert(self.index.admit(&request.label)?),
        };
        request.vacated = found.holes;
        request.blocks.resize(found.holes as usize, BlockId(u32::MAX));
        request.blocks.extend_from_slice(&found.blocks);
        request.dispatched = found.len() * self.limits.block_size;
        request.computed = 0;
        self.figures.found += found.blocks.len() as u64;
        if found.holes > 0 {
            self.index.assign_holes(key, found.holes)?;
        }

        let mut rest = found.blocks.as_slice();
        while let Some(&first) = rest.first() {
            let free = self.pool.is_free(first);
            let len = rest.iter().take_while(|&&block| self.pool.is_free(block) == free).count();
            let (run, behind) = rest.split_at(len);
            if free {
                run.iter().for_each(|&block| self.pool.touch(block));
                self.index.assign(key, run)?;
            } else if let Err(refused) = self.index.share(key, run) {
                // A pin's end may have freed a held block since the last reclaim.
                self.reclaim();
                match refused {
                    Error::NotOwned { block } if self.pool.is_free(block) => continue,
                    refused => return Err(refused),
                }
            }
            rest = behind;
        }
        Ok(())
    }

    /// Lets the step compute the next `tokens` tokens of a request; the blocks for them are free.
    fn compute(&mut self, slot: Slot, tokens: u32, works: &mut Vec<Work>) -> Result<(), Error> {
        let count = self.new_blocks(slot, tokens);
        let request = &mut self.requests[slot];
        let from = request.blocks.len();
        if count > 0
            && self.pool.take(count, &mut request.blocks)
            && let Some(key) = request.key
        {
            self.index.assign(key, &request.blocks[from..])?;
            self.figures.assigned += u64::from(count);
            self.figures.assign_calls += 1;
        }
        let full = request.dispatched / self.limits.block_size;
        let start = request.dispatched;
        let generates = request.dispatch(tokens);
        let now_full = request.dispatched / self.limits.block_size;
        let filled = request.blocks.iter().enumerate().take(now_full as usize).skip(full as usize);
        for (position, &block) in filled {
            self.pool.remember(block, request.content.word(position));
        }
        works.push(Work::new(slot, request, start, generates));
        Ok(())
    }

    /// Gives up what the window no longer looks back on.
    fn slide_window(&mut self, slot: Slot) -> Result<(), Error> {
        let Some(window) = self.limits.window else { return Ok(()) };
        let request = &mut self.requests[slot];
        let unseen = (request.dispatched + 1).saturating_sub(window) / self.limits.block_size;
        let (front, Some(key)) = (request.vacated, request.key) else { return Ok(()) };
        if unseen <= front {
            return Ok(());
        }
        request.vacated = unseen;
        self.freeing(|index, freed| index.vacate(key, front..unseen, freed))
    }

    /// How many blocks a request lacks for `tokens` more tokens.
    fn new_blocks(&self, slot: Slot, tokens: u32) -> u32 {
        let request = &self.requests[slot];
        let positions = (request.dispatched + tokens).div_ceil(self.limits.block_size);
        positions.saturating_sub(request.blocks.len() as u32)
    }

    /// Makes a call that frees blocks, and takes them into the pool.
    fn freeing<T>(
        &mut self,
        call: impl FnOnce(&mut I, &mut Vec<BlockId>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let answer = call(&mut self.index, &mut self.scratch);
        self.take_in_freed();
        answer
    }

    /// The end of a table becomes the first to be used again: a prefix is remembered longest.
    fn take_in_freed(&mut self) {
        self.scratch.drain(..).rev().for_each(|block| self.pool.give_back(block));
    }
}

/// What the prefix cache has of a request: holes at the front, then blocks.
struct Found {
    holes: u32,
    blocks: Vec<BlockId>,
}

impl Found {
    fn len(&self) -> u32 {
        self.holes + self.blocks.len() as u32
    }
}
