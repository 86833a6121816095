//! The first process management interface, as far as ranks need it to hear of each other: lines of `name=value` over a socket that the
//! launcher's proxy has made.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::super::ancestry;
use super::{KEY, LOOK, Patience};
use crate::error::{Error, Result};
use crate::sys::socket::{self, PollEntry};

/// The longest answer that is read.
const MOST_BYTES: usize = 8192;

/// Returns the socket behind a descriptor that `PMI_FD` names, if the process at its other end is above this one: the variable is
/// handed on by programs that do not hand the descriptor on.
pub fn inherited(descriptor: i32) -> Result<UnixStream> {
    let useless = |why: &str| {
        Error::usage(format!(
            "PMI_FD is {descriptor}, {why}, so the launcher cannot pass on where the ranks of several hosts meet; start each rank from \
             mpiexec without a program between that closes its descriptors, or set PENNY_SECRET and MASTER_ADDR on all ranks"
        ))
    };
    let socket =
        socket::inherited(descriptor).map_err(|e| useless(&format!("which is no open socket ({e})")))?;
    match socket::peer(&socket) {
        Ok(peer) if ancestry::is_above(peer.pid as u32) => Ok(socket.into()),
        _ => Err(useless("a socket that does not lead to the launcher")),
    }
}

/// Tells `own`, if this is rank 0, and returns what rank 0 has told.
pub fn exchange(stream: &UnixStream, own: Option<&str>, patience: &Patience<'_>) -> Result<String> {
    let mut talk = Talk { stream, patience, unread: Vec::new() };
    talk.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")?;
    let space = talk.ask("get_my_kvsname", "my_kvsname")?.remove("kvsname").unwrap_or_default();
    if let Some(own) = own {
        talk.ask(&format!("put kvsname={space} key={KEY} value={own}"), "put_result")?;
    }
    talk.ask("barrier_in", "barrier_out")?;
    let told = talk.ask(&format!("get kvsname={space} key={KEY}"), "get_result")?;
    talk.ask("finalize", "finalize_ack")?;
    Ok(told.get("value").cloned().unwrap_or_default())
}

/// A conversation with the launcher's proxy.
struct Talk<'a> {
    stream: &'a UnixStream,
    patience: &'a Patience<'a>,
    unread: Vec<u8>,
}

impl Talk<'_> {
    /// Says a command, and returns the fields of the answer that is expected.
    fn ask(&mut self, command: &str, expected: &str) -> Result<BTreeMap<String, String>> {
        let verb = command.split(' ').next().unwrap_or_default();
        let broken = |why: &str| {
            Error::remote(format!(
                "the launcher cannot pass on where the ranks of several hosts meet: {why} its PMI command `{verb}`; start the ranks again, \
                 or set PENNY_SECRET and MASTER_ADDR on all of them"
            ))
        };
        let lost = |e: io::Error| broken(&format!("the connection to it broke ({e}) at"));
        (&mut &*self.stream).write_all(format!("cmd={command}\n").as_bytes()).map_err(lost)?;
        let Some(line) = self.line(&lost)? else { return Err(broken("it closed the connection at")) };
        let fields: BTreeMap<String, String> = line
            .split_ascii_whitespace()
            .filter_map(|field| field.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let is_good = fields.get("rc").is_none_or(|rc| rc == "0");
        match fields.get("cmd") {
            Some(told) if told == expected && is_good => Ok(fields),
            _ => Err(broken(&format!("it answered {line:?} to"))),
        }
    }

    /// Returns the next line; `None`: the other side has closed.
    ///
    /// BOUND: the patience, or the other side's end.
    fn line(&mut self, lost: &dyn Fn(io::Error) -> Error) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            if self.unread.len() > MOST_BYTES {
                return Err(lost(io::Error::other("a line without end")));
            }
            let mut come = [PollEntry::readable(self.stream)];
            socket::wait(&mut come, Some(LOOK)).map_err(lost)?;
            if come[0].ready() {
                let mut buffer = [0; 512];
                match (&mut &*self.stream).read(&mut buffer) {
                    Ok(0) => return Ok(None),
                    Ok(read) => self.unread.extend(&buffer[..read]),
                    Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                    Err(e) => return Err(lost(e)),
                }
            }
            self.patience.check()?;
        }
    }
}
