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

/// A conversation with the launcher's proxy, which is gone on with after a rank's patience was at its end.
pub struct Talk {
    stream: UnixStream,
    unread: Vec<u8>,
    /// The last command has been said, and its answer has not come.
    is_said: bool,
    /// The answers that have come.
    answers: Vec<Answer>,
}

/// The fields of an answer.
type Answer = BTreeMap<String, String>;

impl Talk {
    pub fn new(stream: UnixStream) -> Talk {
        Talk { stream, unread: Vec::new(), is_said: false, answers: Vec::new() }
    }

    /// Tells `own`, if this is rank 0, and returns what rank 0 has told. Called again after it has failed, it goes on where it was.
    pub fn exchange(&mut self, own: Option<&str>, patience: &Patience<'_>) -> Result<String> {
        let mut numbers = 0..;
        let mut ask = |command: &str, expected: &str| {
            let number = numbers.next().unwrap_or_default();
            self.ask(number, command, expected, patience)
        };
        ask("init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let space = ask("get_my_kvsname", "my_kvsname")?.remove("kvsname").unwrap_or_default();
        if let Some(own) = own {
            ask(&format!("put kvsname={space} key={KEY} value={own}"), "put_result")?;
        }
        ask("barrier_in", "barrier_out")?;
        let told = ask(&format!("get kvsname={space} key={KEY}"), "get_result")?;
        ask("finalize", "finalize_ack")?;
        Ok(told.get("value").cloned().unwrap_or_default())
    }

    /// Says the command of this number, unless it has been said, and returns the answer that is expected.
    fn ask(
        &mut self,
        number: usize,
        command: &str,
        expected: &str,
        patience: &Patience<'_>,
    ) -> Result<Answer> {
        if let Some(answer) = self.answers.get(number) {
            return Ok(answer.clone());
        }
        let verb = command.split(' ').next().unwrap_or_default();
        let broken = |why: &str| {
            Error::remote(format!(
                "the launcher cannot pass on where the ranks of several hosts meet: {why} its PMI command `{verb}`; start the ranks again, \
                 or set PENNY_SECRET and MASTER_ADDR on all of them"
            ))
        };
        let lost = |e: io::Error| broken(&format!("the connection to it broke ({e}) at"));
        if !self.is_said {
            self.stream.write_all(format!("cmd={command}\n").as_bytes()).map_err(lost)?;
            self.is_said = true;
        }
        let Some(line) = self.line(&lost, patience)? else {
            return Err(broken("it closed the connection at"));
        };
        self.is_said = false;
        let fields: Answer = line
            .split_ascii_whitespace()
            .filter_map(|field| field.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let is_good = fields.get("rc").is_none_or(|rc| rc == "0");
        match fields.get("cmd") {
            Some(told) if told == expected && is_good => {
                self.answers.push(fields.clone());
                Ok(fields)
            }
            _ => Err(broken(&format!("it answered {line:?} to"))),
        }
    }

    /// Returns the next line; `None`: the other side has closed.
    ///
    /// BOUND: the patience, or the other side's end.
    fn line(&mut self, lost: &dyn Fn(io::Error) -> Error, patience: &Patience<'_>) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            if self.unread.len() > MOST_BYTES {
                return Err(lost(io::Error::other("a line without end")));
            }
            let mut come = [PollEntry::readable(&self.stream)];
            socket::wait(&mut come, Some(LOOK)).map_err(lost)?;
            if come[0].ready() {
                let mut buffer = [0; 512];
                match self.stream.read(&mut buffer) {
                    Ok(0) => return Ok(None),
                    Ok(read) => self.unread.extend(&buffer[..read]),
                    Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                    Err(e) => return Err(lost(e)),
                }
            }
            patience.check()?;
        }
    }
}
