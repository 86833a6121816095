//! One thread of one rank that plays a program: where it stands, what it calls, how it fails.

use std::ffi::c_int;
use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::time::{ClockId, clock_gettime};

use crate::api::{Comm, Out, Penny, REMOTE, SUCCESS};
use crate::buffer::Arena;
use crate::hook::Hook;
use crate::program::{Program, Step};
use crate::random::Random;

/// Calls a function of the library, and records the call for the report of where this rank is. The value is `Err` unless
/// the call returns pennySuccess.
macro_rules! call {
    ($actor:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        $actor.enter(&$crate::actor::notation(stringify!($name), &[$(&$arg as &dyn std::fmt::Debug),*]));
        // SAFETY: the step that makes the call keeps its buffers and places until the call is over, as the header asks.
        let code = unsafe { ($actor.penny.$name)($($arg),*) };
        $actor.leave(code)
    }};
}
pub(crate) use call;

/// A call as a C program would write it.
pub fn notation(name: &str, arguments: &[&dyn Debug]) -> String {
    let list: Vec<String> = arguments
        .iter()
        .map(|argument| match format!("{argument:?}").as_str() {
            "0x0" => "NULL".to_owned(),
            shown => shown.replace("Comm(0x0)", "NULL").replace("Comm(0x", "comm(0x"),
        })
        .collect();
    format!("{name}({})", list.join(", "))
}

/// What went wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What the library returned; 0 where the result was wrong.
    pub code: c_int,
    pub sentence: String,
}

impl Failure {
    pub fn wrong(sentence: String) -> Failure {
        Failure { code: SUCCESS, sentence }
    }
}

pub type Outcome<T = ()> = Result<T, Failure>;

/// A communicator, as this rank stands in it.
#[derive(Clone)]
pub struct Place {
    pub comm: Comm,
    /// It was made while the program polled, and what is made from it is, too.
    pub background: bool,
    /// The members, by their numbers in the whole job.
    pub members: Arc<Vec<usize>>,
    /// This rank's number in it.
    pub me: usize,
}

impl Place {
    pub fn n(&self) -> usize {
        self.members.len()
    }

    /// Randomness that differs from member to member.
    pub fn own(&self, step: &Step) -> Random {
        Random::of(&[step.salt, 3, self.members[self.me] as u64])
    }

    /// Randomness that all members have in common.
    pub fn common(&self, step: &Step) -> Random {
        // The color of a split tells its children apart.
        Random::of(&[step.salt, 4, self.members[0] as u64])
    }
}

/// A fault that the fuzzer makes itself, between the library and the check, to show that the check finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// A bit of a result.
    Bit,
    /// A byte before a buffer.
    Before,
    /// A result that never came.
    Lost,
    /// An element between two blocks.
    Gap,
    /// A scaled sum that reads its number at the wrong time.
    Factor,
    /// A communicator that is said to be made while it is not.
    Joined,
    /// A call of the progress hook outside of any call of the library.
    Hook,
    /// A function on a stream that is not called.
    Host,
}

/// The names of planted faults.
pub const PLANTS: [(&str, Plant); 8] = [
    ("bit", Plant::Bit),
    ("before", Plant::Before),
    ("lost", Plant::Lost),
    ("gap", Plant::Gap),
    ("factor", Plant::Factor),
    ("joined", Plant::Joined),
    ("hook", Plant::Hook),
    ("host", Plant::Host),
];

/// What all threads of a process share.
pub struct Shared<'a> {
    pub program: &'a Program,
    pub plant: Option<Plant>,
    /// The fault has been planted.
    pub planted: AtomicBool,
    pub dir: &'a Path,
    pub trace: bool,
    /// A rank will be killed, and its death is no failure.
    pub killed: bool,
}

