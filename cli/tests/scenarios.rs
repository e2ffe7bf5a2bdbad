//! The scenario scripts, and what `tenure scenario` says about scripts that are wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tenure_cli::scenario::{self, Difference, Script, parse, run};

fn own_scripts() -> Vec<PathBuf> {
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios"))
        .expect("the project's own scripts are part of it")
}

/// The scripts in a directory; `None` where it is not there.
fn scripts(directory: &Path) -> Option<Vec<PathBuf>> {
    let mut scripts: Vec<PathBuf> = fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "tenure"))
        .collect();
    scripts.sort();
    Some(scripts)
}

fn report(files: &[PathBuf]) -> (u8, String) {
    let mut out = Vec::new();
    let status = scenario::run_files(files, false, &mut out);
    (status, String::from_utf8(out).expect("a report is text"))
}

fn assert_all_pass(files: &[PathBuf]) {
    assert!(!files.is_empty());
    let (status, report) = report(files);
    assert_eq!(status, 0, "\n{report}");
}

#[test]
fn the_projects_own_scripts_pass() {
    assert_all_pass(&own_scripts());
}

#[test]
fn the_conformance_scripts_pass_where_they_are() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/scenarios");
    match scripts(&directory) {
        Some(files) => assert_all_pass(&files),
        None => println!("skipped: there are no scripts in {}", directory.display()),
    }
}

/// Each line of the own scripts is really judged: with a wrong expectation it is the one that
/// differs, and with none it fails exactly if it is refused.
#[test]
fn every_line_of_the_own_scripts_can_fail() {
    for file in own_scripts() {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((command, _)) = line.split_once("->") else { continue };
            let with = |changed: &str| {
                let mut lines = lines.clone();
                lines[at] = changed;
                parse(lines.join("\n").as_bytes()).unwrap()
            };
            let place = format!("{}:{}", file.display(), at + 1);

            let wrong = run(&with(&format!("{command} -> something else"))).unwrap_err();
            assert_eq!(wrong.line, at + 1, "{place}");
            assert_eq!(wrong.expected, "something else");

            let first = wrong.actual.split(' ').next().unwrap_or_default();
            let refused = match command.starts_with("expect") {
                true => first != "ok",
                false => !["ok", "freed", "epoch", "pending", "last", "nothing"].contains(&first),
            };
            let fails = run(&with(command)).err().is_some_and(|bare| bare.line == at + 1);
            assert_eq!(fails, refused, "{place}");
        }
    }
}

#[test]
fn the_own_scripts_say_everything_the_language_can_say() {
    let mut said = BTreeSet::new();
    for file in own_scripts() {
        let script = parse(&fs::read(file).unwrap()).unwrap();
        said.extend(
            script
                .lines
                .iter()
                .flat_map(|line| line.text.split(' ').map(str::to_owned).collect::<Vec<_>>()),
        );
    }
    let language = "index blocks null block-size commits admit assign share commit vacate truncate \
        replace preempt release invalidate step begin end publish reset force drain plan load forge \
        epoch check replan pin as ranks complete failed hold jobs max track next upto abandon expect \
        audit -> * ... free held owned owner table reclaimable pending-jobs pins drained not-drained \
        pinned-blocks watermark in-flight ranks-left ok already-live in-use not-owned beyond-table \
        freed already-released busy stale refused budget pending last duplicate already-ended \
        unknown-job unknown-rank nothing epoch-unknown draining gone new-life truncated hole \
        reassigned not-committed error bad-range unknown-label unknown-group unknown-block \
        null-block unknown-save unknown-step step-open no-tracker";
    let missing: Vec<&str> = language.split_whitespace().filter(|&w| !said.contains(w)).collect();
    assert_eq!(missing, [""; 0]);
}

fn difference(script: &str) -> Difference {
    run(&parse(script.as_bytes()).unwrap()).unwrap_err()
}

#[test]
fn a_line_without_an_expectation_must_not_be_refused() {
    let d = difference("index blocks 4\nadmit r1\nadmit r1\nadmit r1 -> ok");
    assert_eq!((d.line, d.text.as_str()), (3, "admit r1"));
    assert_eq!(d.expected, "any answer that is not a refusal");
    assert_eq!(d.actual, "already-live");

    let d = difference("index blocks 4\nadmit r1\ntrack r1\npublish\nnext s r1\npin s as j");
    assert_eq!((d.line, d.actual.as_str()), (6, "error unknown-save s"), "`nothing` is no refusal");
}

