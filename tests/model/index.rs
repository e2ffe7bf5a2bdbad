//! What readers are answered.

use std::ops::Range;

use tenure::{Epoch, GroupId, Groups, Kind, PlanError, RequestKey, SaveRequest, Stale};

use super::life::{End, Life};
use super::{Model, Picture, PinId, Shown};

/// Requests older than this many publishes are refused.
const OLDEST: u64 = 1 << 31;

impl Model {
    pub fn plan(
        &self,
        key: RequestKey,
        tokens: Range<u64>,
        groups: Groups,
        kind: Kind,
    ) -> Result<SaveRequest, PlanError> {
        let Range { start, end } = tokens;
        if start >= end {
            return Err(PlanError::BadRange { start, end });
        }
        let named = self.shape.named(groups).map_err(|group| PlanError::UnknownGroup { group })?;
        if named.is_empty() {
            return Err(PlanError::NoGroup);
        }
        let groups = named.into_iter().collect();
        let request =
            SaveRequest::from_parts(self.index, key, self.published, start..end, groups, kind)
                .expect("a range that is not empty");
        self.judge(&request, View::Published)?;
        Ok(request)
    }

    pub fn pin(&mut self, request: &SaveRequest) -> Result<PinId, Stale> {
        if let Err(stale) = self.check(request) {
            self.readers.refused[stale.ordinal()] += 1;
            return Err(stale);
        }
        self.readers.pins += 1;
        Ok(self.take_pin(request.key(), request.kind(), request.tokens(), request.groups()))
    }

    pub fn check(&self, request: &SaveRequest) -> Result<(), Stale> {
        self.judge(request, View::Newest)?;
        self.assert_shown_all_along(request);
        Ok(())
    }

    pub fn replan(&self, request: &SaveRequest) -> Result<SaveRequest, Stale> {
        self.judge_without_table(request)?;
        let (key, groups, kind) = (request.key(), request.groups(), request.kind());
        let today = SaveRequest::from_parts(
            self.index,
            key,
            self.published,
            request.tokens(),
            groups,
            kind,
        )
        .expect("a range that is not empty");
        self.judge(&today, View::Published)?;
        Ok(today)
    }

    /// The reasons that are found without looking at the life.
    fn judge_without_table(&self, request: &SaveRequest) -> Result<(), Stale> {
        let age = self.published.0.checked_sub(request.epoch().0);
        let known_epoch = age.is_some_and(|age| age <= OLDEST);
        let groups = request.groups();
        let could_be_planned = !groups.is_empty()
            && groups.iter().all(|group| self.shape.has_group(group))
            && request.kind() != Kind::Hold;
        if request.index() != self.index || !known_epoch || !could_be_planned {
            return Err(Stale::EpochUnknown);
        }
        if self.draining {
            return Err(Stale::Draining);
        }
        if self.reset_at.is_some_and(|reset_at| reset_at >= request.epoch()) {
            return Err(Stale::Reset);
        }
        Ok(())
    }

    fn judge(&self, request: &SaveRequest, view: View) -> Result<(), Stale> {
        self.judge_without_table(request)?;
        let life = self.life_for_readers(request.key())?;
        let groups = self.shape.named(request.groups()).expect("judged before");
        for &group in &groups {
            let len = match view {
                View::Published => life.table(group).visible_len(self.published),
                View::Newest => life.table(group).len(),
            };
            if self.shape.positions(group, &request.tokens()).end > u64::from(len) {
                return Err(Stale::Truncated { group, len });
            }
        }
        self.first(&groups, request, |group, position| {
            let hole = life.table(group).positions[position as usize].block.is_none();
            hole.then_some(Stale::Hole { group, position })
        })?;
        self.first(&groups, request, |group, position| {
            let since = life.table(group).positions[position as usize].since;
            (since > request.epoch()).then_some(Stale::Reassigned { group, position })
        })?;
        if request.kind() == Kind::Save && self.shape.commits {
            for &group in &groups {
                let committed = life.table(group).committed;
                if committed < request.tokens().end {
                    return Err(Stale::NotCommitted { committed });
                }
            }
        }
        Ok(())
    }

