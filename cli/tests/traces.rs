//! `tenure replay` on traces written by hand, good and bad.

mod support;

use std::io::Write;

use support::{figures, number, replay, total};
use tempfile::NamedTempFile;

fn trace(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::with_suffix(".trace").expect("a temporary file");
    file.write_all(content).expect("the file is written");
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("a path in UTF-8")
}

#[test]
fn a_prompt_is_found_again() {
    let file = trace(
        br#"{"timestamp": 0, "input_length": 1024, "output_length": 3, "hash_ids": [4, 9]}
{"timestamp": 3000, "input_length": 1030, "output_length": 1, "hash_ids": [4, 9, 11]}
{"timestamp": 6000, "input_length": 1024, "output_length": 1, "hash_ids": [4, 9]}

{"timestamp": 9000, "input_length": 1024, "output_length": 1, "hash_ids": [5, 9], "more": null}
"#,
    );
    let figures = figures(&[path(&file), "--blocks=200"]);
    assert_eq!(figures["requests"], 4);
    assert_eq!(figures["format"], "mooncake");
    // Of the second all 64 full blocks, of the third all but the one with its last token.
    assert_eq!(total(&figures, "found_blocks"), 64 + 63);
    // Prompts, and the tokens generated but the last.
    assert_eq!(total(&figures, "tokens"), (1024 + 2) + 6 + 16 + 1024);
    assert_eq!(total(&figures, "releases"), 4);
    // The fourth arrives at 9 s and takes one step, of which nothing is in flight afterwards.
    assert_eq!(figures["steps"], 6);
}

#[test]
fn blocks_of_any_size_are_shared() {
    let line = br#"{"timestamp":0,"input_length":1500,"output_length":1,"hash_ids":[1,2,3]}"#;
    let later = br#"{"timestamp":900,"input_length":1500,"output_length":1,"hash_ids":[1,2,4]}"#;
    let file = trace(&[&line[..], b"\r\n", later].concat());
    for (block_size, found) in [("1", 1024), ("7", 146), ("16", 64), ("500", 2), ("1024", 1)] {
        let figures = figures(&[path(&file), "--block-size", block_size]);
        assert_eq!(total(&figures, "found_blocks"), found, "blocks of {block_size}");
    }
}

#[test]
fn azure_rows_may_come_in_any_order_and_share_nothing() {
    let file = trace(
        b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
          2023-11-16 18:17:04.0319600,640,8\r\n\
          2023-11-16 18:17:03.9799600,640,10",
    );
    let figures = figures(&[path(&file)]);
    assert_eq!(
        (figures["requests"].clone(), figures["format"].clone()),
        (2.into(), "azure".into())
    );
    assert_eq!(total(&figures, "found_blocks"), 0);
    assert_eq!(total(&figures, "tokens"), 640 + 7 + 640 + 9);
}

#[test]
fn a_request_longer_than_the_pool_is_turned_away() {
    let file = trace(
        br#"{"timestamp": 0, "input_length": 512, "output_length": 9, "hash_ids": [0]}
{"timestamp": 0, "input_length": 16777216, "output_length": 16777216, "hash_ids": []}
"#,
    );
    assert_eq!(replay(&[path(&file)]).status.code(), Some(2), "ids are missing");

    let file = trace(
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n\
          2023-11-16 18:17:03,512,9\n\
          2023-11-16 18:17:03,16777216,16777216\n",
    );
    let figures = figures(&[path(&file), "--blocks=40"]);
    assert_eq!((number(&figures["requests"]), number(&figures["rejected"])), (1, 1));
}

#[test]
fn a_malformed_line_is_named_with_its_field() {
    let good = r#"{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [0]}"#;
    let with = |from: &str, to: &str| format!("{good}\n\n{}\n", good.replace(from, to));
    let mooncake = [
        (with(r#""timestamp": 0, "#, ""), "field timestamp: is missing"),
        (with(": 0,", ": -1,"), "field timestamp: -1 is not within"),
        (with(": 0,", ": 1e300,"), "field timestamp: 1e+300 is not within"),
        (with(": 0,", ": \"now\","), "field timestamp: \"now\" is not a number"),
        (with("input_length\": 5", "input_length\": 0"), "field input_length: 0 is not within"),
        (with("input_length\": 5", "input_length\": -5"), "field input_length: -5 is not a count"),
        (with("input_length\": 5", "input_length\": 99999999999999999999"), "field input_length"),
        (with("input_length\": 5", "input_length\": 16777217"), "field input_length: 16777217"),
        (with("output_length\": 5", "output_length\": 1.5"), "field output_length: 1.5 is not"),
        (with("output_length\": 5", "output_length\": 4294967297"), "field output_length"),
        (with("[0]", "[0, 1]"), "field hash_ids: 2 ids where 5 prompt tokens need 1"),
        (with("[0]", "[]"), "field hash_ids: 0 ids"),
        (with("[0]", "[\"x\"]"), "field hash_ids: \"x\" is not an id"),
        (with("[0]", "[-1]"), "field hash_ids: -1 is not an id"),
        (with("[0]", "7"), "field hash_ids: 7 is not an array"),
        (with("{", ""), "not a JSON object"),
        (with("}", ""), "not a JSON object"),
        (format!("{good}\n\n[1, 2]\n"), "not a JSON object"),
    ];
    let header = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1,1\n";
    let azure = [
        ("yesterday,1,1", "field TIMESTAMP: \"yesterday\" is not a time"),
        ("2023-02-31 00:00:00,1,1", "field TIMESTAMP"),
        ("2023-11-16 18:17:03.97,x,1", "field ContextTokens: \"x\" is not a count"),
        ("2023-11-16 18:17:03.97,1,-1", "field GeneratedTokens: \"-1\" is not a count"),
        ("2023-11-16 18:17:03.97,0,1", "field ContextTokens: 0 is not within"),
        ("2023-11-16 18:17:03.97,1,99999999999999999999", "field GeneratedTokens"),
        ("2023-11-16 18:17:03.97,1", "field GeneratedTokens: is missing"),
        ("2023-11-16 18:17:03.97,1,1,1", "4 fields where there are 3"),
        ("9999-11-16 18:17:03.97,1,1", "field TIMESTAMP: more than"),
    ];
    let azure = azure.map(|(row, error)| (format!("{header}{row}\n"), error));
    for (content, error) in mooncake.into_iter().chain(azure) {
        let file = trace(content.as_bytes());
        let output = replay(&[path(&file)]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{content}: {told}");
        assert!(told.contains(&format!("{}:3: {error}", path(&file))), "{content}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn what_is_no_trace_is_told_so() {
    let strange = [
        (&b"hello\nworld\n"[..], ":1: neither a Mooncake trace"),
        (b"", " holds no request"),
        (b"\n\n\n", " holds no request"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", " holds no request"),
        (b"TIMESTAMP,ContextTokens\n", ":1: neither"),
        (b"\xff\xfe{\x00\n", ":1: not UTF-8"),
    ];
    for (content, error) in strange {
        let file = trace(content);
        let output = replay(&[path(&file)]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("{}{error}", path(&file))), "{told}");
    }
    let output = replay(&["/no/such/trace"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read /no/such/trace"));
}
