//! The launcher: starts N processes, which end together.
//!
//! ```text
//!     spawn 0..N ──► watch ──────────────────────────────► all gone: exit code
//!                      │  one thread, one poll:            ▲
//!                      │    signalfd   SIGCHLD: reap       │
//!                      │               others: forward     │
//!                      │    pipes      lines of output     │
//!                      ▼                                   │
//!                    a rank failed ── 0.5 s, or time is up ── SIGTERM ── 0.5 s ── SIGKILL
//!                    Ctrl-C ── 10 s, or Ctrl-C again ──────────┤   (after 1 s it says how many it waits for)
//!                    SIGTERM ── 10 s, or SIGTERM again ────────┘
//! ```
//!
//! The ranks stay in the launcher's process group; where there is no terminal, bound ones may have sessions (`bind`). The terminal's own Ctrl-C and Ctrl-Z thus reach each process once,
//! from the kernel, and rank 0 may read the terminal; the launcher forwards only the signals that a process sent to it.
//! Should the launcher be killed, the kernel kills the ranks (PR_SET_PDEATHSIG). The launcher is the subreaper of what
//! the ranks start: when it ends the ranks, it also ends what they left behind.

pub mod bind;
pub mod hosts;
mod output;
mod ranks;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

pub use output::{Line, Stream};
use ranks::{End, Ranks, SpawnError};

use crate::answer;

/// The most ranks; the limit protects from typing errors.
pub const MOST_RANKS: u32 = 1024;

/// Reads a number of ranks, for the command line.
pub fn ranks(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_RANKS).contains(number));
    // Of `-np 4`, as mpirun takes it, `p` comes here.
    let hint = if text == "p" { "; write -n 4, not -np 4" } else { "" };
    number.ok_or_else(|| format!("not a number of ranks from 1 to {MOST_RANKS}{hint}"))
}

/// The time that ranks have after another's failure before they get SIGTERM: a moment to say what they know of it.
const TIME_TO_TELL: Duration = Duration::from_millis(500);

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// The time that ranks have after Ctrl-C or SIGTERM to end by themselves: to write a checkpoint, say.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// SIGTERMs within this time are one: timeout(1) sends it to the launcher and to the launcher's group.
const SAME: Duration = Duration::from_secs(1);

/// The time after Ctrl-C after which the launcher says whom it waits for.
const TIME_TO_SAY: Duration = Duration::from_secs(1);

/// The exit code of a program that Ctrl-C ended: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// The exit code of a program that SIGTERM ended: 128 + SIGTERM.
const TERMINATED: u8 = 143;

/// The signals that the launcher handles. All but the first are passed on to the ranks.
const WATCHED: [Signal; 7] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// The program to start on this host.
pub struct Job {
    /// A path, or a name to be found in PATH.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables that the ranks find beside those of the launcher.
    pub environment: Vec<(String, String)>,
    /// The number of ranks.
    pub ranks: u32,
    /// This host's part of a job on several; `None`: these are all ranks.
    pub part: Option<hosts::Part>,
    /// Which cores each rank may use.
    pub bind: bind::Bind,
    /// The time limit.
    pub timeout: Option<Duration>,
}

/// Returns variables with names of their own.
pub fn owned(variables: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Processes to start and to watch: ranks, or what starts the ranks of other hosts.
pub struct Work {
    commands: Vec<ranks::Prepared>,
    /// What each of them is called.
    noun: &'static str,
    timeout: Option<Duration>,
    /// The launcher ends them when its standard input ends: that of a launcher on another host tells it to.
    ends_with_stdin: bool,
    /// The processes lead sessions.
    have_sessions: bool,
}

/// The outcome of a job.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code.
    pub code: u8,
    /// The sentence about a failure, if there was one.
    pub sentence: Option<String>,
}

impl Outcome {
    /// Prints the sentence about a failure, and returns the exit code.
    pub fn report(&self, speaker: &str) -> ExitCode {
        if let Some(sentence) = &self.sentence {
            answer::tell(format_args!("{speaker}: {sentence}"));
        }
        ExitCode::from(self.code)
    }

    fn failed(code: u8, sentence: String) -> Outcome {
        Outcome { code, sentence: Some(sentence) }
    }
}

/// Starts the job and returns when all ranks are gone. With `lines`, the ranks' output goes there line by line; without,
/// it goes where the launcher's goes.
pub fn run(job: &Job, lines: Option<&mut dyn FnMut(Line)>) -> Outcome {
    match work(job, lines.is_some()) {
        Ok(work) => run_work(work, lines),
        Err(sentence) => Outcome::failed(1, sentence),
    }
}

