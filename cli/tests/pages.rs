//! The commands of the pages in docs are run, and print what the pages say.
//!
//! ```text
//!     a block of c, cpp, toml ...   whose first line is a comment with a name     a file of the page's folder
//!     a block of console            commands after `$ `, what each prints         is run in that folder
//!     a block of console,fails      the same                                      each command fails
//! ```
//!
//! In what is expected `...` stands for any text, and alone in a line for any lines.

use std::fs;
use std::path::Path;
use std::process::Command;

use penny::internals::env::VARIABLES;
use penny_ffi_tests::{compiler, library, root};

/// A block of a page: its kind, and its text.
struct Block<'a> {
    kind: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    page.split("\n```")
        .enumerate()
        .filter(|(part, _)| part % 2 == 1)
        .map(|(_, block)| block.split_once('\n').unwrap_or((block, "")))
        .map(|(kind, text)| Block { kind, text })
        .collect()
}

/// The name in the comment with which a block begins, if it is that of a file.
fn file_name(text: &str) -> Option<&str> {
    let line = text.lines().next()?;
    let name = ["# ", "// ", "/* "].iter().find_map(|mark| line.strip_prefix(mark))?;
    let name = name.trim_end_matches(" */");
    (name.contains('.') && !name.contains([' ', ':'])).then_some(name)
}

/// Tells whether a line is what is expected, in which `...` stands for any text.
fn is_like(expected: &str, line: &str) -> bool {
    match expected.split_once("...") {
        None => expected == line,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| is_like(after, &rest[at..]))
        }),
    }
}

/// Tells whether lines are those that are expected, in which `...` stands for any.
fn fits(expected: &[&str], lines: &[&str]) -> bool {
    match expected {
        [] => lines.is_empty(),
        ["...", rest @ ..] => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        [first, rest @ ..] => {
            lines.first().is_some_and(|line| is_like(first, line)) && fits(rest, &lines[1..])
        }
    }
}

/// A folder in which a page's commands run, with its files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn of(page: &str) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        for block in blocks(page).iter().filter(|block| block.kind != "console") {
            let Some(name) = file_name(block.text) else { continue };
            assert!(!dir.path().join(name).exists(), "{name} is there twice");
            fs::write(dir.path().join(name), block.text).unwrap();
        }
        fs::create_dir(dir.path().join("images")).unwrap();
        let (lib, include) = (library::dir().display(), root().join("include"));
        let package = format!(
            "Name: penny\nDescription: -\nVersion: 0\nCflags: -I{}\nLibs: -L{lib} -lpenny\n",
            include.display()
        );
        fs::write(dir.path().join("penny.pc"), package).unwrap();
        Folder(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A command of a shell that finds `penny` and the library.
    fn command(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        let penny = Path::new(env!("CARGO_BIN_EXE_penny")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        shell
            .args(["-c", command])
            .current_dir(self.path())
            .env("PATH", format!("{}:{path}", penny.display()))
            .env("PKG_CONFIG_PATH", self.path())
            .env("LD_LIBRARY_PATH", library::dir())
            .env("XDG_CACHE_HOME", self.path());
        shell
    }
}

/// Runs the commands of a page; how many there were.
fn run(name: &str, page: &str) -> usize {
    let has_pkg_config = compiler::exists("pkg-config");
    if !has_pkg_config && page.contains("$(pkg-config") {
        eprintln!("SKIPPED: {name}: there is no pkg-config on this machine");
        return 0;
    }
    let folder = Folder::of(page);
    let mut commands = 0;
    for block in blocks(page) {
        let must_fail = match block.kind {
            "console" => false,
            "console,fails" => true,
            _ => continue,
        };
        for command in format!("\n{}", block.text).split("\n$ ").skip(1) {
            let (command, expected) = command.split_once('\n').unwrap_or((command, ""));
            let output = folder.command(command).output().unwrap();
            let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.success(), !must_fail, "{name}: {command}: {printed}");
            let (expected, lines): (Vec<_>, Vec<_>) = (expected.lines().collect(), printed.lines().collect());
            assert!(fits(&expected, &lines), "{name}: {command}\nprints\n{printed}");
            commands += 1;
        }
    }
    for image in fs::read_dir(folder.path().join("images")).unwrap().map(|entry| entry.unwrap()) {
        let kept = root().join("docs/images").join(image.file_name());
        assert!(
            fs::read(&kept).ok() == fs::read(image.path()).ok(),
            "{} is not what the command on the page {name} draws",
            kept.display()
        );
    }
    commands
}

