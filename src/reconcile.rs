//! What a connector does with the saves of one scheduler step before it sends them out.

use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;

use crate::error::{Budget, Refused, Stale};
use crate::events;
use crate::ids::{BlockId, GroupId};
use crate::index::Index;
use crate::jobs::{JobId, Outcome, Rank, SaveJobs};
use crate::request::SaveRequest;
use crate::tracker::{OfferId, SaveTrackers, Settled};
use crate::warn::Warnings;

/// One request in a step's metadata: what workers are to do for it. `L` is the connector's own
/// description of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepRequest<L> {
    /// Its label.
    pub label: Arc<str>,
    /// What is to be loaded; never looked at here.
    pub load: Option<L>,
    /// What is to be saved.
    pub save: Option<StepSave>,
}

/// A planned save in a step's metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepSave {
    /// The plan, possibly of an earlier step.
    pub request: SaveRequest,
    /// The tracker's offer that it carries out, if any.
    pub offer: Option<OfferId>,
    /// The ranks that move its bytes and will report.
    pub ranks: Vec<Rank>,
    /// Whether the current table may take the place of the planned one where the request got other
    /// blocks for the same tokens in the meantime. Set it only where all of the range is computed
    /// as of this step, or where the index tracks commits and so knows.
    pub replan: bool,
}

/// A save that was pinned: workers may read its blocks until the job ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinnedSave {
    /// The job that workers report to.
    pub job: JobId,
    /// The label of its request.
    pub label: Arc<str>,
    /// What was pinned.
    pub request: SaveRequest,
    /// The blocks of each planned group, one for each position of the range, in order.
    pub blocks: Vec<(GroupId, Vec<BlockId>)>,
}

/// Why a save was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum DropReason {
    /// There is no index to judge it by.
    #[error("there is no block state to check it against")]
    NoIndex,
    /// The index refused it.
    #[error("stale: {0}")]
    Stale(#[from] Stale),
}

impl DropReason {
    /// The name under which it is counted and told: `no-index`, or that of the [`Stale`].
    pub const fn name(&self) -> &'static str {
        match self {
            DropReason::NoIndex => "no-index",
            DropReason::Stale(stale) => stale.name(),
        }
    }
}

/// A save that was taken out of the step for good. Its tokens will be offered again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedSave {
    /// The label of its request.
    pub label: Arc<str>,
    /// The save as it was.
    pub save: StepSave,
    /// Why.
    pub reason: DropReason,
}

/// A save that was taken out of the step for want of budget. It is as good as before: put it
/// into a later step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeferredSave {
    /// The label of its request.
    pub label: Arc<str>,
    /// The save as it was.
    pub save: StepSave,
    /// Which limit was reached.
    pub budget: Budget,
}

/// What became of the saves of a step: each is in one of the lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "the saves to be sent out are in it"]
pub struct Reconciled {
    /// Pinned, in the order of the step.
    pub pinned: Vec<PinnedSave>,
    /// Dropped, in the order of the step.
    pub dropped: Vec<DroppedSave>,
    /// Put off, in the order of the step.
    pub deferred: Vec<DeferredSave>,
}

