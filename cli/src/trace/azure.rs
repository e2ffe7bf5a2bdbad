//! Azure LLM inference traces: a CSV with the columns `TIMESTAMP` (wall time), `ContextTokens` and
//! `GeneratedTokens`. They say nothing about content, so no prompt is shared.

use jiff::civil::DateTime;

use super::{Line, Lines, MAX_TIMESTAMP_MS, TraceError, TraceRequest};

/// The columns, in order.
const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

/// The first line of every such trace.
pub(super) const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";

pub(super) fn is_header(line: &str) -> bool {
    line.split(',').map(str::trim).eq(COLUMNS)
}

pub(super) fn parse(lines: Lines<'_>) -> Result<Vec<TraceRequest>, TraceError> {
    let rows: Vec<Row> = lines.map(|line| row(line?)).collect::<Result<_, _>>()?;
    let start = rows.iter().map(|row| row.at).min().unwrap_or_default();
    rows.into_iter().map(|row| row.request(start)).collect()
}

struct Row<'a> {
    line: Line<'a>,
    at: DateTime,
    prompt_tokens: u32,
    output_tokens: u32,
}

impl Row<'_> {
    fn request(self, start: DateTime) -> Result<TraceRequest, TraceError> {
        let since_start = self.at.duration_since(start).as_micros();
        let Some(arrival_us) =
            u64::try_from(since_start).ok().filter(|us| us / 1000 <= MAX_TIMESTAMP_MS)
        else {
            let problem = format!("more than {MAX_TIMESTAMP_MS} ms after the first, {start}");
            return Err(self.line.bad_field(COLUMNS[0], problem));
        };
        Ok(TraceRequest {
            arrival_us,
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            segments: Box::default(),
        })
    }
}

fn row(line: Line<'_>) -> Result<Row<'_>, TraceError> {
    let fields: Vec<&str> = line.text.split(',').map(str::trim).collect();
    let &[time, prompt, output] = fields.as_slice() else {
        // A short row lacks a field that can be named; a long one has none that can.
        return Err(match COLUMNS.get(fields.len()) {
            Some(missing) => line.bad_field(missing, "is missing"),
            None => line.bad(format!("{} fields where there are {}", fields.len(), COLUMNS.len())),
        });
    };
    let at = time
        .parse()
        .map_err(|e| line.bad_field(COLUMNS[0], format!("{time:?} is not a time: {e}")))?;
    let tokens = |column: usize, text: &str| match text.parse() {
        Ok(count) => line.tokens(COLUMNS[column], count),
        Err(_) => Err(line.bad_field(COLUMNS[column], format!("{text:?} is not a count"))),
    };
    Ok(Row { line, at, prompt_tokens: tokens(1, prompt)?, output_tokens: tokens(2, output)? })
}
