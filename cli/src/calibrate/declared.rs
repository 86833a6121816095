//! A machine's file in which some numbers are parameters to be fitted: `nic.bw` is the bandwidth of class `nic`.

use penny::sim::algorithms;
use penny::sim::topology::{self, Network, units};
use toml_edit::{DocumentMut, Item, Table, Value, value};

use crate::applied;

/// The most parameters that can be fitted at once.
pub const MOST_PARAMETERS: usize = 8;

/// A machine's file, with its arguments already applied.
pub struct Declared {
    file: String,
    document: DocumentMut,
}

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Bandwidth,
    Efficiency,
    Time(&'static str),
    /// The launch time, which belongs to no class.
    Launch,
}

/// A number of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    class: String,
    key: Key,
    /// The value in the machine's file as text, or a word that says that there is none.
    pub was: String,
    /// The value in bytes per second, in picoseconds, or as a fraction of one.
    pub start: f64,
}

/// What every call takes before its first message.
const LAUNCH: &str = "launch";

const KEYS: [(&str, Key); 5] = [
    ("bw", Key::Bandwidth),
    ("eff", Key::Efficiency),
    ("lat", Key::Time("lat")),
    ("post", Key::Time("post")),
    ("gap", Key::Time("gap")),
];

/// A latency that any port may have.
const LATENCY_PS: f64 = 1e6;
/// The start value of a time that is 0 in the machine: the logarithm of 0 does not exist.
const NO_TIME_PS: f64 = 100_000.0;
/// The significant digits of a fitted number; more would suggest an accuracy that it does not have.
const DIGITS: i32 = 5;

impl Declared {
    /// A preset with or without arguments, or a file, as `--fabric` takes it.
    pub fn open(spec: &str) -> Result<Declared, String> {
        let (file, document, _) = applied::read(spec)?;
        Ok(Declared { file, document })
    }

    /// Returns the parameters that `--fit` names.
    pub fn parameters(&self, names: &[String]) -> Result<Vec<Parameter>, String> {
        if names.len() > MOST_PARAMETERS {
            return Err(format!(
                "--fit: {} parameters; a table tells at most {MOST_PARAMETERS}",
                names.len()
            ));
        }
        let mut parameters = Vec::new();
        for name in names {
            let parameter = self.parameter(name).map_err(|why| format!("--fit {name}: {why}"))?;
            if parameters.contains(&parameter) {
                return Err(format!("--fit {name}: named twice; name it once"));
            }
            parameters.push(parameter);
        }
        Ok(parameters)
    }

    fn parameter(&self, name: &str) -> Result<Parameter, String> {
        if name == LAUNCH {
            let text = self.document.get(LAUNCH).map(written);
            let start = text.as_deref().map_or(Ok(0), units::time)?;
            let start = if start == 0 { NO_TIME_PS } else { start as f64 };
            let was = text.unwrap_or_else(|| "left out".to_owned());
            return Ok(Parameter { class: String::new(), key: Key::Launch, was, start });
        }
        let classes = self.document.get("class").and_then(Item::as_table_like);
        let classes = classes.ok_or("the machine has no classes")?;
        // A class may have a point in its name.
        let (class, key) = name.rsplit_once('.').ok_or("write a class and a key, like nic.bw, or launch")?;
        let keys = || KEYS.map(|(key, _)| key).join(", ");
        let &(_, key) = KEYS
            .iter()
            .find(|(known, _)| *known == key)
            .ok_or_else(|| format!("no such key; there are {}", keys()))?;
        let known = || classes.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(", ");
        let table = classes
            .get(class)
            .and_then(Item::as_table_like)
            .ok_or_else(|| format!("the machine has no class `{class}`; it has {}", known()))?;
        let text = table.get(key.name()).map(written);
        let was = text.clone().unwrap_or_else(|| "left out".to_owned());
        let start = match (key, text) {
            (Key::Bandwidth, text) => units::bandwidth(&text.unwrap_or_default())? as f64,
            (Key::Efficiency, None) => 1.0,
            (Key::Efficiency, Some(text)) => text.parse().map_err(|_| "its value is no number")?,
            (Key::Time(_) | Key::Launch, None) => NO_TIME_PS,
            (Key::Time(_) | Key::Launch, Some(text)) => match units::time(&text)? {
                0 => NO_TIME_PS,
                ps => ps as f64,
            },
        };
        Ok(Parameter { class: class.to_owned(), key, was, start })
    }

    /// Returns the file with `numbers` in it. If `marked`, a comment tells each number's old value.
    pub fn with(&self, parameters: &[Parameter], numbers: &[f64], marked: bool) -> String {
        let mut document = self.document.clone();
        for (parameter, &number) in parameters.iter().zip(numbers) {
            let mark = marked.then(|| format!(" # fitted; was {}", parameter.was));
            let value = parameter.value(number);
            if parameter.key == Key::Launch {
                put(document.as_item_mut(), LAUNCH, value, mark);
                continue;
            }
            let classes = tables(&mut document["class"]);
            let class = &mut classes[&parameter.class];
            tables(class);
            put(class, parameter.key.name(), value, mark);
        }
        document.to_string()
    }

