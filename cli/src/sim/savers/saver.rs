//! One saver thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tenure::{GroupId, Outcome, Rank, Stale};

use super::account::{Cause, RequestAccount};
use super::agenda::Agenda;
use super::store::Store;
use super::{Message, SaveSettings, Tally};
use crate::sim::clock::Clock;
use crate::sim::connector::{Computed, Connector, NotPinned, Pinned, Planned, Reported};
use crate::sim::content::Content;
use crate::sim::latency::Latency;
use crate::sim::memory::DeviceMemory;

/// How much later than in time a late report comes, in steps.
const LATE: Latency = Latency::Uniform(1, 64);

pub(super) struct Saver {
    number: usize,
    settings: SaveSettings,
    clock: Arc<Clock>,
    inbox: Receiver<Message>,
    memory: Arc<DeviceMemory>,
    connector: Box<dyn Connector>,
    rng: Pcg64Mcg,
    agenda: Agenda<Task>,
    requests: HashMap<u32, Followed>,
    jobs: HashMap<u64, Job>,
    tally: Tally,
    epoch: Instant,
    now: u64,
}

/// What comes due.
enum Task {
    /// Pin a planned save.
    Pin { number: u32, planned: Planned, planned_at: u64 },
    /// A rank has stored its part.
    Stored { store: Arc<Store>, rank: Rank, outcome: Outcome },
    /// A report arrives.
    Report { job: u64, rank: Rank, outcome: Outcome },
    /// A job that has not ended by now is ended by force.
    Overdue { job: u64 },
}

/// A job from its pin to its end.
struct Job {
    number: u32,
    tokens: Range<u64>,
    planned_at: u64,
}

/// A request that is being saved.
struct Followed {
    content: Arc<Content>,
    /// What the scheduler told last.
    latest: Computed,
    account: RequestAccount,
    in_flight: u32,
    ended: bool,
}

impl Followed {
    fn new(content: Arc<Content>, latest: Computed) -> Followed {
        Followed { content, latest, account: RequestAccount::default(), in_flight: 0, ended: false }
    }
}

impl Saver {
    pub(super) fn new(
        number: usize,
        settings: SaveSettings,
        clock: Arc<Clock>,
        inbox: Receiver<Message>,
        memory: Arc<DeviceMemory>,
        connector: Box<dyn Connector>,
    ) -> Saver {
        let rng = Pcg64Mcg::seed_from_u64(settings.seed.wrapping_add(number as u64));
        Saver {
            number,
            settings,
            clock,
            inbox,
            memory,
            connector,
            rng,
            agenda: Agenda::new(),
            requests: HashMap::new(),
            jobs: HashMap::new(),
            tally: Tally::default(),
            epoch: Instant::now(),
            now: 0,
        }
    }

