//! Who waits for whom, where all wait and nothing is under way; and who holds the clock, where it stands.

use super::clock_segment::{AWAY, ClockSegment, NOBODY, POSTED, SERVED, ThreadLine, Ticket};
use super::one_sided::awaited_text;
use super::participant::Participant;
use super::presence::is_counted;
use super::spec::{Post, What};
use super::threads::is_watched;
use crate::error::{Code, Error};
use crate::sync::prim::Ordering;
use crate::sys::process;
use crate::types::Rank;

/// Ranks that the sentence names.
const NAMED: usize = 4;

/// A rank, and which of its threads where it has several.
fn who(clock_segment: &ClockSegment, place: Rank, thread: u32) -> String {
    let lines = clock_segment.threads(place);
    let several = lines.iter().filter(|line| line.now() != NOBODY).count() > 1;
    match lines.get(thread as usize).filter(|line| several && is_watched(line)) {
        Some(line) => format!("rank {place}, thread {},", line.tid.load(Ordering::Relaxed)),
        None => format!("rank {place}"),
    }
}

/// Describes what every waiting rank waits for. Ranks are those of the job's first communicator.
pub(super) fn deadlock(clock_segment: &ClockSegment) -> String {
    let mut waits: Vec<(Rank, u32, Post)> = Vec::new();
    for place in 0..clock_segment.places() {
        for (number, ticket) in clock_segment.used_tickets(place).iter().enumerate() {
            if ticket.state.load(Ordering::Acquire) != POSTED {
                continue;
            }
            let count = ticket.posts.load(Ordering::Relaxed) as usize;
            let open = clock_segment
                .posts(place, number, count)
                .iter()
                .filter(|l| l.stage.load(Ordering::Relaxed) == 0);
            let thread = ticket.thread.load(Ordering::Relaxed);
            waits.extend(open.filter_map(|line| Some((place, thread, Post::read(line)?))).take(1));
        }
    }
    let has_posted = |comm: u64, key: u64, member: u32| {
        (0..clock_segment.places()).any(|place| {
            clock_segment.used_tickets(place).iter().enumerate().any(|(number, ticket)| {
                ticket.state.load(Ordering::Acquire) == POSTED
                    && clock_segment
                        .posts(place, number, ticket.posts.load(Ordering::Relaxed) as usize)
                        .iter()
                        .filter_map(Post::read)
                        .any(|post| (post.comm, post.key, post.member) == (comm, key, member))
            })
        })
    };
    let awaiting =
        (0..clock_segment.places()).filter(|&place| clock_segment.awaits(place)).flat_map(|place| {
            let lines = (0..).zip(clock_segment.threads(place));
            let threads: Vec<u32> = lines
                .filter(|(_, line)| line.awaits.load(Ordering::Relaxed) != 0)
                .map(|(at, _)| at)
                .collect();
            threads.into_iter().map(move |thread| {
                let what = awaited_text(clock_segment.place(place), thread);
                let what = what.unwrap_or("a signal or another store that nobody makes".into());
                format!("{} waits for {what}", who(clock_segment, place, thread))
            })
        });
    let awaiting: Vec<String> = awaiting.collect();
    let texts = waits.iter().take(NAMED).map(|&(place, thread, post)| {
        let who = who(clock_segment, place, thread);
        let awaited = match post.spec.what {
            What::Put { .. } | What::Pause => return format!("{who} in a {}", post.spec),
            What::Transfer { from, to } => vec![if post.member == 0 { to } else { from }],
            What::Collective { .. } | What::Meeting => (0..post.members)
                .filter(|&member| !has_posted(post.comm, post.key, member))
                .take(NAMED)
                .collect(),
        };
        let its = if post.comm == 0 { "" } else { "its " };
        let awaited: Vec<String> = awaited.iter().map(|rank| format!("{its}rank {rank}")).collect();
        let own = match post.spec.what {
            What::Transfer { from, .. } if post.member == 1 => format!("a receive from rank {from}"),
            What::Transfer { to, .. } => format!("a send to rank {to}"),
            What::Collective { collective, .. } => format!("{collective} (call #{})", post.key),
            What::Put { .. } | What::Pause | What::Meeting => post.spec.to_string(),
        };
        let of = if post.comm == 0 { "" } else { " of a sub-communicator" };
        format!("{who} in {own}{of} waits for {}", awaited.join(", "))
    });
    let texts: Vec<String> = texts.chain(awaiting.iter().take(NAMED).cloned()).collect();
    let mut text = format!("deadlock on the declared machine: {}", texts.join("; "));
    let unnamed = waits.len().saturating_sub(NAMED) + awaiting.len().saturating_sub(NAMED);
    if unnamed > 0 {
        text += &format!("; and {unnamed} more wait");
    }
    let left: Vec<String> = (0..clock_segment.places())
        .filter(|&place| clock_segment.place(place).left.load(Ordering::Acquire) != 0)
        .take(NAMED)
        .map(|place| format!("rank {place}"))
        .collect();
    if !left.is_empty() {
        text += &format!("; {} left already", left.join(", "));
    }
    match waits.iter().any(|(_, _, post)| matches!(post.spec.what, What::Transfer { .. })) {
        true => text + "; every send needs its receive, and ranks that send to each other need a group",
        false => text,
    }
}

