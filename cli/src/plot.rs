//! Time and bandwidth over size, all logarithmic, one line for each algorithm.

use std::error::Error;
use std::path::Path;

use penny_bench::report::{Report, Row};
use plotters::coord::Shift;
use plotters::prelude::*;

/// One measurement.
pub struct Point {
    /// The line that it is on.
    pub line: String,
    pub bytes: f64,
    pub time_us: f64,
    pub gb_per_s: f64,
}

/// A line of the plot: its name, and its points (bytes, microseconds, GB/s), by ascending bytes.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64, f64)>,
}

/// The bandwidth by which nccl-tests compares algorithms.
pub const BUS: &str = "bus bandwidth, GB/s";

/// Groups points by their lines. The lines are in the order of their first points.
pub fn lines(points: impl IntoIterator<Item = Point>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for Point { line, bytes, time_us, gb_per_s } in points {
        // A logarithmic axis has no place for 0: an empty message, or one rank, which has no bus.
        if bytes <= 0.0 || time_us <= 0.0 || gb_per_s <= 0.0 {
            continue;
        }
        match lines.iter_mut().find(|known| known.name == line) {
            Some(known) => known.points.push((bytes, time_us, gb_per_s)),
            None => lines.push(Line { name: line, points: vec![(bytes, time_us, gb_per_s)] }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}

/// The out-of-place columns of reports.
pub fn points(reports: &[Report]) -> Vec<Point> {
    let rows = reports.iter().flat_map(Report::named_rows);
    let point = |(line, row): (String, &Row)| Point {
        line,
        bytes: row.bytes as f64,
        time_us: row.out_of_place.time_us,
        gb_per_s: row.out_of_place.busbw_gb_per_s,
    };
    rows.map(point).collect()
}

/// Height of a drawing, and the width of its plots; lines are named beside them.
const HEIGHT: u32 = 1000;
const PLOT_WIDTH: u32 = 850;
/// Width of a line's sample and of a letter of its name.
const SAMPLE_WIDTH: u32 = 40;
const LETTER_WIDTH: u32 = 8;
/// Names that fit beside the plots.
const MOST_NAMES: usize = 42;

/// Draws the lines, their times above their bandwidth, to an SVG file.
pub fn draw(path: &Path, title: &str, bandwidth: &str, lines: &[Line]) -> Result<(), String> {
    if lines.is_empty() {
        return Err("nothing to draw: no size took time and moved bytes".into());
    }
    std::fs::write(path, drawing(title, bandwidth, lines)?).map_err(|e| e.to_string())
}

/// Draws at least one line as SVG.
pub fn drawing(title: &str, bandwidth: &str, lines: &[Line]) -> Result<String, String> {
    let mut text = String::new();
    drawn(&mut text, title, bandwidth, lines).map_err(|e| e.to_string())?;
    Ok(text)
}

fn drawn(text: &mut String, title: &str, bandwidth: &str, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let longest = lines.iter().map(|line| line.name.chars().count() as u32).max().unwrap_or(0);
    let width = PLOT_WIDTH + SAMPLE_WIDTH + LETTER_WIDTH * longest.max(20);
    let root = SVGBackend::with_string(text, (width, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(PLOT_WIDTH);
    let (above, below) = left.split_vertically(HEIGHT / 2);
    chart(&above, title, "time, us", lines, |point| (point.0, point.1))?;
    chart(&below, "", bandwidth, lines, |point| (point.0, point.2))?;
    name(&right, lines)?;
    root.present()?;
    Ok(())
}

/// Draws one value of all points over their sizes.
fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    value: &str,
    lines: &[Line],
    pick: fn(&(f64, f64, f64)) -> (f64, f64),
) -> Result<(), Box<dyn Error>> {
    let points = || lines.iter().flat_map(|line| line.points.iter().map(pick));
    let span = |value: fn((f64, f64)) -> f64| {
        points().map(value).fold((f64::INFINITY, 0f64), |(low, high), v| (low.min(v), high.max(v)))
    };
    // Room around the points, also when there is only one.
    let (low, high) = span(|p| p.0);
    let sizes = low / 1.3..high * 1.3;
    let (low, high) = span(|p| p.1);
    let values = low / 1.3..high * 1.6;
    let mut builder = ChartBuilder::on(area);
    if !title.is_empty() {
        builder.caption(title, ("sans-serif", 20));
    }
    let mut chart = builder
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(sizes.log_scale().base(2.0), values.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc(value)
        .axis_desc_style(("sans-serif", 15))
        .label_style(("sans-serif", 13))
        .x_labels(12)
        .x_label_formatter(&|bytes| size_label(*bytes))
        .y_label_formatter(&|value| value_label(*value))
        .light_line_style(BLACK.mix(0.04))
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (number, line) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> = line.points.iter().map(pick).collect();
        chart.draw_series(LineSeries::new(points.iter().copied(), color(number).stroke_width(2)))?;
        chart.draw_series(
            points.iter().map(|&p| EmptyElement::at(p) + Polygon::new(marker(number), color(number))),
        )?;
    }
    Ok(())
}

/// Colours that stay apart for eyes that see fewer of them (Okabe and Ito).
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 140, 20),
];

/// Returns the marker of a line as SVG of its own, to stand beside its name.
pub fn sample(number: usize) -> String {
    let corners: Vec<String> = marker(number).iter().map(|(x, y)| format!("{x},{y}")).collect();
    let RGBColor(red, green, blue) = color(number);
    format!(
        "<svg class=\"sample\" width=\"12\" height=\"12\" viewBox=\"-6 -6 12 12\"><polygon points=\"{}\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/></svg>",
        corners.join(" ")
    )
}

/// A colour a line; they repeat after eight, with other markers.
fn color(number: usize) -> RGBColor {
    COLORS[number % COLORS.len()]
}

/// Returns the corners of a line's marker, around its point. Colours and markers together repeat after forty.
fn marker(number: usize) -> Vec<(i32, i32)> {
    match number % 5 {
        0 => vec![(-2, -5), (2, -5), (5, -2), (5, 2), (2, 5), (-2, 5), (-5, 2), (-5, -2)],
        1 => vec![(0, -6), (5, 4), (-5, 4)],
        2 => vec![(-4, -4), (4, -4), (4, 4), (-4, 4)],
        3 => vec![(0, -6), (6, 0), (0, 6), (-6, 0)],
        _ => vec![(0, 6), (5, -4), (-5, -4)],
    }
}

/// Draws the names of the lines, in the order of their last points, the highest first.
fn name(area: &DrawingArea<SVGBackend<'_>, Shift>, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    let end = |number: &usize| lines[*number].points.last().map_or(0.0, |point| point.2);
    order.sort_by(|a, b| end(b).total_cmp(&end(a)));
    let mut y = 56;
    for &number in order.iter().take(MOST_NAMES) {
        area.draw(&PathElement::new([(0, y), (22, y)], color(number).stroke_width(2)))?;
        area.draw(&(EmptyElement::at((11, y)) + Polygon::new(marker(number), color(number))))?;
        area.draw(&Text::new(lines[number].name.clone(), (28, y - 7), ("sans-serif", 14)))?;
        y += 20;
    }
    if lines.len() > MOST_NAMES {
        let rest = format!("and {} more", lines.len() - MOST_NAMES);
        area.draw(&Text::new(rest, (28, y - 7), ("sans-serif", 14)))?;
    }
    Ok(())
}

/// Formats a time or a bandwidth without insignificant digits.
fn value_label(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

/// Bytes with the suffix that the command line takes.
pub fn size_label(bytes: f64) -> String {
    let mut value = bytes;
    let mut suffix = "";
    for next in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        suffix = next;
    }
    format!("{}{suffix}", (value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_labelled_as_they_are_typed() {
        assert_eq!([8.0, 1024.0, 1536.0, 67_108_864.0].map(size_label), ["8", "1K", "1.5K", "64M"]);
    }

    #[test]
    fn lines_keep_their_order_and_leave_out_what_a_logarithm_cannot_show() {
        let point =
            |line: &str, bytes, gb_per_s| Point { line: line.to_owned(), bytes, time_us: 7.0, gb_per_s };
        let lines =
            lines([point("b", 8.0, 1.0), point("a", 8.0, 0.0), point("b", 4.0, 2.0), point("a", 16.0, 3.0)]);
        let shown: Vec<_> = lines.iter().map(|line| (line.name.as_str(), &line.points[..])).collect();
        assert_eq!(shown, [("b", &[(4.0, 7.0, 2.0), (8.0, 7.0, 1.0)][..]), ("a", &[(16.0, 7.0, 3.0)][..])]);
    }
}
