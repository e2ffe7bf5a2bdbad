//! Plots of the report.

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use super::Failure;
use super::contention::{Case, Contention, Load};
use super::operations::ByNumber;
use super::report::Report;

const SIZE: (u32, u32) = (900, 560);

/// A line of a plot.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// What the axes show.
struct Axes<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
}

/// Writes the plots to a directory, which is made where there is none.
pub fn write(report: &Report, directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory)?;
    let mut lines = vec![by_number("tenure", &report.operations.pin_unpin_ns)];
    lines.extend(report.peers.peers.iter().map(|(name, by)| by_number(name, by)));
    let axes = Axes { title: "Pin + unpin, one thread", x: "blocks", y: "ns" };
    plot(&directory.join("pin-unpin.svg"), &axes, &lines)?;
    let Some(contention) = &report.contention else { return Ok(()) };
    for load in Load::ALL {
        for paced in [false, true] {
            over_threads(contention, load, paced, directory)?;
        }
    }
    Ok(())
}

fn over_threads(
    contention: &Contention,
    load: Load,
    paced: bool,
    directory: &Path,
) -> Result<(), Failure> {
    let pace = if paced { "paced" } else { "unpaced" };
    let title = |what: &str| format!("{what}: {}, {pace}", load.title());
    let file = |what: &str| {
        let load = load.title().replace(' ', "-");
        directory.join(format!("{what}-{load}-{pace}.svg"))
    };
    let lines = |value: fn(&Case) -> f64| -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let wanted = |case: &&Case| case.setup.load == load && case.setup.paced == paced;
        for case in contention.cases.iter().filter(wanted) {
            // A logarithmic axis begins at 1.
            let point = (case.setup.threads as f64 + 1.0, value(case).max(1.0));
            match lines.iter_mut().find(|line| line.name == case.index) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name: case.index.to_owned(), points: vec![point] }),
            }
        }
        lines
    };
    let x = "threads, the scheduler's included";
    let axes = Axes { title: &title("CPU time of a step, median"), x, y: "ns" };
    plot(&file("step-cpu"), &axes, &lines(|case| case.step_cpu_ns.p50 as f64))?;
    let axes = Axes { title: &title("Time of a step, p99.9"), x, y: "ns" };
    plot(&file("step"), &axes, &lines(|case| case.step_ns.p99_9 as f64))?;
    let axes = Axes { title: &title("Time of a pin, p99.9"), x, y: "ns" };
    plot(&file("pin"), &axes, &lines(|case| case.pin_ns.p99_9 as f64))?;
    let axes = Axes { title: &title("Pins a second"), x, y: "pins/s" };
    plot(&file("pins"), &axes, &lines(|case| case.pins_per_second))
}

fn by_number(name: &str, by: &ByNumber) -> Line {
    let points = by.iter().map(|(&number, &ns)| (f64::from(number), ns)).collect();
    Line { name: name.to_owned(), points }
}

/// Draws lines with both axes logarithmic.
fn plot(file: &Path, axes: &Axes, lines: &[Line]) -> Result<(), Failure> {
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(1.0, f64::max) * 1.1;
    let least = points().map(|point| point.1).fold(f64::INFINITY, f64::min).max(1.0) * 0.9;
    let (right, top) = (most(|point| point.0), most(|point| point.1).max(least * 2.0));

    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(axes.title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d((1.0..right.max(2.0)).log_scale(), (least..top).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    for (at, line) in lines.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        let style = color.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}
