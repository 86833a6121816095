//! `penny run`, with small shell programs as ranks.

mod interrupts;
mod sessions;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;

fn penny() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    // A test run in the background of a shell, or by nohup, ignores the terminal's signals, and children inherit that.
    // SAFETY: between fork and exec only signal dispositions are set.
    unsafe {
        command.pre_exec(|| {
            for terminal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
                signal(terminal, SigHandler::SigDfl)?;
            }
            Ok(())
        });
    }
    command
}

/// `penny run -n ranks options sh -c script`.
fn launch(ranks: u32, options: &[&str], script: &str) -> Command {
    let mut command = penny();
    // The time-out only ends what would otherwise hang.
    command
        .args(["run", "-n", &ranks.to_string(), "--timeout", "60"])
        .args(options)
        .args(["sh", "-c", script]);
    command.stdin(Stdio::null());
    command
}

fn run(ranks: u32, options: &[&str], script: &str) -> Output {
    launch(ranks, options, script).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A reader that has gone: what is written to it is `BrokenPipe`.
fn nobody() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

#[test]
fn a_sentence_that_nobody_reads_changes_no_exit_code() {
    let status = launch(2, &[], "test $RANK = 1 || exit 7; sleep 9").stderr(nobody()).status().unwrap();
    assert_eq!(status.code(), Some(7));
    let status =
        penny().args(["plan", "broadcast", "-n", "4", "--root", "7"]).stderr(nobody()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

fn pids(text: &str) -> Vec<Pid> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw).collect()
}

/// Still running; a zombie that its new parent has not reaped yet is not.
fn runs(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// Waits until a process is gone; ten seconds are no measurement but the end of patience, and of the process.
fn goes(pid: Pid) -> bool {
    let gone = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !runs(pid)
    });
    if !gone {
        let _ = kill(pid, Signal::SIGKILL);
    }
    gone
}

/// Reads whitespace-separated process ids from a child's output until there are as many as wanted.
fn read_pids(child: &mut Child, wanted: usize) -> (Vec<Pid>, impl BufRead + use<>) {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut all = Vec::new();
    while all.len() < wanted {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the launcher ended early");
        all.extend(pids(&line));
    }
    (all, reader)
}

fn scratch(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn each_rank_knows_its_place() {
    let script = "echo $PENNY_RANK/$PENNY_WORLD_SIZE $PENNY_LOCAL_RANK/$PENNY_LOCAL_SIZE $PENNY_JOB_ID";
    let (first, second) = (run(3, &[], script), run(3, &[], script));
    assert!(first.status.success());
    let text = out(&first);
    let ids: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let places: BTreeSet<_> = text.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(places, BTreeSet::from(["0/3 0/3", "1/3 1/3", "2/3 2/3"]));
    assert_eq!(ids.len(), 1, "one job, one id: {text}");
    let id = ids.first().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    assert!(!out(&second).contains(id), "the next job has another");
}

/// Prints torchrun's variables.
const TORCHRUN: &str = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT";
const TORCHRUN_NAMES: [&str; 6] =
    ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];

#[test]
fn each_rank_finds_torchruns_variables() {
    let mut command = launch(2, &[], TORCHRUN);
    for name in TORCHRUN_NAMES {
        command.env_remove(name);
    }
    let text = out(&command.output().unwrap());
    let mut lines: Vec<_> = text.lines().map(|line| line.rsplit_once(' ').unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(
        lines.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
        ["0/2 0/2 127.0.0.1", "1/2 1/2 127.0.0.1"]
    );
    assert!(lines[0].1.parse::<u16>().is_ok_and(|port| port > 0), "{text}");
    assert_eq!(lines[0].1, lines[1].1, "one port for all");
}

#[test]
fn torchruns_variables_that_the_user_has_set_stay() {
    let mut command = launch(1, &[], TORCHRUN);
    for name in TORCHRUN_NAMES {
        command.env_remove(name);
    }
    command.envs([("RANK", "3"), ("WORLD_SIZE", "8"), ("MASTER_ADDR", "elsewhere"), ("MASTER_PORT", "77")]);
    assert_eq!(out(&command.output().unwrap()), "3/8 / elsewhere 77\n");
}

#[test]
fn the_first_bad_exit_code_is_the_launchers() {
    let output = run(3, &[], "[ $PENNY_RANK = 1 ] && exit 42; sleep 1000");
    assert_eq!(output.status.code(), Some(42));
    assert!(
        err(&output).contains("rank 1 (PID ") && err(&output).contains("exited with code 42"),
        "{}",
        err(&output)
    );
}

#[test]
fn all_good_is_good_and_silent() {
    let output = run(4, &[], "exit 0");
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

#[test]
fn a_rank_killed_by_a_signal_is_named_with_it() {
    let output = run(2, &[], "[ $PENNY_RANK = 0 ] && kill -SEGV $$; sleep 1000");
    assert_eq!(output.status.code(), Some(128 + 11));
    assert!(err(&output).contains("rank 0 (PID ") && err(&output).contains("SIGSEGV"), "{}", err(&output));
}

#[test]
fn the_killed_rank_is_named_although_a_survivor_is_reaped_before_it() {
    let script = "trap 'exit 1' USR1; echo $$; while :; do sleep 0.05; done";
    let mut child = launch(2, &[], script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut ranks, _) = read_pids(&mut child, 2);
    // Rank 0 was started first.
    ranks.sort_unstable();
    // Both end while the launcher sees nothing.
    let launcher = Pid::from_raw(child.id() as i32);
    kill(launcher, Signal::SIGSTOP).unwrap();
    let (first, second) = (ranks[0], ranks[1]);
    kill(first, Signal::SIGUSR1).unwrap();
    kill(second, Signal::SIGKILL).unwrap();
    assert!(goes(first) && goes(second));
    kill(launcher, Signal::SIGCONT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9), "{}", err(&output));
    assert!(err(&output).contains("SIGKILL"), "{}", err(&output));
}

#[test]
fn a_failed_rank_takes_the_deaf_and_the_stopped_with_it() {
    let script = "
        trap '' TERM
        echo $$
        case $PENNY_RANK in
            0) sleep 0.3; exit 9;;
            1) kill -STOP $$;;
            *) while :; do sleep 1; done;;
        esac";
    let output = run(3, &[], script);
    assert_eq!(output.status.code(), Some(9));
    let pids = pids(&out(&output));
    assert_eq!(pids.len(), 3);
    assert!(!pids.into_iter().any(runs));
}

