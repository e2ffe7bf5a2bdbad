//! The regression gate: what must hold on any machine, and what must not grow unseen.
//!
//! ```text
//! benches/gate/run
//! benches/gate/run --bless
//! ```
//!
//! The first counts the instructions of every operation (with valgrind's callgrind) and compares
//! them with those kept in `gate/instructions.json`, measures the ratios that must hold anywhere,
//! and exits with 1 where something does not hold. The second keeps today's counts.

mod callgrind;
mod instructions;
mod ratios;

use std::error::Error;
use std::process::ExitCode;

/// Something that holds or does not.
struct Check {
    holds: bool,
    /// What it is about, with its numbers.
    text: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [] => gate(),
        ["--bless"] => instructions::bless().map(|()| true),
        // What the gate runs itself as, under callgrind.
        [callgrind::COUNTED] => callgrind::run_all().map(|()| true),
        _ => Err("usage: gate [--bless]".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gate: {error}");
            ExitCode::from(2)
        }
    }
}

fn gate() -> Result<bool, Box<dyn Error>> {
    if cfg!(debug_assertions) {
        return Err("it says nothing about a build without optimisation: use --release".into());
    }
    let mut checks = instructions::checks()?;
    checks.extend(ratios::checks()?);
    for check in &checks {
        println!("{} {}", if check.holds { "holds" } else { "FAILS" }, check.text);
    }
    let failed = checks.iter().filter(|check| !check.holds).count();
    match failed {
        0 => println!("gate: {} checks, all hold", checks.len()),
        _ => println!("gate: {} checks, {failed} fail", checks.len()),
    }
    Ok(failed == 0)
}
