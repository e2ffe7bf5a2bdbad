//! The pages of `--report`, as text and in a real browser where there is one.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use support::{replay, tenure};

/// A small replay with stale saves, and a mirror that goes wrong.
const SMALL: [&str; 7] = [
    "--requests=80",
    "--blocks=6000",
    "--speed=20",
    "--store-latency=exp:100",
    "--pin-latency=uniform:0..10",
    "--seed=3",
    "--quiet",
];

fn replay_page(args: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("replay.html");
    let output = replay(&[&SMALL[..], args, &["--report", file.to_str().expect("text")]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(file).expect("a page")
}

/// Taken once: a profile takes its time however little it measures.
static PROFILE: LazyLock<String> = LazyLock::new(profile_page);

fn profile_page() -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("profile.html");
    let tiny = "profile --rounds=1 --slice-us=1 --memory-blocks=4096 --threads=2 --case-rounds=1 \
                --case-ms=1 --quiet --report";
    let args: Vec<&str> = tiny.split_whitespace().collect();
    let output = tenure(&args).arg(&file).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(file).expect("a page")
}

/// The text of the section with this heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("<h2>{heading}</h2>")).unwrap_or_else(|| panic!("{heading}"));
    let rest = &page[start..];
    &rest[..rest.find("</section>").expect("an end")]
}

#[test]
fn a_replay_is_told_with_charts_and_beside_other_policies() {
    let page = replay_page(&[]);
    for heading in ["Blocks over time", "Held blocks over time", "Time of a step", "Time of a pin"]
    {
        assert!(section(&page, heading).contains("<svg"), "{heading}");
    }
    for state in ["owned", "held", "free"] {
        assert!(section(&page, "Blocks over time").contains(state), "{state}");
    }
    assert!(section(&page, "Why saves were refused").contains("gone"));
    assert!(section(&page, "Saves by outcome").contains("Saved by every rank"));
    assert!(section(&page, "Settings").contains("exp:100"));

    let policies = section(&page, "Policies compared");
    let row = &policies[policies.find("wrong content stored").expect("a row")..];
    let cells: Vec<&str> = row.split("<td>").skip(1).take(3).collect();
    let numbers = cells.iter().map(|cell| cell.split('<').next().expect("a number"));
    let wrong: Vec<bool> = numbers.map(|number| number != "0").collect();
    assert_eq!(wrong, [false, true, false], "tenure, mirror, assert: {policies}");
    assert!(policies.contains("first 80 requests"));
}

#[test]
fn a_page_loads_nothing_and_shows_nothing_that_is_no_number() {
    for page in [replay_page(&["--index=mutex", "--save-range=whole"]), PROFILE.clone()] {
        for word in ["http:", "https:", "src=", "@import", "url(", "<script", "NaN", "inf "] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=viewport"));
    }
}

#[test]
fn a_page_that_cannot_be_written_is_told_before_the_replay() {
    let output = replay(&["--requests=4000000", "--report=/nowhere/at/all.html"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with("tenure: cannot write /nowhere/at/all.html"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// Says in its title how a page stands in a phone's width, once it is laid out.
const PHONE: &str = "<!doctype html><title>waiting</title><body><script>
const frame = document.createElement('iframe');
frame.style.width = '390px';
frame.onload = () => {
  const root = frame.contentDocument.documentElement;
  const low = [...root.querySelectorAll('section')].filter(s => s.offsetHeight < 40).length;
  document.title = `over ${root.scrollWidth - root.clientWidth} sections ${root.querySelectorAll('section').length} low ${low}`;
};
frame.srcdoc = new TextDecoder().decode(Uint8Array.from([BYTES]));
document.body.append(frame);
</script>";

#[test]
fn a_browser_shows_the_pages_without_errors() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no chromium");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    for (name, page) in [("replay", replay_page(&[])), ("profile", PROFILE.clone())] {
        let file = directory.path().join(format!("{name}.html"));
        fs::write(&file, &page).expect("a file");
        let dom = show(browser, &file);
        assert_eq!(dom.matches("<svg").count(), page.matches("<svg").count(), "{name}");
        assert_eq!(dom.matches("<section").count(), page.matches("<section").count(), "{name}");

        let bytes = page.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(",");
        let phone = directory.path().join(format!("{name}-phone.html"));
        fs::write(&phone, PHONE.replace("BYTES", &bytes)).expect("a file");
        let sections = page.matches("<section").count();
        let title = format!("<title>over 0 sections {sections} low 0</title>");
        let dom = show(browser, &phone);
        let shown = dom.split("<title>").nth(1).unwrap_or(&dom);
        assert!(
            dom.contains(&title),
            "{name}: {} instead of {title}",
            &shown[..shown.len().min(80)]
        );
    }
}

fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let there = |name: &&str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    names.into_iter().find(there)
}

/// The document as the browser has it when all is loaded. Fails where it complains of something.
fn show(browser: &str, file: &Path) -> String {
    let profile = tempfile::tempdir().expect("a directory");
    let errors = profile.path().join("errors");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stdout(fs::File::create(profile.path().join("dom")).expect("a file"))
        .stderr(fs::File::create(&errors).expect("a file"))
        .stdin(Stdio::null())
        .spawn()
        .expect("a browser");
    let start = Instant::now();
    while child.try_wait().expect("a status").is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            let _ended = child.kill();
            panic!("the browser does not come to an end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let errors = fs::read_to_string(&errors).unwrap_or_default();
    let complaints: Vec<&str> = errors.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{}: {complaints:?}", file.display());
    fs::read_to_string(profile.path().join("dom")).expect("a document")
}
