//! The comments at the head of a fitted file: what was read, what the machine makes of it, and how far to trust it.

use penny::sim::topology::Network;

use super::Args;
use super::declared::Parameter;
use super::fit::Fit;
use super::question::{Answer, Question};
use super::table::{Place, Sample, Table};
use crate::machine;

/// Residuals above these, in percent, are no explanation: their geometric mean, and one row's.
const MOST_MEAN: f64 = 15.0;
const MOST_ROW: f64 = 30.0;

/// The comments, and a sentence if the model does not explain the table.
pub struct Report {
    pub text: String,
    pub unexplained: Option<String>,
}

/// Writes the report.
pub fn of(
    args: &Args,
    table: &Table,
    question: &Question,
    (before, after): (&Network, &Network),
    parameters: &[Parameter],
    fit: &Fit,
) -> Result<Report, String> {
    let mut text = format!(
        "# calibrate  {} of {} ranks, {}  fabric: {} {}, fitted {}\n",
        question.subject,
        question.view.nranks,
        args.table.display(),
        machine::spec(&args.fabric, args.nodes, args.slice.as_deref())?,
        machine::hash(before),
        machine::hash(after),
    );
    let line = |text: &mut String, what: &str| *text += &format!("# {what}\n");
    table.remarks.iter().for_each(|remark| line(&mut text, remark));
    if let Some((subject, how)) = table.subject.filter(|_| args.collective.is_none()) {
        line(&mut text, &format!("collective: {subject}, {how}"));
    }
    if question.without > 0 {
        line(&mut text, &format!("left out: {} rows without an element for each rank", question.without));
    }
    line(
        &mut text,
        &match question.is_auto() {
            true => "algorithm: assumed to be the quickest at each size, of all that the machine carries; --algorithm names the \
                     measured one"
                .to_owned(),
            false => format!("algorithm: {}, as --algorithm says", args.algorithm.join(", ")),
        },
    );
    line(&mut text, &format!("again, on this file: {}", again(args, table, question)));
    text += &format!(
        "#\n# {:>12} {:>12} {:>12} {:>10}  {:<24} {:>8}\n# {:>12} {:>12} {:>12} {:>10}  {:<24} {:>8}\n",
        "size",
        "measured",
        "model",
        "residual",
        "algorithm",
        "slice",
        "(B)",
        "(us)",
        "(us)",
        "(%)",
        "",
        "(B)"
    );
    let answers = question.answers(after)?;
    let (each, mean, largest) = residuals(&answers, &question.samples);
    let mut worst: Vec<(f64, usize)> = Vec::new();
    for ((answer, sample), residual) in answers.iter().zip(&question.samples).zip(each) {
        let sign = if residual.abs() > MOST_ROW { "  <- not explained" } else { "" };
        if residual.abs() > MOST_ROW {
            worst.push((residual, sample.bytes));
        }
        let protocol = answer.protocol.iter().map(|name| format!("/{name}"));
        let way: String = std::iter::once(answer.algorithm.to_owned()).chain(protocol).collect();
        let slice = if answer.slice_bytes == 0 { "whole".to_owned() } else { answer.slice_bytes.to_string() };
        text += &format!(
            "# {:>12} {:>12.2} {:>12.2} {residual:>+10.2}  {way:<24} {slice:>8}{sign}\n",
            sample.bytes,
            sample.seconds * 1e6,
            answer.seconds() * 1e6,
        );
    }
    let (_, mean_before, largest_before) = residuals(&question.answers(before)?, &question.samples);
    for (name, mean, largest) in [("before", mean_before, largest_before), ("fitted", mean, largest)] {
        text += &format!("# {name}: residuals {mean:.2} % (geometric mean), {largest:.2} % (largest)\n");
    }
    let unexplained = (mean > MOST_MEAN || !worst.is_empty()).then(|| {
        worst.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let rows: Vec<String> =
            worst.iter().take(3).map(|(residual, bytes)| format!("{bytes} B by {residual:+.0} %")).collect();
        let rows = if rows.is_empty() { String::new() } else { format!(", and misses {}", rows.join(", ")) };
        format!(
            "the model does not explain this table: its residuals are {mean:.0} % in the mean{rows}; other \
             parameters (--fit), another algorithm or another machine may"
        )
    });
    if let Some(unexplained) = &unexplained {
        line(&mut text, &format!("note: {unexplained}"));
    }
    text += "#\n";
    for (index, parameter) in parameters.iter().enumerate() {
        let (name, number) = (parameter.name(), fit.point[index].exp());
        text += &format!("# {name} {} -> {}\n", parameter.was, parameter.print(number));
        if let Some(bound) = parameter.at_bound(number) {
            line(&mut text, &format!("note: {bound}"));
        }
        // Doubling the parameter changes the times by less than one percent in all.
        if fit.weight[index] < 1e-2 {
            text += &format!("# note: the table hardly depends on {name}; its value here is no finding\n");
        }
    }
    for &(one, other) in &fit.alike {
        let (one, other) = (parameters[one].name(), parameters[other].name());
        text += &format!("# note: the table cannot tell {one} from {other}; fit one of them\n");
    }
    Ok(Report { text: text + "#\n", unexplained })
}

/// The command that prices the same rows, if their sizes are powers of two apart.
fn again(args: &Args, table: &Table, question: &Question) -> String {
    let sizes = || question.samples.iter().map(|sample| sample.bytes);
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let kind = if table.element.1 == "float" { String::new() } else { format!(" -d {}", table.element.1) };
    let place = if args.place == Place::In { "; rows are in place" } else { "" };
    format!(
        "penny sim {} --fabric FILE -n {}{kind} -b {least} -e {most} -f 2 --algorithm {}{place}",
        question.subject,
        question.view.nranks,
        args.algorithm.join(",")
    )
}

/// Returns the residuals in percent: each one, their mean, and the largest. The mean is that of the factor by which model and table
/// differ, which the search makes small: half and double are as far off.
fn residuals(answers: &[Answer], samples: &[Sample]) -> (Vec<f64>, f64, f64) {
    let ratios: Vec<f64> = answers.iter().zip(samples).map(|(a, s)| a.seconds() / s.seconds).collect();
    let each: Vec<f64> = ratios.iter().map(|ratio| (ratio - 1.0) * 100.0).collect();
    let square: f64 = ratios.iter().map(|ratio| ratio.ln().powi(2)).sum();
    let largest = each.iter().map(|r| r.abs()).fold(0.0, f64::max);
    let mean = ((square / each.len() as f64).sqrt().exp() - 1.0) * 100.0;
    (each, mean, largest)
}
