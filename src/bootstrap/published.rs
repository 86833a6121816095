//! Where the ranks of several hosts meet, as rank 0 tells the others through the launcher that has started them.
//!
//! ```text
//!     rank 0    chooses port and secret --put--> [ the launcher's key-value space ]
//!     all       -------------------------------- barrier --------------------------
//!     all                                        [ the launcher's key-value space ] --get--> addresses, port, secret
//! ```
//!
//! A process tells or asks once, and takes its leave of the launcher at once: a launcher ends all ranks when one that has spoken to it
//! ends without leave. All further meetings follow from what was told ([`HostsPlace`]). A rank whose patience is at its end leaves the
//! conversation where it is, and its next call goes on there.

mod pmi;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::ancestry;
use super::network::interfaces;
use super::network::place::{HostsPlace, PORTS_AFTER};
use super::{StopCheck, launcher};
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sys::interrupt;
use crate::sys::pmix::{self, Pmix};
use crate::sys::process::{self, random};

/// The name of the value in the launcher's space.
const KEY: &str = "penny-meeting";

/// Where rank 0 lets itself be met: below the ports that the system gives to connections.
const PORTS: std::ops::Range<u16> = 16_000..32_000;

/// The time between two looks at whether to go on waiting.
const LOOK: Duration = Duration::from_millis(20);

/// How a rank speaks to its launcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyValueSpace {
    /// The first process management interface, over this descriptor: MPICH, Intel MPI.
    Pmi(i32),
    /// PMIx, by its library: Open MPI, Slurm.
    Pmix,
}

/// A meeting of ranks on several hosts whose place rank 0 publishes.
#[derive(Clone, PartialEq, Eq)]
pub struct PublishedPlace {
    /// How the ranks hear of it.
    pub space: KeyValueSpace,
    /// The host of rank 0 and the port of the launcher's store, if the user names them.
    pub master: (Option<String>, Option<u16>),
    /// The secret that the user has given.
    pub secret: Option<String>,
    /// What tells the job from others.
    pub identity: Vec<String>,
    /// Which of the meetings of the job.
    pub series: u64,
}

/// The end of a rank's patience.
#[derive(Clone, Copy)]
struct Patience<'a> {
    timeout: Option<Duration>,
    since: Instant,
    watch: StopCheck<'a>,
}

impl Patience<'_> {
    /// Is it at its end?
    fn check(&self) -> Result<()> {
        (self.watch)()?;
        interrupt::look_now()?;
        match self.timeout {
            Some(timeout) if self.since.elapsed() >= timeout => Err(Error::timeout(format!(
                "the launcher has not passed on where the ranks of several hosts meet within {} s: it does so when every rank has begun \
                 to join; check that all have been started and reach this call, or raise the timeout",
                timeout.as_secs_f64()
            ))),
            _ => Ok(()),
        }
    }
}

impl PublishedPlace {
    /// Returns the place, as rank 0 has published it. Rank 0 does that now.
    pub fn resolve(&self, rank: u32, timeout: Option<Duration>, watch: StopCheck<'_>) -> Result<HostsPlace> {
        let told = told(self.space, rank, Patience { timeout, since: Instant::now(), watch })?;
        let (master, port) = &self.master;
        let secret = self.secret.as_deref().unwrap_or(&told.secret);
        let master = (master.as_deref().unwrap_or(&told.addresses), port.unwrap_or(told.port));
        HostsPlace::new(master, secret.as_bytes(), &self.identity, self.series)
    }
}

/// What rank 0 tells.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    /// Its addresses, with commas between.
    addresses: String,
    /// The port after which it listens.
    port: u16,
    secret: String,
}

impl Told {
    /// Chooses what rank 0 tells.
    fn new() -> Result<Told> {
        let addresses: Vec<String> = interfaces::chosen(&[])?.iter().map(ToString::to_string).collect();
        let ports = PORTS.end - PORTS.start - PORTS_AFTER;
        Ok(Told {
            addresses: addresses.join(","),
            port: PORTS.start + u16::from_le_bytes(random()) % ports,
            secret: format!("{:032x}", u128::from_le_bytes(random())),
        })
    }

    /// Returns it without blanks, which some spaces do not carry.
    fn encode(&self) -> String {
        format!("{}/{}/{}", self.addresses, self.port, self.secret)
    }

