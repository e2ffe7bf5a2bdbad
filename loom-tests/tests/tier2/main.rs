//! Reclamation by crossbeam-epoch itself, under loom.

#[cfg(all(loom, crossbeam_loom))]
mod reclamation;

#[cfg(all(loom, crossbeam_loom))]
fn main() -> std::process::ExitCode {
    loom_tests::run(&[reclamation::MODELS])
}

#[cfg(not(all(loom, crossbeam_loom)))]
fn main() {
    println!(
        "0 models: set RUSTFLAGS=\"--cfg loom --cfg crossbeam_loom\" to run the models of tier 2"
    );
}