#[test]
fn what_is_expected_is_shown_beside_what_is() {
    let d =
        difference("index blocks 4\nadmit r1\nassign r1 2 3\npublish\nexpect table r1 2 * 4 ...");
    assert_eq!((d.expected.as_str(), d.actual.as_str()), ("table r1 2 * 4 ...", "table r1 2 3"));
    let d = difference("index blocks 4\nexpect free 3");
    assert_eq!((d.expected.as_str(), d.actual.as_str()), ("free 3", "free 4"));
    let d = difference("index blocks 4\nadmit r1\nassign r1 2\nexpect free blocks 1 2 3");
    assert_eq!((d.expected.as_str(), d.actual.as_str()), ("free blocks 1 2 3", "owned blocks 2"));
    let d = difference("index blocks 4\nexpect drained");
    assert_eq!((d.expected.as_str(), d.actual.as_str()), ("drained", "not-drained"));
    let d = difference("index blocks 4\nexpect free 3 -> ok");
    assert_eq!((d.expected.as_str(), d.actual.as_str()), ("ok", "free 4"));
    let d = difference("index blocks 4\nexpect pins r1 0");
    assert_eq!((d.expected.as_str(), d.actual.as_str()), ("pins r1 0", "error unknown-label r1"));
}

#[test]
fn settings_that_no_index_can_have_are_answers() {
    assert_eq!(difference("index blocks 4 null 4").actual, "error unknown-block 4");
    let d = difference("index blocks 4 block-size 65537,65539 -> error ...\nadmit r1");
    assert_eq!((d.line, d.actual.as_str()), (2, "error no-index"));
}

