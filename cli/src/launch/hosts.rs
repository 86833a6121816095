//! Ranks on several hosts: a launcher on each, started by `ssh` or another such command.
//!
//! ```text
//!     penny run --hosts a:2,b:2 prog     ssh a 'penny run --part'  ──►  ranks 0, 1
//!       │ the part of each host, on      ssh b 'penny run --part'  ──►  ranks 2, 3
//!       │ standard input, then silence
//!       '── its end: the launchers of all hosts end their ranks
//! ```
//!
//! The secret by which the ranks find each other goes over standard input, so that no list of processes shows it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::BufRead;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::bind::Bind;
use super::{Job, MOST_RANKS, Work, ranks};

/// Ports among which the meeting's is chosen: below those that systems give to anybody.
const PORTS: std::ops::Range<u16> = 16_000..32_000;
/// Ports after the chosen one at which rank 0 may listen.
const PORTS_AFTER: u16 = 16;

/// A host and the number of its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRanks {
    /// As the command that starts it takes it.
    pub host: String,
    /// Ranks.
    pub ranks: u32,
}

/// Where the ranks run, on the command line.
#[derive(clap::Args)]
pub struct HostArgs {
    /// Hosts and their ranks, as node1:2,node2:2
    #[arg(long, value_name = "HOST:N,..", value_parser = parse_list)]
    hosts: Option<HostList>,
    /// A file of hosts: one a line, as `node1 slots=2`
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
    /// The command that runs another on a host
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    rsh: String,
    /// The address of the first host by which the others reach it; unset: MASTER_ADDR, or its name in --hosts
    #[arg(long, value_name = "ADDRESS")]
    master: Option<String>,
    /// This program on the other hosts; unset: where it is here
    #[arg(long, value_name = "PATH")]
    penny: Option<PathBuf>,
    /// A variable for all ranks; without a value, as it is here
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    variables: Vec<String>,
}

/// What becomes of the ranks' output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Piped {
    /// It goes where the launcher's goes.
    No,
    /// The same with each line's rank before it.
    Tagged,
    /// The launcher gets it line by line.
    Lines,
}

/// The value of `--hosts`.
#[derive(Clone)]
struct HostList(Vec<HostRanks>);

fn parse_list(text: &str) -> Result<HostList, String> {
    parse(text).map(HostList)
}

impl HostArgs {
    /// Returns the hosts, with `ranks` ranks in all if that is given; `None`: all ranks run on this one.
    pub fn hosts(&self, ranks: Option<u32>) -> Result<Option<Vec<HostRanks>>, String> {
        let hosts = match (&self.hosts, &self.hostfile) {
            (Some(HostList(hosts)), _) => hosts.clone(),
            (None, Some(file)) => parse_file(file)?,
            (None, None) => return Ok(None),
        };
        first_places(hosts, ranks).map(Some)
    }

    /// Tells whether hosts are named.
    pub fn are_several(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some()
    }

    /// Returns the variables that the user has named for all ranks.
    pub fn variables(&self) -> Result<Vec<(String, String)>, String> {
        let value = |variable: &String| match variable.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => match std::env::var(variable) {
                Ok(value) => Ok((variable.clone(), value)),
                Err(_) => {
                    Err(format!("--env {variable}: it is not set here; give it a value, as {variable}=1"))
                }
            },
        };
        self.variables.iter().map(value).collect()
    }

    /// Returns this program on the other hosts.
    pub fn penny(&self) -> Result<PathBuf, String> {
        let here =
            || std::env::current_exe().map_err(|e| format!("cannot tell where penny is: {e}; give --penny"));
        self.penny.clone().map_or_else(here, Ok)
    }

    /// Prepares the commands that start the launchers of these hosts, and by them the ranks of `job`.
    pub fn work(&self, hosts: &[HostRanks], piped: Piped, job: &Job) -> Result<Work, String> {
        let id = ranks::job_id().map_err(|e| format!("cannot read random bytes: {e}"))?;
        let folder = std::env::current_dir().map_err(|e| format!("cannot read the working folder: {e}"))?;
        let mut words = self.rsh.split_whitespace();
        let rsh = words.next().ok_or("--rsh names no command")?;
        let options: Vec<&str> = words.collect();
        let environment = self.environment(&hosts[0], job);
        let world = hosts.iter().map(|host| host.ranks).sum();
        let remote = format!("{} run --part", quoted(&self.penny()?.display().to_string()));
        let mut first = 0;
        let mut commands = Vec::new();
        for (at, HostRanks { host, ranks }) in hosts.iter().enumerate() {
            // A host may be named again, for ranks that are dealt in turns.
            let named = |hosts: &[HostRanks]| {
                hosts.iter().filter(|other| other.host == *host).map(|other| other.ranks).sum()
            };
            let part = Part {
                id: id.clone(),
                first,
                ranks: *ranks,
                before: named(&hosts[..at]),
                beside: named(hosts),
                world,
                tag: piped == Piped::Tagged,
                bind: job.bind,
                folder: folder.as_os_str().as_bytes().to_vec(),
                program: job.program.as_bytes().to_vec(),
                arguments: job.arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
                environment: environment.clone(),
            };
            let mut told = serde_json::to_vec(&part).map_err(|e| e.to_string())?;
            told.push(b'\n');
            let mut command = Command::new(rsh);
            command.args(&options).arg(host).arg(&remote).stdin(Stdio::piped());
            if piped == Piped::Lines {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            ranks::end_with_launcher(&mut command);
            commands.push(ranks::Prepared { name: host.clone(), rank: first, command, told: Some(told) });
            first += ranks;
        }
        let timeout = job.timeout;
        Ok(Work { commands, noun: "host", timeout, ends_with_stdin: false, have_sessions: false })
    }

    /// The variables of all ranks: Penny's own as they are set here, those that the user names, where rank 0 is, and libfabric's buffers.
    fn environment(&self, first: &HostRanks, job: &Job) -> BTreeMap<String, String> {
        let own = std::env::vars().filter(|(name, _)| name.starts_with("PENNY_"));
        let mut all: BTreeMap<String, String> = own.collect();
        // Of a job that this one runs in.
        for name in [
            "PENNY_JOB_ID",
            "PENNY_RANK",
            "PENNY_WORLD_SIZE",
            "PENNY_LOCAL_RANK",
            "PENNY_LOCAL_SIZE",
            "PENNY_HOST_ID",
        ] {
            all.remove(name);
        }
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let master = self.master.clone().or_else(|| set("MASTER_ADDR"));
        all.insert("MASTER_ADDR".into(), master.unwrap_or_else(|| first.host.clone()));
        all.insert("MASTER_PORT".into(), set("MASTER_PORT").unwrap_or_else(|| chosen_port().to_string()));
        let (name, size) = TCP_BUFFERS;
        all.insert(name.into(), set(name).unwrap_or_else(|| size.into()));
        all.extend(job.environment.iter().cloned());
        all
    }
}

