//! Threads that call the index at random and write down what they called and what was answered.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tenure::{
    BlockId, Config, GroupId, Groups, Index, Pin, PlanError, Refused, Released, RequestKey,
    SaveRequest, Scheduler, Stale,
};

use crate::history::{Clock, Event, Given, History, Op, PinNumber};
use crate::memory::Dice;

const G0: GroupId = GroupId(0);
const BLOCKS: u32 = 48;
const LIVES: usize = 3;
const LONGEST: usize = 6;
/// Calls of one reader within one step of the scheduler, at most.
const CALLS: u32 = if cfg!(miri) { 4 } else { 24 };

/// What the threads of a run share.
pub struct Run {
    clock: Clock,
    /// Keys of live requests and of some that were, as bits; 0 for none.
    board: Vec<AtomicU64>,
    pins: AtomicU64,
    stop: AtomicBool,
    /// Steps of the scheduler.
    steps: AtomicU64,
    /// One answer in so many is written down wrong.
    lies: Option<usize>,
}

impl Run {
    pub fn new(lies: Option<usize>) -> Run {
        Run {
            clock: Clock::default(),
            board: (0..2 * LIVES).map(|_| AtomicU64::new(0)).collect(),
            pins: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            lies,
        }
    }

    pub fn build() -> (Scheduler, Index) {
        Config::new(BLOCKS).block_sizes([1]).track_commits(true).build().expect("can be built")
    }

    /// A call, between two ticks.
    fn timed<T>(&self, call: impl FnOnce() -> T) -> (T, u64, u64) {
        let called = self.clock.tick();
        let answer = call();
        (answer, called, self.clock.tick())
    }
}

/// A thread's calls in order, with the lives they are about.
#[derive(Default)]
pub struct Log {
    events: Vec<(RequestKey, Event)>,
    /// Lives about which something wrong was written down.
    lied_about: Vec<RequestKey>,
}

pub struct Reader<'r> {
    run: &'r Run,
    index: Index,
    dice: Dice,
    planned: Vec<SaveRequest>,
    pins: Vec<(RequestKey, PinNumber, Pin)>,
    log: Log,
}

