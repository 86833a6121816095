//! Bus bandwidth over size, both logarithmic, one line a method and kind of buffers.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use penny_bench::report::{Report, Row};
use penny_bench::subject::Subject;
use plotters::prelude::*;

/// One line: its name and (bytes, GB/s), ascending.
type Line = (String, Vec<(f64, f64)>);

/// Draws the out-of-place columns of the reports to an SVG file.
pub fn draw(path: &Path, subject: Subject, ranks: u32, reports: &[Report]) -> Result<(), Box<dyn Error>> {
    let lines = lines(reports);
    let points = || lines.iter().flat_map(|(_, points)| points);
    if points().next().is_none() {
        return Err("nothing to draw: no size took time and moved bytes".into());
    }
    let span = |pick: fn(&(f64, f64)) -> f64| {
        let values = points().map(pick);
        let (low, high) = values.fold((f64::INFINITY, 0f64), |(l, h), v| (l.min(v), h.max(v)));
        // Room around the points, also when there is only one.
        low / 1.5..high * 1.5
    };
    let root = SVGBackend::new(path, (960, 600)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{subject}, {ranks} ranks"), ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(span(|p| p.0).log_scale().base(2.0), span(|p| p.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc("bus bandwidth, GB/s")
        .x_label_formatter(&|bytes| size_label(*bytes))
        .y_label_formatter(&|gbps| format!("{gbps}"))
        .light_line_style(BLACK.mix(0.05))
        .draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], color.stroke_width(2)));
    }
    let legend = SeriesLabelPosition::UpperLeft;
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

/// The lines of all reports; types and reductions are named where a report has several.
fn lines(reports: &[Report]) -> Vec<Line> {
    let mut lines: BTreeMap<(usize, String), Vec<(f64, f64)>> = BTreeMap::new();
    for (number, report) in reports.iter().enumerate() {
        let case = |row: &Row| (row.datatype.clone(), row.op.clone(), row.root);
        let several = report.rows.windows(2).any(|pair| case(&pair[0]) != case(&pair[1]));
        for row in &report.rows {
            let mut name = format!("{} {}", report.algo.as_deref().unwrap_or("auto"), report.buffers.name());
            if several {
                let (dtype, op, root) = case(row);
                name.extend(
                    [dtype, op, root.map(|r| format!("root {r}"))]
                        .into_iter()
                        .flatten()
                        .map(|w| format!(" {w}")),
                );
            }
            let points = lines.entry((number, name)).or_default();
            // A logarithmic axis has no place for 0: an empty message, or one rank, which has no bus.
            if row.bytes > 0 && row.out_of_place.busbw_gbps > 0.0 {
                points.push((row.bytes as f64, row.out_of_place.busbw_gbps));
            }
        }
    }
    lines
        .into_iter()
        .map(|((_, name), points)| (name, points))
        .filter(|(_, points)| !points.is_empty())
        .collect()
}

/// Bytes with the suffix that the command line takes.
fn size_label(bytes: f64) -> String {
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
}
