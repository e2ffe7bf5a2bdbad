//! What the loom models of the index share: the harness that runs them (`run`), block memory that
//! loom watches (`Memory`), and a scheduler and readers that use it as an engine would
//! (`World`, `Saver`).
//!
//! The models are in `tests/tier1` (all of the index, with a stand-in for reclamation) and
//! `tests/tier2` (reclamation by crossbeam-epoch itself):
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p loom-tests --release
//! RUSTFLAGS="--cfg loom --cfg crossbeam_loom" cargo test -p loom-tests --release
//! ```
//!
//! `weaken.py` shows that they can fail: it plants one flaw at a time, weaker orderings among them,
//! and expects the models named for it to find it.
//!
//! Words after `--` select the models whose names contain one of them (with `--exact`: are one of
//! them). Without `--cfg loom` there is nothing here.
#![cfg(loom)]

mod harness;
mod memory;
mod world;

pub use harness::{Model, Search, run, saw};
pub use memory::{Memory, Tag};
pub use world::{Saver, World, name, shown};
