//! The reports in Prometheus' text format, for a collector of text files or a server of one's own.

use std::fmt::Write as _;

use super::jobs::JobReport;
use super::ranks::{RanksReport, Row};
use super::report::{Port, Report};

/// Name, type, what it is, and its samples in a job.
type Family = (&'static str, &'static str, &'static str, fn(&JobReport, &str, &mut Samples<'_>));

const FAMILIES: &[Family] = &[
    ("penny_calls_total", "counter", "Collectives that a rank has made.", |job, of, out| {
        each_kind(job, |row, kind| {
            out.add(&row_labels(of, row, Some(("collective", kind.collective))), kind.calls as f64)
        });
    }),
    ("penny_bytes_total", "counter", "Bytes of the vectors of these collectives.", |job, of, out| {
        each_kind(job, |row, kind| {
            out.add(&row_labels(of, row, Some(("collective", kind.collective))), kind.bytes as f64)
        });
    }),
    ("penny_messages_total", "counter", "Messages that a rank has sent or received.", |job, of, out| {
        each_row(job, |row| {
            for (direction, amount) in [("sent", row.sent), ("received", row.received)] {
                out.add(&row_labels(of, row, Some(("direction", direction))), amount.messages as f64);
            }
        });
    }),
    ("penny_message_bytes_total", "counter", "Bytes of these messages.", |job, of, out| {
        each_row(job, |row| {
            for (direction, amount) in [("sent", row.sent), ("received", row.received)] {
                out.add(&row_labels(of, row, Some(("direction", direction))), amount.bytes as f64);
            }
        });
    }),
    (
        "penny_wait_seconds_total",
        "counter",
        "Time that a rank has spent in waits which lasted longer than their first polls.",
        |job, of, out| each_row(job, |row| out.add(&row_labels(of, row, None), row.waited_s)),
    ),
    (
        "penny_waiting_seconds",
        "gauge",
        "How long the present wait of a rank has lasted; 0: it does not wait.",
        |job, of, out| {
            each_row(job, |row| out.add(&row_labels(of, row, None), row.waiting_s.unwrap_or(0.0)));
        },
    ),
    (
        "penny_port_bytes_total",
        "counter",
        "Bytes that a port of a simulated cluster has carried.",
        |job, of, out| {
            each_port(job, |machine, port| out.add(&port_labels(of, machine, port), port.bytes as f64));
        },
    ),
    (
        "penny_port_messages_total",
        "counter",
        "Messages that a port of a simulated cluster has carried.",
        |job, of, out| {
            each_port(job, |machine, port| out.add(&port_labels(of, machine, port), port.messages as f64));
        },
    ),
    (
        "penny_port_busy_seconds_total",
        "counter",
        "Time of the simulated cluster for which a port was taken.",
        |job, of, out| {
            each_port(job, |machine, port| {
                out.add(&port_labels(of, machine, port), port.busy_ps as f64 / 1e12)
            })
        },
    ),
];

/// Samples of one family.
struct Samples<'a> {
    name: &'static str,
    text: &'a mut String,
}

impl Samples<'_> {
    fn add(&mut self, labels: &[(&str, String)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.text, "{}{{{}}} {value}", self.name, labels.join(","));
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn ranks(job: &JobReport) -> Option<&RanksReport> {
    if let JobReport::Ranks(report) = job { Some(report) } else { None }
}

fn ports(job: &JobReport) -> Option<&Report> {
    if let JobReport::Ports(report) = job { Some(report) } else { None }
}

fn each_row(job: &JobReport, does: impl FnMut(&Row)) {
    ranks(job).into_iter().flat_map(|report| &report.ranks).for_each(does);
}

/// Collectives of which a rank has made none have no sample.
fn each_kind(job: &JobReport, mut does: impl FnMut(&Row, &super::ranks::Kind)) {
    each_row(job, |row| {
        row.collectives.iter().filter(|kind| kind.calls > 0).for_each(|kind| does(row, kind))
    });
}

fn each_port(job: &JobReport, mut does: impl FnMut(&str, &Port)) {
    ports(job)
        .into_iter()
        .for_each(|report| report.ports.iter().for_each(|port| does(&report.machine, port)));
}

fn row_labels<'a>(job: &str, row: &Row, last: Option<(&'a str, &str)>) -> Vec<(&'a str, String)> {
    let labels = [
        ("job", job.to_owned()),
        ("communicator", row.communicator.to_string()),
        ("rank", row.rank.to_string()),
    ];
    labels.into_iter().chain(last.map(|(name, value)| (name, value.to_owned()))).collect()
}

fn port_labels(job: &str, machine: &str, port: &Port) -> [(&'static str, String); 4] {
    let text = [job, machine, &port.name, &port.class].map(str::to_owned);
    let [job, machine, port, class] = text;
    [("job", job), ("machine", machine), ("port", port), ("class", class)]
}

/// Writes all families; those without a sample have their description only. A job is called by its first process.
pub fn text(jobs: &[JobReport]) -> String {
    let mut text = String::new();
    for (name, kind, help, samples) in FAMILIES {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for job in jobs {
            let of = job.pids().first().map_or_else(String::new, u32::to_string);
            samples(job, &of, &mut Samples { name, text: &mut text });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::ranks::History;
    use super::super::ranks::tests::look;
    use super::super::report::tests::looks;
    use super::*;
    use prometheus_parse::{Sample, Scrape, Value};

    /// Reads the samples. A line that the parser does not know is none.
    fn samples(text: &str) -> Vec<Sample> {
        Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap().samples
    }

    #[test]
    fn a_parser_of_the_format_reads_every_family() {
        let (network, _, now) = looks();
        let ports = Report::new(&[7], Some(&network), &now, None, false);
        let ranks = RanksReport::new(&[41, 42], &look(12, 2), &mut History::default());
        let text = text(&[JobReport::Ports(ports), JobReport::Ranks(ranks)]);
        let samples = samples(&text);
        let described = text.lines().filter(|line| line.starts_with("# HELP ")).count();
        assert_eq!((described, samples.len()), (FAMILIES.len(), text.lines().count() - 2 * FAMILIES.len()));
        for (name, kind, ..) in FAMILIES {
            let mut of = samples.iter().filter(|sample| sample.metric == *name).peekable();
            assert!(of.peek().is_some(), "{name}: {text}");
            assert!(
                of.all(|sample| matches!(
                    (*kind, &sample.value),
                    ("counter", Value::Counter(_)) | ("gauge", Value::Gauge(_))
                )),
                "{name}: {text}"
            );
        }
        for sample in [
            "penny_calls_total{job=\"41\",communicator=\"0\",rank=\"1\",collective=\"all_reduce\"} 12\n",
            "penny_messages_total{job=\"41\",communicator=\"0\",rank=\"1\",direction=\"sent\"} 1\n",
            "penny_wait_seconds_total{job=\"41\",communicator=\"0\",rank=\"1\"} 1\n",
            "penny_port_bytes_total{job=\"7\",machine=\"dgx-h100:nodes=2,places=2\",port=\"n0.g1.nic.tx\",class=\"leaf\"} 12288\n",
        ] {
            assert!(text.contains(sample), "{sample}\n{text}");
        }
    }

    #[test]
    fn without_a_job_the_families_are_described() {
        let text = text(&[]);
        assert_eq!(text.lines().count(), 2 * FAMILIES.len());
        assert_eq!(samples(&text), []);
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