/// Returns the reason for which a rank, or one of its threads, holds the clock.
fn holds(clock_segment: &ClockSegment, place: Rank) -> Option<String> {
    let served = |ticket: &Ticket| ticket.state.load(Ordering::Acquire) == SERVED;
    let lines = (0..).zip(clock_segment.threads(place));
    let in_program = |(thread, line): (u32, &ThreadLine)| {
        let state = line.now();
        let since = match state {
            AWAY => " for longer than the grace period",
            state if is_counted(state) => "",
            _ => return None,
        };
        let who = who(clock_segment, place, thread);
        let thread = who.split_once(", ").map_or(String::new(), |(_, thread)| format!(", by its {thread}"));
        Some(format!("is in its own program{since}{}", thread.trim_end_matches(',')))
    };
    if clock_segment.header().runner.load(Ordering::Acquire) == place + 1 {
        return Some("runs the engine".into());
    }
    if clock_segment.used_tickets(place).iter().any(served) {
        return Some("has not come back from its call".into());
    }
    lines.filter_map(in_program).next()
}

impl Participant {
    /// The clock stands because of these ranks: each with PID and state. Those that are stopped come first, and alone.
    fn holders(&self) -> Vec<String> {
        let clock_segment = self.clock_segment();
        let (mut stopped, mut others) = (Vec::new(), Vec::new());
        let there = |&place: &Rank| {
            self.is_here(place) && clock_segment.place(place).left.load(Ordering::Acquire) == 0
        };
        for place in (0..clock_segment.places()).filter(there) {
            let pid = clock_segment.place(place).pid.load(Ordering::Relaxed);
            let state = process::state(pid).unwrap_or("not visible from here");
            let why = holds(clock_segment, place);
            if state.starts_with("stopped") {
                let why = why.unwrap_or_else(|| "is in a call".into());
                stopped.push(format!("rank {place} (pid {pid}, {state}) {why}"));
            } else if let Some(why) = why {
                others.push(format!("rank {place} (pid {pid}, {state}) {why}"));
            }
        }
        let mut told = if stopped.is_empty() { others } else { stopped };
        let unnamed = told.len().saturating_sub(NAMED);
        told.truncate(NAMED);
        if unnamed > 0 {
            told.push(format!("{unnamed} more hold it"));
        }
        told
    }

    /// The deadline has passed, and the clock has not come to where this rank is waited for.
    pub fn clock_stood(&self, timeout_ns: u64) -> Error {
        let holders = match self.holders() {
            none if none.is_empty() && self.is_across_hosts() => {
                "ranks of other hosts hold it, or ranks wait for each other in a circle".into()
            }
            none if none.is_empty() => "no rank is seen to hold it".into(),
            some => some.join(", "),
        };
        Error::timeout(format!(
            "the declared machine's clock did not move on within {} s: {holders}; ranks must call or leave, or raise \
             PENNY_TIMEOUT",
            timeout_ns as f64 / 1e9
        ))
    }

    /// Completes the error of a failed wait: stopped ranks of the job, or ranks that have left, may be the cause
    /// instead of the named one, or a deadlock that was not certain.
    pub fn blame(&self, error: Error) -> Error {
        if !matches!(error.code, Code::Timeout | Code::RemoteError) || self.check().is_err() {
            return error;
        }
        let clock_segment = self.clock_segment();
        let why = |place: Rank| {
            let line = clock_segment.place(place);
            let named = format!("rank {place} (pid {}", line.pid.load(Ordering::Relaxed));
            let state = process::state(line.pid.load(Ordering::Relaxed)).filter(|_| self.is_here(place));
            if line.left.load(Ordering::Acquire) != 0 {
                let told = error.code == Code::Timeout || error.message.contains(&named);
                (!told).then(|| format!("{named}) has left the declared machine"))
            } else if state.is_some_and(|state| state.starts_with("stopped")) {
                let stopped = format!("{named}, stopped by a signal");
                (!error.message.contains(&stopped)).then(|| format!("{stopped}) does not go on"))
            } else {
                None
            }
        };
        let mut texts: Vec<String> = (0..clock_segment.places()).filter_map(why).take(NAMED).collect();
        // What ranks of other hosts wait for is not known here.
        if error.code == Code::Timeout && !self.is_across_hosts() {
            texts.extend(self.suspicion());
        }
        texts.retain(|text| !error.message.contains(text.as_str()));
        match texts.is_empty() {
            true => error,
            false => Error::new(error.code, format!("{}; {}", error.message, texts.join(", "))),
        }
    }
}
