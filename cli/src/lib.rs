//! The `tenure` command. `tenure replay` ([`sim`]) shows on request traces that nobody reads a block
//! that is not its own, and what that costs; `tenure scenario` ([`scenario`]) reproduces incidents.

pub mod args;
mod command;
mod page;
pub mod profile;
pub mod report;
pub mod scenario;
pub mod sim;
mod text;
pub mod trace;

pub use command::run;
