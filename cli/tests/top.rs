//! `penny top` beside running jobs: what ranks have done, and which NICs an algorithm uses.

use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use penny_ffi_tests::{compiler, root};
use serde_json::Value;

/// Two jobs of sixteen ranks at once would only wait for each other.
static ONE: Mutex<()> = Mutex::new(());

/// Ranks that make one large all-reduce after the other, until dropped.
struct Busy(Child, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Busy {
    fn on_a_machine(algo: &str) -> Busy {
        Busy::start(&format!(
            "perf all_reduce -n 16 -b 1M -e 256M -i 1M --fabric dgx-h100 --nodes 2 --algo {algo} --timeout 400"
        ))
    }

    fn start(line: &str) -> Busy {
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
        command
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Busy(command.spawn().unwrap(), alone)
    }

    fn top(&self, options: &str) -> Output {
        let line = format!("top {options} --pid {}", self.0.id());
        Command::new(env!("CARGO_BIN_EXE_penny")).args(line.split_whitespace()).output().unwrap()
    }

    /// The job, once its ports have carried something that shows.
    fn seen(&mut self) -> Value {
        let carried = |port: &Value| port["bytes"].as_u64() > Some(1 << 20);
        self.seen_once(|job| job["ports"].as_array().unwrap().iter().any(carried))
    }

    /// The job, once that holds.
    fn seen_once(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            assert!(self.0.try_wait().unwrap().is_none(), "the ranks ended before they were seen");
            let output = self.top("--json");
            if output.status.success() {
                let mut jobs: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(jobs.as_array().unwrap().len(), 1, "several holders, one job: {jobs}");
                if holds(&jobs[0]) {
                    return jobs[0].take();
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // The launcher ends its ranks; killed, it could not.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// NICs of each node that transmit and receive.
fn nics(job: &Value) -> Vec<[u64; 3]> {
    let counts =
        |node: &Value| ["nics", "transmitting", "receiving"].map(|what| node[what].as_u64().unwrap());
    job["nodes"].as_array().unwrap().iter().map(counts).collect()
}

#[test]
fn a_plain_ring_keeps_one_nic_a_node_busy() {
    let mut busy = Busy::on_a_machine("ring");
    let job = busy.seen();
    assert_eq!(nics(&job), [[8, 1, 1], [8, 1, 1]]);
    assert_eq!((&job["machine"], &job["ranks"]), (&"dgx-h100:nodes=2".into(), &16.into()));
    assert_eq!(job["pids"].as_array().unwrap().len(), 16);
    assert!(job["most_clock_ps"].as_u64() > Some(0) && job["calls"].as_u64() > Some(0));
    let text = String::from_utf8(busy.top("--once").stdout).unwrap();
    assert!(text.starts_with("dgx-h100:nodes=2  16 ranks (16 processes"), "{text}");
    assert!(text.contains("\nn1: 1 of 8 NICs transmit, 1 of 8 receive, idle: "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("n1.g7.nic.tx  leaf ")), "{text}");
}

#[test]
fn alternating_rings_keep_all_nics_busy_both_ways() {
    let mut busy = Busy::on_a_machine("alternating_rings");
    assert_eq!(nics(&busy.seen()), [[8, 8, 8], [8, 8, 8]]);
}

#[test]
fn an_ordinary_job_has_a_line_a_rank_in_text_json_and_metrics() {
    let mut busy = Busy::start("perf all_reduce -n 2 -b 64K -e 256M -i 64K");
    let job = busy.seen_once(|job| {
        let has_called =
            |rank: &Value| rank["collectives"][0]["calls"].as_u64() > Some(10) && rank["recent"].is_object();
        job["ranks"].as_array().is_some_and(|ranks| ranks.len() == 2 && ranks.iter().all(has_called))
    });
    for rank in job["ranks"].as_array().unwrap() {
        let all_reduces = &rank["collectives"][0];
        assert_eq!(all_reduces["collective"], "all_reduce");
        assert!(all_reduces["bytes"].as_u64().unwrap() >= all_reduces["calls"].as_u64().unwrap(), "{rank}");
        assert!(job["pids"].as_array().unwrap().contains(&rank["pid"]) && rank["of"] == 2, "{rank}");
        assert!(rank["last_call"].as_str().unwrap().starts_with('#'), "{rank}");
    }
    let text = |options: &str| String::from_utf8(busy.top(options).stdout).unwrap();
    let screen = text("--once --sort rank");
    let starts: Vec<&str> = screen.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(starts, ["2", "RANK", "0", "1"], "{screen}");
    assert!(screen.contains("2 ranks (2 processes") && screen.contains("BYTES/S"), "{screen}");
    let metrics = text("--metrics");
    let parsed = prometheus_parse::Scrape::parse(metrics.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let waits = parsed.samples.iter().filter(|sample| sample.metric == "penny_wait_seconds_total");
    assert_eq!(waits.count(), 2, "{metrics}");
    assert!(metrics.contains("rank=\"1\",collective=\"all_reduce\"} "), "{metrics}");
}

#[test]
fn communicators_that_the_same_processes_have_made_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("two");
    compiler::program(&root().join("cli/tests/fixtures/two_communicators.c"), &program);
    let mut busy = Busy::start(&format!("run -n 2 {}", program.display()));
    // A message ends after both communicators are there.
    let screen = loop {
        assert!(busy.0.try_wait().unwrap().is_none(), "the ranks ended before they were seen");
        let screen = String::from_utf8(busy.top("--once").stdout).unwrap();
        if screen.contains("messages: 0 sent, 1 received") {
            break screen;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let headings: Vec<&str> =
        screen.lines().filter_map(|line| line.split("  communicator ").nth(1)).collect();
    assert!(headings.len() == 2 && headings[0].starts_with("1 of 2 of these processes"), "{screen}");
    assert!(headings[1].starts_with("2 of 2 of these processes"), "{screen}");
    assert!(screen.contains("  messages: 1 sent, 0 received"), "{screen}");
}

#[test]
fn without_a_job_the_sentence_says_how_to_start_one() {
    let mut bystander = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = bystander.id().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_penny")).args(["top", "--once", "--pid", &pid]).output();
    drop(bystander.stdin.take());
    bystander.wait().unwrap();
    let output = output.unwrap();
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && sentence.contains(&format!("process {pid} belongs to no")),
        "{sentence}"
    );
    assert!(sentence.contains("leave --pid out"), "{sentence}");
}
