//! What the README says about the code, held against the code.

use crate::env::VARIABLES;

fn read(file: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_readme_has_the_table_of_variables() {
    let readme = read("README.md");
    let shown: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `PENNY_")).collect();
    let table: Vec<String> =
        VARIABLES.iter().map(|v| format!("| `{}` | {} | {} |", v.name, v.kind, v.about)).collect();
    assert_eq!(shown, table);
}

#[test]
fn the_readmes_test_command_is_the_one_that_gates() {
    let command = "cargo test --workspace";
    assert!(read("README.md").lines().any(|line| line.trim_start().starts_with(command)));
    assert!(read(".ci/run").lines().any(|line| line == format!("step test {command}")));
}

#[test]
fn the_readmes_links_lead_somewhere() {
    for file in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/decisions/README.md"] {
        let text = read(file);
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let folder = folder.parent().expect("a folder");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(
                target.starts_with("https://") || folder.join(target).exists(),
                "{file} links to {target}"
            );
        }
    }
}
