//! The threads that save: each is a connector's worker with requests of its own.
//!
//! The scheduler tells them what it has computed; they plan, pin some steps later, read every block
//! under the pin at the beginning and at the end of their store time, and compare with what the
//! position must hold. Nothing comes back but through the index.

mod account;
mod agenda;
mod saver;
mod store;
mod tally;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, Thread};

pub use account::{Account, Missing};
use saver::Saver;
pub use tally::{Disturbed, Tally};

use super::clock::Clock;
use super::connector::{Computed, Connector};
use super::content::Content;
use super::latency::Latency;
use super::memory::DeviceMemory;

/// How saves are made.
#[derive(Clone, Debug)]
pub struct SaveSettings {
    /// Saver threads.
    pub savers: usize,
    /// Ranks that each store their part of every save.
    pub ranks: u32,
    /// Steps from the plan of a save to its pin.
    pub pin_latency: Latency,
    /// Steps from the pin to the end of a rank's store; at least 1.
    pub store_latency: Latency,
    /// Blocks that the open saves of all savers may pin together, where the ledger keeps a budget.
    pub budget: Option<u64>,
    /// The share of saves that one rank fails to store.
    pub fail: f64,
    /// The share of completion reports that are lost, late or sent twice.
    pub lose: f64,
    /// Steps from the end of the last rank's store after which a save with a missing report is
    /// ended by force.
    pub overdue: u64,
    /// Only tokens of prompts are saved.
    pub prompts_only: bool,
    /// Tokens of a block.
    pub block_size: u32,
    /// Duration of a step, in microseconds of simulated time.
    pub step_us: u64,
    /// What the threads draw random numbers from.
    pub seed: u64,
}

/// What the scheduler tells a saver.
#[derive(Debug)]
pub enum Message {
    /// A request has more full blocks than before.
    Computed {
        /// Its place in the trace.
        number: u32,
        /// What is to be saved.
        computed: Computed,
        /// What its blocks must hold.
        content: Arc<Content>,
        /// Tokens of its prompt.
        prompt: u32,
    },
    /// A request was released.
    Ended {
        /// Its place in the trace.
        number: u32,
    },
}

/// The running saver threads.
pub struct Savers {
    inboxes: Vec<Sender<Message>>,
    threads: Vec<JoinHandle<Tally>>,
    handles: Vec<Thread>,
    clock: Arc<Clock>,
}

impl Savers {
    /// Starts the threads, each with a connector of its own.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start(
        settings: &SaveSettings,
        memory: &Arc<DeviceMemory>,
        mut connector: impl FnMut() -> Box<dyn Connector>,
    ) -> std::io::Result<Savers> {
        let clock = Arc::new(Clock::new(settings.savers));
        let mut savers =
            Savers { inboxes: vec![], threads: vec![], handles: vec![], clock: clock.clone() };
        for number in 0..settings.savers {
            let (inbox, messages): (Sender<Message>, Receiver<Message>) = channel();
            let saver = Saver::new(
                number,
                settings.clone(),
                clock.clone(),
                messages,
                memory.clone(),
                connector(),
            );
            let thread = std::thread::Builder::new()
                .name(format!("saver-{number}"))
                .spawn(move || saver.run())?;
            savers.handles.push(thread.thread().clone());
            savers.threads.push(thread);
            savers.inboxes.push(inbox);
        }
        Ok(savers)
    }

    /// Tells the saver of request `number` something.
    pub fn send(&self, number: u32, message: Message) {
        let inbox = self.inboxes.get(number as usize % self.inboxes.len().max(1));
        // A saver that has panicked takes nothing any more; `finish` tells of it.
        let _sent = inbox.map(|inbox| inbox.send(message));
    }

    /// Goes on to a step, and waits until no saver is more than `lag` steps behind it.
    pub fn step(&self, now: u64, lag: u64) {
        self.clock.set(now);
        self.clock.wait_for_savers(now.saturating_sub(lag), &self.handles);
    }

    /// Waits for the savers to do all that is due up to step `now`, and tells whether that was all.
    pub fn are_idle(&self, now: u64) -> bool {
        self.step(now, 0);
        self.clock.next_due() == Clock::NEVER
    }

    /// Lets time pass from step `now` on until the savers have done all that they have to do, and
    /// gathers what they counted; `None` where one of them has panicked.
    pub fn finish(self, mut now: u64) -> Option<Tally> {
        while !self.are_idle(now) {
            now = self.clock.next_due().max(now + 1);
        }
        drop(self.inboxes);
        let mut all = Tally::default();
        for thread in self.threads {
            thread.thread().unpark();
            all.add(&thread.join().ok()?);
        }
        Some(all)
    }
}
