//! Ctrl-C: from a terminal, and while ranks end by themselves.

use super::*;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::time::Instant;

/// A terminal: the side of its user, and that of programs. By libc, since nix's functions for it cannot be in a static library.
pub(super) fn terminal() -> [OwnedFd; 2] {
    let [mut user, mut programs] = [-1; 2];
    // SAFETY: it writes two descriptors, and reads nothing where there is NULL.
    let made = unsafe { libc::openpty(&mut user, &mut programs, null_mut(), null_mut(), null_mut()) };
    assert_eq!(made, 0, "openpty: {}", std::io::Error::last_os_error());
    // SAFETY: nobody else has them.
    [user, programs].map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The command will lead a session with this terminal, its standard input.
pub(super) fn has_terminal(command: &mut Command, programs: OwnedFd) {
    command.stdin(programs);
    // SAFETY: between fork and exec only system calls are made; descriptor 0 is the terminal.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            nix::errno::Errno::result(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            Ok(())
        })
    };
}

#[test]
fn the_terminals_interrupt_is_left_to_the_terminal() {
    let [user, programs] = terminal();
    let log = scratch("interrupts");
    // Rank 1 leaves the terminal, so that it hears of an interrupt only if the launcher forwards it.
    let script = format!(
        "ears='trap \"echo $PENNY_RANK >> {}\" INT; trap \"exit 0\" USR1; echo $$; while :; do sleep 0.05; done'
        [ $PENNY_RANK = 0 ] && eval \"$ears\"
        exec setsid sh -c \"$ears\"",
        log.display()
    );
    let mut command = launch(2, &[], &script);
    has_terminal(command.stdout(Stdio::piped()), programs);
    let mut child = command.spawn().unwrap();
    let (_, mut rest) = read_pids(&mut child, 2);
    let mut user = std::fs::File::from(user);
    user.write_all(b"\x03").unwrap();
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!((0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !read().is_empty()
    }));
    // What the launcher would have forwarded precedes this.
    kill(Pid::from_raw(child.id() as i32), Signal::SIGUSR1).unwrap();
    rest.read_to_string(&mut String::new()).unwrap();
    assert_eq!((child.wait().unwrap().code(), read().as_str()), (Some(0), "0\n"));
    std::fs::remove_file(&log).unwrap();
}

/// Starts two ranks that say their process ids, sends SIGINT to the launcher `times` times, and gives the rest of what the
/// ranks say, the exit code, and whether a rank is left. In between the ranks have time to set their traps and to die.
fn interrupted(script: &str, times: u32) -> (String, Option<i32>, bool) {
    interrupted_job(launch(2, &[], script), times)
}

fn interrupted_job(mut job: Command, times: u32) -> (String, Option<i32>, bool) {
    let mut child = job.stdout(Stdio::piped()).spawn().unwrap();
    let (ranks, mut rest) = read_pids(&mut child, 2);
    for _ in 0..times {
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut text = String::new();
    rest.read_to_string(&mut text).unwrap();
    (text, child.wait().unwrap().code(), ranks.into_iter().any(runs))
}

#[test]
fn an_interrupted_job_returns_130() {
    let ended = interrupted("echo $$; while :; do sleep 0.05; done", 1);
    assert_eq!(ended, (String::new(), Some(130), false));
    let caught = interrupted("trap 'exit 7' INT; echo $$; while :; do sleep 0.05; done", 1);
    assert_eq!(caught, (String::new(), Some(130), false));
}

#[test]
fn after_an_interrupt_a_rank_may_finish_what_it_does_though_another_is_gone() {
    let script = "
        [ $PENNY_RANK = 1 ] && trap 'sleep 2; echo saved; exit 0' INT
        echo $$; while :; do sleep 0.05; done";
    assert_eq!(interrupted(script, 1), ("saved\n".to_owned(), Some(130), false));
}

#[test]
fn a_second_interrupt_ends_ranks_that_ignore_the_first() {
    let polite = "trap '' INT; trap 'echo asked; exit 0' TERM; echo $$; while :; do sleep 0.05; done";
    assert_eq!(interrupted(polite, 2), ("asked\nasked\n".to_owned(), Some(130), false));
    let deaf = "trap '' INT TERM; echo $$; while :; do sleep 0.05; done";
    assert_eq!(interrupted(deaf, 2), (String::new(), Some(130), false));
}

/// Starts two ranks that ignore SIGTERM, and sends it to the launcher `times` times. Returns how long the job lives on behind the last.
fn terminated(times: u32, apart: Duration) -> Duration {
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut job = launch(2, &[], "trap '' TERM; echo $$; while :; do sleep 0.05; done");
    let mut child = job.stderr(said.reopen().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let (ranks, mut rest) = read_pids(&mut child, 2);
    for _ in 0..times {
        std::thread::sleep(apart);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    }
    let last = Instant::now();
    rest.read_to_string(&mut String::new()).unwrap();
    assert_eq!((child.wait().unwrap().code(), ranks.into_iter().any(runs)), (Some(143), false));
    let said = std::fs::read_to_string(said.path()).unwrap();
    assert!(said.contains("SIGTERM: 2 of 2 ranks had to be ended"), "{said}");
    last.elapsed()
}

#[test]
fn ranks_that_ignore_sigterm_are_ended_after_some_seconds_or_at_the_second() {
    let none = Duration::from_millis(100);
    // Ranks may need the time, so that two that come at once, as from timeout(1), are one.
    for times in [1, 2] {
        assert!(terminated(times, none) > Duration::from_secs(5));
    }
    terminated(2, Duration::from_millis(1200));
}

#[test]
fn ranks_that_ignore_an_interrupt_are_ended_after_some_seconds() {
    let deaf = "[ $PENNY_RANK = 1 ] && trap '' INT TERM; echo $$; while :; do sleep 0.05; done";
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut job = launch(2, &[], deaf);
    job.stderr(said.reopen().unwrap());
    assert_eq!(interrupted_job(job, 1), (String::new(), Some(130), false));
    let said = std::fs::read_to_string(said.path()).unwrap();
    assert!(
        said.contains("1 rank still running, to be ended in 9 s, or at once by another Ctrl-C"),
        "{said}"
    );
}