    /// Returns the machine that `text`, a version of this file, declares.
    pub fn network(&self, text: &str) -> Result<Network, String> {
        let network = topology::parse(&self.file, text, &[]).map_err(|e| e.message.clone())?;
        algorithms::check_protocols(&network).map_err(|e| e.message.clone())?;
        Ok(network)
    }

    /// Returns the names of the default parameters: launch, and bandwidth and latency of every class in `used`.
    pub fn usual(&self, used: &[&str]) -> Vec<String> {
        // An override's class is called after the one that it changes.
        let mut classes: Vec<&str> =
            used.iter().map(|name| name.split_once(", override").map_or(*name, |(name, _)| name)).collect();
        classes.sort_unstable();
        classes.dedup();
        let both = classes.iter().flat_map(|class| ["bw", "lat"].map(|key| format!("{class}.{key}")));
        std::iter::once(LAUNCH.to_owned()).chain(both).take(MOST_PARAMETERS).collect()
    }
}

impl Parameter {
    /// Returns the parameter's name for `--fit`.
    pub fn name(&self) -> String {
        match self.key {
            Key::Launch => LAUNCH.to_owned(),
            key => format!("{}.{}", self.class, key.name()),
        }
    }
    /// Returns the least and the most that hardware can be. A link carries at most its line rate, which is the machine's; a message
    /// takes a nanosecond for 20 cm at least, and ten times the machine's latency at most; no port's work on a message takes longer than
    /// a millisecond, no launch longer than ten.
    pub fn bounds(&self) -> (f64, f64) {
        match self.key {
            Key::Bandwidth => (self.start * 1e-4, self.start),
            Key::Efficiency => (1e-3, 1.0),
            Key::Time("lat") => (1e3, (10.0 * self.start).max(LATENCY_PS)),
            Key::Time(_) => (1.0, 1e9),
            Key::Launch => (1.0, 1e10),
        }
    }
    /// Says at which bound `number` is, if it is at one that matters.
    pub fn at_bound(&self, number: f64) -> Option<String> {
        let (least, most) = self.bounds();
        let (name, near) = (self.name(), |bound: f64| (number / bound - 1.0).abs() < 1e-3);
        match self.key {
            Key::Bandwidth if near(most) => Some(format!(
                "{name} is at the machine's line rate, {}, and cannot be more",
                self.print(most)
            )),
            Key::Efficiency if near(most) => Some(format!("{name} is 1 and cannot be more")),
            Key::Time("lat") if near(least) => Some(format!("{name} is at 1 ns, the time of 20 cm of wire")),
            Key::Time("lat") if near(most) => Some(format!(
                "{name} is at {}, ten times the machine's, and cannot be more",
                self.print(most)
            )),
            Key::Time(_) | Key::Launch if near(most) => {
                Some(format!("{name} is at {}, more than hardware takes", self.print(most)))
            }
            _ => None,
        }
    }
    /// Formats `number` with its unit.
    pub fn print(&self, number: f64) -> String {
        written(&value(self.value(number)))
    }
    /// Returns `number` as a value for the file. Rounding does not lift it above its bound.
    fn value(&self, number: f64) -> Value {
        match self.key {
            Key::Bandwidth if number > self.start * (1.0 - 1e-6) => {
                units::print_bandwidth(self.start as u64).into()
            }
            key => key.value(number),
        }
    }
}

impl Key {
    fn name(self) -> &'static str {
        match self {
            Key::Bandwidth => "bw",
            Key::Efficiency => "eff",
            Key::Time(name) => name,
            Key::Launch => LAUNCH,
        }
    }
    /// Returns `number`, rounded to [`DIGITS`] digits, as a value for the file.
    fn value(self, number: f64) -> Value {
        let digits = 10f64.powi(DIGITS - 1 - number.max(1e-9).log10().floor() as i32);
        let rounded = (number * digits).round() / digits;
        match self {
            Key::Bandwidth => units::print_bandwidth((rounded as u64).max(1)).into(),
            Key::Efficiency => rounded.clamp(1e-6, 1.0).into(),
            Key::Time(_) | Key::Launch => units::print_time(rounded as u64).into(),
        }
    }
}

/// Returns an item as a table in several lines: an inline table cannot hold comments.
fn tables(item: &mut Item) -> &mut Table {
    if !item.is_table() {
        *item = Item::Table(std::mem::take(item).into_table().unwrap_or_default());
    }
    item.as_table_mut().expect("just made")
}

/// Sets a key's value. If `comment` is `None`, the comment behind the old value stays.
fn put(item: &mut Item, key: &str, mut new: Value, comment: Option<String>) {
    let old = item.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
    if let Some(decor) = old {
        *new.decor_mut() = decor;
    }
    if let Some(comment) = comment {
        new.decor_mut().set_suffix(comment);
    }
    item[key] = Item::Value(new);
}

