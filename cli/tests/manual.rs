//! The commands of the manual of machines' files are run, and print what it says.

use std::path::Path;
use std::process::Command;

fn manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/machines.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks of a kind.
fn blocks<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let begin = format!("```{kind}\n");
    let rest = text.split(&begin).skip(1).collect::<Vec<_>>();
    rest.into_iter().map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

/// Tells whether lines are those that are expected, in which `...` stands for any.
fn fits(expected: &[&str], lines: &[&str]) -> bool {
    match expected {
        [] => lines.is_empty(),
        ["...", rest @ ..] => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        [first, rest @ ..] => lines.first() == Some(first) && fits(rest, &lines[1..]),
    }
}

#[test]
fn every_command_of_the_manual_prints_what_it_says() {
    let text = manual();
    let folder = tempfile::tempdir().unwrap();
    for block in blocks(&text, "toml") {
        let name = block.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a block has a name");
        if !name.starts_with("refused: ") {
            assert!(!folder.path().join(name).exists(), "{name} is there twice");
            std::fs::write(folder.path().join(name), block).unwrap();
        }
    }
    let mut commands = 0;
    for block in blocks(&text, "console") {
        let (command, expected) = block.split_once('\n').expect("a command and its output");
        let words: Vec<&str> = command.strip_prefix("$ penny ").expect(command).split_whitespace().collect();
        let output = Command::new(env!("CARGO_BIN_EXE_penny"))
            .args(&words)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = printed.lines().collect();
        assert!(fits(&expected.lines().collect::<Vec<_>>(), &lines), "{command}\nprints\n{printed}");
        commands += 1;
    }
    assert!(commands >= 6, "{commands} commands");
}

#[test]
fn dots_stand_for_any_lines_and_nothing_else_does() {
    assert!(fits(&["a", "...", "b"], &["a", "x", "y", "b"]) && fits(&["..."], &[]));
    assert!(!fits(&["a", "b"], &["a", "x", "b"]) && !fits(&["a"], &["a", "b"]));
}
