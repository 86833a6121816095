//! Sessions of ranks that have cores of their own, which are scheduling groups of their own.

use super::interrupts::{has_terminal, terminal};
use super::*;

/// Says whether the rank leads its session.
const WHOSE: &str =
    "read -r pid _ _ _ _ session _ < /proc/$$/stat; [ $session = $pid ] && echo own || echo shared";

/// The sessions of a launcher's ranks; the launcher leads one that has a terminal, or none.
fn sessions(options: &[&str], with_terminal: bool) -> String {
    let [_user, programs] = terminal();
    let mut command = launch(1, options, WHOSE);
    if with_terminal {
        has_terminal(&mut command, programs);
    } else {
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    out(&output)
}

#[test]
fn bound_ranks_lead_sessions_where_the_kernel_schedules_by_them_and_no_terminal_is_there() {
    let by_sessions = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    let own = if by_sessions.is_ok_and(|on| on.trim() == "1") { "own\n" } else { "shared\n" };
    assert_eq!(sessions(&["--bind", "cores"], false), own);
    assert_eq!(sessions(&["--bind", "cores"], true), "shared\n", "Ctrl-C would not reach it");
    assert_eq!(sessions(&[], false), "shared\n", "its yields would not reach ranks on the same core");
}

#[test]
fn ranks_with_sessions_end_with_their_launcher() {
    let script = "echo $$; while :; do sleep 0.05; done";
    let mut command = launch(1, &["--bind", "cores"], script);
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let (ranks, _rest) = read_pids(&mut child, 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ranks.into_iter().all(goes));
}
