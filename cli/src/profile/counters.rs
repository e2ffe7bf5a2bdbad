//! Hardware counters of single operations, where the system allows them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Failure;

/// Events in one call.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Events {
    /// Cycles.
    pub cycles: f64,
    /// Instructions.
    pub instructions: f64,
    /// Last-level cache misses.
    pub cache_misses: f64,
}

/// What the counters told.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Counters {
    /// By operation.
    Counted(BTreeMap<String, Events>),
    /// Why there are none.
    Skipped(String),
}

/// Counts over a few operations.
#[cfg(target_os = "linux")]
pub fn measure() -> Result<Counters, Failure> {
    let mut operations = tenure_benches::ops::hot()?;
    let mut found = BTreeMap::new();
    for operation in &mut operations {
        match linux::count(&mut **operation) {
            Ok(events) => found.insert(operation.name().to_owned(), events),
            Err(error) => return Ok(Counters::Skipped(format!("perf_event_open: {error}"))),
        };
    }
    Ok(Counters::Counted(found))
}

/// Counts over a few operations.
#[cfg(not(target_os = "linux"))]
pub fn measure() -> Result<Counters, Failure> {
    Ok(Counters::Skipped("only on Linux".to_owned()))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use perf_event::events::Hardware;
    use perf_event::{Builder, Group};
    use tenure_benches::rounds::Operation;

    use super::Events;

    /// Runs that are counted together.
    const RUNS: u32 = 100;

    pub fn count(operation: &mut dyn Operation) -> io::Result<Events> {
        let mut group = Group::new()?;
        let cycles = group.add(&Builder::new(Hardware::CPU_CYCLES))?;
        let instructions = group.add(&Builder::new(Hardware::INSTRUCTIONS))?;
        let misses = group.add(&Builder::new(Hardware::CACHE_MISSES))?;
        for _ in 0..RUNS {
            operation.prepare();
            group.enable()?;
            operation.run();
            group.disable()?;
            operation.restore();
        }
        let counts = group.read()?;
        let per_call = |count: u64| count as f64 / f64::from(RUNS * operation.calls());
        Ok(Events {
            cycles: per_call(counts[&cycles]),
            instructions: per_call(counts[&instructions]),
            cache_misses: per_call(counts[&misses]),
        })
    }
}
