//! Instructions an operation, against those that are kept in the repository.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::{Check, callgrind};

/// By how much a count may be above the kept one: other compilers and C libraries count a little
/// differently.
const TOLERANCE_PERCENT: f64 = 5.0;

/// What is always allowed, for operations of a few instructions.
const SLACK: f64 = 1.0;

/// What is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The kind of processor it was counted on; counts say nothing about another.
    architecture: String,
    /// The compiler.
    compiler: String,
    /// Instructions a call.
    instructions: BTreeMap<String, f64>,
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("gate/instructions.json")
}

/// Compares today's counts with the kept ones. Says where it cannot.
pub fn checks() -> Result<Vec<Check>, Box<dyn Error>> {
    let kept: Kept = serde_json::from_str(&fs::read_to_string(file())?)?;
    let here = std::env::consts::ARCH;
    if kept.architecture != here {
        let there = kept.architecture;
        println!("SKIPPED instruction counts: kept for {there}, and this is {here}");
        return Ok(Vec::new());
    }
    let Some(counts) = callgrind::count()? else {
        println!("SKIPPED instruction counts: there is no valgrind");
        return Ok(Vec::new());
    };
    println!("instruction counts: kept from {}, now {}", kept.compiler, compiler());
    Ok(compare(&kept.instructions, &counts))
}

fn compare(kept: &BTreeMap<String, f64>, counts: &BTreeMap<String, f64>) -> Vec<Check> {
    let gone = kept.keys().filter(|name| !counts.contains_key(*name)).map(|name| Check {
        holds: false,
        text: format!("{name}: kept and no longer counted; see --bless"),
    });
    let counted = counts.iter().map(|(name, &count)| match kept.get(name) {
        None => Check { holds: false, text: format!("{name}: not kept yet; see --bless") },
        Some(&kept) => {
            let factor = TOLERANCE_PERCENT / 100.0;
            let fewer = match count < kept * (1.0 - factor) - SLACK {
                true => " (fewer: worth a --bless)",
                false => "",
            };
            Check {
                holds: count <= kept * (1.0 + factor) + SLACK,
                text: format!("{name}: {count:.1} instructions, kept {kept:.1}{fewer}"),
            }
        }
    });
    gone.chain(counted).collect()
}

/// Keeps today's counts.
pub fn bless() -> Result<(), Box<dyn Error>> {
    let counts = callgrind::count()?.ok_or("there is no valgrind")?;
    let tenth = |count: f64| (count * 10.0).round() / 10.0;
    let kept = Kept {
        architecture: std::env::consts::ARCH.to_owned(),
        compiler: compiler(),
        instructions: counts.into_iter().map(|(name, count)| (name, tenth(count))).collect(),
    };
    fs::write(file(), serde_json::to_string_pretty(&kept)? + "\n")?;
    println!("kept {} counts", kept.instructions.len());
    Ok(())
}

fn compiler() -> String {
    let told = Command::new("rustc").arg("--version").output();
    let text = told.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or("an unknown compiler".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<const N: usize>(counts: [(&str, f64); N]) -> BTreeMap<String, f64> {
        counts.map(|(name, count)| (name.to_owned(), count)).into()
    }

    #[test]
    fn only_more_instructions_fail() {
        let kept = counts([("pin", 100.0), ("plan", 100.0), ("check", 100.0), ("tiny", 3.0)]);
        let now = counts([("pin", 107.0), ("plan", 105.9), ("check", 50.0), ("tiny", 4.0)]);
        let failed: Vec<String> =
            compare(&kept, &now).into_iter().filter(|c| !c.holds).map(|c| c.text).collect();
        assert_eq!(failed, ["pin: 107.0 instructions, kept 100.0"]);
    }

    #[test]
    fn what_is_not_compared_fails() {
        let failed = |kept, now| compare(&kept, &now).iter().filter(|c| !c.holds).count();
        assert_eq!(failed(counts([("pin", 1.0)]), counts([])), 1);
        assert_eq!(failed(counts([]), counts([("pin", 1.0)])), 1);
    }
}
