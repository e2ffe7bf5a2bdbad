//! One script: a checkpoint, and what has happened since.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;

use super::HeldAlone;
use super::words::{self, List};
use crate::error::{Error, Refused, Stale};
use crate::geometry::Geometry;
use crate::ids::{BlockId, Epoch, GroupId, IndexId, RequestKey, StepId};
use crate::request::{Kind, SaveRequest};
use crate::scheduler::Released;

/// What an index is like right after a publish.
pub(crate) struct Checkpoint<'a> {
    pub(crate) index: IndexId,
    pub(crate) epoch: Epoch,
    pub(crate) draining: bool,
    pub(crate) lives: Vec<CheckpointLife<'a>>,
    /// Blocks that pins alone protect, by what protects them.
    pub(crate) held: Vec<Vec<BlockId>>,
    /// Open steps, in the order they were begun, and the blocks that are not free before they end.
    pub(crate) steps: Vec<(StepId, Vec<BlockId>)>,
    /// Lives over which pins are out, whatever became of them.
    pub(crate) pinned: HashSet<RequestKey>,
    pub(crate) free: u32,
}

/// A live life.
pub(crate) struct CheckpointLife<'a> {
    pub(crate) key: RequestKey,
    pub(crate) label: &'a str,
    /// For each group, its positions and what of them is committed, in tokens.
    pub(crate) tables: Vec<(Vec<Option<BlockId>>, u64)>,
}

/// Blocks that pins from before the checkpoint, or losses under them, keep; held here one by one.
struct Watched {
    name: u64,
    blocks: Vec<BlockId>,
}

pub(super) struct Segment {
    head: Vec<String>,
    lines: Vec<String>,
    geometry: Geometry,
    labels: bool,
    /// The index, once known.
    index: Option<IndexId>,
    /// The epoch of the checkpoint, in the index and in the script.
    base: (u64, u64),
    /// The name of each life, and each name's newest life.
    names: HashMap<RequestKey, String>,
    newest: HashMap<String, RequestKey>,
    saves: HashMap<SaveRequest, u64>,
    /// Pins of this script that are out.
    jobs: HashSet<u64>,
    steps: HashSet<StepId>,
    /// Lives whose pins from before the checkpoint may be out.
    pinned_before: HashSet<RequestKey>,
    watched: Vec<Watched>,
    next_watched: u64,
    draining: bool,
    /// Something is held that could not be said, so what comes free is not known to the script.
    loose: bool,
}

impl Segment {
    pub(super) fn first(labels: bool, geometry: &Geometry) -> Segment {
        Segment {
            head: vec![words::index(geometry)],
            lines: Vec::new(),
            geometry: geometry.clone(),
            labels,
            index: None,
            base: (0, 0),
            names: HashMap::new(),
            newest: HashMap::new(),
            saves: HashMap::new(),
            jobs: HashSet::new(),
            steps: HashSet::new(),
            pinned_before: HashSet::new(),
            watched: Vec::new(),
            next_watched: 1,
            draining: false,
            loose: false,
        }
    }

    /// Begins with lines that bring a fresh index to where this one is.
    pub(super) fn from_checkpoint(
        state: &Checkpoint<'_>,
        labels: bool,
        geometry: &Geometry,
    ) -> Segment {
        let mut this = Segment::first(labels, geometry);
        this.head.insert(0, format!("# index {} from epoch {} on", state.index, state.epoch));
        this.index = Some(state.index);
        let mut placed = HashSet::new();
        for life in &state.lives {
            let name = this.name_life(life.key, life.label);
            this.lines.push(format!("admit {name}"));
            this.build(&name, &life.tables, &mut placed);
        }
        this.place_held(state, &mut placed);
        if state.epoch.0 > 0 {
            this.base = (state.epoch.0, 1);
            this.lines.push("publish -> epoch 1".to_owned());
        }
        if state.draining {
            this.drained();
        }
        this.lines.push(format!("expect free {}", state.free));
        this.pinned_before.clone_from(&state.pinned);
        this.head.append(&mut this.lines);
        this
    }

