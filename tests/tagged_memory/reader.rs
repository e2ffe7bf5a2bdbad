//! The readers' side: plans, pins, checks and looks, and compares every word it reads with what the
//! plan said it would be.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use tenure::{BlockId, GroupId, Groups, Index, Kind, Pin, Refused, SaveRequest, Stale, TableView};

use crate::memory::{Dice, POISON, Picture, Planned, World};

/// What one thread hands to another to read and to end.
pub enum Handed {
    Pinned(Pin, Planned),
    /// An exact hold with the content of its blocks; of a block whose content is not committed, it
    /// may not be written yet.
    Hold {
        pin: Pin,
        contents: Vec<(BlockId, u64)>,
    },
}

/// How often what happened, so that a run in which nothing happened is not taken for a good one.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    pub pinned: u64,
    pub refused: [u64; Stale::COUNT],
    pub copied: u64,
    pub handed_over: u64,
    pub narrowed: u64,
    pub pictures: u64,
}

/// Plans that wait to be pinned, and pins that are kept, per thread.
const PLANNED: usize = 48;
const KEPT: usize = 4;

pub struct Reader<'w> {
    world: &'w World,
    index: Index,
    dice: Dice,
    planned: Vec<Planned>,
    kept: Vec<Handed>,
    inbox: Receiver<Handed>,
    others: Vec<Sender<Handed>>,
    pub tally: Tally,
}

