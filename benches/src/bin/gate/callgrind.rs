//! Instructions of every operation, counted by valgrind's callgrind.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tenure_benches::ops;
use tenure_benches::rounds::Operation;

/// The argument by which the gate, under callgrind, knows what to do.
pub const COUNTED: &str = "--counted";

/// What is counted. A pattern would not do: callgrind takes none for where to dump.
const FUNCTION: &str = concat!(module_path!(), "::run_counted");

/// How often an operation is repeated in a run: enough that what happens once in 64 positions
/// counts as it should.
const REPEATS: u32 = 256;

/// Instructions a call, by operation; none where there is no valgrind.
pub fn count() -> Result<Option<BTreeMap<String, f64>>, Box<dyn Error>> {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("out");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={FUNCTION}"))
        .arg(format!("--dump-after={FUNCTION}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .arg(COUNTED)
        .output()?;
    if !output.status.success() {
        return Err(format!("callgrind: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let mut counts = BTreeMap::new();
    for (line, dump) in String::from_utf8(output.stdout)?.lines().zip(1..) {
        let (name, calls) = line.rsplit_once(' ').ok_or("an operation without its calls")?;
        let total = total(&file.with_extension(dump.to_string()))?;
        counts.insert(name.to_owned(), total as f64 / calls.parse::<f64>()?);
    }
    Ok(Some(counts))
}

/// The instructions of a dump.
fn total(dump: &Path) -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string(dump)
        .map_err(|error| format!("callgrind has not written {}: {error}", dump.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("summary: "));
    match total.map(|total| total.trim().parse()) {
        Some(Ok(0)) | None => Err(format!("{} has no count", dump.display()).into()),
        Some(total) => Ok(total?),
    }
}

/// Runs every operation once counted, and tells the name and the calls of each.
pub fn run_all() -> Result<(), Box<dyn Error>> {
    for mut operation in ops::all()? {
        operation.set_repeats(REPEATS);
        for _ in 0..2 {
            // Whatever happens only at first.
            operation.prepare();
            operation.run();
            operation.restore();
        }
        operation.prepare();
        run_counted(&mut *operation);
        operation.restore();
        println!("{} {}", operation.name(), operation.calls());
    }
    Ok(())
}

/// What callgrind counts: it finds the function by its name.
#[inline(never)]
fn run_counted(operation: &mut dyn Operation) {
    operation.run();
    // Not a tail call, which callgrind would not see the end of.
    std::hint::black_box(());
}