    /// Saves until the scheduler has nothing more to tell and nothing is due.
    pub(super) fn run(mut self) -> Tally {
        // The scheduler waits for savers: not for one that has ended, however it ended.
        let _gone = Gone(self.clock.clone(), self.number);
        loop {
            self.now = self.clock.now();
            let open = self.take_messages();
            while let Some(task) = self.agenda.pop(self.now) {
                self.perform(task);
            }
            let next_due = self.agenda.next_due();
            self.clock.report(self.number, self.now, next_due.unwrap_or(Clock::NEVER));
            if !open && next_due.is_none() {
                break;
            }
            self.clock.wait_for_step_after(self.now);
        }
        let numbers: Vec<u32> = self.requests.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.close(number));
        self.tally.account.open_jobs = self.connector.pending() as u64;
        self.tally
    }

    /// Takes in what the scheduler has told. Answers `false` where nothing more will come.
    fn take_messages(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(Message::Computed { number, computed, content, prompt }) => {
                    self.computed(number, computed, content, prompt);
                }
                Ok(Message::Ended { number }) => {
                    if let Some(request) = self.requests.get_mut(&number) {
                        request.ended = true;
                    }
                    self.close_if_done(number);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn computed(&mut self, number: u32, computed: Computed, content: Arc<Content>, prompt: u32) {
        let told = self.positions(&computed.tokens);
        let request = match self.requests.entry(number) {
            Entry::Occupied(entry) => {
                let request = entry.into_mut();
                request.latest = computed;
                request
            }
            Entry::Vacant(entry) => {
                let prompt_only = self.settings.prompts_only.then_some(u64::from(prompt));
                self.connector.follow(&computed.label, prompt_only);
                entry.insert(Followed::new(content, computed))
            }
        };
        request.account.due(told.end);
        // What is not told had its turn before, or was never there: the window had left it behind.
        let hole = Stale::Hole { group: GroupId(0), position: 0 };
        request.account.not_planned(0..told.start, Cause::Stale(hole));
        self.plan(number);
    }

    /// Plans all that there is to save of a request now.
    fn plan(&mut self, number: u32) {
        while self.plan_one(number) && self.connector.offers_again() {}
    }

    /// Plans one save; `false` where there was none to plan.
    fn plan_one(&mut self, number: u32) -> bool {
        let Some(request) = self.requests.get_mut(&number) else { return false };
        match self.connector.plan(&request.latest) {
            Ok(Some(planned)) => {
                self.tally.planned += 1;
                let positions = positions(self.settings.block_size, &planned.tokens);
                self.tally.retried += u64::from(request.account.planned(positions));
                request.in_flight += 1;
                let due = self.now + self.settings.pin_latency.draw(&mut self.rng);
                let planned_at = self.now;
                self.agenda.at(due, Task::Pin { number, planned, planned_at });
                true
            }
            Ok(None) => false,
            Err(stale) => {
                self.tally.not_planned[stale.ordinal()] += 1;
                let told = positions(self.settings.block_size, &request.latest.tokens);
                request.account.not_planned(told, Cause::Stale(stale));
                false
            }
        }
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Pin { number, planned, planned_at } => self.pin(number, planned, planned_at),
            Task::Stored { store, rank, outcome } => self.stored(&store, rank, outcome),
            Task::Report { job, rank, outcome } => self.report(job, rank, outcome),
            Task::Overdue { job } => {
                if self.connector.force_end(job, self.time()) {
                    self.tally.forced += 1;
                    self.job_ended(job, Err(Cause::Forced));
                }
            }
        }
    }

    fn pin(&mut self, number: u32, planned: Planned, planned_at: u64) {
        let tokens = planned.tokens.clone();
        let again = planned.clone();
        let start = Instant::now();
        let pinned = self.connector.pin(planned, self.time());
        self.tally.pin_ns.record(start.elapsed().as_nanos() as u64);
        match pinned {
            Ok(pinned) => self.store(number, pinned, planned_at),
            Err(NotPinned::Budget(_)) => {
                self.tally.over_budget += 1;
                self.agenda.at(self.now + 1, Task::Pin { number, planned: again, planned_at });
            }
            Err(NotPinned::Stale(stale)) => {
                self.tally.stale[stale.ordinal()] += 1;
                self.tally.first_stale_step.get_or_insert(self.now);
                self.settle(number, &tokens, Err(Cause::Stale(stale)));
            }
        }
    }

    /// Begins to store: every rank reads the blocks now, and again when it has stored them.
    fn store(&mut self, number: u32, pinned: Pinned, planned_at: u64) {
        let Some(request) = self.requests.get(&number) else { return };
        let Pinned { job, tokens, blocks } = pinned;
        let (positions, content) = (self.positions(&tokens), request.content.clone());
        let store = Arc::new(Store::begin(job, positions, blocks, content, &self.memory));
        self.jobs.insert(job, Job { number, tokens, planned_at });
        let fails = self.rng.random_bool(self.settings.fail);
        let failing = self.rng.random_range(0..self.settings.ranks);
        let mut last = self.now;
        for rank in 0..self.settings.ranks {
            let due = self.now + self.settings.store_latency.draw(&mut self.rng).max(1);
            last = last.max(due);
            let failed = fails && rank == failing;
            let outcome = if failed { Outcome::Failed } else { Outcome::Done };
            self.agenda.at(due, Task::Stored { store: store.clone(), rank: Rank(rank), outcome });
        }
        // Only once no rank reads any more: what is ended by force protects its blocks no longer.
        if self.settings.lose > 0.0 {
            self.agenda.at(last + self.settings.overdue, Task::Overdue { job });
        }
    }

    fn stored(&mut self, store: &Store, rank: Rank, outcome: Outcome) {
        let wrong = store.end(&self.memory);
        if wrong > 0 {
            self.tally.wrong_blocks += wrong;
            self.tally.wrong_stores += 1;
            self.tally.first_wrong_step.get_or_insert(self.now);
        }

        let job = store.job;
        if !self.rng.random_bool(self.settings.lose) {
            return self.report(job, rank, outcome);
        }
        match self.rng.random_range(0..3) {
            0 => self.tally.disturbed.lost += 1,
            1 => {
                self.tally.disturbed.late += 1;
                let due = self.now + LATE.draw(&mut self.rng);
                self.agenda.at(due, Task::Report { job, rank, outcome });
            }
            _ => {
                self.tally.disturbed.duplicated += 1;
                self.report(job, rank, outcome);
                self.report(job, rank, outcome);
            }
        }
    }

    fn report(&mut self, job: u64, rank: Rank, outcome: Outcome) {
        match self.connector.complete(job, rank, outcome) {
            Reported::Pending => {}
            Reported::Ignored => self.tally.reports_ignored += 1,
            Reported::Last(Outcome::Done) => self.job_ended(job, Ok(())),
            Reported::Last(Outcome::Failed) => {
                self.tally.failed += 1;
                self.job_ended(job, Err(Cause::Failed));
            }
        }
    }

    fn job_ended(&mut self, job: u64, saved: Result<(), Cause>) {
        let Some(Job { number, tokens, planned_at }) = self.jobs.remove(&job) else { return };
        if saved.is_ok() {
            self.tally.completed += 1;
            self.tally.blocks_saved += self.positions(&tokens).len() as u64;
            self.tally.store_steps.record(self.now.saturating_sub(planned_at));
        }
        self.settle(number, &tokens, saved);
    }

    /// Takes in what became of a planned save, and plans again what came to nothing.
    fn settle(&mut self, number: u32, tokens: &Range<u64>, saved: Result<(), Cause>) {
        let positions = self.positions(tokens);
        let Some(request) = self.requests.get_mut(&number) else { return };
        request.in_flight -= 1;
        match saved {
            Ok(()) => request.account.saved(positions),
            Err(cause) => {
                request.account.lost(positions, cause);
                if !request.ended && self.connector.offers_again() {
                    self.plan(number);
                }
            }
        }
        self.close_if_done(number);
    }

    fn close_if_done(&mut self, number: u32) {
        let done = |request: &Followed| request.ended && request.in_flight == 0;
        if self.requests.get(&number).is_some_and(done) {
            self.close(number);
        }
    }

    fn close(&mut self, number: u32) {
        let Some(request) = self.requests.remove(&number) else { return };
        let block_size = self.settings.block_size;
        let tracked = self.connector.forget(&request.latest.label);
        let tracked = tracked.map(|tokens| tokens / u64::from(block_size));
        self.tally.account.close(number, &request.account, tracked, block_size);
    }

    fn positions(&self, tokens: &Range<u64>) -> Range<usize> {
        positions(self.settings.block_size, tokens)
    }

    /// The simulated time, for the ledger of jobs.
    fn time(&self) -> Instant {
        let since = Duration::from_micros(self.now.saturating_mul(self.settings.step_us));
        self.epoch.checked_add(since).unwrap_or(self.epoch)
    }
}

/// The positions of whole blocks that tokens stand at.
fn positions(block_size: u32, tokens: &Range<u64>) -> Range<usize> {
    let position = |token: u64| (token / u64::from(block_size)) as usize;
    position(tokens.start)..position(tokens.end)
}

/// Says, when it is dropped, that a saver does nothing any more.
struct Gone(Arc<Clock>, usize);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.report(self.1, Clock::NEVER, Clock::NEVER);
    }
}
