//! The manual of machines' files, `docs/machines.md`: its examples are read, and its tables have the keys that the parser accepts.
//!
//! ```text
//!     ## `[switch]`                                  the sections that a heading names
//!     | `places` | count | must be there | ... |     a row a key: unit, default, example, meaning
//!     ```toml                                        a whole file, in which the key is used; `# refused: ...` says what is wrong with it
//! ```
//!
//! What the parser accepts is taken from the parser: each place of the code that checks the keys of a section must be reached by an example.

use super::super::source::checked;
use super::parse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Sections and their keys.
type Keys = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn manual() -> String {
    std::fs::read_to_string(root().join("docs/machines.md")).unwrap()
}

/// The TOML blocks of a text, each with its first line without the `#`.
fn examples(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let named = |block: &str| {
        let first = block.lines().next().and_then(|line| line.strip_prefix("# "));
        (first.unwrap_or_else(|| panic!("a block without a name:\n{block}")).to_owned(), block.to_owned())
    };
    blocks.map(named).collect()
}

/// A class has the name that its file gives it.
fn section_name(name: &str) -> String {
    if name.starts_with("[class.") { "[class.NAME]".into() } else { name.into() }
}

/// What is wrong with the rows of a manual's tables, and their keys by the sections of the heading.
fn documented(text: &str) -> (Keys, Vec<Vec<String>>, Vec<String>) {
    let (mut keys, mut groups, mut wrong) = (Keys::new(), Vec::new(), Vec::new());
    let mut sections: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            let quoted = line.split('`').skip(1).step_by(2).filter(|word| word.starts_with('['));
            sections = quoted.map(str::to_owned).collect();
            if line == "## The file" {
                sections = vec!["the file".into()];
            }
            groups.push(sections.clone());
        }
        let Some(row) = line.strip_prefix("| `").filter(|_| !sections.is_empty()) else { continue };
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let key = cells[0].trim_end_matches('`').to_owned();
        let [_, unit, default, example, meaning] = cells[..] else {
            wrong.push(format!("{line}: not five cells"));
            continue;
        };
        let example = example.trim_matches('`');
        let names_key = example.strip_prefix(&key).is_some_and(|rest| rest.starts_with([' ', '.']));
        if [unit, default, meaning].iter().any(|cell| cell.trim().is_empty()) || !names_key {
            wrong.push(format!("{line}: an empty cell, or an example of another key"));
        }
        if let Err(why) = DeTable::parse(example) {
            wrong.push(format!("{line}: the example is no TOML: {why}"));
        }
        sections.iter().for_each(|section| {
            keys.entry(section.clone()).or_default().insert(key.clone());
        });
    }
    (keys, groups, wrong)
}

/// The keys that a file uses, by section.
fn used(text: &str, keys: &mut Keys) {
    let document = DeTable::parse(text).unwrap();
    let all = |table: &DeTable| table.keys().map(|key| key.get_ref().to_string()).collect::<Vec<_>>();
    let mut note = |section: &str, table: &DeTable| {
        keys.entry(section.into()).or_default().extend(all(table));
    };
    note("the file", document.get_ref());
    for (name, value) in document.get_ref() {
        match value.get_ref() {
            DeValue::Table(classes) if name.get_ref() == "class" => {
                classes
                    .values()
                    .filter_map(|class| class.get_ref().as_table())
                    .for_each(|class| note("[class.NAME]", class));
            }
            DeValue::Table(table) => {
                note(&format!("[{}]", name.get_ref()), table);
                for (inner, value) in table {
                    let path = format!("{}.{}", name.get_ref(), inner.get_ref());
                    match value.get_ref() {
                        DeValue::Table(table) => note(&format!("[{path}]"), table),
                        DeValue::Array(list) => {
                            list.iter()
                                .filter_map(|value| value.get_ref().as_table())
                                .for_each(|table| note(&format!("[[{path}]]"), table));
                        }
                        _ => {}
                    }
                }
            }
            DeValue::Array(list) => {
                list.iter()
                    .filter_map(|value| value.get_ref().as_table())
                    .for_each(|table| note(&format!("[[{}]]", name.get_ref()), table));
            }
            _ => {}
        }
    }
}