impl<'w> Reader<'w> {
    pub fn new(
        world: &'w World,
        index: Index,
        seed: u64,
        inbox: Receiver<Handed>,
        others: Vec<Sender<Handed>>,
    ) -> Reader<'w> {
        let (planned, kept, tally) = (Vec::new(), Vec::new(), Tally::default());
        Reader { world, index, dice: Dice::new(seed), planned, kept, inbox, others, tally }
    }

    /// Works until it is told to stop, and ends all its pins.
    pub fn run(mut self) -> Tally {
        while !self.world.stop.load(Ordering::Acquire) {
            self.turn();
            if self.world.winding_down.load(Ordering::Acquire) {
                self.let_go();
            }
        }
        self.let_go();
        self.tally
    }

    fn turn(&mut self) {
        match self.dice.below(16) {
            0..=3 => self.plan(),
            4..=8 => self.pin_one(),
            9 => self.pin_many(),
            10..=11 => self.copy(),
            12 => self.replan(),
            13 => self.look(),
            14 => self.receive(),
            _ => self.visit_kept(),
        }
    }

    fn plan(&mut self) {
        let Some(picture) = self.world.latest() else { return };
        let keys: Vec<_> = picture.lives.keys().copied().collect();
        let Some(&key) = self.dice.pick(&keys) else { return };
        let Ok((covered, _)) = self.index.visible_tokens(key, Groups::ALL) else { return };
        if covered == 0 {
            return;
        }
        let tokens = self.part_of(0..covered);
        let groups = match self.dice.below(4) {
            0 => Groups::only(GroupId(self.dice.below(self.world.shape.block_sizes.len()) as u32)),
            _ => Groups::ALL,
        };
        let plan = match self.dice.below(4) {
            0 => self.index.plan_load(key, tokens, groups),
            _ => self.index.plan(key, tokens, groups),
        };
        plan.into_iter().for_each(|request| self.expect(&request));
    }

    fn replan(&mut self) {
        if let Some(planned) = self.dice.pick(&self.planned)
            && let Ok(request) = self.index.replan(&planned.request)
        {
            self.expect(&request);
        }
    }

    /// Keeps a plan with what it must find, unless this thread slept for too long to know.
    fn expect(&mut self, request: &SaveRequest) {
        if let Some(picture) = self.world.at(request.epoch()) {
            if self.planned.len() == PLANNED {
                self.planned.swap_remove(0);
            }
            self.planned.push(picture.planned(request, &self.world.shape));
        }
    }

    fn pin_one(&mut self) {
        if !self.planned.is_empty() {
            let planned = self.planned.swap_remove(self.dice.below(self.planned.len()));
            let answer = self.index.pin(&planned.request);
            self.take(answer, planned);
        }
    }

    fn pin_many(&mut self) {
        let many: Vec<Planned> = self.planned.drain(..self.planned.len().min(8)).collect();
        let requests: Vec<SaveRequest> = many.iter().map(|planned| planned.request).collect();
        let mut answers = Vec::new();
        self.index.pin_batch(&requests, &mut answers);
        assert_eq!(answers.len(), many.len());
        for (answer, planned) in answers.into_iter().zip(many) {
            self.take(answer, planned);
        }
    }

    /// A plan that could be pinned, or could be later, is kept for another time.
    fn take(&mut self, answer: Result<Pin, Refused>, planned: Planned) {
        match answer {
            Ok(pin) => {
                self.tally.pinned += 1;
                for (group, entries) in &planned.groups {
                    let blocks: Vec<BlockId> = entries.iter().map(|&(block, _)| block).collect();
                    assert_eq!(pin.blocks_of(*group), blocks, "not the planned blocks: {pin:?}");
                }
                self.let_the_others_work();
                self.read_under(&planned);
                self.planned.push(planned.clone());
                self.dispose(pin, planned);
            }
            Err(Refused::Stale(stale)) => {
                self.tally.refused[stale.ordinal()] += 1;
                let allowed = !planned.calm || stale == Stale::Draining;
                assert!(
                    allowed,
                    "refused as {stale}, though nothing was lost: {:?}",
                    planned.request
                );
                if matches!(stale, Stale::NotCommitted { .. }) {
                    self.planned.push(planned);
                }
            }
            Err(refused) => panic!("{refused}: {:?}", planned.request),
        }
    }

    /// Widens the windows in which the scheduler may come between.
    fn let_the_others_work(&mut self) {
        match self.dice.below(64) {
            0 => std::thread::sleep(Duration::from_micros(50)),
            1..16 => std::thread::yield_now(),
            _ => {}
        }
    }

    /// Reads (or, under a load, writes and reads) every block of a pin that is out.
    fn read_under(&self, planned: &Planned) {
        if planned.request.kind() == Kind::Load {
            planned.entries().for_each(|(block, content)| self.world.memory.write(block, content));
        }
        for (block, content) in planned.entries() {
            let found = self.world.memory.read(block);
            assert_eq!(found, content, "in block {block} under a pin for {:?}", planned.request);
        }
    }

    /// Drops the pin now or later, here or elsewhere.
    fn dispose(&mut self, mut pin: Pin, mut planned: Planned) {
        if self.dice.one_in(8) {
            let tokens = self.part_of(planned.request.tokens());
            pin.narrow(tokens.clone()).expect("a part of its range");
            planned = planned.narrowed(&tokens, &self.world.shape);
            let distinct = pin.blocks();
            assert!(planned.entries().all(|(block, _)| distinct.contains(&block)));
            self.tally.narrowed += 1;
        }
        match self.dice.below(4) {
            0 if self.kept.len() < KEPT => self.kept.push(Handed::Pinned(pin, planned)),
            1 if !self.others.is_empty() => {
                let to = self.dice.below(self.others.len());
                // A reader that has stopped ends the pin by dropping it.
                let _ = self.others[to].send(Handed::Pinned(pin, planned));
                self.tally.handed_over += 1;
            }
            _ => {
                self.read_under(&planned);
                drop(pin);
            }
        }
    }

    fn receive(&mut self) {
        while let Ok(handed) = self.inbox.try_recv() {
            self.read_handed(&handed);
            if self.kept.len() < KEPT {
                self.kept.push(handed);
            }
        }
    }

    fn visit_kept(&mut self) {
        self.kept.iter().for_each(|handed| self.read_handed(handed));
        if self.kept.len() > 1 && self.dice.one_in(2) {
            let at = self.dice.below(self.kept.len());
            drop(self.kept.swap_remove(at));
        }
    }

    fn read_handed(&self, handed: &Handed) {
        match handed {
            Handed::Pinned(pin, planned) => {
                assert_eq!(pin.key(), Some(planned.request.key()));
                self.read_under(planned);
            }
            Handed::Hold { pin, contents } => {
                assert_eq!(pin.key(), None);
                for &(block, content) in contents {
                    let found = self.world.memory.read(block);
                    let written = found == content || (self.world.shape.commits && found == POISON);
                    assert!(
                        written,
                        "in block {block} under an exact hold: {found}, not {content}"
                    );
                }
            }
        }
    }

    fn let_go(&mut self) {
        self.receive();
        self.kept.iter().for_each(|handed| self.read_handed(handed));
        self.kept.clear();
    }

    /// Copies without a pin, between two checks. Content that a copy read before its blocks were
    /// lost is good, whatever comes to stand there.
    fn copy(&mut self) {
        let Some(planned) = self.dice.pick(&self.planned).cloned() else { return };
        // A load has nothing to read.
        if planned.request.kind() == Kind::Load || self.index.check(&planned.request).is_err() {
            return;
        }
        if self.dice.one_in(4) {
            // Long enough for the blocks to be lost and to be somebody else's.
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut copy = Vec::new();
        for (block, content) in planned.entries() {
            copy.push((block, content, self.world.memory.read(block)));
            self.let_the_others_work();
        }
        if let Err(stale) = self.index.check(&planned.request) {
            self.world.copies_refused.fetch_add(1, Ordering::Relaxed);
            assert!(!planned.calm || stale == Stale::Draining, "{stale}: {:?}", planned.request);
            return;
        }
        for (block, content, found) in copy {
            assert_eq!(found, content, "in block {block}, copied for {:?}", planned.request);
        }
        self.tally.copied += 1;
    }

    /// Whole pictures: one life's, or all of one epoch.
    fn look(&mut self) {
        let Some(latest) = self.world.latest() else { return };
        let keys: Vec<_> = latest.lives.keys().copied().collect();
        let view = self.dice.pick(&keys).and_then(|&key| self.index.view(key).ok());
        if let Some(view) = view
            && let Some(picture) = self.world.at(view.epoch)
        {
            // A life that came later than the epoch of the view shows nothing.
            if picture.lives.contains_key(&view.key) {
                self.compare(&view, &picture);
            } else {
                assert!(view.tables().all(<[_]>::is_empty), "{view:?}");
            }
        }
        let snapshot = self.index.snapshot();
        if let Some(picture) = self.world.at(snapshot.epoch()) {
            assert_eq!(snapshot.len(), picture.lives.len(), "at epoch {}", picture.epoch);
            snapshot.iter().for_each(|view| self.compare(view, &picture));
            self.tally.pictures += 1;
        }
    }

    fn compare(&self, view: &TableView, picture: &Picture) {
        assert_eq!(view.epoch, picture.epoch);
        let life = picture.lives.get(&view.key).unwrap_or_else(|| panic!("{view:?} is too much"));
        for (group, table) in life.tables.iter().enumerate() {
            let blocks: Vec<_> = table.iter().map(|shown| shown.map(|(block, _)| block)).collect();
            assert_eq!(view.table(GroupId(group as u32)), blocks, "{view:?}");
        }
    }

    /// A part of a token range, not empty.
    fn part_of(&mut self, tokens: Range<u64>) -> Range<u64> {
        let len = (tokens.end - tokens.start) as usize;
        let start = self.dice.below(len);
        let end = start + 1 + self.dice.below(len - start);
        if self.dice.one_in(3) {
            return tokens;
        }
        tokens.start + start as u64..tokens.start + end as u64
    }
}
