//! All that was measured, as `--json` prints it.

use std::thread::available_parallelism;

use serde::Serialize;

use super::contention::Contention;
use super::counters::Counters;
use super::goals::{Goal, goals};
use super::memory::Memory;
use super::operations::Operations;
use super::peers::Peers;

/// See the parts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Threads that can run at once here.
    pub cores: usize,
    /// The kind of processor.
    pub architecture: &'static str,
    /// Single operations.
    #[serde(flatten)]
    pub operations: Operations,
    /// Beside peers.
    #[serde(flatten)]
    pub peers: Peers,
    /// Memory.
    #[serde(flatten)]
    pub memory: Memory,
    /// Hardware counters.
    pub counters: Counters,
    /// Many threads at once; none in a quick run.
    pub contention: Option<Contention>,
    /// The goals.
    pub goals: Vec<Goal>,
}

impl Report {
    /// Puts the parts together.
    pub fn new(
        operations: Operations,
        peers: Peers,
        memory: Memory,
        counters: Counters,
        contention: Option<Contention>,
    ) -> Report {
        Report {
            cores: cores(),
            architecture: std::env::consts::ARCH,
            goals: goals(&operations, &memory, contention.as_ref()),
            operations,
            peers,
            memory,
            counters,
            contention,
        }
    }
}

/// Threads that can run at once here.
pub fn cores() -> usize {
    available_parallelism().map_or(1, |cores| cores.get())
}
