//! Lines, boxes and words in an SVG file, and the legend of classes below them.

use penny::sim::topology::{Network, units};
use svg::Document;
use svg::node::element::{Group, Line, Path, Rectangle, Text, Title};

/// A point, in pixels from the top left.
pub type Point = (f64, f64);

/// Dark enough for thin lines on white, and told apart by most eyes (after Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#555555"];
const HEAD: f64 = 44.0;
const ROW: f64 = 18.0;

/// A picture as it grows; lines lie below boxes, whatever the order.
pub struct Canvas {
    title: String,
    classes: Vec<String>,
    used: Vec<bool>,
    notes: Vec<String>,
    lines: Group,
    boxes: Group,
    words: Group,
    size: Point,
}

impl Canvas {
    /// An empty one for a machine.
    pub fn new(network: &Network) -> Canvas {
        let about = |id: usize| {
            let class = &network.classes[id];
            let (rate, latency) = (units::print_bandwidth(class.rate), units::print_time(class.latency_ps));
            format!("{}: {rate} in each direction, {latency}", class.name)
        };
        let [x, y, z] = network.shape.0;
        let axes = if z > 1 {
            format!("{x} x {y} x {z}")
        } else if y > 1 {
            format!("{x} x {y}")
        } else {
            x.to_string()
        };
        Canvas {
            title: format!("{}: {axes} places", network.name),
            classes: (0..network.classes.len()).map(about).collect(),
            used: vec![false; network.classes.len()],
            notes: Vec::new(),
            lines: Group::new(),
            boxes: Group::new(),
            words: Group::new(),
            size: (360.0, HEAD),
        }
    }

    /// Extends the drawing so that it includes a point.
    fn reach(&mut self, (x, y): Point) {
        self.size = (self.size.0.max(x), self.size.1.max(y));
    }

    /// A link of a class.
    pub fn link(&mut self, from: Point, to: Point, class: u32) {
        self.line(from, to, class, "link", "none");
    }

    /// The end of a link that goes round to the other side.
    pub fn wrap(&mut self, from: Point, to: Point, class: u32) {
        self.line(from, to, class, "wrap", "3 3");
    }

    fn line(&mut self, from: Point, to: Point, class: u32, kind: &str, dashes: &str) {
        self.used[class as usize] = true;
        let (from, to) = ((from.0, from.1 + HEAD), (to.0, to.1 + HEAD));
        let line = Line::new()
            .set("class", kind)
            .set("x1", round(from.0))
            .set("y1", round(from.1))
            .set("x2", round(to.0))
            .set("y2", round(to.1))
            .set("stroke", COLOURS[class as usize % COLOURS.len()])
            .set("stroke-width", 1.6)
            .set("stroke-dasharray", dashes);
        self.lines = std::mem::take(&mut self.lines).add(line);
        self.reach(from);
        self.reach(to);
    }

    /// Draws a connection between things that belong together but have no modelled link.
    pub fn tie(&mut self, from: Point, to: Point) {
        let data =
            format!("M{} {} L{} {}", round(from.0), round(from.1 + HEAD), round(to.0), round(to.1 + HEAD));
        let tie = Path::new()
            .set("class", "tie")
            .set("d", data)
            .set("stroke", "#aaaaaa")
            .set("stroke-dasharray", "1 3");
        self.lines = std::mem::take(&mut self.lines).add(tie);
    }

