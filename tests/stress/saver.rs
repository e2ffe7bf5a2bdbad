//! Savers plan, pin, read and unpin, panic with pins out, and leak some; planners plan for them, check
//! and copy without pins.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender};

use tenure::{Index, Kind, Pin, Refused};

use crate::memory::{Dice, POISON};
use crate::world::{BLOCK_SIZES, Found, Planned, Tag, Tally, World, some_groups};

/// A pin on its way to a ledger, with what it must find.
pub struct Handed {
    pub pin: Pin,
    pub found: Found,
}

/// Plans that wait, per thread.
const WAITING: usize = 32;
/// Pins that one saver leaks at most.
const LEAKED: usize = 8;

pub struct Saver<'w> {
    world: &'w World,
    index: Index,
    dice: Dice,
    waiting: Vec<Planned>,
    found: Found,
    leaked: Vec<ManuallyDrop<Pin>>,
    tally: Tally,
}

impl<'w> Saver<'w> {
    pub fn new(world: &'w World, index: Index, seed: u64) -> Saver<'w> {
        let (waiting, found, leaked) = (Vec::new(), Vec::new(), Vec::new());
        Saver {
            world,
            index,
            dice: Dice::new(seed),
            waiting,
            found,
            leaked,
            tally: Tally::default(),
        }
    }

    /// Saves until it is told to stop. Answers the pins it has leaked.
    pub fn save(
        mut self,
        plans: &Receiver<Planned>,
        ledger: &SyncSender<Handed>,
    ) -> (Tally, Vec<ManuallyDrop<Pin>>) {
        while !self.world.stopped() {
            if self.dice.one_in(4)
                && let Ok(planned) = plans.try_recv()
            {
                self.wait(planned);
            }
            match self.dice.below(64) {
                0 => self.pin_many(),
                1 => self.narrow(),
                2..4 => self.hand_over(ledger),
                4 => self.panic_with_a_pin(),
                5 if self.dice.one_in(4096) => self.leak(),
                _ => self.save_one(),
            }
        }
        (self.tally, self.leaked)
    }

    /// Plans for the savers until it is told to stop.
    pub fn plan_for(mut self, savers: &[SyncSender<Planned>]) -> Tally {
        while !self.world.stopped() {
            match self.dice.below(4) {
                0 => self.copy(),
                1 => self.replan(),
                2 => self.check(),
                _ => {
                    if let Some(planned) = self.plan() {
                        self.wait(planned);
                        // One that is busy, or has failed, does without.
                        let _ = savers[self.dice.below(savers.len())].try_send(planned);
                    }
                }
            }
        }
        self.tally
    }

    fn wait(&mut self, planned: Planned) {
        if self.waiting.len() == WAITING {
            let at = self.dice.below(WAITING);
            self.waiting[at] = planned;
        } else {
            self.waiting.push(planned);
        }
    }

    fn plan(&mut self) -> Option<Planned> {
        let target = self.world.target(self.dice.below(self.world.scale.lives))?;
        let groups = some_groups(self.dice.roll());
        self.tally.operations += 2;
        let (covered, _) = self.index.visible_tokens(target.key, groups).ok()?;
        if covered == 0 {
            return None;
        }
        let start = self.dice.below(covered as usize) as u64;
        let longest = if self.dice.one_in(16) { covered } else { 64 };
        let end = (start + 1 + self.dice.below(longest as usize) as u64).min(covered);
        let plan = match self.dice.below(8) {
            0 => self.index.plan_load(target.key, start..end, groups),
            _ => self.index.plan(target.key, start..end, groups),
        };
        Some(Planned { request: plan.ok()?, own: target.own })
    }

    /// A plan of just now, or one that has waited.
    fn some_plan(&mut self) -> Option<Planned> {
        if self.waiting.is_empty() || self.dice.one_in(2) {
            let planned = self.plan()?;
            if self.dice.one_in(4) {
                self.wait(planned);
            }
            return Some(planned);
        }
        let at = self.dice.below(self.waiting.len());
        Some(self.waiting.swap_remove(at))
    }

    fn pin(&mut self) -> Option<(Pin, Planned)> {
        let planned = self.some_plan()?;
        self.tally.operations += 1;
        let answer = self.index.pin(&planned.request);
        self.count(answer).map(|pin| (pin, planned))
    }

    fn count(&mut self, answer: Result<Pin, Refused>) -> Option<Pin> {
        match answer {
            Ok(pin) => {
                self.tally.pinned += 1;
                // The one that ends it.
                self.tally.operations += 1;
                Some(pin)
            }
            Err(Refused::Stale(stale)) => {
                self.tally.refused[stale.ordinal()] += 1;
                None
            }
            Err(Refused::Budget(_)) => {
                self.tally.over_budget += 1;
                None
            }
        }
    }

    fn save_one(&mut self) {
        let Some((pin, planned)) = self.pin() else { return };
        self.world.read_under(&pin, &planned, &mut self.found);
        if self.dice.one_in(1024) {
            std::thread::yield_now();
        }
        self.world.still(&self.found);
        drop(pin);
        if self.dice.one_in(2) {
            self.wait(planned);
        }
    }

    fn pin_many(&mut self) {
        let many: Vec<Planned> = (0..8).filter_map(|_| self.some_plan()).collect();
        let requests: Vec<_> = many.iter().map(|planned| planned.request).collect();
        let mut answers = Vec::new();
        self.tally.operations += requests.len() as u64;
        self.index.pin_batch(&requests, &mut answers);
        assert_eq!(answers.len(), many.len());
        for (answer, planned) in answers.into_iter().zip(many) {
            if let Some(pin) = self.count(answer) {
                self.world.read_under(&pin, &planned, &mut self.found);
            }
        }
    }

    /// Reads what is left of a pin after a part was given back.
    fn narrow(&mut self) {
        let Some((mut pin, planned)) = self.pin() else { return };
        let whole = pin.tokens();
        let middle = whole.start + (whole.end - whole.start) / 2;
        let part = if middle == whole.start { whole } else { whole.start..middle };
        self.tally.operations += 1;
        self.tally.narrowed += 1;
        pin.narrow(part).expect("a part of its range");
        self.world.read_under(&pin, &planned, &mut self.found);
        self.world.still(&self.found);
    }

    fn hand_over(&mut self, ledger: &SyncSender<Handed>) {
        let Some((pin, planned)) = self.pin() else { return };
        let mut found = Vec::new();
        self.world.read_under(&pin, &planned, &mut found);
        // One that is busy, or has failed, does without: the pin ends here.
        let _ = ledger.try_send(Handed { pin, found });
    }

    fn panic_with_a_pin(&mut self) {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            if let Some((pin, planned)) = self.pin() {
                self.world.read_under(&pin, &planned, &mut self.found);
                resume_unwind(Box::new("a saver's fault"));
            }
        }));
        match panicked {
            Ok(()) => {}
            Err(fault) if fault.is::<&str>() && self.tally.pinned > 0 => self.tally.panics += 1,
            Err(other) => resume_unwind(other),
        }
    }

    fn leak(&mut self) {
        if self.leaked.len() < LEAKED
            && let Some((pin, _)) = self.pin()
        {
            self.leaked.push(ManuallyDrop::new(pin));
        }
    }

    fn check(&mut self) {
        if let Some(planned) = self.dice.pick(&self.waiting) {
            self.tally.operations += 1;
            let _ = self.index.check(&planned.request);
        }
    }

    fn replan(&mut self) {
        if let Some(&planned) = self.dice.pick(&self.waiting) {
            self.tally.operations += 1;
            if let Ok(request) = self.index.replan(&planned.request) {
                self.wait(Planned { request, ..planned });
            }
        }
    }

    /// Copies without a pin, between two checks.
    fn copy(&mut self) {
        let Some(&planned) = self.dice.pick(&self.waiting) else { return };
        let request = &planned.request;
        if request.kind() == Kind::Load {
            return;
        }
        // The view says which blocks those are, where it is of the plan's epoch.
        let Ok(view) = self.index.view(request.key()) else { return };
        self.tally.operations += 3;
        if view.epoch < request.epoch() || self.index.check(request).is_err() {
            return;
        }
        self.found.clear();
        let tokens = request.tokens();
        if self.dice.one_in(128) {
            std::thread::yield_now();
        }
        for group in request.groups().iter() {
            let size = u64::from(BLOCK_SIZES[group.0 as usize]);
            let (first, last) = (tokens.start / size, tokens.end.div_ceil(size));
            for position in first..last {
                // The table may have lost it since, and then the second check refuses.
                let block = view.table(group).get(position as usize).copied().flatten();
                let word = block.map_or(POISON, |block| self.world.memory.read(block));
                self.found.push((block.unwrap_or(tenure::BlockId(0)), word));
            }
        }
        if self.index.check(request).is_err() {
            self.tally.copies_refused += 1;
            return;
        }
        self.tally.copies += 1;
        for &(block, word) in &self.found {
            let tag = Tag::unpack(word);
            let right = word != POISON
                && tag.epoch <= request.epoch().0
                && (!planned.own || tag.owner == Tag::owner_bits(request.key()));
            assert!(right, "{tag:?} copied from block {block} for {planned:?}");
        }
    }
}