/// One thread of one rank.
pub struct Actor<'a> {
    pub penny: &'a Penny,
    pub shared: &'a Shared<'a>,
    /// This rank's number in the whole job.
    pub rank: usize,
    pub thread: usize,
    /// The step that is being played.
    pub step: u32,
    /// The communicators that exist, the newest last; `None` where this rank is in none.
    pub places: Vec<Option<Place>>,
    /// When the newest call began, in nanoseconds of the machine's monotonic clock.
    pub entered: i64,
    /// Memory that several buffers share.
    pub arena: Option<Arena>,
    /// The thread's progress hook.
    pub hook: Option<Box<Hook>>,
    status: File,
    call: String,
}

impl<'a> Actor<'a> {
    pub fn new(penny: &'a Penny, shared: &'a Shared<'a>, rank: usize, thread: usize) -> Actor<'a> {
        let status =
            File::create(shared.dir.join(format!("status.{rank}.{thread}"))).expect("the folder is ours");
        Actor {
            penny,
            shared,
            rank,
            thread,
            step: 0,
            places: Vec::new(),
            entered: 0,
            arena: None,
            hook: None,
            status,
            call: String::new(),
        }
    }

    /// Where a step is played; `None` if this rank takes no part.
    pub fn place(&self, step: &Step) -> Option<Place> {
        self.places[Random::of(&[step.salt, 5]).below(self.places.len())].clone()
    }

    /// Notes the call that this thread is in.
    pub fn enter(&mut self, call: &str) {
        if self.shared.trace {
            eprintln!("rank {} thread {} step {}: {call}", self.rank, self.thread, self.step);
        }
        let mut line = format!("step {}: {call}", self.step);
        line.truncate(400);
        let _ = self.status.write_all_at(format!("{line:400}").as_bytes(), 0);
        self.call = call.to_owned();
        self.entered = now_ns();
        if let Some(hook) = &self.hook {
            hook.may_be_called(true);
        }
    }

    /// What a call returned, with its sentence.
    pub fn leave(&mut self, code: c_int) -> Outcome {
        let outcome =
            if code == SUCCESS { Ok(()) } else { Err(Failure { code, sentence: self.penny.sentence() }) };
        match &self.hook {
            Some(hook) => {
                hook.may_be_called(false);
                hook.complaint().and(outcome)
            }
            None => outcome,
        }
    }

    /// Ends the process with what went wrong.
    pub fn give_up(&self, failure: &Failure) -> ! {
        let what = match failure.code {
            SUCCESS => "wrong result".to_owned(),
            code => format!("returned {code}"),
        };
        println!(
            "FAIL {} rank {} thread {} step {} call {}: {what}: {}",
            failure.code, self.rank, self.thread, self.step, self.call, failure.sentence
        );
        std::process::exit(1)
    }

    /// The call that a check is about.
    pub fn about(&mut self, call: &str) {
        self.call = call.to_owned();
    }

    /// Is this the time and the place of the planted fault?
    pub fn plants(&self, plant: Plant) -> bool {
        let program = self.shared.program;
        let here = self.rank == program.planted_rank && self.step >= program.planted_from;
        self.shared.plant == Some(plant) && here && !self.shared.planted.swap(true, Ordering::Relaxed)
    }

    /// The newest call, as written in C.
    pub fn call(&self) -> &str {
        &self.call
    }
}

/// A call that must be refused with a code and a sentence.
pub fn refused(outcome: Outcome, code: c_int, what: &str) -> Outcome {
    match outcome {
        Err(failure) if failure.code == code && failure.sentence.len() > 20 => Ok(()),
        // A death comes before what is wrong with a call.
        Err(failure) if failure.code == REMOTE => Err(failure),
        Err(failure) => Err(Failure::wrong(format!(
            "{what} was refused with {} `{}` instead of {code} and a sentence",
            failure.code, failure.sentence
        ))),
        Ok(()) => Err(Failure::wrong(format!("{what} was not refused"))),
    }
}

/// The machine's monotonic clock, the same in every process.
pub fn now_ns() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

/// No address.
pub const NULL: Out = std::ptr::null_mut();
