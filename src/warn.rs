//! Warnings that neither drown a log nor lose count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::events;

#[derive(Debug, Default)]
struct Reason {
    count: u64,
    suppressed: u64,
    told: Option<Instant>,
}

/// Counts warnings by reason and writes the first of each reason to the log as one `tracing` event
/// at WARN; further ones at most once a minute, with the number that was suppressed since.
///
/// ```
/// use std::time::Instant;
/// use tenure::Warnings;
/// let mut warnings = Warnings::new();
/// for label in ["r1", "r2", "r3"] {
///     warnings.warn("gone", label, "its save was dropped", Instant::now());
/// }
/// assert_eq!(warnings.count("gone"), 3); // told once, about r1
/// ```
#[derive(Debug, Default)]
pub struct Warnings {
    reasons: BTreeMap<&'static str, Reason>,
}

impl Warnings {
    /// After an event of a reason, the next of the same reason comes so much later at the
    /// earliest.
    pub const INTERVAL: Duration = Duration::from_secs(60);

    /// Nothing counted yet.
    pub fn new() -> Warnings {
        Warnings::default()
    }

    /// Counts one case of `reason` that affects the request `label`, and tells it unless one was
    /// told within the last minute. Answers whether it was told.
    pub fn warn(&mut self, reason: &'static str, label: &str, what: &str, now: Instant) -> bool {
        let entry = self.reasons.entry(reason).or_default();
        entry.count += 1;
        if let Some(told) = entry.told
            && now.saturating_duration_since(told) < Warnings::INTERVAL
        {
            entry.suppressed += 1;
            return false;
        }
        entry.told = Some(now);
        let suppressed = std::mem::take(&mut entry.suppressed);
        events::warning(reason, label, suppressed, what);
        true
    }

    /// How often `reason` came up, told or not.
    pub fn count(&self, reason: &str) -> u64 {
        self.reasons.get(reason).map_or(0, |entry| entry.count)
    }

    /// All reasons that came up, by name, with how often they did.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.reasons.iter().map(|(&reason, entry)| (reason, entry.count))
    }
}
