//! The errors against published tables do not grow beyond what is written down, and a table that is wrong is refused.

use std::process::{Command, Output};

fn published(files: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    command.args(["sim", "--published"]).args(files).output().unwrap()
}

/// The output for a table with these rows and bounds.
fn of_table(rows: &str, within: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.toml");
    let text = format!(
        "[[table]]\nname = \"t\"\nsource = \"s\"\nmachine = \"dgx-h100\"\ncollective = \"all_reduce\"\nrows = {rows}\nwithin = {within}\n"
    );
    std::fs::write(&file, text).unwrap();
    published(&[file.to_str().unwrap()])
}

#[test]
fn the_errors_against_published_tables_are_within_what_is_written_down() {
    let output = published(&[concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/published/all_reduce.toml")]);
    let (text, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{why}{text}");
    assert!(
        text.lines().filter(|line| line.starts_with("# ") && line.contains("geometric mean")).count() > 20,
        "{text}"
    );
}

#[test]
fn a_table_that_is_missed_by_more_than_it_accepts_is_an_error_that_names_it() {
    assert!(of_table("[[8, 0.6], [1048576, 6.5]]", "[1000, 1000, 1000]").status.success());
    // The algorithm that a source names is taken, be it the slowest.
    let ring = of_table("[[8, 8.4]]\nalgorithm = \"ring\"", "[1, 1, 1]");
    assert!(ring.status.success(), "{}", String::from_utf8_lossy(&ring.stderr));
    let output = of_table("[[8, 60.0]]", "[15, 15, 15]");
    let why = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(why.contains("t, up to 4 KiB: the mean error is"), "{why}");
}

#[test]
fn a_series_has_a_mean_of_its_own_and_fitted_tables_stand_apart() {
    let of_series = |within: u32| {
        of_table(
            "[[8, 1.2]]\nfitted = true\nseries = \"s\"",
            &format!("[1000, 1000, 1000]\n[[series]]\nname = \"s\"\nwithin = {within}"),
        )
    };
    let output = of_series(1000);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("; fitted to it\n"), "{text}");
    assert!(text.contains("# s: 1 rows, ") && text.contains("# all tables: 1 rows, "), "{text}");
    let why = String::from_utf8(of_series(10).stderr).unwrap();
    assert!(why.contains("s: the mean error is ") && why.contains("more than the 10 %"), "{why}");
}

#[test]
fn an_anchors_row_does_not_count_and_is_priced_as_it_was_measured() {
    let with = |machine: &str| {
        let text = format!(
            "[[table]]\nname = \"t\"\nsource = \"s\"\nmachine = \"{machine}\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n\
             rows = [[8, 18.40], [1024, 18.42]]\nwithin = [0.5, 1, 1]\nanchor = 8\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table.toml");
        std::fs::write(&file, text).unwrap();
        published(&[file.to_str().unwrap()])
    };
    let output = with("dgx-h100:launch=10us");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("its launch by the row of 8 bytes, which does not count"), "{text}");
    assert!(text.contains("# all tables: 1 rows, "), "{text}");
    let why = String::from_utf8(with("dgx-h100:launch=11us").stderr).unwrap();
    assert!(
        why.contains("t: the row of 8 bytes is the anchor, and 19.40 us is not what was measured"),
        "{why}"
    );
}

#[test]
fn what_is_wrong_in_a_table_is_said_with_the_remedy() {
    for (rows, within, said) in [
        ("[[8]]", "[1, 1, 1]", "each row is bytes and microseconds"),
        ("[[8, 0]]", "[1, 1, 1]", "both above 0"),
        ("8", "[1, 1, 1]", "rows: a list is missing"),
        ("[[8, 1]]", "[1, 1]", "within: three numbers"),
        ("[[8, 1]]\nrank = 3", "[1, 1, 1]", "there is no key `rank`; there are name, source"),
        ("[[8, 1]]\nalgorithm = \"rong\"", "[1, 1, 1]", "rong"),
        ("[[8, 1]]\nanchor = 16", "[1, 1, 1]", "anchor: no row has this size"),
        ("[[8, 1]]\nfitted = 1", "[1, 1, 1]", "fitted: write true or false"),
        ("[[8, 1]]\nseries = \"s\"", "[1, 1, 1]", "there is no [[series]] with name = \"s\""),
        ("[[8, 1]]", "[1, 1, 1]\n[[series]]\nname = \"s\"", "[[series]] 1: within: a number"),
        ("[[8, 1]]\nalgorithm = 3", "[1, 1, 1]", "algorithm: a text is missing"),
    ] {
        let output = of_table(rows, within);
        let why = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{rows}");
        assert!(why.contains(said), "{rows} {within}: {why}");
    }
}