/// The variable of the size of buffers of libfabric's tcp provider, and its value unless the user sets it. The provider makes 1,024 of them for
/// each communicator, of 16 KiB by default, for unexpected tagged messages. Penny sends no tagged messages.
const TCP_BUFFERS: (&str, &str) = ("FI_TCP_MAX_RX_SIZE", "256");

/// One host's part of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The job's secret.
    pub id: String,
    /// The first rank on the host.
    pub first: u32,
    /// Ranks of this launcher.
    pub ranks: u32,
    /// Ranks on the host that launchers before this one start.
    pub before: u32,
    /// Ranks on the host.
    pub beside: u32,
    /// Ranks in all.
    pub world: u32,
    /// Prefix each line with its rank.
    pub tag: bool,
    /// Which cores each rank may use.
    bind: Bind,
    /// The working folder, the program and its arguments, as bytes.
    folder: Vec<u8>,
    program: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    /// Variables for the ranks.
    environment: BTreeMap<String, String>,
}

/// Reads `a:2,b:2`. A host without a number has one rank.
fn parse(text: &str) -> Result<Vec<HostRanks>, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    checked(words.map(parse_one).collect::<Result<_, _>>()?)
}

/// Reads a file of hosts: one a line, as `a`, `a:2`, `a 2` or `a slots=2`; `#` begins a comment.
fn parse_file(path: &Path) -> Result<Vec<HostRanks>, String> {
    let text =
        crate::input::text(path).map_err(|e| format!("cannot read the host file {}: {e}", path.display()))?;
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(host) = words.next() else { continue };
        let host = match words.next() {
            None => host.to_owned(),
            Some(slots) => format!("{host}:{}", slots.strip_prefix("slots=").unwrap_or(slots)),
        };
        let parsed = if words.next().is_some() {
            Err("a line has a host and a number".to_owned())
        } else {
            parse_one(&host)
        };
        hosts.push(parsed.map_err(|e| format!("{}, line {number}: {e}", path.display()))?);
    }
    checked(hosts)
}

fn parse_one(word: &str) -> Result<HostRanks, String> {
    // An address of IPv6 has colons of its own, and stands in brackets if a number follows.
    let (host, ranks) = match word.rsplit_once(':') {
        Some((host, number)) if !host.contains(':') || host.ends_with(']') => (host, Some(number)),
        _ => (word, None),
    };
    let ranks = match ranks {
        None => 1,
        Some(number) => number
            .parse()
            .ok()
            .filter(|&ranks| (1..=MOST_RANKS).contains(&ranks))
            .ok_or_else(|| format!("{word:?}: {number:?} is no number of ranks from 1 to {MOST_RANKS}"))?,
    };
    let host = host.trim_matches(['[', ']']);
    match host.is_empty() || host.starts_with('-') {
        true => Err(format!("{word:?} names no host; write hosts as a:2,b:2")),
        false => Ok(HostRanks { host: host.to_owned(), ranks }),
    }
}

