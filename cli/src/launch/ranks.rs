//! The processes of a job: started, signalled, reaped.

use std::ffi::OsStr;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::output::{Pipe, Stream};
use super::{Job, Work, bind};

/// The processes, by rank.
pub struct Ranks {
    children: Vec<Option<(String, Child)>>,
    /// They lead sessions, in which what they start is, too.
    have_sessions: bool,
}

/// A process that is to be started.
pub struct Prepared {
    /// Its rank, or its host.
    pub name: String,
    /// The rank whose output its output is.
    pub rank: u32,
    /// The command.
    pub command: Command,
    /// What it reads first; its standard input stays open after that.
    pub told: Option<Vec<u8>>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned this exit code.
    Exit(u8),
    /// This signal ended it.
    Signal(i32),
}

/// Why a job did not start.
pub struct SpawnError {
    /// 127: no such program; 126: not one that can be executed; 1: anything else.
    pub code: u8,
    /// The sentence for the user.
    pub sentence: String,
}

impl End {
    /// Returns the exit code that a shell would report.
    pub fn code(self) -> u8 {
        match self {
            End::Exit(code) => code,
            End::Signal(number) => 128 + number as u8,
        }
    }

    /// Tells whether a signal ended it that is no answer to another rank's failure, as an abort may be.
    pub fn is_kill(self) -> bool {
        matches!(self, End::Signal(number) if number != Signal::SIGABRT as i32)
    }
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Exit(code as u8),
            (None, signal) => End::Signal(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            End::Exit(code) => write!(f, "exited with code {code}"),
            End::Signal(number) => match Signal::try_from(number) {
                Ok(signal) => write!(f, "was killed by {signal} (signal {number})"),
                Err(_) => write!(f, "was killed by signal {number}"),
            },
        }
    }
}

/// Returns the exit code and the sentence for a program that cannot be started, with its remedy. `None`: the program is not the cause.
fn not_started(program: &OsStr, error: &std::io::Error) -> Option<(u8, String)> {
    let (path, shown) = (Path::new(program), program.display());
    let has_folder = path.components().nth(1).is_some() || path.is_absolute();
    let is_python = path.extension().is_some_and(|kind| kind == "py");
    let source = path
        .extension()
        .and_then(OsStr::to_str)
        .filter(|kind| ["c", "cc", "cpp", "rs", "f90"].contains(kind));
    let (code, fault) = match error.kind() {
        ErrorKind::NotFound if path.exists() && has_folder => (127, format!("`{shown}` cannot be started")),
        ErrorKind::NotFound => (127, format!("there is no program `{shown}`")),
        ErrorKind::PermissionDenied if path.is_dir() => (126, format!("`{shown}` is a folder")),
        ErrorKind::PermissionDenied => (126, format!("`{shown}` is not executable")),
        _ => return None,
    };
    let remedy = if code == 127 && path.exists() && !has_folder {
        let start = if is_python { "python3 " } else { "./" };
        format!("did you mean {start}{shown}?")
    } else if code == 127 && path.exists() {
        "the interpreter that its first line names is not there, or it is a program for another system".into()
    } else if code == 127 {
        "name a file, such as ./a.out, or a program of PATH".into()
    } else if path.is_dir() {
        "name the program in it".into()
    } else if is_python {
        format!("start it by its interpreter: python3 {shown}")
    } else if let Some(kind) = source {
        format!("it is source code (.{kind}): compile it, and name what the compiler makes")
    } else {
        "chmod +x makes it so, and a script's first line names its interpreter (#!/bin/sh)".into()
    };
    Some((code, format!("{fault}; {remedy}")))
}

impl Ranks {
    /// Starts all processes, or none. Returns the pipes of their output, too, where it is piped. `noun`: what each is called.
    pub fn spawn(
        commands: Vec<Prepared>,
        noun: &str,
        have_sessions: bool,
    ) -> Result<(Ranks, Vec<Pipe>), SpawnError> {
        // Orphans of the ranks become children of this process, so that they can be found.
        nix::sys::prctl::set_child_subreaper(true).map_err(|e| SpawnError {
            code: 1,
            sentence: format!("cannot become the ranks' subreaper: {e}"),
        })?;
        let mut ranks = Ranks { children: Vec::new(), have_sessions };
        let mut pipes = Vec::new();
        let all = commands.len();
        for Prepared { name, rank, mut command, told } in commands {
            match command.spawn() {
                Ok(mut child) => {
                    pipes.extend(child.stdout.take().map(|out| Pipe::new(rank, Stream::Out, out.into())));
                    pipes.extend(child.stderr.take().map(|err| Pipe::new(rank, Stream::Err, err.into())));
                    if let (Some(told), Some(stdin)) = (told, child.stdin.as_mut()) {
                        // If it has ended, that is seen when it is reaped.
                        let _ = stdin.write_all(&told);
                    }
                    ranks.children.push(Some((name, child)));
                }
                Err(error) => {
                    let program = command.get_program().display();
                    let (code, sentence) = match not_started(command.get_program(), &error) {
                        Some(told) => told,
                        None => (1, format!("cannot start {noun} {name} of {all} (`{program}`): {error}")),
                    };
                    ranks.kill_and_reap();
                    return Err(SpawnError { code, sentence });
                }
            }
        }
        Ok((ranks, pipes))
    }

    /// Tells whether there is a rank that has not been reaped.
    pub fn any_alive(&self) -> bool {
        self.children.iter().any(Option::is_some)
    }

    /// Returns the number of ranks that have not been reaped.
    pub fn alive(&self) -> usize {
        self.children.iter().flatten().count()
    }

