//! The page.

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::read::{Inputs, Run};
use super::timeline;
use crate::answer::counted;
use crate::plot;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#ccc;--soft:#f3f4f6;--best:#0a7a3c;--note:#666}
@media(prefers-color-scheme:dark){:root{--line:#444;--soft:#22252a;--best:#5ad08c;--note:#aaa}
 figure svg,.sample{filter:invert(.92) hue-rotate(180deg)}}
figure svg>rect:first-child{fill:none}.sample{margin-right:.3em}
body{font:15px/1.45 system-ui,sans-serif;max-width:1120px;margin:2rem auto;padding:0 1rem;overflow-wrap:break-word}
h1{font-size:1.5rem;margin:0}h2{margin:2.2rem 0 .4rem;border-bottom:1px solid var(--line)}
figure{margin:1rem 0;overflow-x:auto}figure svg{display:block;max-width:100%;height:auto;min-width:640px}
.table{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13.5px}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line)}th{font-weight:600;vertical-align:bottom}
th:first-child,td.text,th.text{text-align:left}td:not(.text){white-space:nowrap}tr:nth-child(even) td{background:var(--soft)}
.best{font-weight:700;color:var(--best)}.note,small{color:var(--note)}.wrong{color:#c22;font-weight:700}
.lanes{display:flex;font-size:11px}.names{flex:0 0 clamp(88px,28%,190px)}.names div{overflow:hidden;white-space:nowrap;text-overflow:ellipsis;line-height:16px;padding-right:6px;text-align:right}
.scroll{overflow-x:auto;flex:1}.stripe{fill:currentColor;opacity:.06}.axis{position:relative;height:20px}
.axis span{position:absolute;border-left:1px solid var(--note);padding-left:3px;color:var(--note);white-space:nowrap}";

const SCRIPT: &str = "\
document.querySelectorAll('.timeline').forEach(t=>{const s=t.querySelector('svg'),i=t.querySelector('input'),a=t.querySelector('.axis');\
const draw=()=>{const w=s.dataset.width*i.value,end=+s.dataset.end;s.setAttribute('width',w);a.style.width=w+'px';a.textContent='';\
const raw=end*90/w,ten=10**Math.floor(Math.log10(raw)),step=ten*[1,2,5,10].find(n=>n*ten>=raw);\
for(let k=0;k*step<end*.97;k++){const m=document.createElement('span');m.style.left=k*step/end*100+'%';\
m.textContent=+(k*step).toPrecision(6)+(k?'':' us');a.append(m)}};i.addEventListener('input',draw);draw()})";

/// Makes the page.
pub fn page(title: &str, inputs: &Inputs) -> Result<String, String> {
    let mut subjects: Vec<&str> = Vec::new();
    for run in &inputs.runs {
        if !subjects.contains(&run.subject.as_str()) {
            subjects.push(&run.subject);
        }
    }
    let sections: Vec<Markup> = subjects
        .into_iter()
        .map(|subject| {
            section(subject, &inputs.runs.iter().filter(|run| run.subject == subject).collect::<Vec<_>>())
        })
        .collect::<Result<_, _>>()?;
    let traces: Vec<(&str, Markup)> = inputs
        .traces
        .iter()
        .map(|(file, trace)| {
            Ok((file.as_str(), timeline::draw(trace).map_err(|why| format!("{file}: {why}"))?))
        })
        .collect::<Result<_, String>>()?;
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p.note { "written by penny " (env!("CARGO_PKG_VERSION")) " from " (sources(inputs)) }
                @for section in &sections { (section) }
                @for (file, drawing) in &traces {
                    h2 { "timeline of " (file) }
                    (drawing)
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string())
}

/// Tells of one collective: the curves, the times beside each other, the bandwidths, and where each run was made.
fn section(subject: &str, runs: &[&Run]) -> Result<Markup, String> {
    let names = names(runs);
    let points = runs.iter().zip(&names).flat_map(|(run, name)| run.points(name));
    let lines = plot::lines(points);
    let drawing = match lines.is_empty() {
        true => String::new(),
        false => plot::drawing(subject, plot::BUS, &lines)?,
    };
    let sizes: BTreeSet<usize> =
        runs.iter().flat_map(|run| run.cells.iter().map(|cell| cell.bytes)).collect();
    let cell = |run: &Run, bytes: usize| run.cells.iter().find(|cell| cell.bytes == bytes).copied();
    let least = |bytes: usize| {
        runs.iter().filter_map(|run| cell(run, bytes)).map(|cell| cell.time_us).fold(f64::INFINITY, f64::min)
    };
    let samples: Vec<Option<String>> =
        names.iter().map(|name| lines.iter().position(|line| line.name == *name).map(plot::sample)).collect();
    let wrong: Vec<&str> = runs
        .iter()
        .zip(&names)
        .filter(|(run, _)| run.wrong.is_some_and(|wrong| wrong > 0))
        .map(|(_, name)| name.as_str())
        .collect();
    Ok(html! {
        h2 { (subject) }
        p.note { (common(runs)) }
        @if !wrong.is_empty() { p.wrong { "wrong results: " (wrong.join(", ")) } }
        figure { (PreEscaped(drawing)) }
        div.table { table {
            thead { tr { th { "bytes" } @for (name, sample) in names.iter().zip(&samples) {
                th { @if let Some(sample) = sample { (PreEscaped(sample)) } (name) br; small { "us" } }
            } } }
            tbody { @for &bytes in &sizes { tr {
                td { (plot::size_label(bytes as f64)) }
                @for run in runs {
                    @match cell(run, bytes) {
                        None => td { "–" },
                        Some(cell) if cell.time_us <= least(bytes) => td.best { (time(cell.time_us)) },
                        Some(cell) => td { (time(cell.time_us)) " " small { "×" (format!("{:.2}", cell.time_us / least(bytes))) } },
                    }
                }
            } } }
        } }
        details {
            summary { "bus bandwidth" }
            div.table { table {
                thead { tr { th { "bytes" } @for name in &names { th { (name) br; small { "GB/s" } } } } }
                tbody { @for &bytes in &sizes { tr {
                    td { (plot::size_label(bytes as f64)) }
                    @for run in runs {
                        td { @match cell(run, bytes) {
                            None => "–",
                            Some(cell) => (format!("{:.2}", cell.busbw_gb_per_s)),
                        } }
                    }
                } } }
            } }
        }
        details {
            summary { "where and when" }
            div.table { table {
                thead { tr { th { "run" } th.text { "ranks" } th.text { "place" } th.text { "made by" } th.text { "results" } } }
                tbody { @for (run, name) in runs.iter().zip(&names) { tr {
                    td.text { (name) } td.text { (run.ranks) } td.text { (run.place) } td.text { (run.about) }
                    @match run.wrong {
                        None => td.text { "not checked" },
                        Some(0) => td.text { "right" },
                        Some(wrong) => td.text { span.wrong { (wrong) " wrong" } },
                    }
                } } }
            } }
        }
    })
}

/// Says what all runs of a collective have in common; their names tell the differences.
fn common(runs: &[&Run]) -> String {
    let same = |of: fn(&Run) -> String| {
        let first = runs.first().map(|run| of(run))?;
        runs.iter().all(|run| of(run) == first).then_some(first)
    };
    let parts = [
        same(|run| counted(run.ranks as usize, "rank")),
        same(|run| format!("on {}", run.place)),
        Some("measured out of place".into()).filter(|_| runs.iter().any(|run| run.in_place_too)),
        same(|run| run.about.clone()).filter(|about| !about.is_empty()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Names runs by what differs among them.
fn names(runs: &[&Run]) -> Vec<String> {
    let differ = |of: fn(&Run) -> String| runs.iter().map(|run| of(run)).collect::<BTreeSet<_>>().len() > 1;
    let (places, ranks) = (differ(|run| run.place.clone()), differ(|run| run.ranks.to_string()));
    let named: Vec<String> = runs
        .iter()
        .map(|run| {
            let ranks = if ranks { format!(", {} ranks", run.ranks) } else { String::new() };
            let place = if places { format!(" on {}", run.place) } else { String::new() };
            format!("{}{place}{ranks}", run.way)
        })
        .collect();
    let again = |at: usize| named[..at].iter().filter(|name| **name == named[at]).count();
    let numbered = |(at, name): (usize, &String)| match again(at) {
        0 => name.clone(),
        earlier => format!("{name} ({})", earlier + 1),
    };
    named.iter().enumerate().map(numbered).collect()
}

/// Says from how much a page was made.
fn sources(inputs: &Inputs) -> String {
    let counts = [(inputs.runs.len(), "run"), (inputs.traces.len(), "trace")];
    let told = counts.iter().filter(|(number, _)| *number > 0);
    told.map(|&(number, noun)| counted(number, noun)).collect::<Vec<_>>().join(" and ")
}

/// Formats microseconds with three or four significant digits.
fn time(us: f64) -> String {
    let digits = match us {
        _ if us >= 1000.0 => 0,
        _ if us >= 100.0 => 1,
        _ => 2,
    };
    format!("{us:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::read::Cell;

    fn run(way: &str, ranks: u32, times: &[f64]) -> Run {
        let cells = times.iter().zip(1..).map(|(&time_us, at)| Cell {
            bytes: at << 10,
            time_us,
            busbw_gb_per_s: 1.0,
        });
        let (subject, place, about) = ("all_reduce".into(), "a <host>".into(), String::new());
        Run {
            subject,
            ranks,
            way: way.into(),
            place,
            about,
            wrong: Some(0),
            in_place_too: true,
            cells: cells.collect(),
        }
    }

    #[test]
    fn the_fastest_is_marked_and_the_others_tell_their_ratio() {
        let inputs = Inputs {
            runs: vec![run("ring", 2, &[4.0, 2.0]), run("tree", 2, &[2.0, 3.0])],
            traces: Vec::new(),
        };
        let page = page("<t>", &inputs).unwrap();
        assert!(page.contains("<td class=\"best\">2.00</td></tr>"), "{page}");
        assert!(page.contains("4.00 <small>×2.00</small>") && page.contains("3.00 <small>×1.50</small>"));
        assert!(
            page.contains("<title>&lt;t&gt;</title>") && page.contains("a &lt;host&gt;"),
            "text is escaped"
        );
        assert!(
            !page.contains("http://")
                || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
        );
        assert!(!page.contains("https://") && !page.contains("src="), "nothing is loaded");
    }

    #[test]
    fn what_runs_have_in_common_and_wrong_results_are_told_where_they_are_seen() {
        let mut runs = vec![run("ring", 2, &[1.0]), run("tree", 2, &[1.0])];
        runs[1].wrong = Some(3);
        let page = page("t", &Inputs { runs, traces: Vec::new() }).unwrap();
        assert!(page.contains(">2 ranks, on a &lt;host&gt;, measured out of place</p>"), "{page}");
        assert!(
            page.contains("<p class=\"wrong\">wrong results: tree</p>") && page.contains(" from 2 runs</p>")
        );
        let sample = plot::sample(1);
        assert!(page.contains(&format!("<th>{sample}tree<br>")), "a column has the marker of its line");
        let two = [run("ring", 2, &[1.0]), run("ring", 4, &[1.0])];
        assert_eq!(common(&two.iter().collect::<Vec<_>>()), "on a <host>, measured out of place");
    }

    #[test]
    fn names_tell_what_differs_and_equal_ones_are_numbered() {
        let runs = [run("ring", 2, &[1.0]), run("ring", 4, &[1.0]), run("ring", 4, &[1.0])];
        assert_eq!(
            names(&runs.iter().collect::<Vec<_>>()),
            ["ring, 2 ranks", "ring, 4 ranks", "ring, 4 ranks (2)"]
        );
    }
}
