//! Charts as inline SVG. Their colours are those of the style sheet, so they follow the page from day to
//! night; names of lines stand beside the picture, where they stay readable on a phone.

use std::fmt::Write;

use super::axis::Axis;
use super::escape;

const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 256.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;

/// How many colours the style sheet has.
pub(super) const COLORS: usize = 10;

/// A named line of points.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
    /// Which of the colours it has.
    pub color: usize,
}

/// A column of a histogram.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Column {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// How high it is.
    pub value: f64,
}

/// Lines over common axes.
pub fn lines(x: &Axis, y: &Axis, lines: &[Line]) -> String {
    let mut svg = Svg::new(x, y);
    for line in lines {
        let points = line.points.iter().map(|&(x, y)| svg.point(x, y)).collect::<Vec<_>>();
        svg.add(&format!(
            "<polyline class=\"s{} line\" points=\"{}\"/>",
            color(line.color),
            points.join(" ")
        ));
    }
    svg.end() + &legend(lines)
}

/// Lines of which each stands on the one before, as areas. A value holds until the next point, all lines have
/// their points at the same places, and the last holds until `end`.
pub fn stacked(x: &Axis, y: &Axis, lines: &[Line], end: f64) -> String {
    let mut svg = Svg::new(x, y);
    let mut below: Vec<(f64, f64)> = match lines.first() {
        Some(line) => line.points.iter().map(|&(x, _)| (x, 0.0)).collect(),
        None => Vec::new(),
    };
    for line in lines {
        let top: Vec<(f64, f64)> = line
            .points
            .iter()
            .zip(&below)
            .map(|(point, base)| (point.0, point.1 + base.1))
            .collect();
        let mut outline = stairs(&top, end);
        outline.extend(stairs(&below, end).into_iter().rev());
        let points = outline.iter().map(|&(x, y)| svg.point(x, y)).collect::<Vec<_>>();
        svg.add(&format!(
            "<polygon class=\"s{} area\" points=\"{}\"/>",
            color(line.color),
            points.join(" ")
        ));
        below = top;
    }
    svg.end() + &legend(lines)
}

/// A histogram.
pub fn columns(x: &Axis, y: &Axis, columns: &[Column]) -> String {
    let mut svg = Svg::new(x, y);
    for &Column { from, to, value } in columns {
        let (left, right) = (svg.x(from), svg.x(to));
        let (top, bottom) = (svg.y(value), HEIGHT - BOTTOM);
        let width = (right - left - 1.0).max(1.0);
        let height = bottom - top;
        svg.add(&format!(
            "<rect class=\"s0 area\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>"
        ));
    }
    svg.end()
}

fn stairs(points: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let mut stairs = Vec::with_capacity(points.len() * 2);
    for (at, &(x, y)) in points.iter().enumerate() {
        stairs.push((x, y));
        let until = points.get(at + 1).map_or(end, |next| next.0);
        stairs.push((until.max(x), y));
    }
    stairs
}

fn color(number: usize) -> usize {
    number % COLORS
}

fn legend(lines: &[Line]) -> String {
    let entry = |line: &Line| {
        format!("<li><i class=s{}></i>{}</li>", color(line.color), escape(&line.name))
    };
    format!("<ul class=legend>{}</ul>", lines.iter().map(entry).collect::<String>())
}

/// A picture with its axes.
struct Svg<'a> {
    x: &'a Axis,
    y: &'a Axis,
    text: String,
}

impl<'a> Svg<'a> {
    fn new(x: &'a Axis, y: &'a Axis) -> Svg<'a> {
        let label = escape(&format!("{} over {}", y.title, x.title));
        let text =
            format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img aria-label=\"{label}\">");
        let mut svg = Svg { x, y, text };
        svg.axes();
        svg
    }

    fn axes(&mut self) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, name) in &self.y.ticks {
            let y = self.y(*value);
            let name = escape(name);
            self.add(&format!("<path class=grid d=\"M{LEFT} {y:.1}H{right}\"/>"));
            let (x, y) = (LEFT - 7.0, y + 4.0);
            self.add(&format!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=end>{name}</text>"));
        }
        let last = self.x.ticks.len().saturating_sub(1);
        for (at, (value, name)) in self.x.ticks.iter().enumerate() {
            let x = self.x(*value);
            let name = escape(name);
            self.add(&format!("<path class=grid d=\"M{x:.1} {bottom}v5\"/>"));
            let anchor =
                if at == last && x > right - 20.0 && name.len() > 4 { "end" } else { "middle" };
            let x = if anchor == "end" { x + RIGHT - 2.0 } else { x };
            let y = bottom + 18.0;
            self.add(&format!("<text x=\"{x:.1}\" y=\"{y}\" text-anchor={anchor}>{name}</text>"));
        }
        let (x, y) = ((LEFT + right) / 2.0, HEIGHT - 6.0);
        let title = escape(&self.x.title);
        self.add(&format!("<text x=\"{x}\" y=\"{y}\" text-anchor=middle>{title}</text>"));
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn point(&self, x: f64, y: f64) -> String {
        format!("{:.1},{:.1}", self.x(x), self.y(y))
    }

    fn add(&mut self, element: &str) {
        // Writing to a string does not fail.
        let _ = self.text.write_str(element);
    }

    fn end(mut self) -> String {
        self.add("</svg>");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Scale;
    use super::*;

    fn axis() -> Axis {
        Axis::over("<t>", Scale::Linear, [10.0], |value| value.to_string())
    }

    #[test]
    fn areas_stand_on_each_other_and_hold_their_values() {
        let line =
            |color, y| Line { name: String::new(), points: vec![(0.0, y), (5.0, 2.0)], color };
        let svg = stacked(&axis(), &axis(), &[line(0, 4.0), line(1, 6.0)], 10.0);
        assert_eq!(svg.matches("<polygon").count(), 2);
        // The second reaches the top at 4 + 6, and keeps it until 5.
        assert!(svg.contains("s1 area\" points=\"58.0,10.0 237.0,10.0 237.0,132.4"), "{svg}");
        assert!(svg.contains("aria-label=\"&lt;t&gt; over &lt;t&gt;\""));
    }

    #[test]
    fn nothing_is_drawn_where_there_is_nothing() {
        assert_eq!(columns(&axis(), &axis(), &[]).matches("<rect").count(), 0);
        assert_eq!(stacked(&axis(), &axis(), &[], 1.0).matches("<polygon").count(), 0);
        assert!(!lines(&axis(), &axis(), &[]).contains("NaN"));
    }
}
