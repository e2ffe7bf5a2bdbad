//! The pages that `--report` writes: one file each, which loads nothing from anywhere, for wide and
//! narrow screens, by day and by night.

mod axis;
mod chart;
mod parts;

use std::fmt::Write;

pub use axis::{Axis, Scale};
pub use chart::{Column, Line, columns, lines, stacked};
pub use parts::{Bar, bars, facts, note, table};

const STYLE: &str = include_str!("style.css");

/// A table for the terminal as one of a page.
pub fn from_terminal(table: &comfy_table::Table) -> String {
    let texts = |row: &comfy_table::Row| row.cell_iter().map(|cell| cell.content()).collect();
    let head: Vec<String> = table.header().map(texts).unwrap_or_default();
    let rows: Vec<Vec<String>> = table.row_iter().map(texts).collect();
    parts::table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

/// A page that grows section by section.
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with a heading and a line of text under it.
    pub fn new(title: &str, lead: &str) -> Page {
        let body = format!(
            "<header><h1>{}</h1><p class=lead>{}</p></header>\n",
            escape(title),
            escape(lead)
        );
        Page { title: title.to_owned(), body }
    }

    /// Adds a section; two stand side by side where the screen is wide enough. `content` is markup,
    /// as the functions of this module make it.
    pub fn section(&mut self, title: &str, content: &str) {
        self.add("section", title, content);
    }

    /// Adds a section over the whole width.
    pub fn wide(&mut self, title: &str, content: &str) {
        self.add("section class=wide", title, content);
    }

    fn add(&mut self, tag: &str, title: &str, content: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "<{tag}><h2>{}</h2>{content}</section>", escape(title));
    }

    /// The page as HTML.
    pub fn html(&self) -> String {
        let Page { title, body } = self;
        format!(
            "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n\
             <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
             <meta name=color-scheme content=\"light dark\">\n\
             <title>{}</title>\n<link rel=icon href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
            escape(title)
        )
    }
}

/// Text as markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_never_markup() {
        let mut page = Page::new("<b>", "a & b");
        page.section("\"x\"", &note("1 < 2"));
        let html = page.html();
        for wanted in ["<title>&lt;b&gt;</title>", "a &amp; b", "&quot;x&quot;", "1 &lt; 2"] {
            assert!(html.contains(wanted), "{wanted} in {html}");
        }
        assert!(!html.contains("<b>"));
    }

    #[test]
    fn a_page_loads_nothing() {
        let html = Page::new("t", "l").html();
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!html.contains(word), "{word}");
        }
    }
}
