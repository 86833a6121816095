//! What the command says when it is not understood, and when it is asked.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

fn penny(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_penny")).args(line.split_whitespace()).output().unwrap()
}

/// Standard error of a line that must be refused with exit code 2.
fn refusal(line: &str) -> String {
    let output = penny(line);
    assert_eq!(output.status.code(), Some(2), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

fn answer(line: &str) -> String {
    let output = penny(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_unknown_collective_is_answered_with_the_known_ones() {
    for command in ["perf", "plan"] {
        let text = refusal(&format!("{command} all_reduse -n 2"));
        assert!(text.contains("all_reduce, reduce, broadcast"), "{text}");
    }
}

#[test]
fn nothing_is_offered_that_is_always_refused() {
    for command in ["sim", "trace", "plan"] {
        let help = answer(&format!("{command} --help"));
        let lists = help.split("[possible values: ").skip(1).map(|list| list.split_once(']').unwrap().0);
        let words: Vec<&str> = lists.flat_map(|list| list.split(", ")).collect();
        assert!(words.contains(&"all_reduce") && words.contains(&"float"), "{words:?}");
        for refused in ["barrier", "sendrecv", "permute", "all"] {
            assert!(!words.contains(&refused), "{command}: {words:?}");
        }
    }
}

#[test]
fn no_ranks_are_too_few() {
    for line in ["run -n 0 true", "perf all_reduce -n 0", "plan all_reduce -n 0"] {
        assert!(refusal(line).contains("--ranks"), "{line}");
    }
}

#[test]
fn a_size_that_does_not_parse_names_its_option() {
    assert!(refusal("perf all_reduce -n 2 -b huge").contains("--minbytes"));
    assert!(refusal("plan all_reduce -n 2 -b huge").contains("--bytes"));
}

#[test]
fn a_first_size_above_the_default_of_the_last_is_measured_alone() {
    let table = answer("perf all_reduce -n 1 -b 40M --iters 1 -w 0 -c 0");
    let sizes: Vec<&str> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(sizes, ["41943040"], "{table}");
}

#[test]
fn a_call_of_no_elements_takes_no_time_live_and_simulated() {
    for command in [
        "perf all_gather -w 0",
        "sim all_gather",
        "sim all_gather --iters 20",
        "sim all_gather --algorithm ring",
    ] {
        // 8 bytes are less than an element of each of 4 ranks.
        let table = answer(&format!("{command} -n 4 --fabric dgx-h100 -b 8 -e 8"));
        let row = table.lines().find(|line| !line.starts_with('#')).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let time = if command.starts_with("sim") { 3 } else { 5 };
        assert_eq!((words[0], words[1], words[time]), ("0", "0", "0.00"), "{command}: {table}");
    }
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in
        ["run", "perf", "perf exchange", "plan", "sim", "trace", "calibrate", "algorithms", "algos", "doctor"]
    {
        let text = answer(&format!("{command} --help"));
        assert!(text.contains("Examples:\n  "), "{text}");
    }
    assert!(answer("--version").starts_with("penny "));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    // More than a pipe holds, so that the writer meets the closed end.
    let mut child = Command::new(env!("CARGO_BIN_EXE_penny"))
        .args(["plan", "all_reduce", "-n", "64", "-b", "1M"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn the_table_of_algorithms_has_what_plans_can_be_made_of() {
    let rows: serde_json::Value = serde_json::from_str(&answer("algorithms --json")).unwrap();
    let text = answer("algorithms");
    let rows = rows.as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let (name, serves) = (row["name"].as_str().unwrap(), row["serves"][0].as_str().unwrap());
        assert!(text.contains(name));
        // Some need to know of links or switches.
        let machine = match name {
            "neighbour_rings" => "--fabric t3000:shape=2x2",
            "in_switch" => "--fabric dgx-h100:places=4",
            "in_switch_trees" => "--fabric dgx-h100:places=2,nodes=2",
            _ => "",
        };
        let plan = answer(&format!("plan {serves} -n 4 -b 1K --algorithm {name} {machine}"));
        assert!(plan.contains(name), "{plan}");
    }
}

#[test]
fn a_plan_in_json_has_a_program_for_each_rank() {
    let plan: serde_json::Value =
        serde_json::from_str(&answer("plan broadcast -n 5 -b 1K --root 3 --algo tree --json")).unwrap();
    assert_eq!(plan["programs"].as_array().unwrap().len(), 5);
    assert_eq!(plan["root"], 3);
}

#[test]
fn an_algorithm_that_cannot_plan_is_answered_with_those_that_can() {
    let output = penny("plan alltoall -n 4 --algo tree");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("pairwise"), "{text}");
}

#[test]
fn the_doctor_warns_of_a_variable_that_does_not_exist() {
    let output = Command::new(env!("CARGO_BIN_EXE_penny"))
        .args(["doctor", "--json"])
        .env("PENNY_TIMEOT", "3")
        .output()
        .unwrap();
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let facts = facts.as_array().unwrap();
    let stray = facts.iter().find(|fact| fact["subject"] == "PENNY_TIMEOT").unwrap();
    assert_eq!(stray["level"], "warn");
    assert!(stray["remedy"].as_str().unwrap().contains("PENNY_TIMEOUT?"));
    for subject in ["cores", "memory", "/dev/shm", "memfd", "RLIMIT_NOFILE", "PENNY_ALGO", "launcher mpirun"]
    {
        assert!(facts.iter().any(|fact| fact["subject"] == subject), "{subject}");
    }
}

#[test]
fn a_simulation_prices_every_algorithm_that_is_asked_for() {
    let line =
        "sim all_reduce --fabric dgx-h100 --nodes 2 -b 8M --algo ring,alternating_rings --counters --json";
    let rows: Vec<serde_json::Value> =
        answer(line).lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(
        rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect::<Vec<_>>(),
        ["ring", "alternating_rings"]
    );
    let time = |row: &serde_json::Value| row["time_ps"].as_u64().unwrap();
    assert!(time(&rows[1]) < time(&rows[0]));
    let nics = |row: &serde_json::Value| {
        let ports = row["ports"].as_array().unwrap();
        ports.iter().filter(|port| port["port"].as_str().unwrap().ends_with(".nic.tx")).count()
    };
    assert_eq!((nics(&rows[0]), nics(&rows[1])), (2, 16));
    let auto = answer("sim all_reduce --fabric dgx-h100 --nodes 2 -b 8M --json");
    let all = answer("sim all_reduce --fabric dgx-h100 --nodes 2 -b 8M --algo all --json");
    let quickest = all.lines().map(|row| time(&serde_json::from_str(row).unwrap())).min();
    assert_eq!(Some(time(&serde_json::from_str(&auto).unwrap())), quickest);
}

#[test]
fn a_simulation_that_cannot_be_is_refused_with_the_remedy() {
    for (line, remedy) in [
        ("sim all_reduce --fabric dgx-h200 -b 1M", "dgx-h100"),
        ("sim all_reduce --fabric dgx-h100 -n 9 -b 1M", "8 places"),
        ("sim all_reduce --fabric dgx-h100 -b 1M --algo rong", "alternating_rings"),
        ("sim alltoall --fabric dgx-h100 -b 1M --algo tree", "pairwise"),
        ("sim broadcast --fabric t3000 -b 1M --root 8", "ranks are 0 to 7"),
        ("sim all_reduce --fabric t3000:shape=3x3 -b 1M --algo neighbour_rings", "ask for ring or ring_pair"),
        ("sim all_reduce --fabric dgx-a100 -b 1M --algo in_switch", "in_switch in a machine's file"),
        ("plan all_reduce -n 4 --algo neighbour_rings", "direct links of a declared machine"),
        ("topo print dgx", "dgx-h100"),
        ("topo check ./not-there.toml", "not-there.toml"),
    ] {
        let output = penny(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(remedy), "{line}: {text}");
    }
}

#[test]
fn every_machine_that_is_listed_can_be_shown_and_checked() {
    for row in answer("topo list").lines() {
        let name = row.split_whitespace().next().unwrap();
        assert!(answer(&format!("topo check {name}")).contains("places"));
        assert!(answer(&format!("topo print {name}")).contains(name));
    }
    assert!(answer("topo show t3000").lines().count() > 8);
    assert!(answer("topo show t3000").ends_with("4 neighbour_rings; ring goes 0 1 3 5 7 6 4 2\n"));
    let line = answer("sim all_reduce --fabric n300:shape=5 -b 1K --algo ring");
    assert!(
        line.contains("# rings: no cycle over the links was found") && line.contains("passes 2 links"),
        "{line}"
    );
}

#[test]
fn one_of_a_kind_has_no_plural() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mailboxes.toml");
    let ring = "[class.w]\nbw = \"1GB/s\"\nlat = \"1us\"\n[ring]\nshape = \"3\"\nlink = \"w\"\n";
    let mailbox = "[mailbox]\nthreads = 1\ncores = 1\ncycle = \"4ns\"\n";
    std::fs::write(&file, format!("name = \"m\"\n{ring}{mailbox}")).unwrap();
    let shown = answer(&format!("topo show {}", file.display()));
    assert!(shown.contains("a mailbox of 1 thread on 1 core:"), "{shown}");
    for shown in [shown, answer("topo host"), answer("topo show dgx-h100-superpod:nodes=2")] {
        for plural in ["nodes", "threads", "cores", "links", "switches"] {
            assert!(!shown.contains(&format!(" 1 {plural}")), "{shown}");
        }
    }
}

#[test]
fn a_trace_has_a_span_for_every_message_at_every_port() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ring.json");
    let line = format!(
        "sim all_reduce --fabric t3000 -b 64K --algo ring --counters --json --trace {}",
        file.display()
    );
    let row: serde_json::Value = serde_json::from_str(&answer(&line)).unwrap();
    let ports = row["ports"].as_array().unwrap().iter();
    let messages: u64 = ports.map(|port| port["messages"].as_u64().unwrap()).sum();
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    // Each span is shown twice: among its rank's tracks and among the ports'.
    assert_eq!(events.filter(|event| event["ph"] == "X").count() as u64, 2 * messages);
    let alone = answer("trace all_reduce --fabric t3000 -b 64K --algo ring");
    assert_eq!(alone, std::fs::read_to_string(&file).unwrap());
    let refused = penny("sim all_reduce --fabric t3000 -b 64K --algo ring,tree --trace x.json");
    assert!(String::from_utf8(refused.stderr).unwrap().contains("one algorithm"));
}

#[test]
fn a_plot_has_a_line_for_every_method_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.svg");
    let algorithms = ["ring", "tree", "two_shot"];
    let line = format!(
        "sim all_reduce --fabric dgx-h100 -b 1K -e 1M -f 4 --algo {} --plot {}",
        algorithms.join(","),
        file.display()
    );
    let table = answer(&line);
    let drawing = std::fs::read_to_string(&file).unwrap();
    // A marker a row in each of two charts, and one at the name; the axes say what they are.
    assert_eq!(drawing.matches("<polygon").count(), 3 * (2 * 6 + 1));
    assert_eq!(table.lines().filter(|line| !line.starts_with('#')).count(), 6 * algorithms.len());
    for word in algorithms.iter().chain(&["bytes", "time, us", "bus bandwidth, GB/s", "64K", "dgx-h100"]) {
        assert!(drawing.contains(word), "{word}");
    }
    // One place has no bus.
    let refused = penny(&format!("sim all_reduce --fabric dgx-h100 -n 1 -b 1M --plot {}", file.display()));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("nothing to draw"));
    for (file, sentence) in
        [("x.png", "name the file x.svg"), ("/no/such/folder/x.svg", "there is no folder /no/such/folder")]
    {
        let refused = penny(&format!("perf all_reduce -n 2 -b 8 -e 8 --plot {file}"));
        assert!(refused.stdout.is_empty(), "it is refused before anything is measured");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("--plot") && said.contains(sentence), "{said}");
    }
}

