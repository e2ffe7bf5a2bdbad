//! What a page says in words and numbers.

use super::chart::COLORS;
use super::escape;

/// A bar with its name and number.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// What is written at it.
    pub text: String,
    /// Which of the colours it has.
    pub color: usize,
}

/// Bars under one another, the longest over the whole width.
pub fn bars(bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let row = |bar: &Bar| {
        let share = if most > 0.0 { bar.value / most * 100.0 } else { 0.0 };
        let filled = match share > 0.0 {
            true => format!("<i class=s{} style=\"width:{share:.1}%\"></i>", bar.color % COLORS),
            false => String::new(),
        };
        format!(
            "<div class=row><div class=name><span>{}</span><b>{}</b></div>\
             <div class=track>{filled}</div></div>",
            escape(&bar.name),
            escape(&bar.text)
        )
    };
    format!("<div class=bars>{}</div>", bars.iter().map(row).collect::<String>())
}

/// Figures in large print. `Some(true)` marks one as good, `Some(false)` as bad.
pub fn facts(facts: &[(&str, String, Option<bool>)]) -> String {
    let fact = |(name, value, good): &(&str, String, Option<bool>)| {
        let class = match good {
            Some(true) => " class=good",
            Some(false) => " class=bad",
            None => "",
        };
        format!("<div><dt>{}</dt><dd{class}>{}</dd></div>", escape(name), escape(value))
    };
    format!("<dl class=facts>{}</dl>", facts.iter().map(fact).collect::<String>())
}

/// A table. Where it is wider than the screen it scrolls by itself.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
    };
    let head = cells("th", &mut head.iter().copied());
    let rows: String = rows
        .iter()
        .map(|row| format!("<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str))))
        .collect();
    format!(
        "<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// A remark.
pub fn note(text: &str) -> String {
    format!("<p class=note>{}</p>", escape(text))
}
