//! Who is who: PIDs, start times, namespaces, scheduler states, random bytes.

use super::fork;
use crate::sync::lock::Mutex;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// This process's PID.
pub fn pid() -> u32 {
    std::process::id()
}

/// The data by which other processes recognise a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// PID, in its own namespace.
    pub pid: u32,
    /// Start time, in clock ticks since boot.
    pub start: u64,
    /// Number of the PID namespace that its /proc shows and it lives in; 0: it has no such /proc.
    pub namespace: u64,
}

/// This process's card.
pub fn card() -> Card {
    // /proc is asked once, and once more in each forked child.
    static CARD: Mutex<Option<(u32, Card)>> = Mutex::new(None);
    let (generation, mut known) = (fork::generation(), CARD.lock());
    match *known {
        Some((of, card)) if of == generation => card,
        _ => {
            let card = ask_for_card();
            // Where /proc could not be read, for want of descriptors perhaps, it is asked again.
            *known = (card.start != 0).then_some((generation, card));
            card
        }
    }
}

fn ask_for_card() -> Card {
    let start = start_time(pid()).unwrap_or(0);
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    Card { pid: pid(), start, namespace: if sees_itself() { namespace } else { 0 } }
}

/// Does /proc show this process under its own PID? A /proc of another PID namespace does not, nor does none.
pub fn sees_itself() -> bool {
    let shown = std::fs::read_link("/proc/self").ok();
    shown.and_then(|name| name.to_str()?.parse().ok()) == Some(pid())
}

/// Returns the file of a process (`self`, or a PID) whose name begins so: a library that it has loaded.
pub fn mapped_file(process: &str, name: &str) -> Option<String> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let is_it = |path: &&str| path.rsplit('/').next().is_some_and(|file| file.starts_with(name));
    maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).find(is_it).map(str::to_owned)
}

/// Returns the start time of a process in clock ticks since boot. PID and start time identify a process for good.
pub fn start_time(pid: u32) -> Option<u64> {
    Stat::of(pid)?.start_time()
}

/// Returns the scheduler's state of a process as text; `None` if there is no such process.
pub fn state(pid: u32) -> Option<&'static str> {
    Stat::of(pid)?.state()
}

/// Tells whether this process is the copy of another, and not a program that was started anew; true also where /proc does not
/// say.
pub fn is_forked_copy() -> bool {
    const FORKED_NO_EXEC: u32 = 0x40;
    let flags = || Stat::of(pid())?.field(9)?.parse::<u32>().ok();
    flags().is_none_or(|flags| flags & FORKED_NO_EXEC != 0)
}

/// What /proc/PID/stat says: the fields after the name, which may hold spaces and parentheses.
struct Stat {
    /// As much of the file as is needed, and where the fields begin.
    text: [u8; 512],
    from: usize,
    to: usize,
}

impl Stat {
    /// Reads it at once: ranks that wait ask for it often.
    fn of(pid: u32) -> Option<Stat> {
        let mut stat = Stat { text: [0; 512], from: 0, to: 0 };
        stat.to = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat.text).ok()?;
        stat.from = stat.text[..stat.to].iter().rposition(|&byte| byte == b')')? + 1;
        Some(stat)
    }

    /// Returns field `number`, counted from 1 as in proc(5). The text is long enough for the first 22 fields.
    fn field(&self, number: usize) -> Option<&str> {
        let fields = std::str::from_utf8(&self.text[self.from..self.to]).ok()?;
        fields.split_ascii_whitespace().nth(number.checked_sub(3)?)
    }

    fn start_time(&self) -> Option<u64> {
        self.field(22)?.parse().ok()
    }

    fn state(&self) -> Option<&'static str> {
        Some(match self.field(3)? {
            "R" => "running",
            // The first thread may end before the others.
            "Z" | "X" if self.field(20)?.parse::<u32>().is_ok_and(|threads| threads > 1) => "running",
            "S" | "I" => "sleeping",
            "D" => "blocked in the kernel",
            "T" => "stopped by a signal",
            "t" => "stopped by a debugger",
            "Z" | "X" => "dead",
            _ => "in an unknown state",
        })
    }
}

/// Tells whether the process that started at `start` is no more; `None`: there is no process of that PID.
pub fn has_died(pid: u32, start: u64) -> Option<bool> {
    let stat = Stat::of(pid)?;
    Some(stat.start_time()? != start || stat.state() == Some("dead"))
}

/// Ends this process by SIGKILL, as another process would.
#[cfg(feature = "die-points")]
pub fn kill_self() -> ! {
    // SAFETY: a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    // BOUND: the signal.
    loop {
        std::hint::spin_loop();
    }
}

/// The activity of a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It has ended.
    Ended,
    /// It waits without a time limit for other threads of this process: for a lock, on a condition.
    Blocked,
    /// It waits for the end of a thread of this process.
    Joins(u32),
    /// It runs, or waits for something else, or the kernel does not say.
    Other,
}

/// This thread as the kernel numbers it.
pub fn tid() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// The threads of this process; empty where the kernel does not say.
pub fn threads() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The name of a thread of this process; empty where the kernel does not say.
pub fn thread_name(tid: u32) -> String {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Returns the present activity of a thread of this process.
pub fn doing(tid: u32) -> Doing {
    let text = match std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")) {
        Ok(text) => text,
        Err(_) if has_ended(tid) => return Doing::Ended,
        Err(_) => return Doing::Other,
    };
    match endless_futex_wait(&text) {
        Some(Futex { private: true, .. }) => Doing::Blocked,
        // The kernel ends a join, by a word that holds the thread's number and may be shared.
        Some(Futex { expected, .. }) if is_there(expected) => Doing::Joins(expected as u32),
        // Another process may end it.
        _ => Doing::Other,
    }
}