/// The keys that the parser accepted while it read the manual's examples, and the places of the code that checked them.
fn accepted(text: &str) -> (Keys, BTreeSet<(String, u32)>, Vec<String>) {
    let (mut keys, mut places, mut wrong) = (Keys::new(), BTreeSet::new(), Vec::new());
    for (name, block) in examples(text) {
        let refusal = name.strip_prefix("refused: ");
        let (read, checks) = checked::during(|| parse("m.toml", &block, &[]));
        match (read, refusal) {
            (Err(why), None) => wrong.push(format!("{name}: {}", why.message)),
            (Ok(_), Some(_)) => wrong.push(format!("{name}: this was accepted")),
            (Err(why), Some(said)) if !why.message.contains(said) => {
                wrong.push(format!("{said}\nsays: {}", why.message))
            }
            _ => {}
        }
        let classes: BTreeSet<String> = DeTable::parse(&block)
            .ok()
            .and_then(|document| {
                Some(
                    document
                        .get_ref()
                        .get("class")?
                        .get_ref()
                        .as_table()?
                        .keys()
                        .map(|key| key.get_ref().to_string())
                        .collect(),
                )
            })
            .unwrap_or_default();
        for check in checks {
            places.insert((check.at.file().to_owned(), check.at.line()));
            // There a key is the name of a class, too.
            let of_wires = check.section == "[edges]" || check.section.ends_with(".wires]");
            let own = check.keys.into_iter().filter(|key| !of_wires || !classes.contains(key));
            keys.entry(section_name(&check.section)).or_default().extend(own);
        }
    }
    keys.retain(|_, keys| !keys.is_empty());
    (keys, places, wrong)
}

/// What a manual lacks, or has too much of.
fn complaints(text: &str) -> Vec<String> {
    let (documented, groups, mut wrong) = documented(text);
    let (accepted, places, refused) = accepted(text);
    wrong.extend(refused);
    let all = |keys: &Keys| -> BTreeSet<(String, String)> {
        keys.iter()
            .flat_map(|(section, keys)| keys.iter().map(|key| (section.clone(), key.clone())))
            .collect()
    };
    wrong.extend(
        all(&accepted)
            .difference(&all(&documented))
            .map(|(section, key)| format!("no row for {key} of {section}")),
    );
    wrong.extend(
        all(&documented)
            .difference(&all(&accepted))
            .map(|(section, key)| format!("{section} has no key {key}")),
    );
    let mut in_use = Keys::new();
    let good = examples(text).into_iter().filter(|(name, _)| !name.starts_with("refused: "));
    good.for_each(|(_, block)| used(&block, &mut in_use));
    for group in groups.iter().filter(|group| !group.is_empty()) {
        let of = |keys: &Keys| -> BTreeSet<String> {
            group.iter().filter_map(|section| keys.get(section)).flatten().cloned().collect()
        };
        wrong.extend(
            of(&documented)
                .difference(&of(&in_use))
                .map(|key| format!("no example uses {key} of {}", group.join(", "))),
        );
    }
    wrong.extend(unreached(&places));
    wrong
}

/// Places of the code that check the keys of a section, and that no example reached.
fn unreached(places: &BTreeSet<(String, u32)>) -> Vec<String> {
    let mut files = vec![root().join("src/topology")];
    let mut missing = Vec::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let calls =
            (1..).zip(text.lines()).filter(|(_, line)| line.contains(".knows(") && !name.contains("/tests"));
        missing.extend(
            calls
                .filter(|(line, _)| !places.contains(&(name.clone(), *line)))
                .map(|(line, _)| format!("{name}:{line}: no example of the manual has this section")),
        );
    }
    missing
}

#[test]
fn the_manual_has_every_key_that_the_parser_accepts_and_its_examples_are_read() {
    let wrong = complaints(&manual());
    assert!(wrong.is_empty(), "docs/machines.md:\n{}", wrong.join("\n"));
}

#[test]
fn a_manual_without_a_key_with_one_too_many_or_with_a_broken_example_is_found() {
    let text = manual();
    let without = |part: &str| {
        assert!(text.contains(part), "{part}");
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains(part)).collect();
        complaints(&lines.join("\n"))
    };
    assert_eq!(
        without("| `oversubscription` | proportion | `uplinks`"),
        ["no row for oversubscription of [[cluster.tier]]"]
    );
    assert_eq!(without("store_and_forward = false"), ["no example uses store_and_forward of [class.NAME]"]);
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        complaints(&text.replacen(from, to, 1))
    };
    assert_eq!(
        changed("| `mtu` |", "| `mtu2` |").len(),
        4,
        "an example of another key, a key too few, one too many and unused"
    );
    assert!(
        changed("bw = \"400Gbps\"\nlat = \"1us\"\n[switch]", "bw = \"400Gbaud\"\nlat = \"1us\"\n[switch]")[0]
            .contains("400Gbaud")
    );
    assert!(changed("# refused: oversubscription", "# refused: something else")[0].contains("says: m.toml:"));
    assert!(changed("oversubscription = 0\n", "oversubscription = 1\n")[0].contains("this was accepted"));
    let sections = text.split("\n[mailbox]\n").collect::<Vec<_>>().join("\n[device]\n");
    assert!(complaints(&sections).iter().any(|why| why.starts_with("src/topology/mailbox.rs:")));
}
