//! A plan as a picture: ranks from left to right, levels from top to bottom, messages as arrows, a colour a chunk.
//!
//! ```text
//!     rank      0       1       2
//!     level 1   o──────►        o       a circle is a step; it is filled where the rank keeps the result
//!     level 2           o──────►
//! ```
//!
//! It is drawn from the plan's JSON, which `penny plan --json` prints.

use serde::Deserialize;
use svg::Document;
use svg::node::element::{Circle, Definitions, Group, Line, Marker, Path, Rectangle, Text, Title};

/// More would not be told apart.
const MOST_RANKS: usize = 16;
const MOST_CHUNKS: usize = 16;

/// Told apart by most eyes on white (after Okabe and Ito). Beyond them colours come again.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#555555", "#000000"];
const HEAD: f64 = 70.0;
const LEFT: f64 = 72.0;
const LEVEL: f64 = 58.0;
const RADIUS: f64 = 4.0;
/// Between the steps of two chunks of one rank.
const BESIDE: f64 = 11.0;

#[derive(Deserialize)]
struct Plan {
    collective: String,
    ranks: usize,
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    rank: usize,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    level: usize,
    block: usize,
    part: usize,
    lane: usize,
    fold: Vec<usize>,
    keep: bool,
    to: Vec<usize>,
}

impl Step {
    fn chunk(&self) -> (usize, usize) {
        (self.block, self.part)
    }
}

/// Where things lie.
struct Layout {
    chunks: Vec<(usize, usize)>,
    column: f64,
}

impl Layout {
    fn number(&self, step: &Step) -> usize {
        self.chunks.iter().position(|&chunk| chunk == step.chunk()).unwrap_or(0)
    }

    /// The middle of a rank's column.
    fn middle(&self, rank: usize) -> f64 {
        LEFT + self.column * (rank as f64 + 0.5)
    }

    fn place(&self, rank: usize, step: &Step, level: usize) -> (f64, f64) {
        let aside = self.number(step) as f64 - (self.chunks.len() as f64 - 1.0) / 2.0;
        (self.middle(rank) + aside * BESIDE, HEAD + LEVEL * (level as f64 - 0.5))
    }

    fn colour(&self, step: &Step) -> usize {
        self.number(step) % COLOURS.len()
    }
}

/// Draws a plan that was rendered as JSON.
pub fn svg(json: &str, algorithm: &str) -> Result<String, String> {
    let plan: Plan = serde_json::from_str(json).map_err(|why| format!("the plan cannot be read: {why}"))?;
    let steps =
        || plan.programs.iter().flat_map(|program| program.steps.iter().map(|step| (program.rank, step)));
    let mut chunks: Vec<_> = steps().map(|(_, step)| step.chunk()).collect();
    chunks.sort_unstable();
    chunks.dedup();
    if plan.ranks > MOST_RANKS || chunks.len() > MOST_CHUNKS {
        return Err(format!(
            "--draw: {} ranks with {} chunks are too many to tell apart; draw up to {MOST_RANKS} ranks (-n)",
            plan.ranks,
            chunks.len()
        ));
    }
    let column = (chunks.len() as f64 * BESIDE + 24.0).max(76.0);
    let layout = Layout { chunks, column };
    let levels = steps().map(|(_, step)| step.level).max().unwrap_or(0);
    let (width, height) = (LEFT + column * plan.ranks as f64 + 16.0, HEAD + LEVEL * levels as f64 + 44.0);

    let mut back = Group::new();
    for rank in 0..plan.ranks {
        back = back.add(word(layout.middle(rank), HEAD - 8.0, "middle", &format!("rank {rank}")));
        if rank > 0 {
            let x = LEFT + column * rank as f64;
            back = back.add(line((x, HEAD - 22.0), (x, height - 40.0)).set("stroke", "#e0e0e0"));
        }
    }
    for level in 1..=levels {
        let y = HEAD + LEVEL * (level as f64 - 0.5);
        back = back.add(word(10.0, y + 4.0, "start", &format!("level {level}")));
    }
    let (mut arrows, mut circles) = (Group::new(), Group::new());
    for (rank, step) in steps() {
        let from = layout.place(rank, step, step.level);
        for &to in &step.to {
            let receives = |other: &&Step| {
                other.chunk() == step.chunk()
                    && other.lane == step.lane
                    && other.level > step.level
                    && other.fold.contains(&rank)
            };
            let program = plan.programs.iter().find(|program| program.rank == to);
            let taken = program
                .and_then(|program| program.steps.iter().filter(receives).map(|step| step.level).min());
            let at = layout.place(to, step, taken.unwrap_or(step.level + 1));
            arrows = arrows.add(arrow(from, at, layout.colour(step)));
        }
        let fill = if step.keep { COLOURS[layout.colour(step)] } else { "#ffffff" };
        let circle = Circle::new()
            .set("cx", round(from.0))
            .set("cy", round(from.1))
            .set("r", RADIUS)
            .set("fill", fill);
        let circle = circle.set("stroke", COLOURS[layout.colour(step)]).set("stroke-width", 1.6);
        let about = format!("rank {rank}, level {}: block {} part {}", step.level, step.block, step.part);
        circles = circles.add(circle.add(Title::new(about)));
    }
    let title = format!("{algorithm}: {} over {} ranks", plan.collective, plan.ranks);
    let about = "An arrow is a message, its colour the chunk. A circle is a step, filled where the rank keeps the result.";
    let document = Document::new()
        .set("width", round(width.max(620.0)))
        .set("height", round(height))
        .set("viewBox", (0, 0, round(width.max(620.0)) as i64, round(height) as i64))
        .set("font-family", "sans-serif")
        .add(heads())
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "#ffffff"))
        .add(word(10.0, 24.0, "start", &title).set("font-size", 15).set("font-weight", "bold"))
        .add(back)
        .add(arrows)
        .add(circles)
        .add(word(10.0, height - 14.0, "start", about));
    Ok(document.to_string() + "\n")
}

