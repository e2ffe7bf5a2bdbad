//! What is measured, and how: every operation of the index as a thing that can be run and timed
//! ([`ops`]), the same work over other means ([`peers`]), a realistic step of a scheduler
//! ([`step`]), and medians of interleaved rounds ([`rounds`]).
//!
//! The criterion benches, the command's `profile` and the regression gate all run these.

pub mod clock;
pub mod ops;
pub mod peers;
pub mod rounds;
pub mod step;
