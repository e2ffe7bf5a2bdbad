//! How the command speaks to people and to scripts: help, completions, errors, exit statuses.

mod support;

use std::fs;
use std::process::Output;

use support::{figures, number, replay, tenure};

fn output(args: &[&str]) -> Output {
    tenure(args).output().expect("the command starts")
}

fn stdout(args: &[&str]) -> String {
    let output = output(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The one line of an error, which ends the command with this status.
fn error(args: &[&str], status: i32) -> String {
    let output = output(args);
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    text
}

#[test]
fn every_help_has_examples_and_tells_the_exit_statuses() {
    let helps: [&[&str]; 4] =
        [&["--help"], &["replay", "--help"], &["scenario", "--help"], &["profile", "--help"]];
    for args in helps {
        let help = stdout(args);
        for wanted in ["Examples:", "Exit status: 0"] {
            assert!(help.contains(wanted), "{wanted} in {args:?}\n{help}");
        }
        assert!(!help.contains('\u{1b}'), "{args:?}: no colours without a terminal");
    }
    assert!(stdout(&["completions", "--help"]).contains("Examples:"));
}

#[test]
fn the_examples_of_the_help_are_taken() {
    let mut taken = 0;
    for command in ["replay", "profile", "scenario", "completions"] {
        let help = stdout(&[command, "--help"]);
        let examples = help.lines().filter_map(|line| line.trim().strip_prefix("tenure "));
        for example in examples {
            let words = example.split("  ").next().expect("a command");
            let end = words.find(['|', '&', '>']).unwrap_or(words.len());
            let args = words[..end].split_whitespace().map(|word| word.replace('*', "x"));
            let args = std::iter::once("tenure".to_owned()).chain(args);
            let parsed = <tenure_cli::args::Cli as clap::Parser>::try_parse_from(args);
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            taken += 1;
        }
    }
    assert!(taken >= 15, "{taken}");
}

#[test]
fn the_script_of_the_help_passes() {
    let help = stdout(&["scenario", "--help"]);
    let script = &help[help.find("index blocks 8").expect("a script")..];
    let script = &script[..script.find("\n\n").expect("an end")];
    assert!(script.lines().count() >= 9, "{script}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("help.tenure");
    fs::write(&file, script).expect("a file");
    let file = file.to_str().expect("text");
    assert_eq!(stdout(&["scenario", file]), "1 of 1 scripts passed\n");
    assert_eq!(stdout(&["scenario", "--quiet", file]), "");
}

#[test]
fn shells_complete_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&["completions", shell]);
        for word in ["replay", "scenario", "profile", "store-latency"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
    assert_eq!(output(&["completions", "tcl"]).status.code(), Some(2));
}

#[test]
fn errors_are_one_line_with_a_hint() {
    let missing = error(&["replay", "/no/such/trace.jsonl"], 2);
    assert!(missing.starts_with("tenure: cannot read /no/such/trace.jsonl"), "{missing}");
    assert!(missing.contains("(hint: "), "{missing}");

    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("x.tenure");
    fs::write(&script, "index blocks 8\n").expect("a file");
    let confused = error(&["replay", script.to_str().expect("text")], 2);
    assert!(confused.contains("(hint: tenure scenario "), "{confused}");

    let pointless = error(&["replay", "--index=mutex", "--record=x"], 2);
    assert!(pointless.contains("--record needs Tenure's index"), "{pointless}");
}

#[test]
fn a_recorded_replay_answers_the_same_as_a_script() {
    let directory = tempfile::tempdir().expect("a directory");
    let ways: [&[&str]; 3] = [
        &["--requests=25", "--blocks=3000", "--speed=20", "--store-latency=exp:100"],
        &["--requests=25", "--window=2048", "--blocks=4000", "--speed=20"],
        // Only the end is kept: it begins with a picture of the tables.
        &["--requests=40", "--record-lines=2000", "--save-range=whole", "--in-flight=3"],
    ];
    for (at, way) in ways.iter().enumerate() {
        let file = directory.path().join(format!("{at}.tenure"));
        let file = file.to_str().expect("text");
        let recorded = figures(&[way, &["--quiet", "--record", file][..]].concat());
        assert!(number(&recorded["saves_completed"]) > 0, "{way:?}");
        let script = fs::read_to_string(file).expect("a script");
        let said = |word: &str| script.lines().any(|line| line.starts_with(word));
        for word in
            ["index ", "admit ", "assign ", "plan ", "pin ", "complete ", "publish ", "release "]
        {
            assert!(said(word), "{word} in {way:?}");
        }
        assert!(!script.contains("request-"), "labels are neutral");
        assert_eq!(stdout(&["scenario", file]), "1 of 1 scripts passed\n", "{way:?}");
    }
}

#[cfg(feature = "metrics")]
#[test]
fn a_running_replay_serves_its_figures() {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    // A port that was free just now.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let at = address.to_string();
    let mut command = tenure(&["replay", "--requests=200000", "--quiet", "--metrics", &at]);
    let mut child = command.stdout(Stdio::null()).spawn().expect("the command starts");
    let scrape = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let pins = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("tenure_pins_total"))?;
        line.split_whitespace().last()?.parse::<f64>().ok()
    };
    let start = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < 2 && start.elapsed() < Duration::from_secs(60) {
        let text = scrape().unwrap_or_default();
        if let Some(pins) = pins(&text).filter(|pins| seen.last().is_none_or(|last| pins > last)) {
            assert!(text.contains("# TYPE tenure_blocks gauge"), "{text}");
            seen.push(pins);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it runs still");
    let _status = child.wait().expect("a status");
    assert_eq!(seen.len(), 2, "pins are counted while the replay runs: {seen:?}");
}

#[test]
fn a_port_that_is_taken_is_told() {
    if cfg!(not(feature = "metrics")) {
        return;
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let told = error(&["replay", "--requests=1", "--metrics", &address], 2);
    assert!(told.contains("(hint: "), "{told}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_replay_still_writes_all_it_was_asked_for() {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.html");
    let script = directory.path().join("run.tenure");
    let mut command = tenure(&["replay", "--requests=200000", "--record-lines=3000"]);
    command.arg("--report").arg(&page).arg("--record").arg(&script);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(1500));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("before the end"));
    assert!(fs::read_to_string(page).expect("a page").contains("Stopped before the end."));
    let script = script.to_str().expect("text");
    assert_eq!(stdout(&["scenario", script]), "1 of 1 scripts passed\n");
}

#[test]
fn json_is_all_that_is_on_the_standard_output() {
    let output = replay(&["--requests=10", "--json", "--quiet"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("one JSON value");
}
