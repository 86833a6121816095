//! Ranks as processes that play what a test tells them (src/bin/victim), and a guard that turns a hang into a failure.

use penny::internals::bootstrap::UniqueId;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The longest wait for a rank. No measurement comes near it: a rank that says nothing for this long hangs.
const GUARD: Duration = Duration::from_secs(60);

/// One rank; killed if the test drops it.
pub struct Rank {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    number: u32,
}

/// What a rank says of one act.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// It was done.
    Ok(String),
    /// It failed.
    Failed(Failure),
}

/// An act that failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The result code.
    pub code: i32,
    /// When the call began, in nanoseconds of the machine's monotonic clock.
    pub entered: u64,
    /// When it returned.
    pub returned: u64,
    /// The sentence.
    pub sentence: String,
}

/// An id as an argument.
fn spelled(id: &UniqueId) -> String {
    id.0.iter().map(|b| format!("{b:02x}")).collect()
}

/// How ranks are started.
pub struct Setting<'a> {
    /// Further variables.
    pub env: &'a [(&'a str, &'a str)],
    /// What a shell does before it becomes the rank, `ulimit -n 32` for example.
    pub shell: &'a str,
}

/// Nothing special.
pub const PLAIN: Setting<'static> = Setting { env: &[], shell: "true" };

/// Starts `n` ranks of one communicator; `acts` tells what each does.
pub fn start(n: u32, setting: &Setting<'_>, acts: impl Fn(u32) -> Vec<String>) -> Vec<Rank> {
    let id = penny::internals::comm::unique_id().expect("an id");
    (0..n).map(|rank| start_one(rank, n, &id, setting, &acts(rank))).collect()
}

/// Starts a single rank of a communicator of `n`.
pub fn start_one(rank: u32, n: u32, id: &UniqueId, setting: &Setting<'_>, acts: &[String]) -> Rank {
    let arguments = [rank.to_string(), n.to_string(), spelled(id)];
    start_program(
        rank,
        env!("CARGO_BIN_EXE_victim"),
        setting,
        arguments.iter().chain(acts).map(String::as_str),
    )
}

/// Starts a program that reports as src/bin/victim does.
pub fn start_program<'a>(
    rank: u32,
    program: &str,
    setting: &Setting<'_>,
    arguments: impl Iterator<Item = &'a str>,
) -> Rank {
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -c 0; {} && exec \"$0\" \"$@\"", setting.shell), program])
        .args(arguments)
        .env("PENNY_TIMEOUT", "40")
        .envs(setting.env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a rank starts");
    let (tell, lines) = channel();
    let out = BufReader::new(child.stdout.take().expect("piped"));
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    Rank { stdin: child.stdin.take(), child, lines, number: rank }
}

/// A list of acts.
pub fn acts(list: &[&str]) -> Vec<String> {
    list.iter().map(|act| act.to_string()).collect()
}

impl Rank {
    /// The next thing it says. Wrong bytes and a hang end the test here.
    #[track_caller]
    pub fn next(&mut self) -> Said {
        match self.try_next() {
            Some(said) => said,
            None => panic!("rank {} ended without a word: {:?}", self.number, self.child.wait()),
        }
    }

    /// The next thing it says; `None` if it has ended.
    #[track_caller]
    pub fn try_next(&mut self) -> Option<Said> {
        let line = match self.lines.recv_timeout(GUARD) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!("rank {} (pid {}) hangs", self.number, self.pid()),
        };
        let mut words = line.splitn(5, ' ');
        match words.next() {
            Some("ok") => Some(Said::Ok(line[3..].to_owned())),
            Some("error") => {
                let mut number = || words.next().expect("a number").parse::<u64>().expect("a number");
                let (code, entered, returned) = (number() as i32, number(), number());
                let sentence = words.next().unwrap_or("").to_owned();
                Some(Said::Failed(Failure { code, entered, returned, sentence }))
            }
            _ => panic!("rank {}: {line}", self.number),
        }
    }

    /// It must have done this.
    #[track_caller]
    pub fn did(&mut self, act: &str) {
        assert_eq!(self.next(), Said::Ok(act.to_owned()), "rank {}", self.number);
    }

    /// It must have failed.
    #[track_caller]
    pub fn failed(&mut self) -> Failure {
        match self.next() {
            Said::Failed(failure) => failure,
            said => panic!("rank {} should have failed and says {said:?}", self.number),
        }
    }

    /// Whatever it says, wait for its end; how it ended.
    #[track_caller]
    pub fn outlast(&mut self) -> std::process::ExitStatus {
        let guard = Instant::now() + 3 * GUARD;
        // BOUND: the guard.
        while let Some(left) = guard.checked_duration_since(Instant::now()) {
            match self.lines.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().expect("a child"),
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        panic!("rank {} (pid {}) hangs", self.number, self.pid());
    }

    /// Its PID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it lives");
    }

    /// Another signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid() as i32), signal).expect("it lives");
    }

    /// Let it go on from `hold`.
    pub fn release(&mut self) {
        self.stdin = None;
    }

    /// Wait for its end; the signal that ended it, if one did.
    #[track_caller]
    pub fn end(&mut self) -> Option<i32> {
        let until = Instant::now() + GUARD;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status.signal();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("rank {} (pid {}) does not end", self.number, self.pid());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names in /dev/shm and abstract sockets that could be ours.
pub fn leftovers() -> BTreeSet<String> {
    let shm = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = shm.filter_map(|entry| entry.file_name().into_string().ok());
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let sockets =
        sockets.lines().filter_map(|line| line.split(' ').nth_back(0)).map(str::to_owned).collect::<Vec<_>>();
    names.chain(sockets).filter(|name| name.contains("penny")).collect()
}

/// A random number below `limit`, from the kernel.
pub fn random(limit: u64) -> u64 {
    u64::from_le_bytes(penny::internals::sys::process::random()) % limit
}

/// The larger number of repetitions, if `PENNY_LONG` asks for it.
pub fn times(usual: u32, long: u32) -> u32 {
    if std::env::var_os("PENNY_LONG").is_some_and(|v| v == "1") { long } else { usual }
}

/// The trials of a test that are made at a time.
const TRIALS_AT_A_TIME: u32 = 3;

/// Makes a test's trials by their numbers, several at a time: they wait for most of their time.
pub fn trials(count: u32, trial: impl Fn(u32) + Sync) {
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..TRIALS_AT_A_TIME {
            scope.spawn(|| {
                // BOUND: each takes a number of its own.
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    trial(number);
                }
            });
        }
    });
}

/// The machine's monotonic clock, the same in every process.
pub fn now_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    (time.tv_sec() * 1_000_000_000 + time.tv_nsec()) as u64
}

/// How many of the tests that start many ranks run at a time: they wait for most of their time, and are the longer, the more there are.
const AT_A_TIME: u32 = 2;

static UNDER_WAY: Mutex<u32> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Held by a test that starts many ranks; others run beside it.
pub struct Turn;

/// Waits until few enough others are under way.
pub fn turn() -> Turn {
    let under_way = UNDER_WAY.lock().unwrap_or_else(|e| e.into_inner());
    let full = |running: &mut u32| *running >= AT_A_TIME;
    *ENDED.wait_while(under_way, full).unwrap_or_else(|e| e.into_inner()) += 1;
    Turn
}

impl Drop for Turn {
    fn drop(&mut self) {
        *UNDER_WAY.lock().unwrap_or_else(|e| e.into_inner()) -= 1;
        ENDED.notify_one();
    }
}