    /// Sends a signal to every rank that has not been reaped: its PID is still its own. Where ranks have sessions, what they have started
    /// gets it as well, as it would with the launcher's process group; but for signals that programs give a meaning of their own.
    pub fn signal(&self, signal: Signal) {
        let is_own = matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2);
        for (_, child) in self.children.iter().flatten() {
            // The process may be a zombie by now. Its PID is not reused before it is reaped, so no other process gets the signal.
            let pid = Pid::from_raw(child.id() as i32);
            let _ = if self.have_sessions && !is_own { killpg(pid, signal) } else { kill(pid, signal) };
        }
    }

    /// Reaps the ranks that have ended since the last call. Returns the name, the PID and the end of each.
    pub fn reap(&mut self) -> Vec<(String, u32, End)> {
        let mut ended = Vec::new();
        for slot in &mut self.children {
            let status = slot.as_mut().and_then(|(_, child)| child.try_wait().ok().flatten());
            if let Some(status) = status
                && let Some((name, child)) = slot.take()
            {
                ended.push((name, child.id(), End::from(status)));
            }
        }
        ended
    }

    fn kill_and_reap(&mut self) {
        for (_, child) in self.children.iter_mut().flatten() {
            // Killing fails only for a process that has been reaped, and these have not.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.children.clear();
    }
}

/// The variables by which programs that know other launchers find their ranks: those of torchrun, as far as the user has not set them.
/// Penny's own come first for Penny (`bootstrap/launcher.rs`).
struct OtherLaunchers {
    /// The user has set none that tells a rank.
    ranks: bool,
    /// Where the program's ranks may meet, by the variables that are not set.
    meeting: Vec<(&'static str, String)>,
}

impl OtherLaunchers {
    fn new() -> OtherLaunchers {
        let is_free = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
        let ranks = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"].into_iter().all(is_free);
        // Another process may take the port before rank 0 does, as with every launcher that looks for one.
        let port = || Some(TcpListener::bind(("127.0.0.1", 0)).ok()?.local_addr().ok()?.port().to_string());
        let address = ("MASTER_ADDR", Some("127.0.0.1".to_owned()));
        let port = ("MASTER_PORT", is_free("MASTER_PORT").then(port).flatten());
        let meeting = [address, port].into_iter().filter(|(name, _)| is_free(name));
        OtherLaunchers { ranks, meeting: meeting.filter_map(|(name, value)| Some((name, value?))).collect() }
    }

    fn variables(&self, rank: u32, local: u32, world: u32, here: u32) -> Vec<(&'static str, String)> {
        let mut variables = self.meeting.clone();
        if self.ranks {
            variables.extend([("RANK", rank.to_string()), ("LOCAL_RANK", local.to_string())]);
            variables.extend([("WORLD_SIZE", world.to_string()), ("LOCAL_WORLD_SIZE", here.to_string())]);
        }
        variables
    }
}

/// Prepares the ranks of this host.
pub fn work(job: &Job, piped: bool) -> Result<Work, String> {
    let (id, first, world) = match &job.part {
        Some(part) => (part.id.clone(), part.first, part.world),
        None => (job_id().map_err(|e| format!("cannot read random bytes: {e}"))?, 0, job.ranks),
    };
    let (before, beside) = job.part.as_ref().map_or((0, job.ranks), |part| (part.before, part.beside));
    let shares = bind::shares(job.bind, beside).map_err(|e| e.to_string())?;
    let have_sessions = shares.iter().any(bind::Share::has_session);
    let others = OtherLaunchers::new();
    let commands = (0..job.ranks).map(|number| {
        let (rank, local) = (first + number, before + number);
        let mut command = Command::new(&job.program);
        command
            .args(&job.arguments)
            .envs(others.variables(rank, local, world, beside))
            .envs(job.environment.iter().map(|(name, value)| (name, value)))
            .env("PENNY_JOB_ID", &id)
            .env("PENNY_RANK", rank.to_string())
            .env("PENNY_WORLD_SIZE", world.to_string())
            .env("PENNY_LOCAL_RANK", local.to_string())
            .env("PENNY_LOCAL_SIZE", beside.to_string());
        if rank > 0 || job.part.is_some() {
            command.stdin(Stdio::null());
        }
        if piped {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        end_with_launcher(&mut command);
        if let Some(share) = shares.get(local as usize).copied() {
            // SAFETY: between fork and exec only a system call is made.
            unsafe { command.pre_exec(move || share.bind()) };
        }
        Prepared { name: rank.to_string(), rank, command, told: None }
    });
    let (commands, ends_with_stdin) = (commands.collect(), job.part.is_some());
    Ok(Work { commands, noun: "rank", timeout: job.timeout, ends_with_stdin, have_sessions })
}

/// Has a process die with this one.
pub fn end_with_launcher(command: &mut Command) {
    let launcher = Pid::this();
    // SAFETY: between fork and exec only system calls are made, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The launcher may have died before the prctl above took effect.
            if Pid::parent() != launcher {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            // The launcher's blocked signals are not the program's.
            nix::sys::signal::SigSet::empty().thread_set_mask()?;
            Ok(())
        });
    }
}

/// 32 random hexadecimal digits.
pub fn job_id() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Kills the processes that the ranks had started and left behind.
pub fn end_orphans() {
    // BOUND: each round reaps at least one process or ends; a killed process cannot start others.
    loop {
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        for pid in children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        if children.trim().is_empty() {
            return;
        }
        if matches!(waitpid(None, Some(WaitPidFlag::empty())), Err(_) | Ok(WaitStatus::StillAlive)) {
            return;
        }
    }
}
