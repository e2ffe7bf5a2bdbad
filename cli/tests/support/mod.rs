//! Runs the `tenure` command.

// Each test uses some of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The command with these arguments.
pub fn tenure(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(args);
    command
}

/// Runs a replay to its end.
pub fn replay(args: &[&str]) -> Output {
    tenure(&["replay"]).args(args).output().expect("the command starts")
}

/// The figures of a replay that must end well.
pub fn figures(args: &[&str]) -> Value {
    let output = replay(&[args, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// A number of a figure.
pub fn number(figure: &Value) -> u64 {
    figure.as_u64().unwrap_or_else(|| panic!("{figure} is no number"))
}

/// The sum over all steps of what a figure tells per step.
pub fn total(figures: &Value, per_step: &str) -> u64 {
    let mean = figures["per_step"][per_step]["mean"].as_f64().expect("a mean");
    (mean * number(&figures["steps"]) as f64).round() as u64
}

/// A published trace, where it lies beside the repository; says so where it does not.
pub fn published_trace(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(name);
    if !path.exists() {
        eprintln!("SKIPPED: no {}", path.display());
    }
    path.exists().then_some(path)
}