#[test]
fn lines_that_are_not_of_the_language_are_told_with_what_should_stand_there() {
    let command = "expected a command (index, admit, assign, share, commit, vacate, truncate, \
        replace, preempt, release, invalidate, step, publish, reset, drain, plan, forge, check, \
        replan, pin, complete, force, hold, jobs, track, next, abandon, expect or audit)";
    let question = "expected what to expect (free, held, owned, owner, table, reclaimable, epoch, \
        pending-jobs, pins, drained, not-drained, pinned-blocks, watermark, in-flight or \
        ranks-left)";
    let cases = [
        ("frobnicate", format!("{command}, found `frobnicate`")),
        ("-> ok", format!("{command}, found the end of the line")),
        ("Admit r1", format!("{command}, found `Admit`")),
        ("index", "expected `blocks`, found the end of the line".into()),
        ("index blocks many", "expected a number, found `many`".into()),
        ("index blocks 0", "expected a pool of 1 to 4194304 blocks, found `0`".into()),
        (
            "index blocks 4294967295",
            "expected a pool of 1 to 4194304 blocks, found `4294967295`".into(),
        ),
        (
            "index blocks 99999999999999999999999",
            "expected a number, found `99999999999999999999999`".into(),
        ),
        ("index blocks 8 null", "expected a block number, found the end of the line".into()),
        (
            "index blocks 8 block-size 16,0",
            "expected 1 to 32 block sizes in tokens, like 16 or 16,32, found `16,0`".into(),
        ),
        (
            "index blocks 8 block-size 16,,32",
            "expected 1 to 32 block sizes in tokens, like 16 or 16,32, found `16,,32`".into(),
        ),
        (
            "index blocks 8 commits commits",
            "expected `->` or the end of the line, found `commits`".into(),
        ),
        ("admit", "expected the label of a request, found the end of the line".into()),
        ("admit *", "expected the label of a request, found `*`".into()),
        ("admit r1 r2", "expected `->` or the end of the line, found `r2`".into()),
        ("admit r1 r2 -> ok", "expected `->`, found `r2`".into()),
        ("admit r1 ->", "expected an answer after `->`, found the end of the line".into()),
        (
            "admit r1 -> # nothing",
            "expected an answer after `->`, found the end of the line".into(),
        ),
        ("admit r1 -> ok -> ok", "expected one answer, found `->`".into()),
        ("admit r1 -> ... ok", "expected the end of the line after `...`, found `ok`".into()),
        ("assign r1", "expected a block number, found the end of the line".into()),
        ("assign r1 g0", "expected a block number, found the end of the line".into()),
        ("assign r1 3 x", "expected a block number, found `x`".into()),
        ("assign r1 -3", "expected a block number, found `-3`".into()),
        ("assign r1 +3", "expected a block number, found `+3`".into()),
        ("assign r1 g1 g0 3", "expected a block number, found `g0`".into()),
        ("commit r1", "expected a number of tokens, found the end of the line".into()),
        ("vacate r1 2", "expected a position range like 0..2, found `2`".into()),
        ("vacate r1 0..", "expected a position range like 0..2, found `0..`".into()),
        ("vacate r1 0..2..4", "expected a position range like 0..2, found `0..2..4`".into()),
        ("truncate r1 g1", "expected a length in positions, found the end of the line".into()),
        ("replace r1 1", "expected a block number, found the end of the line".into()),
        ("invalidate", "expected a block number, found the end of the line".into()),
        ("step over a", "expected `begin` or `end`, found `over`".into()),
        ("step begin", "expected the name of a step, found the end of the line".into()),
        ("reset hard", "expected `->` or the end of the line, found `hard`".into()),
        ("publish now", "expected `->` or the end of the line, found `now`".into()),
        ("plan s r1", "expected a token range like 0..48, found the end of the line".into()),
        ("plan s r1 0-48", "expected a token range like 0..48, found `0-48`".into()),
        ("plan s r1 0..48 g0,", "expected `->` or the end of the line, found `g0,`".into()),
        ("plan s r1 0..48 epoch 3", "expected `->` or the end of the line, found `epoch`".into()),
        ("forge s r1 0..48", "expected `epoch`, found the end of the line".into()),
        ("forge s r1 0..48 epoch", "expected an epoch, found the end of the line".into()),
        ("forge s r1 0..48 at 3", "expected `epoch`, found `at`".into()),
        ("pin s", "expected `as`, found the end of the line".into()),
        ("pin s as j ranks", "expected ranks like 0,1, found the end of the line".into()),
        ("pin s as j ranks 0,x", "expected ranks like 0,1, found `0,x`".into()),
        ("complete j", "expected a rank, found the end of the line".into()),
        ("complete j 4294967296", "expected a rank, found `4294967296`".into()),
        ("complete j 0 broken", "expected `->` or the end of the line, found `broken`".into()),
        ("hold as h", "expected a block number, found `as`".into()),
        ("hold 3", "expected a block number or `as`, found the end of the line".into()),
        ("hold 3 4 for h", "expected a block number or `as`, found `for`".into()),
        ("jobs 8", "expected `max`, found `8`".into()),
        ("jobs max few", "expected a number of jobs, found `few`".into()),
        ("jobs max 8 blocks", "expected a number of blocks, found the end of the line".into()),
        ("track r1 end", "expected a number of tokens, found the end of the line".into()),
        ("next s", "expected the label of a request, found the end of the line".into()),
        ("next s r1 upto x", "expected a number of tokens, found `x`".into()),
        ("expect", format!("{question}, found the end of the line")),
        ("expect nothing", format!("{question}, found `nothing`")),
        ("expect free", "expected a number, found the end of the line".into()),
        ("expect free x", "expected a number, found `x`".into()),
        ("expect free 1 2", "expected `->` or the end of the line, found `2`".into()),
        ("expect free blocks x", "expected a block number, found `x`".into()),
        ("expect owner x", "expected a block number, found `x`".into()),
        ("expect table r1 1 x", "expected a block number or `-`, found `x`".into()),
        ("expect in-flight r1 0", "expected a token range like 0..48, found `0`".into()),
        ("expect drained 1", "expected `->` or the end of the line, found `1`".into()),
    ];
    for (line, message) in cases {
        let script = format!("# a comment\n\nindex blocks 8 -> ok\n{line}\nadmit r1\n");
        let error = parse(script.as_bytes()).expect_err(line);
        assert_eq!((error.line, error.to_string()), (4, message), "{line}");
    }
}

