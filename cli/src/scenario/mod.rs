//! Scenario scripts: incidents told line by line, run against the real library.
//!
//! [`parse`] reads a script and can be used alone; [`run`] runs it and finds the first line whose
//! answer differs from what the script expects; [`run_files`] is the command.

mod answer;
mod ast;
mod parse;
mod pattern;
mod query;
mod run;
mod saves;
mod scheduler;
mod words;
mod world;

pub use ast::{Command, IndexSpec, Line, Place, PlanSpec, Query, Script, Span};
pub use parse::{MAX_GROUPS, MAX_POOL, ParseError, parse};
pub use pattern::Pattern;
pub use run::{Difference, run, run_files};
