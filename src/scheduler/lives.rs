//! The beginning and ending of lives.

use std::collections::VecDeque;
use std::sync::Arc as StdArc;

use super::versions::{Life, LifeId, Table};
use super::{Preempted, Released, Scheduler, Slot};
use crate::error::Error;
use crate::events;
use crate::ids::{Epoch, RequestKey};
use crate::lease::{Ended, History};

impl Scheduler {
    pub(super) fn admit_now(&mut self, label: &str) -> Result<RequestKey, Error> {
        self.begin();
        if let Some((label, &key)) = self.labels.get_key_value(label) {
            return Err(Error::AlreadyLive { label: label.clone(), key });
        }
        let slot = self.vacant_slot()?;
        let key = self.open_life(slot, StdArc::from(label));
        self.note();
        Ok(key)
    }

    fn vacant_slot(&mut self) -> Result<u32, Error> {
        if let Some(slot) = self.vacant.pop() {
            return Ok(slot);
        }
        let max = self.shared.max_requests();
        let slot = self.slots.len() as u32;
        if slot == max {
            return Err(Error::TooManyRequests { max });
        }
        self.slots.push(Slot {
            incarnation: 0,
            history: History::default(),
            life: None,
            newest: None,
        });
        self.shared.set_slots_used(slot + 1);
        Ok(slot)
    }

    /// Begins a life in a slot in which nobody lives.
    fn open_life(&mut self, slot: u32, label: StdArc<str>) -> RequestKey {
        let groups = self.geometry().groups();
        let recorded = self.shared.recorder.is_some();
        let place = &mut self.slots[slot as usize];
        place.incarnation += 1;
        let key = RequestKey::new(slot, place.incarnation);
        self.labels.insert(label.clone(), key);
        let life = self.lives.insert(Life {
            key,
            label,
            live: true,
            tables: (0..groups).map(|_| Table::empty(recorded)).collect(),
            raised: 0,
            queue: VecDeque::new(),
            newest: None,
        });
        self.slots[slot as usize].life = Some(life);
        self.supersede(slot, life, Ended::No);
        events::life_opened(key, &self.lives[life].label, self.epoch);
        key
    }

    /// Ends a life: from here on it is `ended` for every pin. Answers its tables, whose blocks are
    /// still to be given up. Where no successor follows in the slot, a lease is made that says so.
    fn end_life(&mut self, life: LifeId, ended: Ended, last: bool) -> Vec<Table> {
        let key = self.lives[life].key;
        let label = self.lives[life].label.clone();
        events::life_ended(key, &label, self.epoch, ended);
        self.labels.remove(&label);
        let tables = self.dispose_tables(life);
        if last {
            self.supersede(key.slot(), life, ended);
        }
        let place = &mut self.slots[key.slot() as usize];
        place.history = place.history.followed_by(ended);
        place.life = None;
        self.lives[life].live = false;
        tables
    }

    pub(super) fn preempt_now(&mut self, key: RequestKey) -> Result<Preempted<'_>, Error> {
        self.begin();
        let life = self.life(key)?;
        let worn_out = key.incarnation() == u32::MAX;
        let slot = if worn_out { self.vacant_slot()? } else { key.slot() };
        let label = self.lives[life].label.clone();
        let ended = self.end_life(life, Ended::Preempted, worn_out);
        let successor = self.open_life(slot, label);
        self.give_up_all(life, key, ended);
        Ok(Preempted { successor, released: self.done() })
    }

    pub(super) fn release_now(&mut self, key: RequestKey) -> Result<Released<'_>, Error> {
        self.begin();
        let life = self.life(key)?;
        self.release_life(life);
        Ok(self.done())
    }

    fn release_life(&mut self, life: LifeId) {
        let key = self.lives[life].key;
        let ended = self.end_life(life, Ended::Released, true);
        if key.incarnation() < u32::MAX {
            self.vacant.push(key.slot());
        }
        self.give_up_all(life, key, ended);
    }

    pub(super) fn reset_now(&mut self) -> Result<(), Error> {
        self.begin();
        match self.blocks.owned() + self.blocks.held() {
            0 => {
                self.end_all(false);
                self.note();
                Ok(())
            }
            blocks => Err(Error::Busy { blocks }),
        }
    }

    pub(super) fn reset_force_now(&mut self) -> Released<'_> {
        self.begin();
        self.end_all(true);
        self.done()
    }

    fn end_all(&mut self, forced: bool) {
        // Before the first life ends, so that nobody is told `Gone` for what only this has ended.
        self.shared.set_reset_floor(Epoch(self.epoch.0 + 1));
        let live: Vec<LifeId> = self.slots.iter().filter_map(|slot| slot.life).collect();
        events::reset(self.epoch, forced, live.len());
        for life in live {
            self.release_life(life);
        }
    }
}