/// The pages in docs, with their names.
fn pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    pages
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_command_of_a_page_prints_what_it_says() {
    let commands: usize = pages().iter().map(|(name, page)| run(name, page)).sum();
    assert!(commands >= 6, "{commands} commands");
}

#[test]
fn every_block_of_a_page_is_run_or_known_to_another_test() {
    // Python's: python/tests/torch; machines' files: src/tests/machines; the others are no programs.
    let known = ["python", "toml", "yaml", "cmake", "grammar", "text", "console", "console,fails"];
    for (name, page) in pages() {
        let files: Vec<&str> = blocks(&page).iter().filter_map(|block| file_name(block.text)).collect();
        for block in blocks(&page) {
            let is_file = file_name(block.text).is_some_and(|file| files.contains(&file));
            assert!(known.contains(&block.kind) || is_file, "{name}: a block of {:?}", block.kind);
            if is_file && ["c", "cpp"].contains(&block.kind) {
                let compiled = format!(" {} $(pkg-config", file_name(block.text).unwrap());
                assert!(page.contains(&compiled), "{name} does not compile {:?}", file_name(block.text));
            }
        }
    }
}

#[test]
fn dots_stand_for_any_text_and_nothing_else_does() {
    assert!(fits(&["a", "...", "b"], &["a", "x", "y", "b"]) && fits(&["..."], &[]));
    assert!(fits(&["a...c", "...b"], &["abbc", "b"]) && fits(&["a......"], &["a"]));
    assert!(!fits(&["a", "b"], &["a", "x", "b"]) && !fits(&["a"], &["a", "b"]));
    assert!(!fits(&["a...c"], &["abb"]) && !fits(&["a...c"], &["ab", "c"]) && !fits(&["a"], &["ab"]));
}

/// The anchors of a page: its headings, as GitHub and mdBook write them.
fn anchors(page: &str) -> Vec<String> {
    let headings = page
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings
        .map(|heading| {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

/// The targets of a page's links, but for those to other sites.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.starts_with("https://")).collect()
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed = links(&summary);
    for (name, _) in pages() {
        assert!(name == "SUMMARY.md" || listed.contains(&&*name), "docs/SUMMARY.md does not list {name}");
    }
    for name in listed.iter().copied().chain(["SUMMARY.md"]) {
        let path = root().join("docs").join(name);
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for link in links(&page) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{name} links to {link}");
            if !anchor.is_empty() {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                assert!(
                    headings.iter().any(|heading| heading == anchor),
                    "{name} links to {link}: {headings:?}"
                );
            }
        }
    }
}

/// The values in backticks of the line of a section that begins with this word.
fn values<'a>(section: &'a str, word: &str) -> Vec<&'a str> {
    let line = section.lines().find(|line| line.starts_with(word)).unwrap_or_default();
    line.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_page_of_variables_has_a_section_for_each_and_its_values_are_taken_or_refused() {
    let (_, page) = pages().into_iter().find(|(name, _)| name == "variables.md").unwrap();
    let sections: Vec<(&str, &str)> =
        page.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let names: Vec<&str> = sections.iter().map(|(name, _)| *name).collect();
    let known: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
    assert_eq!(names, known, "docs/variables.md has a section for each variable of src/env.rs, in its order");
    for (variable, (name, section)) in VARIABLES.iter().zip(&sections) {
        let about = format!("{}.", variable.about);
        assert!(section.lines().any(|line| line == about), "{name}: docs/variables.md does not say: {about}");
        assert!(section.contains("\n```grammar\nvalue "), "{name} has no grammar");
    }
    if !compiler::exists("pkg-config") {
        return eprintln!("SKIPPED: there is no pkg-config on this machine");
    }
    let folder = Folder::of(&page);
    let compile = "cc -o values values.c $(pkg-config --cflags --libs penny)";
    assert!(folder.command(compile).status().unwrap().success());
    for (name, section) in &sections {
        for (word, taken) in [("Taken:", true), ("Refused:", false)] {
            for value in values(section, word) {
                let output = folder.command("penny run -n 1 ./values").env(name, value).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.success(), taken, "{name}={value}: {said}");
                assert!(taken || said.contains(name) || said.contains("machine"), "{name}={value}: {said}");
            }
        }
    }
}