    /// The first answer of `fault` over the planned positions, by group, then position.
    fn first(
        &self,
        groups: &[GroupId],
        request: &SaveRequest,
        fault: impl Fn(GroupId, u32) -> Option<Stale>,
    ) -> Result<(), Stale> {
        for &group in groups {
            for position in self.shape.positions(group, &request.tokens()) {
                if let Some(stale) = fault(group, position as u32) {
                    return Err(stale);
                }
            }
        }
        Ok(())
    }

    fn life_for_readers(&self, key: RequestKey) -> Result<&Life, Stale> {
        let life = self.life(key).ok_or(Stale::Gone)?;
        if life.end.is_none() { Ok(life) } else { Err(self.how_it_ended(life, self.coming())) }
    }

    /// How a life ended is remembered for the last 64 before the newest of its slot, as of an
    /// epoch; what is older was released, as far as anybody knows.
    fn how_it_ended(&self, life: &Life, as_of: Epoch) -> Stale {
        let same_slot = |other: &&Life| slot(other.key) == slot(life.key);
        let newest = self.lives.iter().filter(same_slot).filter(|other| other.since <= as_of);
        let newest = newest.map(|other| incarnation(other.key)).max();
        let distance = newest.unwrap_or(0).saturating_sub(incarnation(life.key));
        if life.end == Some(End::Preempted) && distance <= 64 {
            Stale::NewLife
        } else {
            Stale::Gone
        }
    }

    /// R2, for a request that was found valid: every epoch since the planned one has shown the
    /// blocks that its positions list now.
    fn assert_shown_all_along(&self, request: &SaveRequest) {
        let life = self.life(request.key()).expect("a live one");
        for picture in &self.pictures[request.epoch().0 as usize..] {
            let shown = picture.get(&life.key).expect("visible at the planned epoch");
            for group in self.shape.named(request.groups()).expect("known groups") {
                for position in self.shape.positions(group, &request.tokens()) {
                    let newest = life.table(group).positions[position as usize].block;
                    assert_eq!(shown.tables[group.0 as usize][position as usize], newest);
                }
            }
        }
    }

    /// All requests at the published epoch.
    pub fn picture(&self) -> &Picture {
        &self.pictures[self.published.0 as usize]
    }

    /// A life's tables at the published epoch. One that began after it, and lives, shows nothing.
    pub fn view(&self, key: RequestKey) -> Result<Shown, Stale> {
        if let Some(shown) = self.picture().get(&key) {
            return Ok(shown.clone());
        }
        let life = self.life(key).ok_or(Stale::Gone)?;
        if life.end.is_some() {
            // As of the epoch that is looked at, unless the life began after it.
            return Err(self.how_it_ended(life, self.published.max(life.since)));
        }
        let tables = vec![Vec::new(); self.shape.block_sizes.len()];
        Ok(Shown { label: life.label.clone(), tables })
    }

    /// The tokens that all named groups show, and those that are committed in all of them.
    pub fn visible_tokens(&self, key: RequestKey, groups: Groups) -> Result<(u64, u64), Stale> {
        if self.draining {
            return Err(Stale::Draining);
        }
        if self.reset_at == Some(self.published) {
            return Err(Stale::Reset);
        }
        let life = self.life_for_readers(key)?;
        let shown = self.shown_tokens(key, groups);
        if !self.shape.commits {
            return Ok((shown, shown));
        }
        let named = self.shape.groups().filter(|&group| groups.contains(group));
        let committed = named.map(|group| life.table(group).committed).min();
        Ok((shown, committed.unwrap_or(0)))
    }

    /// The tokens that all named groups of a life show at the published epoch, if it lives.
    pub fn shown_tokens(&self, key: RequestKey, groups: Groups) -> u64 {
        let Some(life) = self.life(key) else { return 0 };
        let named = self.shape.groups().filter(|&group| groups.contains(group));
        let shown = named.map(|group| {
            let len = life.table(group).visible_len(self.published);
            u64::from(len) * self.shape.block_size(group)
        });
        shown.min().unwrap_or(0)
    }
}

/// A key is made of a slot and of how many lives the slot has had.
fn slot(key: RequestKey) -> u64 {
    key.to_bits() >> 32
}

fn incarnation(key: RequestKey) -> u64 {
    key.to_bits() & 0xffff_ffff
}

/// Which table a request is judged by.
#[derive(Clone, Copy)]
enum View {
    /// What readers see at the published epoch, less what was lost since.
    Published,
    /// The scheduler's newest.
    Newest,
}