fn checked(hosts: Vec<HostRanks>) -> Result<Vec<HostRanks>, String> {
    let all: u64 = hosts.iter().map(|host| u64::from(host.ranks)).sum();
    if all == 0 {
        return Err("no host is named; write hosts as a:2,b:2".into());
    }
    if all > MOST_RANKS as u64 {
        return Err(format!("{all} ranks; there may be {MOST_RANKS}"));
    }
    Ok(hosts)
}

/// Takes the first `ranks` places of the hosts; an error if they have fewer, or a host would have none.
fn first_places(hosts: Vec<HostRanks>, ranks: Option<u32>) -> Result<Vec<HostRanks>, String> {
    let Some(wanted) = ranks else { return Ok(hosts) };
    let all: u32 = hosts.iter().map(|host| host.ranks).sum();
    if all < wanted {
        return Err(format!(
            "-n {wanted}: the hosts have places for {all} ranks; give them more, as in a:{wanted}"
        ));
    }
    let mut left = wanted;
    let taken = hosts.into_iter().map(|host| {
        let ranks = host.ranks.min(left);
        left -= ranks;
        HostRanks { ranks, ..host }
    });
    let (taken, without): (Vec<_>, Vec<_>) = taken.partition(|host| host.ranks > 0);
    let names: Vec<&str> = without.iter().map(|host| &*host.host).collect();
    match names.is_empty() {
        true => Ok(taken),
        false => Err(format!(
            "-n {wanted}: no rank is left for {}, because the hosts before have places for all; name only the hosts that are to run some, or \
             give each fewer, as in a:1,b:1",
            names.join(", ")
        )),
    }
}

/// Returns a port that jobs which start at the same time seldom share. Rank 0's host may use it for something else: then rank 0 takes
/// one of the next.
fn chosen_port() -> u16 {
    let time =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let mixed = (time ^ u64::from(std::process::id()) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let groups = (PORTS.end - PORTS.start) / (PORTS_AFTER + 1);
    PORTS.start + (mixed % u64::from(groups)) as u16 * (PORTS_AFTER + 1)
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Reads this host's part of a job from standard input, and goes to the job's folder.
pub fn read_part() -> Result<(Part, Job), String> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|e| format!("cannot read this host's part of a job: {e}"))?;
    let part: Part = serde_json::from_str(&line).map_err(|e| {
        format!("--part is for `penny run --hosts`, which tells it what to run; the versions of penny on the hosts may differ ({e})")
    })?;
    let folder = PathBuf::from(OsString::from_vec(part.folder.clone()));
    std::env::set_current_dir(&folder)
        .map_err(|e| format!("this host has no folder {} like that of the first: {e}", folder.display()))?;
    let environment = part.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    let job = Job {
        program: OsString::from_vec(part.program.clone()),
        arguments: part.arguments.iter().cloned().map(OsString::from_vec).collect(),
        environment: environment.collect(),
        ranks: part.ranks,
        part: Some(part.clone()),
        bind: part.bind,
        timeout: None,
    };
    Ok((part, job))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(String, u32)> {
        parse(text).unwrap().into_iter().map(|host| (host.host, host.ranks)).collect()
    }

    #[test]
    fn hosts_are_read_with_their_ranks() {
        let pair = |host: &str, ranks| (host.to_owned(), ranks);
        assert_eq!(told("a:2, b,c:1"), [pair("a", 2), pair("b", 1), pair("c", 1)]);
        assert_eq!(told("fe80::1,[fd00::2]:3"), [pair("fe80::1", 1), pair("fd00::2", 3)]);
        for (wrong, word) in [
            ("a:0", "no number of ranks"),
            ("a:x", "no number"),
            (":2", "names no host"),
            ("", "no host"),
            ("-x:1", "names no host"),
        ] {
            let e = parse(wrong).unwrap_err();
            assert!(e.contains(word), "{wrong}: {e}");
        }
        assert!(parse("a:1000,b:1000").unwrap_err().contains("2000 ranks"));
    }

    #[test]
    fn a_file_of_hosts_is_read_in_the_ways_of_other_launchers() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# two nodes\na slots=2\n\nb:3 # fast\nc 4\nd\n").unwrap();
        let hosts = parse_file(file.path()).unwrap();
        let told: Vec<_> = hosts.iter().map(|host| (host.host.as_str(), host.ranks)).collect();
        assert_eq!(told, [("a", 2), ("b", 3), ("c", 4), ("d", 1)]);
        std::fs::write(file.path(), "a\nb slots=no\n").unwrap();
        assert!(parse_file(file.path()).unwrap_err().contains("line 2"));
    }

    #[test]
    fn the_first_places_are_taken_in_order() {
        let of = |n| first_places(parse("a:2,b:2,c:2").unwrap(), n);
        let ranks = |n| of(n).unwrap().iter().map(|host| host.ranks).collect::<Vec<_>>();
        assert_eq!(
            (ranks(None), ranks(Some(5)), ranks(Some(6))),
            (vec![2, 2, 2], vec![2, 2, 1], vec![2, 2, 2])
        );
        assert!(of(Some(2)).unwrap_err().contains("no rank is left for b, c"));
        assert!(of(Some(7)).unwrap_err().contains("places for 6"));
    }
}
