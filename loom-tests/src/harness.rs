//! Runs models, each in a process of its own, and says how much of each was searched.
//!
//! A model that fails often leaves destructors behind that cannot run outside of the search. So it
//! says what went wrong and its process ends at once; the others are not touched by it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loom::model::Builder;

/// How far a model is searched.
#[derive(Clone, Copy, Debug)]
pub enum Search {
    /// Every execution.
    All,
    /// Every execution in which threads are interrupted at most so often.
    Preemptions(usize),
}

/// A small program that must hold whatever the interleaving.
#[derive(Clone, Copy)]
pub struct Model {
    /// The name of its function.
    pub name: &'static str,
    /// How far it is searched.
    pub search: Search,
    /// What it must have [seen](saw) by the end of the search, and nothing else: a model that never
    /// takes a branch shows nothing about it.
    pub sees: &'static [&'static str],
    /// One execution.
    pub run: fn(),
}

/// Lists models by their functions: `name: all => ["seen", ...]` or `name: 3 => [...]`, where the
/// number is a bound on preemptions.
#[macro_export]
macro_rules! models {
    (@search all) => { $crate::Search::All };
    (@search $bound:literal) => { $crate::Search::Preemptions($bound) };
    ($($name:ident: $search:tt => [$($sees:literal),* $(,)?]),* $(,)?) => {
        /// The models of this file.
        pub const MODELS: &[$crate::Model] = &[$($crate::Model {
            name: stringify!($name),
            search: $crate::models!(@search $search),
            sees: &[$($sees),*],
            run: $name,
        }),*];
    };
}

/// A search that takes longer is taken for one that does not end.
const LONGEST: Duration = Duration::from_secs(600);

/// How often the caps on a search are looked at, in executions.
const INTERVAL: usize = 1_000;

/// More steps than any execution of a model takes.
const MAX_BRANCHES: usize = 20_000;

thread_local! {
    static EXPECTED: Cell<&'static [&'static str]> = const { Cell::new(&[]) };
    static EXECUTIONS: Cell<usize> = const { Cell::new(0) };
    static SEEN: RefCell<BTreeMap<&'static str, usize>> = const { RefCell::new(BTreeMap::new()) };
}

/// Notes that an execution of the running model came by here.
///
/// # Panics
/// Where the model must not see that.
pub fn saw(what: &'static str) {
    assert!(EXPECTED.get().contains(&what), "it sees {what:?}, which it must not");
    SEEN.with_borrow_mut(|seen| *seen.entry(what).or_default() += 1);
}

/// Runs the models that the command line asks for, some at a time, and prints a line for each.
/// Fails where one fails, or where its search was cut short by `LOOM_MAX_DURATION`,
/// `LOOM_MAX_PERMUTATIONS` or the harness's own patience. `LOOM_MAX_PREEMPTIONS` takes the place of
/// the models' own bounds.
#[must_use]
pub fn run(files: &[&'static [Model]]) -> ExitCode {
    let models: Vec<Model> = files.iter().copied().flatten().copied().collect();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = &args[..]
        && flag == "--only"
    {
        return match models.iter().find(|model| model.name == name) {
            Some(model) => search(model),
            None => ExitCode::FAILURE,
        };
    }
    let exact = args.iter().any(|arg| arg == "--exact");
    let words: Vec<&str> =
        args.iter().map(|arg| &**arg).filter(|arg| !arg.starts_with('-')).collect();
    let matches = |name: &str, word: &str| if exact { name == word } else { name.contains(word) };
    let asked_for =
        |model: &Model| words.is_empty() || words.iter().any(|word| matches(model.name, word));
    let models: Vec<Model> = models.into_iter().filter(asked_for).collect();
    if args.iter().any(|arg| arg == "--list") {
        models.iter().for_each(|model| println!("{}: test", model.name));
        return ExitCode::SUCCESS;
    }
    run_all(&models)
}

fn run_all(models: &[Model]) -> ExitCode {
    let began = Instant::now();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
            let passed = std::env::current_exe()
                .and_then(|this| Command::new(this).args(["--only", model.name]).status());
            if !passed.is_ok_and(|status| status.success()) {
                failed.lock().unwrap().push(model.name);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(models.len()) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    println!("{} models, {} failed, {seconds:.0} s", models.len(), failed.len());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(" "));
    ExitCode::FAILURE
}

/// Searches one model in this process.
fn search(model: &Model) -> ExitCode {
    let Model { name, run, .. } = *model;
    std::panic::set_hook(Box::new(move |panic| {
        let why = panic.to_string().replace('\n', " ");
        println!("model {name}: FAILED at execution {}: {why}", EXECUTIONS.get());
        std::process::exit(101);
    }));
    let mut builder = Builder::new();
    builder.max_branches = builder.max_branches.max(MAX_BRANCHES);
    builder.checkpoint_interval = INTERVAL;
    builder.preemption_bound = match model.search {
        Search::All => None,
        Search::Preemptions(bound) => Some(builder.preemption_bound.unwrap_or(bound)),
    };
    let longest = *builder.max_duration.get_or_insert(LONGEST);
    let most = builder.max_permutations.unwrap_or(usize::MAX);
    let how = match builder.preemption_bound {
        None => "exhaustive".to_owned(),
        Some(bound) => format!("bound {bound}"),
    };

    EXPECTED.set(model.sees);
    let began = Instant::now();
    builder.check(move || {
        EXECUTIONS.set(EXECUTIONS.get() + 1);
        run();
    });
    let (executions, took) = (EXECUTIONS.get(), began.elapsed());

    let seconds = took.as_secs_f64();
    let seen = SEEN.take();
    let counts: Vec<String> = seen.iter().map(|(what, times)| format!("{what} {times}")).collect();
    println!(
        "model {name}: {executions} executions, {how}, {seconds:.1} s ({})",
        counts.join(", ")
    );
    if took >= longest || executions >= most.saturating_sub(1) {
        println!("model {name}: FAILED: the search was cut short by a cap");
        return ExitCode::FAILURE;
    }
    if let Some(unseen) = model.sees.iter().find(|what| !seen.contains_key(*what)) {
        println!("model {name}: FAILED: it never sees {unseen:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