#[test]
fn what_ranks_started_ends_with_them() {
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!; [ $PENNY_RANK = 1 ] && sleep 0.3 && exit 5; wait";
    let output = run(2, &[], script);
    assert_eq!(output.status.code(), Some(5));
    let pids = pids(&out(&output));
    assert_eq!(pids.len(), 2);
    assert!(!pids.into_iter().any(runs));
}

#[test]
fn a_rank_may_finish_early() {
    let output = run(2, &[], "[ $PENNY_RANK = 0 ] || { sleep 0.3; echo late; }");
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "late\n"));
}

#[test]
fn time_is_up_at_the_timeout() {
    let output = penny().args(["run", "-n", "2", "--timeout", "0.2", "sleep", "1000"]).output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert!(err(&output).contains("time is up"), "{}", err(&output));
}

#[test]
fn tagged_lines_are_whole_and_name_their_rank() {
    // Each line is written in pieces, and the last has no end.
    let script = "
        for i in 1 2 3 4 5 6 7 8 9; do printf 'a'; printf 'b%s' $i; printf 'c\\n'; done
        printf 'err %s\\n' $PENNY_RANK >&2
        printf 'tail'";
    let output = run(4, &["--tag"], script);
    assert!(output.status.success());
    let text = out(&output);
    for rank in 0..4 {
        let tag = format!("[{rank}] ");
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&tag)).collect();
        assert_eq!(lines, ["ab1c", "ab2c", "ab3c", "ab4c", "ab5c", "ab6c", "ab7c", "ab8c", "ab9c", "tail"]);
        assert!(err(&output).contains(&format!("[{rank}] err {rank}\n")), "{}", err(&output));
    }
    assert_eq!(text.lines().count(), 40);
}

#[test]
fn a_flood_of_output_arrives_complete() {
    let output = run(2, &["--tag"], "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done");
    let text = out(&output);
    for tag in ["[0] ", "[1] "] {
        let numbers = text.lines().filter_map(|line| line.strip_prefix(tag)?.parse::<u32>().ok());
        assert!(numbers.eq(0..20_000), "{tag}");
    }
}

#[test]
fn a_process_left_in_the_background_does_not_keep_a_tagged_job_open() {
    let output = run(1, &["--tag"], "sleep 1000 & echo $!");
    assert!(output.status.success());
    let left: Vec<_> =
        out(&output).split_whitespace().filter_map(|w| w.parse().ok()).map(Pid::from_raw).collect();
    assert_eq!(left.len(), 1);
    // The job ended well, so what it chose to leave is left alone. It is ours to end.
    kill(left[0], Signal::SIGKILL).unwrap();
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut child =
        launch(3, &["--tag"], "cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    assert_eq!(out(&child.wait_with_output().unwrap()), "[0] hello\n");
}

#[test]
fn a_missing_program_is_127_and_a_sentence() {
    let output = penny().args(["run", "-n", "2", "no-such-program-anywhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(err(&output).contains("no-such-program-anywhere"), "{}", err(&output));
}

#[test]
fn a_program_that_cannot_be_executed_is_126() {
    let output = penny().args(["run", "-n", "2", "/dev/null"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
}

#[test]
fn signals_reach_every_rank() {
    for signal in
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2]
    {
        let name = &signal.as_str()[3..];
        let script = format!("trap 'echo got; exit 0' {name}; echo $$; while :; do sleep 0.05; done");
        let mut child = launch(2, &[], &script).stdout(Stdio::piped()).spawn().unwrap();
        let (_, mut rest) = read_pids(&mut child, 2);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let mut text = String::new();
        rest.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), child.wait().unwrap().code()), ("got\ngot\n", Some(0)), "{signal}");
    }
}

#[test]
fn ranks_die_with_a_killed_launcher() {
    let mut child =
        launch(2, &[], "echo $$; while :; do sleep 1; done").stdout(Stdio::piped()).spawn().unwrap();
    let (ranks, _) = read_pids(&mut child, 2);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let gone: Vec<bool> = ranks.into_iter().map(goes).collect();
    assert_eq!(gone, [true, true]);
}

#[test]
fn programs_start_with_no_signal_blocked() {
    let output = run(1, &[], "grep SigBlk /proc/self/status");
    assert_eq!(out(&output).split_whitespace().last(), Some("0000000000000000"));
}