#[test]
fn an_index_comes_first() {
    let error = parse(b"\n# a comment\n  admit r1\nindex blocks 8").unwrap_err();
    let message = "expected an `index` line before any other command, found `admit`";
    assert_eq!((error.line, error.to_string().as_str()), (3, message));
    assert_eq!(parse(b"# nothing to do").unwrap(), Script { lines: Vec::new() });
    assert_eq!(parse(b"").unwrap(), Script { lines: Vec::new() });
}

#[test]
fn bytes_that_are_no_text_are_told_by_their_line() {
    let error = parse(b"index blocks 8\nadmit \xff\xfe\n").unwrap_err();
    assert_eq!((error.line, error.expected.as_str()), (2, "text in UTF-8"));
    assert!(parse(b"index blocks 8 # \xff in a comment\r\nadmit r\xc3\xa9\t-> ok\r\n").is_ok());
}

#[test]
fn options_stand_in_any_order() {
    let command = |line: &str| parse(line.as_bytes()).unwrap().lines[0].command.clone();
    assert_eq!(
        command("index blocks 8 commits null 0 block-size 8"),
        command("index blocks 8 null 0 block-size 8 commits")
    );
    let script = "index blocks 8\nadmit r1\nforge s r1 0..16 load epoch 0 g0\n\
        forge s r1 0..16 g0 epoch 0 load\nplan s r1 0..16 load g0 -> stale truncated 0\n\
        plan s r1 0..16 g0 load -> stale truncated 0";
    run(&parse(script.as_bytes()).unwrap()).unwrap();
}

/// A directory with these files.
fn files(contents: &[(&str, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let paths = contents.iter().map(|(name, text)| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let paths = paths.collect();
    (directory, paths)
}

#[test]
fn the_report_names_file_line_expected_and_actual() {
    let (directory, paths) = files(&[
        ("good", "index blocks 4\nadmit r1 -> ok\n"),
        ("wrong", "index blocks 4\nadmit r1\n\nassign r1 2   2 -> ok   # twice\nadmit r1 -> ok\n"),
        ("broken", "index blocks 4\nadmit r1 -> already-live\nassign r1 two\n"),
        ("good-too", "index blocks 4\naudit -> ok\n"),
    ]);
    let at = |name: &str| directory.path().join(name).display().to_string();

    let (status, text) = report(&paths[..1]);
    assert_eq!((status, text.as_str()), (0, "1 of 1 scripts passed\n"));

    let (status, text) = report(&paths[..2]);
    let wrong = format!(
        "{}:4: assign r1 2 2 -> ok\n    expected: ok\n    actual:   in-use 2\n",
        at("wrong")
    );
    assert_eq!((status, text), (1, format!("{wrong}1 of 2 scripts passed, 1 differed\n")));

    let (status, text) = report(&paths);
    let broken = format!("{}:3: expected a block number, found `two`\n", at("broken"));
    let summary = "2 of 4 scripts passed, 1 differed, 1 could not be read\n";
    assert_eq!((status, text), (2, format!("{wrong}{broken}{summary}")));
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let missing = PathBuf::from("no-such-script.tenure");
    let (status, text) = report(&[missing]);
    assert_eq!(status, 2);
    assert!(text.starts_with("no-such-script.tenure: "), "{text}");
    assert!(text.ends_with("\n0 of 1 scripts passed, 1 could not be read\n"), "{text}");
}

#[test]
fn a_report_that_nobody_reads_keeps_its_status() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (_directory, paths) = files(&[("wrong", "index blocks 4\nexpect free 3\n")]);
    assert_eq!(scenario::run_files(&paths, false, &mut Closed), 1);
}

/// Scripts thrown together at random run to their end or to a difference, and the books balance
/// whatever they did.
#[test]
fn scripts_at_random_never_panic() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut answered: BTreeSet<String> = BTreeSet::new();
    for _ in 0..400 {
        let groups = random.random_range(1..3);
        let mut text = String::from("index blocks 12 null 0 block-size ");
        text.push_str(if groups == 1 { "8" } else { "8,16" });
        text.push_str(if random.random() { " commits\n" } else { "\n" });
        for label in ["a", "b"] {
            text.push_str(&format!("admit {label}\ntrack {label}\n"));
        }
        for _ in 0..150 {
            text.push_str(&random_line(&mut random));
            text.push_str(" -> ...\naudit -> ok\n");
        }
        let script = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        if let Err(difference) = run(&script) {
            panic!("{difference:?}\n{text}");
        }
        for line in &script.lines {
            answered.insert(line.text.split(' ').next().unwrap_or_default().to_owned());
        }
    }
    assert!(answered.len() >= 28, "{answered:?}");
}

/// Scripts with bytes changed, lost and doubled give a script or an error with a line.
#[test]
fn damaged_scripts_never_panic() {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for file in own_scripts() {
        let whole = fs::read(file).unwrap();
        let lines = whole.iter().filter(|&&byte| byte == b'\n').count() + 1;
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..4) {
                    0 => bytes[at] = random.random(),
                    1 => bytes[at] = *b"9# ->.,*g".choose(&mut random).unwrap(),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, bytes[at]),
                }
            }
            if let Err(error) = parse(&bytes) {
                assert!((1..lines + 4).contains(&error.line));
                assert!(error.to_string().starts_with("expected "));
            }
        }
    }
}

