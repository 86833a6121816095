//! `penny report`: one page from the files of other commands.

use std::path::Path;
use std::process::{Command, Output};

fn penny(line: &str, folder: &Path) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_penny")).args(line.split(' ')).current_dir(folder).output();
    output.expect("penny starts")
}

fn answer(line: &str, folder: &Path) -> String {
    let output = penny(line, folder);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_page_shows_measurements_simulations_and_a_timeline_and_loads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    answer("perf all_reduce -n 2 -b 1K -e 4K -f 4 --iters 2 --algorithm ring,two_shot --json runs.json", at);
    let simulated =
        answer("sim all_reduce --fabric dgx-h100 -b 1K -e 4K -f 4 --algorithm ring,tree --json", at);
    std::fs::write(at.join("machine.json"), simulated).unwrap();
    answer("trace all_reduce --fabric t3000 -b 64K --algorithm ring -o ring.json", at);
    answer("report runs.json machine.json ring.json -o page.html --title <Runs>", at);
    let page = std::fs::read_to_string(at.join("page.html")).unwrap();
    for part in [
        "<title>&lt;Runs&gt;</title>",
        "4 runs and 1 trace<",
        "<h2>all_reduce</h2>",
        "tree on dgx-h100, 8 ranks",
        "<h2>timeline of ring.json</h2>",
        "<td class=\"text\">right</td>",
        "<p class=\"note\">measured out of place</p>",
        "data-end=",
        "messages on",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Both sizes of four runs in each chart, and a marker at each name beside the charts and in the table.
    assert_eq!(page.matches("<polygon").count(), 4 * (2 * 2 + 2));
    let linked = page.matches("//").count() - page.matches("http://www.w3.org/").count();
    assert_eq!(linked, 0, "the page names no other address than that of SVG");
    assert!(!page.contains("src="));
}

#[test]
fn what_is_no_result_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (text, why) in [
        ("\n", "(it is empty)"),
        ("size time", "is not what penny perf --json"),
        ("[{\"version\":1}]", "is not what penny perf --json"),
        ("{\"traceEvents\":[]}", "the trace has no messages"),
    ] {
        std::fs::write(at.join("x.json"), text).unwrap();
        let refused = penny("report x.json", at);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains("x.json") && said.contains(why), "{said}");
    }
    let missing = penny("report y.json", at);
    assert!(String::from_utf8(missing.stderr).unwrap().contains("y.json: cannot be read: No such file"));
    assert!(!at.join("report.html").exists(), "nothing is left");
}
