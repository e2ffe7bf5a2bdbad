//! Mooncake traces: one JSON object a line with `timestamp` (ms), `input_length`, `output_length`
//! and `hash_ids`, one id per started 512 tokens of the prompt.

use serde_json::{Map, Value};

use super::{Line, Lines, MAX_TIMESTAMP_MS, SEGMENT_TOKENS, TraceError, TraceRequest};

pub(super) fn parse(first: Line<'_>, rest: Lines<'_>) -> Result<Vec<TraceRequest>, TraceError> {
    std::iter::once(Ok(first)).chain(rest).map(|line| request(line?)).collect()
}

fn request(line: Line<'_>) -> Result<TraceRequest, TraceError> {
    let object: Map<String, Value> =
        serde_json::from_str(line.text).map_err(|e| line.bad(format!("not a JSON object: {e}")))?;
    let field = |name: &'static str| {
        object
            .get(name)
            .ok_or_else(|| line.bad_field(name, "is missing"))
            .map(|value| (name, value))
    };
    let tokens = |(name, value): (&'static str, &Value)| match value.as_u64() {
        Some(count) => line.tokens(name, count),
        None => Err(line.bad_field(name, format!("{} is not a count", shown(value)))),
    };

    let arrival_us = arrival(&line, field("timestamp")?)?;
    let prompt_tokens = tokens(field("input_length")?)?;
    let output_tokens = tokens(field("output_length")?)?;
    let segments = segments(&line, field("hash_ids")?, prompt_tokens)?;
    Ok(TraceRequest { arrival_us, prompt_tokens, output_tokens, segments })
}

fn arrival(line: &Line<'_>, (name, value): (&'static str, &Value)) -> Result<u64, TraceError> {
    match value.as_f64() {
        Some(ms) if (0.0..=MAX_TIMESTAMP_MS as f64).contains(&ms) => Ok((ms * 1000.0) as u64),
        Some(_) => {
            Err(line.bad_field(name, format!("{value} is not within 0..={MAX_TIMESTAMP_MS} ms")))
        }
        None => Err(line.bad_field(name, format!("{} is not a number", shown(value)))),
    }
}

fn segments(
    line: &Line<'_>,
    (name, value): (&'static str, &Value),
    prompt_tokens: u32,
) -> Result<Box<[u64]>, TraceError> {
    let Some(ids) = value.as_array() else {
        return Err(line.bad_field(name, format!("{} is not an array", shown(value))));
    };
    let expected = prompt_tokens.div_ceil(SEGMENT_TOKENS) as usize;
    if ids.len() != expected {
        let problem = format!(
            "{} ids where {prompt_tokens} prompt tokens need {expected}, one per started {SEGMENT_TOKENS}",
            ids.len()
        );
        return Err(line.bad_field(name, problem));
    }
    let id = |value: &Value| {
        value.as_u64().ok_or_else(|| line.bad_field(name, format!("{} is not an id", shown(value))))
    };
    ids.iter().map(id).collect()
}

/// A value as an error message shows it: whole where it is short.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}