/// Returns a value's text without quotes.
fn written(item: &Item) -> String {
    match item.as_value() {
        Some(Value::String(text)) => text.value().clone(),
        Some(Value::Float(number)) => format!("{}", number.value()),
        Some(other) => other.to_string().trim().to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h100() -> Declared {
        Declared::open("dgx-h100:nodes=2").unwrap()
    }

    #[test]
    fn a_fitted_file_is_the_machine_with_other_numbers_and_says_so() {
        let machine = h100();
        let names = ["leaf.bw", "nv18.eff", "leaf.gap", "nv18.post"].map(str::to_owned);
        let parameters = machine.parameters(&names).unwrap();
        assert_eq!(parameters.iter().map(|p| p.start).collect::<Vec<_>>(), [50e9, 0.824, 5000.0, NO_TIME_PS]);
        let text = machine.with(&parameters, &[40e9, 0.5, 1_234_567.8, 0.0], true);
        for line in [
            "bw = \"40GB/s\" # fitted; was 50GB/s",
            "eff = 0.5 # fitted; was 0.824",
            "gap = \"1.2346us\" # fitted; was 5ns",
            "post = \"0ps\" # fitted; was left out",
            "nodes = 2",
        ] {
            assert!(text.contains(line), "no `{line}` in\n{text}");
        }
        let network = machine.network(&text).unwrap();
        let class = |name: &str| network.classes.iter().find(|class| class.name == name).unwrap();
        assert_eq!((class("leaf").rate, class("nv18").rate), (38_800_000_000, 225_000_000_000));
        assert_eq!((class("leaf").gap_ps, network.shape.nodes()), (1_234_600, 2));
    }

    #[test]
    fn nothing_changed_is_the_same_machine() {
        for (preset, _) in topology::presets() {
            let machine = Declared::open(preset).unwrap();
            let (again, known) = (machine.network(&machine.with(&[], &[], true)), topology::open(preset));
            assert_eq!(again.unwrap().classes, known.unwrap().classes, "{preset}");
        }
    }

    #[test]
    fn classes_in_braces_get_room_for_comments() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        let text = "name = \"m\"\nclass = { wire = { bw = \"1GB/s\", lat = \"1us\" } }\nring = { shape = \"4\", link = \"wire\" }\n";
        std::fs::write(&file, text).unwrap();
        let machine = Declared::open(file.to_str().unwrap()).unwrap();
        let parameters = machine.parameters(&["wire.lat".to_owned()]).unwrap();
        let text = machine.with(&parameters, &[2e6], true);
        assert_eq!(machine.network(&text).unwrap().classes[0].latency_ps, 2_000_000, "{text}");
    }

    #[test]
    fn a_launch_is_written_beside_the_name_and_numbers_stay_within_hardware() {
        let machine = Declared::open("dgx-h100:nodes=2,as=nccl").unwrap();
        let parameters = machine.parameters(&["launch", "nv18.bw", "leaf.lat"].map(str::to_owned)).unwrap();
        assert_eq!(
            parameters.iter().map(|p| p.was.as_str()).collect::<Vec<_>>(),
            ["left out", "450GB/s", "600ns"]
        );
        let bounds: Vec<(f64, f64)> = parameters.iter().map(Parameter::bounds).collect();
        assert_eq!((bounds[0].1, bounds[1].1, bounds[2].0), (1e10, 450e9, 1e3));
        let text = machine.with(&parameters, &[7.25e6, 450e9, 1e3], true);
        let network = machine.network(&text).unwrap();
        let protocols = topology::open("dgx-h100:nodes=2,as=nccl").unwrap().protocols.len();
        assert_eq!((network.launch_ps, network.protocols.len()), (7_250_000, protocols), "{text}");
        assert!(text.contains("launch = \"7.25us\" # fitted; was left out"), "{text}");
        let at: Vec<bool> =
            parameters.iter().zip([7.25e6, 450e9, 1e3]).map(|(p, n)| p.at_bound(n).is_some()).collect();
        assert_eq!(at, [false, true, true]);
        // A file that has one already begins there.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("again.toml");
        std::fs::write(&file, &text).unwrap();
        let again = Declared::open(file.to_str().unwrap()).unwrap();
        assert_eq!(again.parameters(&["launch".to_owned()]).unwrap()[0].start, 7.25e6);
    }

    #[test]
    fn a_parameter_that_is_not_there_is_answered_with_those_that_are() {
        for (names, remedy) in [
            (&["nic.bw"][..], "it has"),
            (&["leaf.speed"], "bw, eff, lat, post, gap"),
            (&["leaf"], "like nic.bw"),
            (&["leaf.bw", "leaf.bw"], "once"),
            (&["leaf.bw"; 9], "at most 8"),
        ] {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let why = h100().parameters(&names).unwrap_err();
            assert!(why.contains(remedy), "{why}");
        }
    }
}