/// Goes over a step's metadata before it is sent to workers. What can be pinned becomes a job of
/// `jobs`; every other save is taken out of the metadata. A stale one, or any where there is no
/// index, is dropped: its tracker offers its tokens again, and one warning goes out per reason. A
/// save over budget is handed back. Loads are left alone, and so is metadata that only loads.
///
/// Never fails and never panics: a save is an optional copy, and no reason to stop the engine.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Instant;
/// use tenure::*;
///
/// let (mut scheduler, index) = Config::new(64).build()?;
/// let (mut jobs, mut trackers, mut warnings) =
///     (SaveJobs::new(), SaveTrackers::new(), Warnings::new());
/// let ranks = vec![Rank(0), Rank(1)];
///
/// // The scheduler's step.
/// let life = scheduler.admit("r1")?;
/// scheduler.assign(life, GroupId(0), &[BlockId(7), BlockId(8)])?;
/// scheduler.publish();
/// let computed = 32;
///
/// // The connector plans into the step's metadata ...
/// let tracker = trackers.track("r1", SaveTracker::new());
/// let mut step: Vec<StepRequest<()>> = Vec::new();
/// if let Ok(Some(offer)) = tracker.next(&index, life, computed) {
///     step.push(StepRequest {
///         label: "r1".into(),
///         load: None,
///         save: Some(StepSave {
///             request: offer.request,
///             offer: Some(offer.id),
///             ranks: ranks.clone(),
///             replan: true,
///         }),
///     });
/// }
///
/// // ... checks all of it just before the workers get it ...
/// let now = Instant::now();
/// let done = reconcile(&mut step, Some(&index), &mut jobs, &mut trackers, &mut warnings, now);
/// assert_eq!(done.pinned[0].blocks, [(GroupId(0), vec![BlockId(7), BlockId(8)])]);
///
/// // ... and hears from them whenever it may be.
/// let _ = scheduler.release(life)?;
/// for rank in ranks {
///     if let Completion::Last(outcome) = jobs.complete(done.pinned[0].job, rank, Outcome::Done) {
///         trackers.job_ended(done.pinned[0].job, outcome);
///     }
/// }
/// assert_eq!(trackers.get("r1").map(SaveTracker::watermark), Some(32));
/// assert_eq!(scheduler.reclaim().len(), 2);
/// # Ok(()) }
/// ```
pub fn reconcile<L>(
    step: &mut [StepRequest<L>],
    index: Option<&Index>,
    jobs: &mut SaveJobs,
    trackers: &mut SaveTrackers,
    warnings: &mut Warnings,
    now: Instant,
) -> Reconciled {
    let mut done = Reconciled::default();
    for entry in step {
        let Some(save) = entry.save.take() else { continue };
        let label = Arc::clone(&entry.label);
        match pin(&save, index, jobs, now) {
            Ok((job, request)) => {
                entry.save = Some(StepSave { request, ..save.clone() });
                let blocks = blocks_by_group(job, index, jobs);
                if let Some(offer) = save.offer {
                    trackers.note(job, &label, offer);
                }
                if !jobs.is_pending(job) {
                    // Nobody has to report: the job was over as soon as it was opened.
                    trackers.job_ended(job, Outcome::Done);
                }
                done.pinned.push(PinnedSave { job, label, request, blocks });
            }
            Err(NotPinned::Deferred(budget)) => {
                done.deferred.push(DeferredSave { label, save, budget });
            }
            Err(NotPinned::Dropped(reason)) => {
                if let Some(offer) = save.offer {
                    trackers.settle(&label, offer, Settled::Stale);
                }
                warnings.warn(reason.name(), &label, &format!("save dropped: {reason}"), now);
                let dropped = DroppedSave { label, save, reason };
                events::save_dropped(&dropped, index.map(Index::epoch));
                done.dropped.push(dropped);
            }
        }
    }
    done
}

enum NotPinned {
    Dropped(DropReason),
    Deferred(Budget),
}

impl From<Refused> for NotPinned {
    fn from(refused: Refused) -> NotPinned {
        match refused {
            Refused::Stale(stale) => NotPinned::Dropped(stale.into()),
            Refused::Budget(budget) => NotPinned::Deferred(budget),
        }
    }
}

fn pin(
    save: &StepSave,
    index: Option<&Index>,
    jobs: &mut SaveJobs,
    now: Instant,
) -> Result<(JobId, SaveRequest), NotPinned> {
    let index = index.ok_or(NotPinned::Dropped(DropReason::NoIndex))?;
    let mut request = save.request;
    if save.replan
        && let Err(Stale::Reassigned { .. }) = index.check(&request)
        && let Ok(renewed) = index.replan(&request)
    {
        request = renewed;
    }
    let job = jobs.pin(index, &request, save.ranks.iter().copied(), now)?;
    Ok((job, request))
}

fn blocks_by_group(
    job: JobId,
    index: Option<&Index>,
    jobs: &SaveJobs,
) -> Vec<(GroupId, Vec<BlockId>)> {
    let (Some(index), Ok(pin)) = (index, jobs.pin_of(job)) else { return Vec::new() };
    let groups = index.geometry().all_groups().iter().filter(|&group| pin.groups().contains(group));
    groups.map(|group| (group, pin.blocks_of(group))).collect()
}
