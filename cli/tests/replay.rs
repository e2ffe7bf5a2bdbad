//! `tenure replay` on the built-in workload and, where it is there, on a published trace.

mod support;

use support::{figures, number, published_trace, replay, tenure, total};

/// A pool that runs out, and stores that are slow.
const TIGHT: [&str; 8] = [
    "--requests=150",
    "--blocks=9000",
    "--speed=10",
    "--store-latency=exp:150",
    "--savers=3",
    "--seed=3",
    "--quiet",
    "--pin-latency=uniform:0..10",
];

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

#[test]
fn tells_what_is_documented() {
    let figures = figures(&["--requests=100"]);
    assert_eq!(figures["policy"], "tenure");
    assert_eq!(figures["requests"], 100);
    assert_eq!(figures["blocks"], 60_000);
    assert_eq!(figures["free_at_end"], 60_000);
    assert_eq!(figures["wrong_content"], 0);
    assert_eq!(figures["account"]["balanced"], true);
    for name in ["steps", "saves_planned", "saves_completed", "blocks_saved", "held_max"] {
        assert!(number(&figures[name]) > 0, "{name}");
    }
    assert!(figures["preemptions"].is_u64());
    for name in tenure::Stale::NAMES {
        assert!(figures["stale"][name].is_u64(), "stale.{name}");
    }
    for name in ["mean", "p50", "p99", "p999"] {
        assert!(figures["index_ns_per_step"][name].as_f64().unwrap() > 0.0, "{name}");
    }
    for name in ["requests", "assigned_blocks", "saves", "pinned_blocks"] {
        for part in ["mean", "p99", "max"] {
            assert!(figures["per_step"][name][part].as_f64().unwrap() > 0.0, "{name} {part}");
        }
    }
    assert!(figures["wall_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_scheduler_does_the_same_each_time() {
    let runs = [(); 2].map(|()| figures(&["--requests=120", "--seed=9"]));
    let [first, second] = &runs;
    for name in ["requests", "steps", "preemptions", "simulated_seconds"] {
        assert_eq!(first[name], second[name], "{name}");
    }
    assert_eq!(first["per_step"]["tokens"]["max"], 8192);
    let other = figures(&["--requests=120", "--seed=10"]);
    assert_ne!(first["per_step"]["tokens"], other["per_step"]["tokens"]);
}

#[test]
fn a_mirror_reads_wrong_content_where_pins_do_not() {
    let mirror = figures(&with(&TIGHT, &["--policy=mirror"]));
    assert!(number(&mirror["wrong_content"]) > 0, "{mirror}");
    assert!(mirror["first_wrong_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(mirror["stale"]["gone"], 0, "it refuses nothing");

    for index in ["tenure", "mutex"] {
        let pinned = figures(&with(&TIGHT, &["--index", index]));
        assert_eq!(pinned["index"], index);
        assert_eq!(pinned["wrong_content"], 0, "{pinned}");
        assert!(number(&pinned["stale"]["gone"]) > 0, "{pinned}");
        assert!(number(&pinned["held_max"]) > 0, "{pinned}");
    }
}

#[test]
fn an_asserting_engine_would_have_died() {
    let figures = figures(&with(&TIGHT, &["--policy=assert"]));
    let stale: u64 = figures["stale"].as_object().unwrap().values().map(number).sum();
    assert!(stale > 0, "{figures}");
    assert_eq!(figures["deaths"]["count"], stale);
    assert!(figures["deaths"]["first_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn preempted_requests_come_back() {
    let figures = figures(&with(&TIGHT, &["--blocks=8000", "--speed=50"]));
    assert!(number(&figures["preemptions"]) > 0, "{figures}");
    assert!(number(&figures["recomputed_tokens"]) > 0);
    assert_eq!(figures["requests"], 150);
    assert_eq!(figures["free_at_end"], 8000);
}

#[test]
fn the_account_balances_whatever_happens_to_reports() {
    let figures = figures(&with(
        &TIGHT,
        &["--ranks=3", "--fail=0.2", "--lose=0.2", "--overdue=200", "--list-missing"],
    ));
    for kind in ["lost", "late", "duplicated", "ignored"] {
        assert!(number(&figures["completions"][kind]) > 0, "{kind}: {figures}");
    }
    for count in ["saves_failed", "saves_forced", "retried"] {
        assert!(number(&figures[count]) > 0, "{count}: {figures}");
    }
    let account = &figures["account"];
    assert_eq!(account["balanced"], true, "{account}");
    let missing = account["missing_blocks"].as_object().unwrap();
    let blocks: u64 = missing.values().map(number).sum();
    let listed = account["missing"].as_array().unwrap();
    let tokens: u64 =
        listed.iter().map(|range| number(&range["to"]) - number(&range["from"])).sum();
    assert_eq!(blocks * 16, tokens);
    assert_eq!(number(&account["due_blocks"]), number(&account["durable_blocks"]) + blocks);
    assert!(missing.contains_key("failed") && missing.contains_key("lost-completion"));
}

#[test]
fn a_budget_leaves_blocks_to_the_scheduler() {
    let slow = [&TIGHT[..], &["--store-latency=fixed:400", "--blocks=10000"]].concat();
    let without = figures(&slow);
    let within = figures(&with(&slow, &["--save-budget=1000"]));
    assert_eq!(without["over_budget"], 0);
    assert!(number(&within["over_budget"]) > 0, "{within}");
    assert!(number(&within["steps"]) < number(&without["steps"]));
    assert_eq!(within["account"]["balanced"], true);
}

#[test]
fn what_could_not_be_saved_at_first_is_saved_in_the_end() {
    let once = figures(&["--requests=60", "--fail=0.3", "--save-range=whole", "--save=prefill"]);
    let again = figures(&["--requests=60", "--fail=0.3", "--save=prefill"]);
    assert!(number(&again["retried"]) > 0, "{again}");
    let missing =
        |figures: &serde_json::Value| number(&figures["account"]["missing_blocks"]["failed"]);
    assert!(
        again["account"]["missing_blocks"]["failed"].is_null() || missing(&again) < missing(&once)
    );
}

#[test]
fn what_failed_is_saved_later_also_behind_a_sliding_window() {
    let window = ["--requests=60", "--window=4096", "--blocks=20000", "--fail=0.3"];
    let figures = figures(&window);
    assert!(number(&figures["retried"]) > 0, "{figures}");
    assert!(number(&figures["saves_failed"]) > 0);
    assert_eq!(figures["account"]["balanced"], true, "{}", figures["account"]);
    let account = &figures["account"];
    let missing = account["missing_blocks"].as_object().unwrap();
    assert!(missing.keys().any(|cause| cause == "hole"), "{account}");
    let failed = missing.get("failed").map_or(0, number);
    assert!(failed * 10 < number(&account["due_blocks"]), "few failed for good: {account}");
}

#[test]
fn every_way_to_save_keeps_its_account() {
    let ways: [&[&str]; 7] = [
        &["--save=prefill"],
        &["--save-range=whole"],
        &["--window=2048", "--blocks=20000"],
        &["--window=2048", "--save-range=whole", "--in-flight=3"],
        &["--in-flight=0", "--block-size=24"],
        &["--block-size=1024", "--blocks=2000", "--in-flight=5"],
        &["--index=mutex", "--ranks=2", "--lose=0.1", "--window=1000"],
    ];
    for way in ways {
        let figures = figures(&with(&["--requests=60"], way));
        assert_eq!(figures["requests"], 60, "{way:?}");
        assert_eq!(figures["wrong_content"], 0, "{way:?}");
        assert_eq!(figures["account"]["balanced"], true, "{way:?}: {figures}");
        assert_eq!(figures["free_at_end"], figures["blocks"], "{way:?}");
        assert!(number(&figures["blocks_saved"]) > 0, "{way:?}");
    }
}

#[test]
fn a_whole_save_covers_more_than_a_new_one() {
    let new = figures(&["--requests=60"]);
    let whole = figures(&["--requests=60", "--save-range=whole"]);
    assert_eq!(total(&new, "saves"), total(&whole, "saves"));
    assert!(total(&whole, "pinned_blocks") > 5 * total(&new, "pinned_blocks"));
}

#[test]
fn prints_tables_and_nothing_else_where_nobody_looks() {
    let output = replay(&["--requests=30"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["replay", "per step", "saves, policy tenure", "index tenure", "wrong content"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours without a terminal");
}

#[test]
fn bad_usage_is_status_2() {
    for bad in [["--blocks=0"], ["--policy=hope"], ["--store-latency=soon"], ["--window=-1"]] {
        assert_eq!(replay(&bad).status.code(), Some(2), "{bad:?}");
    }
    assert_eq!(tenure(&[]).output().unwrap().status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn stops_cleanly_on_ctrl_c() {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    let mut command = tenure(&["replay", "--requests=200000", "--json", "--quiet"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["interrupted"], true);
    assert!(number(&figures["steps"]) > 0);
    assert_eq!(figures["free_at_end"], figures["blocks"]);
}

#[test]
fn replays_the_published_conversation_trace() {
    let Some(path) = published_trace("conversation_trace.jsonl") else { return };
    let path = path.to_str().unwrap();
    for speed in ["--speed=1", "--speed=10", "--speed=50"] {
        let tight = [path, "--requests=400", "--blocks=12000", "--store-latency=exp:200", speed];
        let tenure = figures(&tight);
        assert_eq!(tenure["requests"], 400, "{speed}");
        assert_eq!(tenure["wrong_content"], 0, "{speed}");
        assert_eq!(tenure["account"]["balanced"], true, "{speed}: {}", tenure["account"]);
        let mirror = figures(&with(&tight, &["--policy=mirror"]));
        assert!(number(&mirror["wrong_content"]) > 0, "{speed}");
    }
}

#[test]
fn replays_the_published_azure_trace() {
    let Some(path) = published_trace("AzureLLMInferenceTrace_code.csv") else { return };
    let figures = figures(&[path.to_str().unwrap(), "--requests=500"]);
    assert_eq!(figures["format"], "azure");
    assert_eq!(figures["requests"], 500);
    assert_eq!(total(&figures, "found_blocks"), 0, "its prompts share nothing");
    assert!(number(&figures["stale"]["gone"]) > 0, "short outputs end before their saves");
}