    pub(super) fn script(&self) -> String {
        let mut script = String::new();
        for line in self.head.iter().chain(&self.lines) {
            script.push_str(line);
            script.push('\n');
        }
        script
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Fills the tables of a life. What is committed may differ from group to group: a commit is for
    /// all groups, so the others are filled up for it and cut back.
    fn build(
        &mut self,
        name: &str,
        tables: &[(Vec<Option<BlockId>>, u64)],
        placed: &mut HashSet<BlockId>,
    ) {
        let mut order: Vec<usize> = (0..tables.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(tables[at].1));
        let mut built = 0;
        while let Some(&at) = order.get(built) {
            let tokens = tables[at].1;
            let same = order[built..].iter().take_while(|&&at| tables[at].1 == tokens).count();
            for &at in &order[built..built + same] {
                self.fill(name, GroupId(at as u32), &tables[at].0, placed);
            }
            built += same;
            if tokens == 0 || !self.geometry.tracks_commits() {
                continue;
            }
            let shorter = &order[built..];
            for &at in shorter {
                let group = GroupId(at as u32);
                let size = self.geometry.block_size(group).map_or(1, u64::from);
                let holes = vec![None; tokens.div_ceil(size) as usize];
                self.fill(name, group, &holes, placed);
            }
            self.lines.push(format!("commit {name} {tokens}"));
            for &at in shorter {
                self.lines.push(format!("truncate {name} g{at} 0"));
            }
        }
    }

    /// Appends positions to an empty table. A hole is first filled with some block.
    fn fill(
        &mut self,
        name: &str,
        group: GroupId,
        table: &[Option<BlockId>],
        placed: &mut HashSet<BlockId>,
    ) {
        let of = words::Of(group);
        let null = self.geometry.null_block();
        let there = null.or_else(|| placed.iter().next().copied());
        let there = there.or_else(|| table.iter().flatten().next().copied());
        let free = || (0..self.geometry.blocks()).map(BlockId).next();
        let Some(filler) = there.or_else(free) else { return };
        let filled: Vec<BlockId> = table.iter().map(|block| block.unwrap_or(filler)).collect();
        let mut rest = &filled[..];
        while let Some(first) = rest.first() {
            let shared = placed.contains(first) && Some(*first) != null;
            let run = if shared {
                let there = |block: &&BlockId| placed.contains(block) && Some(**block) != null;
                rest.iter().take_while(there).count()
            } else {
                // Each at most once in one call.
                let new = |block: &&BlockId| Some(**block) == null || placed.insert(**block);
                rest.iter().take_while(new).count()
            };
            let call = if shared { "share" } else { "assign" };
            let (now, then) = rest.split_at(run.max(1));
            self.lines.push(format!("{call} {name}{of}{}", List(now)));
            rest = then;
        }
        if null.is_none() {
            let mut from = 0;
            while let Some(start) = (from..table.len()).find(|&at| table[at].is_none()) {
                let end = (start..table.len()).find(|&at| table[at].is_some());
                from = end.unwrap_or(table.len());
                self.lines.push(format!("vacate {name}{of} {start}..{from}"));
            }
        }
        if there.is_none() {
            placed.remove(&filler);
        }
    }

    /// Puts the blocks that no life lists where they are: under holds, and behind open steps.
    fn place_held(&mut self, state: &Checkpoint<'_>, placed: &mut HashSet<BlockId>) {
        let stepped: HashSet<BlockId> =
            state.steps.iter().flat_map(|(_, blocks)| blocks).copied().collect();
        let mut held: Vec<BlockId> = state.held.iter().flatten().copied().collect();
        held.retain(|block| !placed.contains(block) && !stepped.contains(block));
        // A percent sign stands in no label like this.
        let mut guests = vec![("%held".to_owned(), held)];
        for (step, blocks) in &state.steps {
            guests.push((format!("%step{step}"), blocks.clone()));
        }
        for (name, blocks) in &guests {
            if !blocks.is_empty() {
                self.lines.push(format!("admit {name}"));
                let blocks: Vec<_> = blocks.iter().copied().map(Some).collect();
                self.fill(name, GroupId(0), &blocks, placed);
            }
        }
        for blocks in &state.held {
            self.watch(blocks.clone());
        }
        for (at, (name, blocks)) in guests.iter().enumerate() {
            if let Some((step, _)) = at.checked_sub(1).and_then(|at| state.steps.get(at)) {
                self.step_begun(*step);
            }
            if !blocks.is_empty() {
                self.lines.push(format!("release {name}"));
            }
        }
    }

    fn name_life(&mut self, key: RequestKey, label: &str) -> String {
        let name = if self.labels { words::label(label) } else { format!("r{key}") };
        self.names.insert(key, name.clone());
        self.newest.insert(name.clone(), key);
        name
    }

    /// The name of a life, where the script means this life by it.
    fn name(&self, key: RequestKey) -> Option<&str> {
        let name = self.names.get(&key)?;
        (self.newest.get(name) == Some(&key)).then_some(name.as_str())
    }

    /// What the language cannot say, and need not: nothing has changed.
    pub(super) fn unsaid(&mut self, what: impl Display) {
        // A comment is one line.
        self.lines.push(format!("# {}", what.to_string().replace(['\n', '\r'], " ")));
    }

    fn say(&mut self, line: impl Display, answer: impl Display) {
        self.lines.push(format!("{line} -> {answer}"));
    }

    /// A line about a life.
    pub(super) fn on(
        &mut self,
        key: RequestKey,
        line: impl Fn(&str) -> String,
        answer: impl Display,
    ) {
        match self.name(key).map(&line) {
            Some(line) => self.say(line, answer),
            None => self.unsaid(format_args!("{} -> {answer}", line(&format!("life-{key}")))),
        }
    }

    pub(super) fn called(
        &mut self,
        key: RequestKey,
        line: impl Fn(&str) -> String,
        answer: Result<String, &Error>,
    ) {
        match answer {
            Ok(answer) => self.on(key, line, answer),
            Err(error) => match words::refused(error) {
                Some(answer) => self.on(key, line, answer),
                None => self.unsaid(format_args!("{}: {error}", line(&format!("life-{key}")))),
            },
        }
    }

    pub(super) fn said(&mut self, line: &str, answer: Result<String, &Error>) {
        match answer.map_err(words::refused) {
            Ok(answer) | Err(Some(answer)) => self.say(line, answer),
            Err(None) => self.unsaid(line),
        }
    }

    pub(super) fn released(&self, released: &Released<'_>) -> String {
        match self.loose {
            true => "freed * held *".to_owned(),
            false => format!("freed {} held {}", released.freed().len(), released.held()),
        }
    }

    pub(super) fn admitted(&mut self, label: &str, key: RequestKey) {
        let name = self.name_life(key, label);
        self.say(format_args!("admit {name}"), "ok");
    }

    /// A preemption: the name goes on to the next life.
    pub(super) fn succeeded(&mut self, key: RequestKey, successor: RequestKey) {
        if let Some(name) = self.names.get(&key).cloned() {
            self.names.insert(successor, name.clone());
            self.newest.insert(name, successor);
        }
    }

    pub(super) fn step_begun(&mut self, step: StepId) {
        self.steps.insert(step);
        self.say(format_args!("step begin a{step}"), "ok");
    }

    pub(super) fn step_ended(&mut self, step: StepId, answer: &Result<Released<'_>, Error>) {
        match answer {
            Ok(released) if self.steps.remove(&step) => match self.loose {
                true => self.say(format_args!("step end a{step}"), "freed *"),
                false => self.say(
                    format_args!("step end a{step}"),
                    format_args!("freed {}", released.freed().len()),
                ),
            },
            _ => self.unsaid(format_args!("step end a{step}")),
        }
    }

    pub(super) fn published(&mut self, epoch: Epoch, free: u32) {
        self.say("publish", format_args!("epoch {}", self.epoch(epoch)));
        if !self.loose {
            self.lines.push(format!("expect free {free}"));
        }
    }

    /// An epoch since the checkpoint as the script counts.
    fn epoch(&self, epoch: Epoch) -> u64 {
        let (real, script) = self.base;
        epoch.0.saturating_sub(real).saturating_add(script)
    }

    pub(super) fn drained(&mut self) {
        self.draining = true;
        self.say("drain", "ok");
    }

    pub(super) fn held(
        &mut self,
        blocks: &[BlockId],
        job: Option<u64>,
        answer: Result<(), &Error>,
    ) {
        let line = format!("hold{} as j{}", List(blocks), job.unwrap_or(0));
        match answer {
            _ if blocks.is_empty() => self.unsaid(line),
            Err(error) => self.said(&line, Err(error)),
            Ok(()) => {
                self.jobs.extend(job);
                self.say(line, "ok");
            }
        }
    }

    /// Holds blocks until no pin keeps them any more.
    fn watch(&mut self, blocks: Vec<BlockId>) {
        if blocks.is_empty() {
            return;
        }
        if self.draining {
            self.loose = true;
            return;
        }
        let name = self.next_watched;
        self.next_watched += 1;
        self.say(format_args!("hold{} as h{name}", List(&blocks)), "ok");
        self.watched.push(Watched { name, blocks });
    }

    /// Blocks that the coming line gives up and that something protects: where that may be a pin
    /// from before the checkpoint, a hold takes its place.
    pub(super) fn keep(&mut self, kept: &[BlockId]) {
        if !self.pinned_before.is_empty() {
            self.watch(kept.to_vec());
        }
    }

    /// Ends the holds on blocks that no pin keeps any more.
    pub(super) fn let_go(
        &mut self,
        is_held: impl Fn(BlockId) -> bool,
        is_pinned: impl Fn(RequestKey) -> bool,
    ) {
        self.pinned_before.retain(|&key| is_pinned(key));
        let mut at = 0;
        while let Some(watched) = self.watched.get(at) {
            let left: Vec<BlockId> =
                watched.blocks.iter().copied().filter(|&block| is_held(block)).collect();
            if left.len() == watched.blocks.len() {
                at += 1;
                continue;
            }
            let ended = self.watched.remove(at);
            self.watch(left);
            self.say(format_args!("complete h{} 0", ended.name), "last");
        }
    }

    /// A pin has been given a lease of its own.
    pub(super) fn held_alone(&mut self, pin: &HeldAlone) {
        let HeldAlone { job, replaces, ref blocks, ended } = *pin;
        if !ended && !blocks.is_empty() {
            if self.draining {
                self.loose = true;
            } else {
                self.jobs.insert(job);
                self.say(format_args!("hold{} as j{job}", List(blocks)), "ok");
            }
        }
        if let Some(replaced) = replaces {
            self.ended(replaced);
        }
    }

    pub(super) fn ended(&mut self, job: u64) {
        if self.jobs.remove(&job) {
            self.say(format_args!("complete j{job} 0"), "last");
        }
    }

    pub(super) fn planned(&mut self, request: &SaveRequest, published: Epoch) {
        self.index = Some(request.index());
        if self.saves.contains_key(request) {
            return;
        }
        let save = self.saves.len() as u64 + 1;
        let Some(name) = self.name(request.key()) else { return };
        if request.epoch() == published {
            let line = plan_line("plan", save, name, request, &self.geometry);
            self.say(line, "ok");
            self.saves.insert(*request, save);
        } else {
            self.forge(request, request.epoch());
        }
    }

    pub(super) fn not_planned(&mut self, request: &SaveRequest, stale: &Stale) {
        let answer = words::stale(stale, &self.geometry);
        // Plans under a name of no save.
        let geometry = self.geometry.clone();
        let line = |name: &str| plan_line("plan", 0, name, request, &geometry);
        self.on(request.key(), line, answer);
    }

    /// Makes up a request that was planned at another epoch or elsewhere.
    fn forge(&mut self, request: &SaveRequest, epoch: Epoch) -> Option<u64> {
        let save = self.saves.len() as u64 + 1;
        let name = self.name(request.key())?;
        let line = plan_line("forge", save, name, request, &self.geometry);
        self.say(format_args!("{line} epoch {}", self.epoch(epoch)), "ok");
        self.saves.insert(*request, save);
        Some(save)
    }

    /// The name of a request, made up where it was planned unseen.
    fn save(&mut self, request: &SaveRequest, pinned: bool) -> Option<u64> {
        if let Some(&save) = self.saves.get(request) {
            return Some(save);
        }
        let ours = self.index.is_none_or(|index| index == request.index())
            && self.geometry.has_all_of(request.groups())
            && request.kind() != Kind::Hold;
        // What was pinned has been there since before the checkpoint, whose epoch does as well. What
        // was refused may have come there in between.
        let since = request.epoch().0 >= self.base.0;
        if ours && (since || pinned) { self.forge(request, request.epoch()) } else { None }
    }

    pub(super) fn pinned(&mut self, request: &SaveRequest, answer: Result<u64, &Refused>) {
        let words = words::pinned(answer.map(|_| ()), &self.geometry);
        let save = match answer {
            // As many pins are out as can be counted, and some may be from before.
            Err(Refused::Budget(_)) => None,
            _ => self.save(request, answer.is_ok()),
        };
        let Some(save) = save else {
            let name = format!("life-{}", request.key());
            let line = plan_line("pin", 0, &name, request, &self.geometry);
            self.unsaid(format_args!("{line} epoch {} -> {words}", request.epoch()));
            return;
        };
        match answer {
            Ok(job) => {
                self.jobs.insert(job);
                self.say(format_args!("pin s{save} as j{job}"), words);
            }
            Err(_) => self.say(format_args!("pin s{save} as j0"), words),
        }
    }
}

fn plan_line(
    call: &str,
    save: u64,
    name: &str,
    request: &SaveRequest,
    geometry: &Geometry,
) -> String {
    let tokens = request.tokens();
    let groups = words::groups(request.groups(), geometry);
    let load = if request.kind() == Kind::Load { " load" } else { "" };
    format!("{call} s{save} {name} {}..{}{groups}{load}", tokens.start, tokens.end)
}
