//! The whole index under loom, with a stand-in for reclamation that is exhausted in seconds.

macro_rules! files {
    ($($file:ident),*) => {
        $(#[cfg(all(loom, not(crossbeam_loom)))]
        mod $file;)*

        #[cfg(all(loom, not(crossbeam_loom)))]
        fn main() -> std::process::ExitCode {
            loom_tests::run(&[$($file::MODELS),*])
        }
    };
}

files![
    losses, forged, contention, queues, published, growth, ending, draining, checks, holds,
    narrowing, groups, histories
];

#[cfg(not(all(loom, not(crossbeam_loom))))]
fn main() {
    println!("0 models: set RUSTFLAGS=\"--cfg loom\" to run the models of tier 1");
}
