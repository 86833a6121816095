//! The picture of the layers in `src/lib.rs`, held against the table of imports.

use super::{EVERYONE, TABLE, root};

/// The modules of each layer, the highest layer first.
fn layers(picture: &str) -> Vec<Vec<&str>> {
    let rows = picture.lines().filter_map(|line| line.split_once(" | "));
    rows.map(|(modules, _)| modules.split_whitespace().collect()).collect()
}

/// The picture as the crate's documentation has it.
fn picture() -> String {
    let lib = std::fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let from = lib.split("//! # How it is built").nth(1).expect("a section on how it is built");
    let lines = from.lines().skip_while(|line| !line.contains("```text")).skip(1);
    let lines = lines.take_while(|line| !line.contains("```"));
    lines.map(|line| format!("{}\n", line.strip_prefix("//! ").unwrap_or(line))).collect()
}

/// Returns what is missing in the picture, and every import that does not lead downwards in it.
fn faults(picture: &str, table: &[(&str, &[&str])]) -> Vec<String> {
    let layers = layers(picture);
    // A part of a module may stand in a layer of its own.
    let layer = |path: &str| {
        let named = |name: &str| layers.iter().position(|modules| modules.contains(&name));
        named(path).or_else(|| named(path.split("::").next().unwrap_or(path)))
    };
    let mut faults = Vec::new();
    for name in table.iter().map(|(module, _)| module).chain(EVERYONE) {
        if layer(name).is_none() {
            faults.push(format!("the picture lacks {name}"));
        }
    }
    for (module, imports) in table {
        for import in *imports {
            if let (Some(from), Some(to)) = (layer(module), layer(import))
                && from >= to
            {
                faults.push(format!("{module} imports {import}, which does not stand below it"));
            }
        }
    }
    faults
}

#[test]
fn imports_lead_downwards_in_the_picture() {
    let faults = faults(&picture(), TABLE);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_module_of_the_picture_is_in_the_table_once() {
    let picture = picture();
    let mut names: Vec<&str> = layers(&picture).concat();
    for name in &names {
        let module = name.split("::").next().expect("a name");
        let known = TABLE.iter().map(|(module, _)| module).chain(EVERYONE).any(|known| *known == module);
        assert!(known, "the picture has {name}, which is no module of the table");
    }
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn the_readme_shows_the_same_picture() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let picture = picture();
    assert!(layers(&picture).len() > 4, "no picture found");
    assert!(readme.contains(&picture), "README.md shows another picture than src/lib.rs:\n{picture}");
}

#[test]
fn a_planted_import_upwards_and_a_missing_module_are_reported() {
    let picture = "  api | a\n  exec  timing | b\n  fabric | c\n  sync | d\n  sync::prim  sync::lock | e\n  \
        error types env log hash json spelling | f\n";
    let table: &[(&str, &[&str])] = &[
        ("api", &["exec", "fabric::live"]),
        ("exec", &["timing", "api"]),
        ("fabric", &["sync", "exec"]),
        ("sync", &["sync::prim"]),
        ("plan", &[]),
    ];
    assert_eq!(
        faults(picture, table),
        [
            "the picture lacks plan",
            "exec imports timing, which does not stand below it",
            "exec imports api, which does not stand below it",
            "fabric imports exec, which does not stand below it",
        ]
    );
}