/// The heads of arrows, one a colour.
fn heads() -> Definitions {
    (0..COLOURS.len()).fold(Definitions::new(), |all, colour| {
        let head = Path::new().set("d", "M0,0 L7,3 L0,6 z").set("fill", COLOURS[colour]);
        let marker = Marker::new()
            .set("id", format!("head{colour}"))
            .set("orient", "auto")
            .set("refX", 6)
            .set("refY", 3);
        all.add(
            marker
                .set("markerWidth", 8)
                .set("markerHeight", 6)
                .set("markerUnits", "userSpaceOnUse")
                .add(head),
        )
    })
}

/// An arrow between two steps, from the edge of one circle to the edge of the other.
fn arrow(from: (f64, f64), to: (f64, f64), colour: usize) -> Line {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = (dx * dx + dy * dy).sqrt().max(1.0);
    let at = |point: (f64, f64), sign: f64| {
        (point.0 + sign * dx / length * (RADIUS + 1.5), point.1 + sign * dy / length * (RADIUS + 1.5))
    };
    line(at(from, 1.0), at(to, -1.0))
        .set("class", "message")
        .set("stroke", COLOURS[colour])
        .set("stroke-width", 1.3)
        .set("marker-end", format!("url(#head{colour})"))
}

fn line(from: (f64, f64), to: (f64, f64)) -> Line {
    let line = Line::new().set("x1", round(from.0)).set("y1", round(from.1));
    line.set("x2", round(to.0)).set("y2", round(to.1))
}

fn word(x: f64, y: f64, anchor: &str, text: &str) -> Text {
    Text::new(text)
        .set("x", round(x))
        .set("y", round(y))
        .set("text-anchor", anchor)
        .set("font-size", 12)
        .set("fill", "#333333")
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_an_arrow_and_every_step_a_circle() {
        let step = |level: u32, fold: &str, to: &str, keep: bool| {
            format!(
                r#"{{"level":{level},"block":0,"part":0,"start":0,"end":4,"lane":0,"fold":{fold},"keep":{keep},"to":{to},"in_switch":false}}"#
            )
        };
        let json = format!(
            r#"{{"collective":"broadcast","ranks":3,"programs":[{{"rank":0,"steps":[{}]}},{{"rank":1,"steps":[{}]}},{{"rank":2,"steps":[{}]}}]}}"#,
            step(1, "[0]", "[1,2]", true),
            step(2, "[0]", "[]", true),
            step(3, "[0]", "[]", false)
        );
        let drawing = svg(&json, "tree").unwrap();
        assert_eq!(drawing.matches("class=\"message\"").count(), 2);
        assert_eq!(drawing.matches("<circle").count(), 3);
        assert_eq!(
            drawing.matches("<circle").count() - drawing.matches("fill=\"#ffffff\" r=").count(),
            2,
            "one is not kept"
        );
        assert!(
            drawing.contains("tree: broadcast over 3 ranks") && drawing.contains(">\nlevel 3\n<"),
            "{drawing}"
        );
        // The arrow to rank 2 ends in the level of the step that takes the message.
        let levels = |y: f64| format!("{}", round(HEAD + LEVEL * (y - 0.5)));
        assert!(drawing.contains(&format!("cy=\"{}\"", levels(3.0))), "{drawing}");
    }

    #[test]
    fn too_many_ranks_are_refused_with_the_number_that_can_be_drawn() {
        let sentence = svg(r#"{"collective":"all_reduce","ranks":17,"programs":[]}"#, "ring").unwrap_err();
        assert!(sentence.contains("17 ranks") && sentence.contains("up to 16"), "{sentence}");
    }
}