#[test]
fn the_ways_of_a_large_machine_are_those_of_its_first_places() {
    let text = answer("topo show dgx-h100:nodes=32");
    assert!(text.contains("\n127  ") && !text.contains("\n128  "));
    assert!(text.contains("\nthe ways between the first 128 of 256 places\n"));
}

#[test]
fn a_folder_is_no_file_to_write() {
    let said = refusal("perf all_reduce -n 2 -b 8 -e 8 --json /");
    assert!(said.contains("--json") && said.contains("is a folder; name a file"), "{said}");
}

#[test]
fn a_dash_is_standard_input_and_output_but_no_file_beside_a_table() {
    const TRACE: &str = "trace all_reduce --fabric dgx-h100 -n 2 -b 1M --algorithm ring";
    let trace = answer(&format!("{TRACE} -o -"));
    assert_eq!(trace, answer(TRACE));
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    let mut report = command
        .args(["report", "-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    report.stdin.take().unwrap().write_all(trace.as_bytes()).unwrap();
    let page = String::from_utf8(report.wait_with_output().unwrap().stdout).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page:.80}");
    let drawing = answer("topo draw dgx-h100 -o -");
    assert!(drawing.starts_with("<svg") || drawing.starts_with("<?xml"), "{drawing:.80}");
    for line in
        ["perf all_reduce -n 2 -b 8 -e 8 --json -", "sim all_reduce --fabric dgx-h100 -b 1M --trace -"]
    {
        let said = refusal(line);
        assert!(said.contains("the table goes to standard output; name a file"), "{said}");
    }
}

#[test]
fn lines_that_a_full_disk_loses_are_told() {
    for line in
        ["perf all_reduce -n 2 -b 8 -e 8", "run -n 2 --tag echo lost", "--help", "perf --help", "--version"]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
        let full = std::fs::File::create("/dev/full").unwrap();
        let lost = command.args(line.split_whitespace()).stdout(full).output().unwrap();
        let said = String::from_utf8(lost.stderr).unwrap();
        assert!(lost.status.code() == Some(1) && said.contains("cannot write: No space"), "{line}: {said}");
    }
}

#[test]
fn a_value_that_is_no_text_is_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    command.args(["perf", "all_reduce", "-n", "1", "-b", "8", "-e", "8"]);
    let refused = command.env("PENNY_TIMEOUT", OsStr::from_bytes(b"5\xff")).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("PENNY_TIMEOUT is `5\u{fffd}`"), "{said}");
}

#[test]
fn a_simulation_says_of_which_machine_it_is() {
    let hash = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(&answer(line)).unwrap();
        row["fabric_hash"].as_str().unwrap().to_owned()
    };
    let one = hash("sim all_reduce --fabric dgx-h100:nodes=2 -b 1M --json");
    assert_eq!(one, hash("sim broadcast --fabric dgx-h100 --nodes 2 -b 8K --slice auto --json"));
    assert_ne!(one, hash("sim all_reduce --fabric dgx-h100 -b 1M --json"));
    assert!(answer("sim all_reduce --fabric dgx-h100 --nodes 2 -b 1M").contains(&one));
}