/// Prepares the ranks of a job; `piped`: their output is wanted line by line.
pub fn work(job: &Job, piped: bool) -> Result<Work, String> {
    ranks::work(job, piped)
}

/// The same for any processes.
pub fn run_work(work: Work, lines: Option<&mut dyn FnMut(Line)>) -> Outcome {
    let watched: SigSet = WATCHED.into_iter().collect();
    let before = match watched.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK) {
        Ok(before) => before,
        Err(errno) => return Outcome::failed(1, format!("cannot block signals: {errno}")),
    };
    let outcome = watch(work, lines, &watched);
    // The mask was valid a moment ago, hence setting it cannot fail.
    let _ = before.thread_set_mask();
    outcome
}

fn watch(work: Work, mut lines: Option<&mut dyn FnMut(Line)>, watched: &SigSet) -> Outcome {
    let Work { commands, noun, timeout, ends_with_stdin, have_sessions } = work;
    let all = commands.len();
    let signals = match SignalFd::with_flags(watched, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) {
        Ok(signals) => signals,
        Err(errno) => return Outcome::failed(1, format!("cannot watch signals: {errno}")),
    };
    let (mut ranks, mut pipes) = match Ranks::spawn(commands, noun, have_sessions) {
        Ok(spawned) => spawned,
        Err(SpawnError { code, sentence }) => return Outcome::failed(code, sentence),
    };
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut verdict: Option<Outcome> = None;
    // Set once the ranks were told to end: the time at which SIGKILL follows SIGTERM.
    let mut last_call: Option<Instant> = None;
    // Set once a rank has failed: until then the others may end by themselves.
    let mut told_until: Option<Instant> = None;
    // The verdict is that of a rank which returned an exit code.
    let mut exited_first = false;
    let mut ctrl_c = CtrlC::default();
    // Set once SIGTERM has come: the ranks that run then are ended.
    let mut end_by: Option<Instant> = None;
    while ranks.any_alive() {
        let wake = match last_call {
            Some(last) => Some(last),
            None => {
                let until = deadline.filter(|_| verdict.is_none());
                let told = told_until.filter(|_| ctrl_c.count == 0);
                let asked = end_by.filter(|_| verdict.is_none());
                [until, told, asked, ctrl_c.until, ctrl_c.say_at].into_iter().flatten().min()
            }
        };
        let told_to_end = wait(&signals, &pipes, wake, ends_with_stdin && verdict.is_none());
        while let Ok(Some(info)) = signals.read_signal() {
            let number = info.ssi_signo as i32;
            if number == Signal::SIGINT as i32 {
                ctrl_c.again(Instant::now());
                // From the second Ctrl-C on, the ranks get a SIGTERM below, and then a SIGKILL.
                if ctrl_c.count > 1 {
                    last_call = last_call.map(|_| Instant::now());
                    continue;
                }
            }
            if number == Signal::SIGTERM as i32 {
                let now = Instant::now();
                end_by = Some(match end_by {
                    None => now + TIME_TO_END,
                    Some(by) if by + SAME <= now + TIME_TO_END => now,
                    Some(by) => by,
                });
            }
            // SI_KERNEL: the terminal signalled the whole foreground group; the ranks have theirs already.
            if number != Signal::SIGCHLD as i32 && info.ssi_code != libc::SI_KERNEL {
                ranks.signal(Signal::try_from(number).expect("only watched signals arrive"));
            }
        }
        for pipe in &mut pipes {
            pipe.forward(&mut lines);
        }
        pipes.retain(|pipe| pipe.is_open());
        for (name, pid, end) in ranks.reap() {
            let is_first = verdict.is_none() && end != End::Exit(0);
            // Ranks that saw it die may have been reaped before it.
            let is_cause = exited_first && last_call.is_none() && end.is_kill();
            if is_first || is_cause {
                verdict = Some(match ctrl_c.count {
                    0 => Outcome::failed(end.code(), sentence(noun, &name, pid, end, ranks.alive())),
                    _ => Outcome { code: INTERRUPTED, sentence: None },
                });
                exited_first = matches!(end, End::Exit(_));
                told_until.get_or_insert_with(|| Instant::now() + TIME_TO_TELL);
            }
        }
        let now = Instant::now();
        if told_to_end && verdict.is_none() {
            // The launcher that started this one has said why.
            verdict = Some(Outcome { code: 1, sentence: None });
        }
        if verdict.is_none() && deadline.is_some_and(|deadline| deadline <= now) {
            let still = ranks.alive();
            let sentence = format!(
                "time is up after {:?}: {still} {noun}s were still running",
                timeout.unwrap_or_default()
            );
            verdict = Some(Outcome::failed(124, sentence));
        }
        if verdict.is_none() && ctrl_c.count == 0 && end_by.is_some_and(|end_by| end_by <= now) {
            let sentence = format!("SIGTERM: {} of {all} {noun}s had to be ended", ranks.alive());
            verdict = Some(Outcome::failed(TERMINATED, sentence));
        }
        if ctrl_c.says(now) && last_call.is_none() && ranks.any_alive() {
            let (left, seconds) = (ranks.alive(), (TIME_TO_END - TIME_TO_SAY).as_secs());
            let s = if left == 1 { "" } else { "s" };
            answer::tell(format_args!(
                "penny: interrupted; {left} {noun}{s} still running, to be ended in {seconds} s, or at once by another Ctrl-C"
            ));
        }
        if ctrl_c.is_impatient(now) && last_call.is_none() && ranks.any_alive() {
            let sentence = format!("interrupted: {} of {all} {noun}s had to be ended", ranks.alive());
            verdict = Some(Outcome::failed(INTERRUPTED, sentence));
        }
        // After Ctrl-C each rank ends in its own time, whatever becomes of the first.
        let is_over =
            verdict.as_ref().is_some_and(|verdict| verdict.code != INTERRUPTED || ctrl_c.count == 0);
        let has_told = told_until.is_none_or(|until| until <= now);
        if (is_over && has_told || ctrl_c.is_impatient(now)) && last_call.is_none() {
            ranks.signal(Signal::SIGTERM);
            // A stopped rank handles SIGTERM only once it goes on.
            ranks.signal(Signal::SIGCONT);
            last_call = Some(now + GRACE);
        }
        if last_call.is_some_and(|last| last <= now) {
            ranks.signal(Signal::SIGKILL);
            last_call = Some(now + GRACE);
        }
    }
    if verdict.is_some() || ctrl_c.count > 0 {
        ranks::end_orphans();
    }
    for pipe in &mut pipes {
        pipe.forward(&mut lines);
        pipe.finish(&mut lines);
    }
    verdict.unwrap_or(Outcome { code: 0, sentence: None })
}