    fn decode(text: &str) -> Option<Told> {
        let mut parts = text.split('/');
        let (addresses, port, secret) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        let is_whole = parts.next().is_none() && !addresses.is_empty() && secret.len() == 32;
        is_whole.then(|| Told { addresses: addresses.to_owned(), port, secret: secret.to_owned() })
    }
}

/// Returns what rank 0 tells. The first call of the process speaks to the launcher.
fn told(space: KeyValueSpace, rank: u32, patience: Patience<'_>) -> Result<Told> {
    static STATE: Mutex<State> = Mutex::new(State::Silent);
    STATE.lock().go_on(|| Conversation::begin(space, rank), &patience)
}

/// How far this process is with its launcher.
enum State {
    Silent,
    Talking(Box<Conversation>),
    /// Also after a failure of the launcher, which has one conversation with a process.
    Over(Result<Told>),
}

impl State {
    fn go_on(
        &mut self,
        begin: impl FnOnce() -> Result<Conversation>,
        patience: &Patience<'_>,
    ) -> Result<Told> {
        if let State::Silent = self {
            *self = State::Talking(Box::new(begin()?));
        }
        let ended = match self {
            State::Talking(conversation) => conversation.go_on(patience),
            State::Over(told) => return told.clone(),
            State::Silent => return Err(Error::internal("a conversation that has not begun")),
        };
        if ended.is_ok() || patience.check().is_ok() {
            *self = State::Over(ended.clone());
        }
        ended
    }
}

/// What a process and its launcher have said to each other.
struct Conversation {
    /// What rank 0 tells, if this is rank 0.
    own: Option<String>,
    talk: Talk,
}

enum Talk {
    Pmi(pmi::Talk),
    /// The fence has begun.
    Pmix(Pmix, Box<pmix::Process>),
}

impl Conversation {
    /// Begins to speak. Fails without having spoken where that cannot be done.
    fn begin(space: KeyValueSpace, rank: u32) -> Result<Conversation> {
        refuse_mpi()?;
        let own = if rank == 0 { Some(Told::new()?.encode()) } else { None };
        let talk = match space {
            KeyValueSpace::Pmi(descriptor) => Talk::Pmi(pmi::Talk::new(pmi::inherited(descriptor)?)),
            KeyValueSpace::Pmix => begin_by_pmix(own.as_deref())?,
        };
        Ok(Conversation { own, talk })
    }

    fn go_on(&mut self, patience: &Patience<'_>) -> Result<Told> {
        let text = match &mut self.talk {
            Talk::Pmi(talk) => talk.exchange(self.own.as_deref(), patience)?,
            Talk::Pmix(library, process) => end_by_pmix(library, process, patience)?,
        };
        Told::decode(&text).ok_or_else(|| {
            Error::remote(format!(
                "the launcher passed on {text:?} as the place where the ranks meet, which this version of Penny does not understand; run \
                 all ranks with one libpenny"
            ))
        })
    }
}

fn refuse_mpi() -> Result<()> {
    if let Some(file) = process::mapped_file("self", "libmpi") {
        return Err(Error::usage(format!(
            "the ranks run on more than one host, and this program uses MPI ({file}), whose conversation with {} Penny does not disturb: \
             join the ranks by pennyCommInitMPI (penny_mpi.h), or pass a unique id to pennyCommInitRank, or set PENNY_SECRET and \
             MASTER_ADDR on all ranks",
            launcher::name().unwrap_or("the launcher")
        )));
    }
    Ok(())
}

fn begin_by_pmix(own: Option<&str>) -> Result<Talk> {
    // The launcher's own process has the library that fits it.
    let files = ancestry::mapped_file(pmix::SONAME).into_iter().chain([pmix::SONAME.to_owned()]);
    let library = Pmix::load(files)?;
    let process = library.begin()?;
    if let Some(own) = own {
        library.put(KEY, own)?;
    }
    library.begin_fence()?;
    Ok(Talk::Pmix(library, Box::new(process)))
}

fn end_by_pmix(library: &Pmix, process: &pmix::Process, patience: &Patience<'_>) -> Result<String> {
    // BOUND: the patience.
    while !library.is_fenced()? {
        patience.check()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = library.get(process, 0, KEY)?;
    library.end();
    Ok(text)
}