    /// A box with a word in it, around a centre; `hint` shows when the pointer rests on it.
    pub fn block(&mut self, kind: &str, centre: Point, size: Point, word: &str, hint: &str) {
        let fill = match kind {
            "place" => "#e8f0fe",
            "nic" => "#fff4e0",
            "frame" => "#fafafa",
            _ => "#eeeeee",
        };
        let centre = (centre.0, centre.1 + HEAD);
        let corner = (centre.0 - size.0 / 2.0, centre.1 - size.1 / 2.0);
        let rectangle = Rectangle::new()
            .set("class", kind)
            .set("x", round(corner.0))
            .set("y", round(corner.1))
            .set("width", round(size.0))
            .set("height", round(size.1))
            .set("rx", 3)
            .set("fill", fill)
            .set("stroke", if kind == "frame" { "#cccccc" } else { "#444444" })
            .add(Title::new(hint));
        // A frame is the ground that its lines and boxes stand on.
        if kind == "frame" {
            self.lines = std::mem::take(&mut self.lines).add(rectangle);
        } else {
            self.boxes = std::mem::take(&mut self.boxes).add(rectangle);
        }
        self.reach((corner.0 + size.0, corner.1 + size.1));
        if !word.is_empty() {
            self.text((centre.0, centre.1 + 3.5), word, 10.0, "middle", None);
        }
    }

    /// Draws a link's label, a word on white around a point.
    pub fn label(&mut self, at: Point, word: &str, class: u32) {
        let at = (at.0, at.1 + HEAD);
        let width = 5.0 * word.chars().count() as f64 + 3.0;
        let ground = Rectangle::new()
            .set("x", round(at.0 - width / 2.0))
            .set("y", round(at.1 - 6.0))
            .set("width", round(width))
            .set("height", 12)
            .set("fill", "#ffffff")
            .set("fill-opacity", 0.85);
        self.words = std::mem::take(&mut self.words).add(ground);
        self.text((at.0, at.1 + 3.0), word, 8.5, "middle", Some(class));
    }

    /// Words that begin at a point.
    pub fn words(&mut self, at: Point, words: &str, class: Option<u32>) {
        self.text((at.0, at.1 + HEAD), words, 10.0, "start", class);
    }

    /// A line below the legend.
    pub fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn text(&mut self, at: Point, words: &str, size: f64, anchor: &str, class: Option<u32>) {
        let colour = class.map_or("#222222", |class| COLOURS[class as usize % COLOURS.len()]);
        let text = Text::new(words)
            .set("x", round(at.0))
            .set("y", round(at.1))
            .set("font-size", size)
            .set("text-anchor", anchor)
            .set("fill", colour);
        self.words = std::mem::take(&mut self.words).add(text);
        // Half of the size is about a letter's width.
        let width = words.chars().count() as f64 * size * 0.56;
        self.reach((at.0 + if anchor == "start" { width } else { width / 2.0 }, at.1));
    }

    /// The file.
    pub fn finish(mut self) -> String {
        let title = std::mem::take(&mut self.title);
        self.text((16.0, 26.0), &title, 15.0, "start", None);
        let mut y = self.size.1 + 16.0;
        for (id, about) in std::mem::take(&mut self.classes).iter().enumerate() {
            let unused = if self.used[id] { "" } else { " (no link of it)" };
            y += ROW;
            let swatch = Line::new()
                .set("x1", 16)
                .set("y1", round(y - 3.5))
                .set("x2", 40)
                .set("y2", round(y - 3.5))
                .set("stroke", COLOURS[id % COLOURS.len()])
                .set("stroke-width", 3);
            self.lines = std::mem::take(&mut self.lines).add(swatch);
            self.text((48.0, y), &format!("{about}{unused}"), 11.0, "start", None);
        }
        for note in std::mem::take(&mut self.notes) {
            y += ROW;
            self.text((16.0, y), &note, 11.0, "start", None);
        }
        let (width, height) = ((self.size.0 + 16.0).ceil(), (y + 16.0).ceil());
        let ground = Rectangle::new().set("width", width).set("height", height).set("fill", "#ffffff");
        let document = Document::new()
            .set("viewBox", (0, 0, width, height))
            .set("width", width)
            .set("height", height)
            .set("font-family", "sans-serif")
            .add(ground)
            .add(self.lines)
            .add(self.boxes)
            .add(self.words);
        format!("{document}\n")
    }
}

/// A tenth of a pixel is enough.
fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
