//! Sessions of ranks that have cores of their own, which are scheduling groups of their own.

use super::interrupts::{has_terminal, terminal};
use super::*;

/// Says whether the rank leads its session.
const WHOSE: &str =
    "read -r pid _ _ _ _ session _ < /proc/$$/stat; [ $session = $pid ] && echo own || echo shared";

/// The command will lead a session that has no terminal.
fn has_no_terminal(command: &mut Command) {
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
}

fn are_groups() -> bool {
    let by_sessions = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    by_sessions.is_ok_and(|on| on.trim() == "1")
}

/// The sessions of a launcher's ranks; the launcher leads one that has a terminal, or none.
fn sessions(options: &[&str], with_terminal: bool) -> String {
    let [_user, programs] = terminal();
    let mut command = launch(1, options, WHOSE);
    if with_terminal {
        has_terminal(&mut command, programs);
    } else {
        has_no_terminal(&mut command);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    out(&output)
}

#[test]
fn bound_ranks_lead_sessions_where_the_kernel_schedules_by_them_and_no_terminal_is_there() {
    let own = if are_groups() { "own\n" } else { "shared\n" };
    assert_eq!(sessions(&["--bind", "cores"], false), own);
    assert_eq!(sessions(&["--bind", "cores"], true), "shared\n", "Ctrl-C would not reach it");
    assert_eq!(sessions(&[], false), "shared\n", "its yields would not reach ranks on the same core");
}

/// A rank with a session that says its own process id and that of one that it starts, which says that it has heard a SIGTERM, and
/// for which the rank waits. The launcher, the two, and the rest of what is said.
fn with_a_child() -> (Child, Vec<Pid>, impl BufRead) {
    let child = "trap 'echo heard; exit' TERM; echo $$; while :; do sleep 0.05; done";
    let script =
        format!("trap : TERM; sh -c \"{}\" & echo $$; wait; wait; exit 143", child.replace('$', "\\$"));
    let mut command = launch(1, &["--bind", "cores"], &script);
    has_no_terminal(&mut command);
    let mut launcher = command.stdout(Stdio::piped()).spawn().unwrap();
    let (pids, rest) = read_pids(&mut launcher, 2);
    (launcher, pids, rest)
}

#[test]
fn what_ranks_with_sessions_start_gets_the_launchers_signals() {
    let (mut launcher, pids, mut rest) = with_a_child();
    kill(Pid::from_raw(launcher.id() as i32), Signal::SIGTERM).unwrap();
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert_eq!(said, if are_groups() { "heard\n" } else { "" });
    assert_eq!(launcher.wait().unwrap().code(), Some(143));
    assert!(pids.into_iter().all(goes));
}

#[test]
fn ranks_with_sessions_end_with_their_launcher() {
    let (mut launcher, pids, _rest) = with_a_child();
    let group = |pid: Pid| nix::unistd::getpgid(Some(pid)).unwrap();
    let rank = group(pids[0]);
    assert_eq!(rank, group(pids[1]), "one group");
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert!(goes(rank));
    // What it has started is nobody's any more (docs/decisions/0101).
    for pid in pids {
        let _ = kill(pid, Signal::SIGKILL);
    }
}