fn random_line(random: &mut Pcg64Mcg) -> String {
    let label = *["a", "b", "c"].choose(random).unwrap();
    let group = *["", "", "g0", "g1", "g2"].choose(random).unwrap();
    let save = *["s", "t", "u"].choose(random).unwrap();
    let job = *["i", "j", "k"].choose(random).unwrap();
    let step = *["m", "n"].choose(random).unwrap();
    let n = *[0, 1, 2, 3, 4, 6, 9, 13].choose(random).unwrap();
    let m = random.random_range(0..8);
    let blocks =
        (0..random.random_range(1..4)).map(|_| random.random_range(0..13).to_string() + " ");
    let blocks: String = blocks.collect();
    let (from, to) = (random.random_range(0..5) * 8, random.random_range(0..8) * 8);
    match random.random_range(0..40) {
        0 => format!("admit {label}"),
        1..5 => format!("assign {label} {group} {blocks}"),
        5 => format!("share {label} {group} {blocks}"),
        6..8 => format!("commit {label} {to}"),
        8 => format!("vacate {label} {group} {m}..{n}"),
        9 => format!("truncate {label} {group} {m}"),
        10 => format!("replace {label} {group} {m} {n}"),
        11 => format!("preempt {label}"),
        12 => format!("release {label}"),
        13 => format!("invalidate {blocks}"),
        14 => format!("step begin {step}"),
        15 => format!("step end {step}"),
        16..19 => "publish".to_owned(),
        19 if m == 0 => "reset force".to_owned(),
        19 => "reset".to_owned(),
        20 if m == 0 && n == 0 => "drain".to_owned(),
        20..23 => format!("plan {save} {label} {from}..{to} {group}"),
        23 => format!("plan {save} {label} {from}..{to} load"),
        24 => format!("forge {save} {label} {from}..{to} epoch {n}"),
        25 => format!("check {save}"),
        26 => format!("replan {save}"),
        27..30 => format!("pin {save} as {job} ranks 0,{m}"),
        30..32 => format!("complete {job} {m}"),
        32 => format!("complete {job} 0 failed"),
        33 => format!("force {job}"),
        34 => format!("hold {blocks} as {job}"),
        35 => format!("jobs max {n} blocks {to}"),
        36 => format!("next {save} {label} upto {to}"),
        37 => format!("abandon {save}"),
        38 if m == 0 => format!("track {label} end {to}"),
        38 => format!("next {save} {label}"),
        _ => {
            let query = *[
                "free",
                "held",
                "epoch",
                "pending-jobs",
                "owner 3",
                "table a g1",
                "reclaimable b",
                "pins a",
                "drained",
                "pinned-blocks j",
                "watermark a",
                "in-flight b",
                "ranks-left i",
            ]
            .choose(random)
            .unwrap();
            if query == "drained" {
                "expect drained".to_owned()
            } else {
                format!("expect {query} ...")
            }
        }
    }
}
