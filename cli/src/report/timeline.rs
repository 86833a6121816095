//! The timeline of a simulated call: a lane for each port, a bar for each message.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

/// Bars of one timeline; more are no picture any more, and make the page large.
const MOST_BARS: usize = 20_000;
/// The group of the ports' lanes in a trace.
const PORTS: u64 = 0;
const LANE: f64 = 16.0;
const WIDTH: f64 = 900.0;

/// The events of a trace.
#[derive(Deserialize)]
pub struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    ph: String,
    name: String,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Value,
}

/// Draws a trace. An error says that it has too many messages, or none.
pub fn draw(trace: &Trace) -> Result<Markup, String> {
    let bars: Vec<&Event> =
        trace.events.iter().filter(|event| event.ph == "X" && event.pid == PORTS).collect();
    if bars.is_empty() {
        return Err("the trace has no messages".into());
    }
    if bars.len() > MOST_BARS {
        return Err(format!(
            "the trace has {} messages; trace a smaller call, of {MOST_BARS} at most",
            bars.len()
        ));
    }
    let names: BTreeMap<u64, &str> = trace
        .events
        .iter()
        .filter(|event| event.ph == "M" && event.name == "thread_name" && event.pid == PORTS)
        .filter_map(|event| Some((event.tid, event.args.get("name")?.as_str()?)))
        .collect();
    let mut lanes: Vec<u64> = bars.iter().map(|bar| bar.tid).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let end = bars.iter().map(|bar| bar.ts + bar.dur).fold(0.0, f64::max);
    let height = lanes.len() as f64 * LANE;
    let bytes = |bar: &Event| bar.args.get("bytes").and_then(Value::as_u64).unwrap_or(0);
    let hue = |bar: &Event| {
        let rank: u64 =
            bar.name.strip_prefix("rank ").and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0);
        // Neighbouring ranks get colours far apart.
        (rank * 137) % 360
    };
    Ok(html! {
        div.timeline {
            label { "zoom " input type="range" min="1" max="40" value="1" step="0.5"; }
            div.lanes {
                div.names {
                    @for lane in &lanes {
                        div style=(format!("height:{LANE}px")) { (names.get(lane).copied().unwrap_or("?")) }
                    }
                }
                div.scroll {
                    svg data-width=(WIDTH) data-end=(end) width=(WIDTH) height=(height) viewBox=(format!("0 0 {WIDTH} {height}")) preserveAspectRatio="none" {
                        @for (number, _) in lanes.iter().enumerate().filter(|(number, _)| number % 2 == 1) {
                            rect.stripe x="0" y=(number as f64 * LANE) width=(WIDTH) height=(LANE) {}
                        }
                        @for bar in &bars {
                            @let lane = lanes.binary_search(&bar.tid).unwrap_or(0) as f64;
                            rect x=(format!("{:.3}", bar.ts / end * WIDTH)) y=(lane * LANE + 1.0)
                                width=(format!("{:.3}", (bar.dur / end * WIDTH).max(0.3))) height=(LANE - 2.0)
                                fill=(format!("hsl({} 65% 48%)", hue(bar))) {
                                title { (bar.name) ", " (bytes(bar)) " B, " (bar.ts) " to " (format!("{:.6}", bar.ts + bar.dur)) " us" }
                            }
                        }
                    }
                    div.axis {}
                }
            }
            p.note { (bars.len()) " messages on " (lanes.len()) " ports in " (format!("{end:.3}")) " us; a colour for each sender" }
        }
    })
}
