//! What each operation costs by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tenure_benches::ops;
use tenure_benches::rounds::{self, Figure};

use super::Failure;

/// Nanoseconds by the number that an operation was measured at: of blocks, or of live requests.
pub type ByNumber = BTreeMap<u32, f64>;

/// Nanoseconds a call, medians of interleaved rounds; of the calls that move blocks, a block.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Operations {
    /// One uncontended atomic addition: the unit of the goals.
    pub rmw_ns: f64,
    /// Pin and unpin, by blocks.
    pub pin_unpin_ns: ByNumber,
    /// Pin and unpin of one of many tables, each time another.
    pub pin_in_turn_ns: f64,
    /// Pin and unpin of one of many under one guard.
    pub pin_batch_ns: f64,
    /// A verdict that holds nothing.
    pub check_ns: f64,
    /// A plan.
    pub plan_ns: f64,
    /// A copy of a table, by blocks.
    pub view_ns: ByNumber,
    /// The whole picture, built already.
    pub snapshot_cached_ns: f64,
    /// The whole picture of 69 tables and 105,697 positions, built anew.
    pub snapshot_built_ns: f64,
    /// A publish, by live requests.
    pub publish_ns: ByNumber,
    /// Admitting a request.
    pub admit_ns: f64,
    /// A block assigned, 64 a call.
    pub assign_ns: f64,
    /// A block shared, 64 a call.
    pub share_ns: f64,
    /// A position vacated, 64 a call.
    pub vacate_ns: f64,
    /// A block released, 64 a call.
    pub release_ns: f64,
    /// A block released that another request still owns, 64 a call.
    pub release_shared_ns: f64,
    /// 16 positions rolled back, appended again and published, by the table's length.
    pub truncate_regrow_ns: ByNumber,
    /// A window moved by one block and published, by its length.
    pub slide_ns: ByNumber,
    /// An exact hold, by blocks.
    pub hold_ns: ByNumber,
    /// The quartiles of each, in nanoseconds, by name.
    pub quartiles: BTreeMap<String, [f64; 2]>,
}

/// Runs all operations in interleaved rounds.
pub fn measure(
    rounds: usize,
    slice: Duration,
    progress: impl FnMut(),
) -> Result<Operations, Failure> {
    let mut all = ops::all()?;
    let figures = Figures(rounds::measure(&mut all, rounds, slice, progress));
    Ok(Operations {
        rmw_ns: figures.one("rmw")?,
        pin_unpin_ns: figures.by_number("pin_unpin"),
        pin_in_turn_ns: figures.one("pin_in_turn")?,
        pin_batch_ns: figures.one("pin_batch")?,
        check_ns: figures.one("check")?,
        plan_ns: figures.one("plan")?,
        view_ns: figures.by_number("view"),
        snapshot_cached_ns: figures.one("snapshot/cached")?,
        snapshot_built_ns: figures.one("snapshot/built")?,
        publish_ns: figures.by_number("publish"),
        admit_ns: figures.one("admit")?,
        assign_ns: figures.one("assign")?,
        share_ns: figures.one("share")?,
        vacate_ns: figures.one("vacate")?,
        release_ns: figures.one("release")?,
        release_shared_ns: figures.one("release_shared")?,
        truncate_regrow_ns: figures.by_number("truncate_regrow"),
        slide_ns: figures.by_number("slide"),
        hold_ns: figures.by_number("hold"),
        quartiles: figures.quartiles(),
    })
}

/// Figures to be found by name.
pub struct Figures(pub Vec<Figure>);

impl Figures {
    fn one(&self, name: &str) -> Result<f64, Failure> {
        let found = self.0.iter().find(|figure| figure.name == name);
        Ok(found.ok_or_else(|| format!("{name} was not measured"))?.median)
    }

    /// The medians of those called `name/number`.
    pub fn by_number(&self, name: &str) -> ByNumber {
        let numbered = |figure: &Figure| {
            let (before, number) = figure.name.rsplit_once('/')?;
            let number = number.parse().ok().filter(|_| before == name)?;
            Some((number, figure.median))
        };
        self.0.iter().filter_map(numbered).collect()
    }

    fn quartiles(&self) -> BTreeMap<String, [f64; 2]> {
        self.0.iter().map(|f| (f.name.clone(), [f.lower, f.upper])).collect()
    }
}