/// How often the user has pressed Ctrl-C, or a process has sent SIGINT.
#[derive(Default)]
struct CtrlC {
    count: u32,
    /// The time at which the ranks are ended.
    until: Option<Instant>,
    /// The time at which the launcher says which ranks it waits for; `None`: not interrupted, or said.
    say_at: Option<Instant>,
}

impl CtrlC {
    fn again(&mut self, now: Instant) {
        self.count += 1;
        if self.count == 1 {
            self.until = Some(now + TIME_TO_END);
            self.say_at = Some(now + TIME_TO_SAY);
        }
    }

    /// Tells, once, whether it is time to say which ranks the launcher waits for.
    fn says(&mut self, now: Instant) -> bool {
        self.say_at.take_if(|at| *at <= now).is_some()
    }

    /// Tells whether the ranks must be ended now.
    fn is_impatient(&self, now: Instant) -> bool {
        self.count > 1 || self.until.is_some_and(|until| until <= now)
    }
}

/// Sleeps until there is something to do. Returns true if standard input, which is watched if `stdin`, has ended.
fn wait(signals: &SignalFd, pipes: &[output::Pipe], wake: Option<Instant>, stdin: bool) -> bool {
    use std::os::fd::AsFd;
    let input = std::io::stdin();
    let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    fds.extend(pipes.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
    let timeout = match wake {
        None => PollTimeout::NONE,
        Some(wake) => {
            // One more millisecond: a poll that ends just before the instant would be repeated with 0.
            let left = wake.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        }
    };
    if stdin {
        fds.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
    }
    // EINTR and the time-out are handled alike: the loop looks again.
    let _ = poll(&mut fds, timeout);
    // Nothing is sent after the beginning, so what can be read is the end.
    stdin && fds.last().and_then(PollFd::any).unwrap_or(false)
}

fn sentence(noun: &str, name: &str, pid: u32, end: End, others: usize) -> String {
    let rest = match others {
        0 => String::new(),
        1 => format!("; the other {noun} is ended"),
        n => format!("; the other {n} {noun}s are ended"),
    };
    format!("{noun} {name} (PID {pid}) {end}{rest}")
}
