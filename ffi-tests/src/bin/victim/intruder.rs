//! A process of another user that knows a job's id and its PIDs, and tries to get in.

use super::{Part, say};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use penny::internals::bootstrap::{UniqueId, first_words};
use penny::internals::comm::{self, Config};
use penny::internals::sys::socket::{self, PollEntry};
use std::fs::File;
use std::io::ErrorKind;
use std::time::Duration;

/// The user nobody.
const NOBODY: u32 = 65534;

impl Part {
    /// Becomes another user for good, then asks for a place in the communicator and opens what its ranks have open.
    pub fn intrude(&mut self, pids: &[&str]) {
        setgroups(&[]).and_then(|()| setgid(Gid::from_raw(NOBODY))).expect("as root");
        setuid(Uid::from_raw(NOBODY)).expect("as root");
        let byte = |i: usize| u8::from_str_radix(&self.id[2 * i..2 * i + 2], 16).expect("hex");
        let id = UniqueId(std::array::from_fn(byte));
        self.knock(&id);
        match comm::init_rank(self.nranks as i32, &id, self.rank as i32, &Config::default()) {
            Ok(_) => say("wrong: another user has joined"),
            Err(e) => self.complain(&e),
        }
        pids.iter().for_each(|pid| open_all_of(pid));
    }

    /// Says what a rank says, without the look at who listens.
    fn knock(&self, id: &UniqueId) {
        let (name, hello) = first_words(id, self.rank, self.nranks).expect("an id");
        // BOUND: the server takes its next connection.
        let connection = loop {
            match socket::connect(&name) {
                Ok(connection) => break connection,
                Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(e) => return say(&format!("ok nobody listens: {e}")),
            }
        };
        let _ = socket::send(&connection, &hello, &[]);
        let long = Some(Duration::from_secs(20));
        socket::wait(&mut [PollEntry::readable(&connection)], long).expect("a wait");
        match socket::receive(&connection, &mut [0; 4096]) {
            Ok(said) if said.len > 0 => say("wrong: another user has an answer"),
            Err(e) if e.kind() == ErrorKind::WouldBlock => say("wrong: another user's connection stays open"),
            _ => say("ok no answer"),
        }
    }
}

/// What a process has open and mapped must stay closed.
fn open_all_of(pid: &str) {
    let opens = |path: String| File::open(path).is_ok();
    let descriptors = (0..256).filter(|fd| opens(format!("/proc/{pid}/fd/{fd}"))).count();
    let lists = ["fd", "map_files"].map(|folder| std::fs::read_dir(format!("/proc/{pid}/{folder}")).is_ok());
    let memory = opens(format!("/proc/{pid}/mem")) || opens(format!("/proc/{pid}/maps"));
    match (descriptors, lists, memory) {
        (0, [false, false], false) => say(&format!("ok nothing of {pid}")),
        found => say(&format!("wrong: another user opens {found:?} of process {pid}")),
    }
}