impl<'r> Reader<'r> {
    pub fn new(run: &'r Run, index: Index, seed: u64) -> Reader<'r> {
        let (planned, pins, log) = (Vec::new(), Vec::new(), Log::default());
        Reader { run, index, dice: Dice::new(seed), planned, pins, log }
    }

    pub fn record(mut self) -> Log {
        let (mut step, mut calls) = (0, 0);
        while !self.run.stop.load(Ordering::Relaxed) {
            let now = self.run.steps.load(Ordering::Relaxed);
            if step == now && calls >= CALLS {
                // The scheduler's thread sleeps, and histories are to stay short.
                std::thread::yield_now();
                continue;
            }
            calls = if step == now { calls + 1 } else { 0 };
            step = now;
            match self.dice.below(8) {
                0..2 => self.plan(),
                2..4 => self.pin(),
                4 => self.check(),
                5 => self.view(),
                _ => self.unpin(),
            }
        }
        while !self.pins.is_empty() {
            self.unpin();
        }
        self.log
    }

    fn note(&mut self, key: RequestKey, called: u64, returned: u64, mut op: Op) {
        if self.run.lies.is_some_and(|one_in| self.dice.one_in(one_in)) && distort(&mut op) {
            self.log.lied_about.push(key);
        }
        self.log.events.push((key, Event { called, returned, op }));
    }

    fn plan(&mut self) {
        let at = self.dice.below(self.run.board.len());
        let bits = self.run.board[at].load(Ordering::Relaxed);
        if bits == 0 {
            return;
        }
        let (key, tokens) = (RequestKey::from_bits(bits), self.range());
        let since = self.index.epoch();
        let call = || self.index.plan(key, tokens.clone(), Groups::ALL);
        let (answer, called, returned) = self.run.timed(call);
        let answer = match answer {
            Ok(request) => {
                if self.planned.len() == 8 {
                    self.planned.remove(0);
                }
                self.planned.push(request);
                Ok(request.epoch())
            }
            Err(PlanError::Stale(stale)) => Err(stale),
            Err(other) => panic!("{other} for {tokens:?}"),
        };
        self.note(key, called, returned, Op::Plan { since, tokens, answer });
    }

    fn range(&mut self) -> Range<u64> {
        let start = self.dice.below(LONGEST - 1);
        let end = start + 1 + self.dice.below(3.min(LONGEST - start));
        start as u64..end as u64
    }

    fn pin(&mut self) {
        if self.pins.len() == 3 {
            return self.unpin();
        }
        let Some(&request) = self.dice.pick(&self.planned) else { return };
        let (answer, called, returned) = self.run.timed(|| self.index.pin(&request));
        let answer = match answer {
            Ok(pin) => {
                let number = self.run.pins.fetch_add(1, Ordering::Relaxed);
                self.pins.push((request.key(), number, pin));
                Ok(number)
            }
            Err(Refused::Stale(stale)) => Err(stale),
            Err(other) => panic!("{other} for {request:?}"),
        };
        let (tokens, planned) = (request.tokens(), request.epoch());
        self.note(request.key(), called, returned, Op::Pin { tokens, planned, answer });
    }

    fn check(&mut self) {
        let Some(&request) = self.dice.pick(&self.planned) else { return };
        let (answer, called, returned) = self.run.timed(|| self.index.check(&request));
        let (tokens, planned) = (request.tokens(), request.epoch());
        self.note(request.key(), called, returned, Op::Check { tokens, planned, answer });
    }

    fn view(&mut self) {
        let at = self.dice.below(self.run.board.len());
        let bits = self.run.board[at].load(Ordering::Relaxed);
        if bits == 0 {
            return;
        }
        let (key, since) = (RequestKey::from_bits(bits), self.index.epoch());
        let (answer, called, returned) = self.run.timed(|| self.index.view(key));
        let answer = answer.map(|view| (view.epoch, view.table(G0).to_vec()));
        self.note(key, called, returned, Op::View { since, answer });
    }

    fn unpin(&mut self) {
        if !self.pins.is_empty() {
            let at = self.dice.below(self.pins.len());
            let (key, number, pin) = self.pins.swap_remove(at);
            let ((), called, returned) = self.run.timed(|| drop(pin));
            self.note(key, called, returned, Op::Unpin { pin: number });
        }
    }
}

/// Makes an answer wrong. Whether there was one that could be.
fn distort(op: &mut Op) -> bool {
    match op {
        Op::Check { answer, .. } => {
            *answer = if answer.is_ok() { Err(Stale::Gone) } else { Ok(()) };
            true
        }
        Op::Plan { answer: Ok(epoch), .. } => {
            // A step that is yet far away.
            epoch.0 += 1000;
            true
        }
        Op::Pin { answer, .. } if answer.is_err() => {
            *answer = Err(Stale::Reset);
            true
        }
        Op::View { answer: Ok((_, table)), .. } if !table.is_empty() => {
            table.pop();
            true
        }
        _ => false,
    }
}

/// The scheduler's thread.
pub struct Churn<'r> {
    run: &'r Run,
    scheduler: Scheduler,
    dice: Dice,
    lives: Vec<Option<(RequestKey, Vec<Option<BlockId>>)>>,
    free: Vec<BlockId>,
    /// Blocks that were lost and not reported free, with the lives that lost them.
    lost: HashMap<BlockId, RequestKey>,
    log: Log,
    publishes: Vec<Event>,
}