/// Does a thread of this process have this number?
fn is_there(tid: u64) -> bool {
    tid != 0 && std::path::Path::new(&format!("/proc/self/task/{tid}")).exists()
}

/// Has a thread of this process ended? Not as long as it may still wake another.
pub fn has_ended(tid: u32) -> bool {
    let task = |tid: u32| std::path::PathBuf::from(format!("/proc/self/task/{tid}"));
    !task(tid).exists() && task(self::tid()).exists()
}

/// Returns how often the scheduler has switched to a thread of this process. The number grows when the thread has run. `None`: the
/// thread is not asleep, or the kernel does not say.
pub fn switches(tid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok()?;
    // A thread that has been woken and does not run yet is not asleep any more.
    status
        .lines()
        .find_map(|line| line.strip_prefix("State:"))
        .filter(|state| state.contains("(sleeping)"))?;
    let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
    counts.map(|line| line.rsplit('\t').next()?.trim().parse::<u64>().ok()).sum()
}

/// A wait on a futex.
struct Futex {
    /// Only threads of this process can end it.
    private: bool,
    /// What the futex held.
    expected: u64,
}

/// Does a line of /proc/PID/syscall, `NUMBER ARGUMENTS.. SP PC`, tell of a wait on a futex that no time limit ends?
fn endless_futex_wait(line: &str) -> Option<Futex> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.parse::<i64>().ok()?;
    let mut argument = |skip: usize| u64::from_str_radix(words.nth(skip)?.strip_prefix("0x")?, 16).ok();
    let (operation, expected, limit) = (argument(1)?, argument(0)?, argument(0)?);
    let waits = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET, libc::FUTEX_LOCK_PI, libc::FUTEX_WAIT_REQUEUE_PI];
    let private = libc::FUTEX_PRIVATE_FLAG as u64;
    let flags = private | libc::FUTEX_CLOCK_REALTIME as u64;
    let waits = number == libc::SYS_futex
        && waits.iter().any(|&wait| operation & !flags == wait as u64)
        && limit == 0;
    waits.then_some(Futex { private: operation & private != 0, expected: expected & u64::from(u32::MAX) })
}

/// Random bytes from the kernel.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    let mut filled = 0;
    while filled < N {
        // SAFETY: the range lies inside the array.
        let got = unsafe { libc::getrandom(bytes[filled..].as_mut_ptr().cast(), N - filled, 0) };
        if got > 0 {
            filled += got as usize;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_runs() {
        assert!(sees_itself() && card().namespace != 0);
        assert_eq!(Some(card().start), start_time(pid()));
        assert!(start_time(pid()).is_some());
        assert!(matches!(state(pid()), Some("running" | "sleeping")));
        assert_eq!(state(u32::MAX), None);
    }

    #[test]
    fn a_forked_process_is_a_copy_until_it_starts_a_program() {
        assert!(!is_forked_copy());
        // SAFETY: the child looks at /proc and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let copy = is_forked_copy();
            // SAFETY: ends the child without a destructor of the test's.
            unsafe { libc::_exit(copy as i32) };
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
    }

    #[test]
    fn a_wait_for_another_thread_is_told_from_a_wait_for_a_time_and_from_work() {
        let futex = libc::SYS_futex;
        let told = |line: &str| endless_futex_wait(line).map(|futex| (futex.private, futex.expected));
        let waits = |operation| told(&format!("{futex} 0x55 {operation} 0x5 0x0 0x0 0xffffffff 0x7f 0x7f"));
        assert_eq!(waits("0x189"), Some((true, 5)));
        assert_eq!(waits("0x109"), Some((false, 5)));
        for other in ["running", "", "-1 0x7f 0x7f", "230 0x0 0x1 0x0 0x0 0x0 0x0 0x7f 0x7f"] {
            assert_eq!(told(other), None, "{other}");
        }
        let with_a_limit = format!("{futex} 0x55 0x189 0x0 0x7ffd0 0x0 0xffffffff 0x7f 0x7f");
        assert_eq!(told(&with_a_limit), None);
    }

    #[test]
    fn a_thread_is_blocked_in_a_join_and_has_ended_after_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let tell_too = tell.clone();
        let thread = std::thread::spawn(move || {
            tell.send(tid()).expect("the test waits");
            let _ = held.recv();
        });
        let theirs = told.recv().expect("it has started");
        let thread = std::thread::spawn(move || {
            tell_too.send(tid()).expect("the test waits");
            thread.join().expect("it ends");
        });
        let joins = told.recv().expect("it has started");
        // BOUND: it comes to its join.
        while doing(joins) != Doing::Joins(theirs) {
            std::thread::yield_now();
        }
        // BOUND: it comes to its wait.
        while doing(theirs) != Doing::Blocked {
            std::thread::yield_now();
        }
        assert!(threads().contains(&theirs) && switches(theirs).is_some());
        drop(release);
        thread.join().expect("it ends");
        // BOUND: the kernel lets go of it.
        while doing(theirs) != Doing::Ended {
            std::thread::yield_now();
        }
        assert!(has_ended(theirs) && !has_ended(tid()));
        assert_eq!(doing(tid()), Doing::Other);
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random::<16>(), random::<16>());
    }
}
