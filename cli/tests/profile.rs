//! What `tenure profile` prints. How long anything takes is no matter of a test.

mod support;

use std::sync::LazyLock;

use serde_json::Value;
use support::tenure;

/// A quick profile, measured once for all tests.
static QUICK: LazyLock<Value> = LazyLock::new(|| profile(&["--quick"]));

/// Runs the profile with settings that measure next to nothing.
fn profile(args: &[&str]) -> Value {
    let tiny = ["profile", "--rounds", "1", "--slice-us", "1", "--memory-blocks", "4096"];
    let output = tenure(&tiny).args(["--json", "--quiet"]).args(args).output();
    let output = output.expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn keys(object: &Value) -> Vec<&str> {
    let object = object.as_object().unwrap_or_else(|| panic!("{object} is no object"));
    object.keys().map(String::as_str).collect()
}

fn assert_positive(number: &Value) {
    assert!(number.as_f64().is_some_and(|number| number > 0.0), "{number}");
}

#[test]
fn a_quick_profile_tells_what_every_operation_costs() {
    let report = &*QUICK;
    let single = [
        "rmw_ns",
        "pin_in_turn_ns",
        "pin_batch_ns",
        "check_ns",
        "plan_ns",
        "snapshot_cached_ns",
        "snapshot_built_ns",
        "admit_ns",
        "assign_ns",
        "share_ns",
        "vacate_ns",
        "release_ns",
        "release_shared_ns",
    ];
    for name in single {
        assert_positive(&report[name]);
    }
    let blocks = ["1", "64", "512", "4096", "100000"];
    let lengths = ["64", "1024", "16384", "100000"];
    let numbered: [(&str, &[&str]); 6] = [
        ("pin_unpin_ns", &blocks),
        ("publish_ns", &["64", "1024", "65536"]),
        ("truncate_regrow_ns", &lengths),
        ("slide_ns", &lengths),
        ("view_ns", &["64"]),
        ("hold_ns", &["64"]),
    ];
    for (name, numbers) in numbered {
        assert_eq!(sorted(keys(&report[name])), sorted(numbers.to_vec()), "{name}");
        numbers.iter().for_each(|number| assert_positive(&report[name][number]));
    }
    assert_eq!(report["contention"], Value::Null);
    assert!(report["counters"]["counted"].is_object() || report["counters"]["skipped"].is_string());
    assert!(report["retained"]["no_reader"].is_u64());
}

#[test]
fn a_quick_profile_compares_with_peers_and_with_goals() {
    let report = &*QUICK;
    let peers = keys(&report["peers"]);
    for kind in
        ["Mutex", "RwLock", "parking_lot", "dashmap", "papaya", "scc", "left-right", "ArcSwap"]
    {
        assert!(peers.iter().any(|peer| peer.contains(kind)), "{kind} is not in {peers:?}");
    }
    for peer in peers {
        let figures = &report["peers"][peer];
        assert_eq!(sorted(keys(figures)), sorted(keys(&report["pin_unpin_ns"])), "{peer}");
        figures.as_object().into_iter().flatten().for_each(|(_, ns)| assert_positive(ns));
        assert_positive(&report["two_threads"][peer]["same"]["64"]);
    }
    assert_positive(&report["two_threads"]["tenure"]["different"]["1"]);
    let note = report["peers_note"].as_str().expect("a note");
    assert!(note.contains("none of the peers checks that ownership is unchanged"));

    let goals = report["goals"].as_array().expect("goals");
    assert!(goals.len() >= 15);
    for goal in goals {
        let (most, measured) = (goal["at_most"].as_f64(), goal["measured"].as_f64());
        let met = measured.zip(most).map(|(measured, most)| measured <= most);
        assert_eq!(goal["met"].as_bool(), met, "{goal}");
    }
}

#[test]
fn a_full_profile_has_every_case_for_every_index_and_plots_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let plots = directory.path().join("plots");
    let svg = plots.to_str().expect("a path of text");
    let report = profile(&["--threads", "2", "--case-rounds", "1", "--case-ms", "1", "--svg", svg]);
    let cases = report["contention"]["cases"].as_array().expect("cases");
    // 5 loads, paced or not, with the threads asked for and none, over 3 indexes.
    assert_eq!(cases.len(), 5 * 2 * 2 * 3);
    for case in cases {
        assert_positive(&case["steps"]);
        let step = &case["step_ns"];
        let quantiles = ["p50", "p99", "p99_9", "max"].map(|name| step[name].as_u64().unwrap());
        assert!(quantiles.is_sorted(), "{step}");
        if case["threads"] == 0 {
            assert_eq!(case["pins"], 0);
            assert_eq!(case["step_cpu_against_alone"], 1.0);
        }
    }
    let pins = |index| {
        let cases = cases.iter().filter(move |case| case["index"] == index);
        cases.map(|case| case["pins"].as_u64().unwrap()).sum::<u64>()
    };
    for index in ["tenure", "mutex", "rwlock"] {
        assert!(pins(index) > 0, "{index}");
    }
    let files = std::fs::read_dir(&plots).expect("the plots").count();
    // One of the lengths, and four of each load, paced or not.
    assert_eq!(files, 1 + 4 * 5 * 2);
    let plot = std::fs::read_to_string(plots.join("pin-unpin.svg")).expect("a plot");
    assert!(plot.contains("<svg") && plot.contains("tenure"));
}

#[test]
fn a_profile_is_a_table_for_people() {
    let tiny = ["profile", "--quick", "--rounds", "1", "--slice-us", "1", "--memory-blocks", "64"];
    let output = tenure(&tiny).output().expect("the command starts");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    for wanted in ["pin + unpin inside a batch", "goal", "std Mutex<HashMap>", "none of"] {
        assert!(text.contains(wanted), "no {wanted:?} in {text}");
    }
}

#[test]
fn tables_can_be_markdown() {
    let tiny = ["profile", "--quick", "--rounds", "1", "--slice-us", "1", "--memory-blocks", "64"];
    let output = tenure(&tiny).arg("--markdown").output().expect("the command starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    assert!(text.starts_with("| work "), "{text}");
    assert!(text.lines().all(|line| !line.contains('┆')), "{text}");
}

#[test]
fn settings_out_of_bounds_are_refused() {
    for bad in [["--rounds", "0"], ["--threads", "x"], ["--case-ms", "0"], ["--memory-blocks", "1"]]
    {
        let output = tenure(&["profile"]).args(bad).output().expect("the command starts");
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort();
    names
}