impl<'r> Churn<'r> {
    pub fn new(run: &'r Run, scheduler: Scheduler, seed: u64) -> Churn<'r> {
        Churn {
            run,
            scheduler,
            dice: Dice::new(seed),
            lives: vec![None; LIVES],
            free: (0..BLOCKS).map(BlockId).collect(),
            lost: HashMap::new(),
            log: Log::default(),
            publishes: Vec::new(),
        }
    }

    pub fn step(&mut self) {
        for _ in 0..1 + self.dice.below(3) {
            let at = self.dice.below(LIVES);
            match self.lives[at].take() {
                Some((key, table)) => self.lives[at] = self.change(at, key, table),
                None => self.admit(at),
            }
        }
        self.reclaim();
        self.publish();
    }

    /// Ends the readers' part.
    pub fn stop(&self) {
        self.run.stop.store(true, Ordering::Relaxed);
    }

    fn note(&mut self, key: RequestKey, called: u64, returned: u64, op: Op) {
        self.log.events.push((key, Event { called, returned, op }));
    }

    /// Both halves of a call that takes something away.
    fn lose(&mut self, key: RequestKey, called: u64, returned: u64, op: Op, given: Given) {
        self.note(key, called, returned, op);
        self.note(key, called, returned, Op::Account { given });
    }

    fn admit(&mut self, at: usize) {
        let (run, published) = (self.run, self.scheduler.epoch());
        let label = format!("life {}", self.log.events.len());
        let (key, called, returned) = run.timed(|| self.scheduler.admit(&label));
        let key = key.expect("a new label");
        self.note(key, called, returned, Op::Admit { published });
        self.lives[at] = Some((key, Vec::new()));
        run.board[at].store(key.to_bits(), Ordering::Relaxed);
    }

    fn change(
        &mut self,
        at: usize,
        key: RequestKey,
        mut table: Vec<Option<BlockId>>,
    ) -> Option<(RequestKey, Vec<Option<BlockId>>)> {
        let run = self.run;
        match self.dice.below(16) {
            0 => {
                let (released, called, returned) =
                    run.timed(|| self.scheduler.release(key).map(given));
                let given = self.take(key, &table, released.expect("live"));
                self.lose(key, called, returned, Op::Release, given);
                // It can still be asked about.
                run.board[LIVES + at].store(key.to_bits(), Ordering::Relaxed);
                return None;
            }
            1 => {
                let published = self.scheduler.epoch();
                let (preempted, called, returned) = run.timed(|| {
                    self.scheduler.preempt(key).map(|p| (p.successor, given(p.released)))
                });
                let (successor, told) = preempted.expect("live");
                let given = self.take(key, &table, told);
                self.lose(key, called, returned, Op::Preempt, given);
                self.note(successor, called, returned, Op::Admit { published });
                run.board[LIVES + at].store(key.to_bits(), Ordering::Relaxed);
                run.board[at].store(successor.to_bits(), Ordering::Relaxed);
                return Some((successor, Vec::new()));
            }
            2..5 => {
                let len = self.dice.below(table.len() + 1);
                let lost = table.split_off(len);
                let len = len as u32;
                let (released, called, returned) =
                    run.timed(|| self.scheduler.truncate(key, G0, len).map(given));
                let given = self.take(key, &lost, released.expect("within the table"));
                self.lose(key, called, returned, Op::Truncate { len }, given);
            }
            5..7 => {
                let start = self.dice.below(table.len() + 1);
                let end = (start + self.dice.below(3)).min(table.len());
                let lost = table[start..end].to_vec();
                table[start..end].fill(None);
                let positions = start as u32..end as u32;
                let (released, called, returned) =
                    run.timed(|| self.scheduler.vacate(key, G0, positions.clone()).map(given));
                let given = self.take(key, &lost, released.expect("within the table"));
                self.lose(key, called, returned, Op::Vacate { positions }, given);
            }
            7..9 if !table.is_empty() && !self.free.is_empty() => {
                let position = self.dice.below(table.len());
                let block = self.free.swap_remove(self.dice.below(self.free.len()));
                let lost = [table[position].replace(block)];
                let position = position as u32;
                let (released, called, returned) =
                    run.timed(|| self.scheduler.replace(key, G0, position, block).map(given));
                let given = self.take(key, &lost, released.expect("within the table, and free"));
                self.lose(key, called, returned, Op::Replace { position, block }, given);
            }
            9..11 => {
                let tokens = self.dice.below(table.len() + 1) as u64;
                let (done, called, returned) = run.timed(|| self.scheduler.commit(key, tokens));
                done.expect("within the table");
                self.note(key, called, returned, Op::Commit { tokens });
            }
            _ => {
                let more = (1 + self.dice.below(3)).min(LONGEST - table.len());
                let blocks = self.free.split_off(self.free.len().saturating_sub(more));
                let (done, called, returned) =
                    run.timed(|| self.scheduler.assign(key, G0, &blocks));
                done.expect("reported free");
                table.extend(blocks.iter().copied().map(Some));
                self.note(key, called, returned, Op::Assign { blocks });
                let tokens = table.len() as u64;
                let (done, called, returned) = run.timed(|| self.scheduler.commit(key, tokens));
                done.expect("within the table");
                self.note(key, called, returned, Op::Commit { tokens });
            }
        }
        Some((key, table))
    }

    /// Notes what was lost, and takes what is free of it.
    fn take(&mut self, key: RequestKey, lost: &[Option<BlockId>], given: Given) -> Given {
        self.lost.extend(lost.iter().flatten().map(|&block| (block, key)));
        for block in &given.freed {
            assert!(self.lost.remove(block).is_some(), "{block} was not lost");
        }
        self.free.extend(&given.freed);
        given
    }

    fn reclaim(&mut self) {
        let run = self.run;
        let (told, called, returned) = run.timed(|| self.scheduler.reclaim().to_vec());
        // One part for each life that has lost something, also where nothing was told.
        let mut parts: BTreeMap<u64, Vec<BlockId>> =
            self.lost.values().map(|key| (key.to_bits(), Vec::new())).collect();
        for block in told {
            let key = self.lost.remove(&block).expect("was lost, and not free");
            parts.entry(key.to_bits()).or_default().push(block);
            self.free.push(block);
        }
        for (bits, blocks) in parts {
            self.note(RequestKey::from_bits(bits), called, returned, Op::Reclaim { blocks });
        }
    }

    fn publish(&mut self) {
        let run = self.run;
        let (epoch, called, returned) = run.timed(|| self.scheduler.publish());
        self.publishes.push(Event { called, returned, op: Op::Publish { epoch } });
        run.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// One history for each life, and the lives that were lied about.
    pub fn histories(mut self, readers: Vec<Log>) -> (Vec<History>, Vec<History>) {
        // Pins have ended: what they held comes back.
        self.reclaim();
        self.publish();
        let threads = 1 + readers.len();
        let (mut lives, mut lied): (HashMap<_, History>, Vec<_>) = (HashMap::new(), Vec::new());
        for (at, log) in std::iter::once(self.log).chain(readers).enumerate() {
            lied.extend(log.lied_about);
            for (key, event) in log.events {
                let life = lives.entry(key).or_default();
                life.threads.resize(threads, Vec::new());
                life.threads[at].push(event);
            }
        }
        for life in lives.values_mut() {
            let mine = &mut life.threads[0];
            let born = mine.first().map_or(u64::MAX, |event| event.called);
            let last = mine.len();
            mine.extend(self.publishes.iter().filter(|event| event.called > born).cloned());
            if last < mine.len() {
                mine.sort_by_key(|event| event.called);
            }
        }
        let (lied, honest): (Vec<_>, Vec<_>) =
            lives.into_iter().partition(|(key, _)| lied.contains(key));
        let histories = |lives: Vec<(_, History)>| lives.into_iter().map(|(_, life)| life);
        (histories(honest).collect(), histories(lied).collect())
    }
}

fn given(released: Released<'_>) -> Given {
    Given { freed: released.freed().to_vec(), held: released.held() }
}
