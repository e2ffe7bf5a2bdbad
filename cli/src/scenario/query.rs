//! What `expect` lines ask about, as it is.

use tenure::{BlockId, BlockState, GroupId, Kind, Pin};

use super::answer::{Answer, Refusal, clamp, refused};
use super::ast::{Place, Query};
use super::world::World;

impl World {
    /// The words that an `expect` line would have to say to be right.
    pub(super) fn query(&mut self, query: &Query) -> Answer {
        let values = match query {
            Query::Count(place) => {
                let counts = self.scheduler.counts();
                word(match place {
                    Place::Free => counts.free,
                    Place::Held => counts.held,
                    Place::Owned => counts.owned,
                })
            }
            Query::Blocks(place, blocks) => return self.places(*place, blocks, query),
            Query::Owner { block } => {
                let owners = self.scheduler.owners(BlockId(clamp(*block)));
                let owners = owners.map_err(|e| refused(&e, 0, &[*block]))?;
                owners.iter().map(|(_, label)| label.to_string()).collect()
            }
            Query::Table { label, group, .. } => self.table(label, *group)?,
            Query::Reclaimable { label } => {
                let key = self.key(label)?;
                // An ended life has nothing left to give.
                word(if self.scheduler.is_live(key) {
                    self.scheduler.reclaimable_now(key).map_err(|e| refused(&e, 0, &[]))?
                } else {
                    0
                })
            }
            Query::Epoch => word(self.index.epoch()),
            Query::PendingJobs => word(self.jobs.pending()),
            Query::Pins { label } => {
                let key = self.key(label)?;
                word(self.scheduler.pins(key))
            }
            Query::Drained | Query::NotDrained => {
                let drained = self.scheduler.drained();
                return Ok(if drained { Query::Drained } else { Query::NotDrained }.to_string());
            }
            Query::PinnedBlocks { job } => words(self.pin_of(job)?.map(pinned_blocks)),
            Query::Watermark { label } => word(self.tracker(label)?.watermark()),
            Query::InFlight { label } => self
                .tracker(label)?
                .in_flight()
                .iter()
                .map(|tokens| format!("{}..{}", tokens.start, tokens.end))
                .collect(),
            Query::RanksLeft { job } => {
                let id = self.job(job)?;
                words(self.jobs.ranks_left(id).ok().map(<[_]>::to_vec))
            }
        };
        let mut answer = query.to_string();
        for value in values {
            answer.push(' ');
            answer.push_str(&value);
        }
        Ok(answer)
    }

    /// The blocks of a list that are not in the place where they should be; the query itself where
    /// there is none.
    fn places(&mut self, place: Place, blocks: &[u64], query: &Query) -> Answer {
        let mut elsewhere = Vec::new();
        for &block in blocks {
            let state = self.scheduler.block_state(BlockId(clamp(block)));
            let found = match state.map_err(|e| refused(&e, 0, &[block]))? {
                BlockState::Free => Place::Free,
                BlockState::Held => Place::Held,
                BlockState::Owned => Place::Owned,
            };
            if found != place {
                elsewhere.push(Query::Blocks(found, vec![block]).to_string());
            }
        }
        Ok(if elsewhere.is_empty() { query.to_string() } else { elsewhere.join(", ") })
    }

    /// What readers see of a table; nothing of a life that they see no more.
    fn table(&self, label: &str, group: u64) -> Result<Vec<String>, Refusal> {
        let key = self.key(label)?;
        if group >= u64::from(self.index.geometry().groups()) {
            return Err(Refusal::error(format_args!("unknown-group g{group}")));
        }
        let Ok(view) = self.index.view(key) else { return Ok(Vec::new()) };
        let table = view.table(GroupId(clamp(group)));
        let cell = |block: &Option<BlockId>| block.map_or("-".to_owned(), |b| b.to_string());
        Ok(table.iter().map(cell).collect())
    }
}

/// By group, then position; a hold has neither, so its blocks are told in the order of their
/// numbers.
fn pinned_blocks(pin: &Pin) -> Vec<BlockId> {
    let mut blocks = pin.blocks();
    if pin.kind() == Kind::Hold {
        blocks.sort_unstable();
    }
    blocks
}

fn word(value: impl ToString) -> Vec<String> {
    vec![value.to_string()]
}

fn words<T: ToString>(values: Option<Vec<T>>) -> Vec<String> {
    values.unwrap_or_default().iter().map(ToString::to_string).collect()
}
