//! A rank that makes calls of one kind again and again until one fails: for the tests that kill or stop one
//! (tests/recovery/kills.rs). It says what the ranks of src/bin/victim say.
//!
//! ```text
//!     fuzz --victim KIND --process RANK --ranks N --seed S --dir DIR     DIR/id holds the communicator's id
//!
//!     ok begin                                it is about to join,
//!     ok join                                 has joined,
//!     ok call                                 and made the first call; then
//!     error CODE ENTERED RETURNED SENTENCE    what a call and, once more, a barrier returned; both times in nanoseconds
//!     wrong SENTENCE                          a call succeeded with a wrong result
//!     ok end                                  of `destroy` only: the communicator ended without an error
//! ```

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::actor::{Actor, Failure, NULL, Outcome, Place, Shared, call, now_ns};
use crate::api::{Comm, Config, DataType, Penny, SUCCESS, UniqueId};
use crate::collective::What;
use crate::element::SUM;
use crate::play::play;
use crate::program::{Kind, Program};

/// The kinds of calls, by name.
pub const KINDS: [(&str, Kind, Option<What>); 27] = [
    ("all_reduce", Kind::Collective, Some(What::AllReduce)),
    ("reduce", Kind::Collective, Some(What::Reduce)),
    ("broadcast", Kind::Collective, Some(What::Broadcast)),
    ("bcast", Kind::Collective, Some(What::Bcast)),
    ("all_gather", Kind::Collective, Some(What::AllGather)),
    ("reduce_scatter", Kind::Collective, Some(What::ReduceScatter)),
    ("alltoall", Kind::Collective, Some(What::AlltoAll)),
    ("gather", Kind::Collective, Some(What::Gather)),
    ("scatter", Kind::Collective, Some(What::Scatter)),
    ("permute", Kind::Collective, Some(What::Permute)),
    ("barrier", Kind::Collective, Some(What::Barrier)),
    ("vector", Kind::Vector, None),
    ("scaled", Kind::Scaled, None),
    ("hook", Kind::Hook, None),
    ("transfer", Kind::Transfer, None),
    ("exchange", Kind::Exchange, None),
    ("group", Kind::Group, None),
    ("streams", Kind::Streams, None),
    ("split", Kind::Split, None),
    ("window", Kind::Window, None),
    ("shmem", Kind::Shmem, None),
    ("mailbox", Kind::Mailbox, None),
    ("semaphore", Kind::Semaphore, None),
    ("divide", Kind::Split, Some(What::Barrier)),
    ("all", Kind::Collective, None),
    ("init", Kind::Collective, Some(What::AllReduce)),
    ("destroy", Kind::Collective, Some(What::Barrier)),
];

fn say(line: &str) {
    // The test may have ended; then there is no reader.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn complain(actor: &Actor<'_>, failure: &Failure) {
    match failure.code {
        SUCCESS => say(&format!("wrong {}: {}", actor.call(), failure.sentence)),
        code => say(&format!("error {code} {} {} {}", actor.entered, now_ns(), failure.sentence)),
    }
}

/// The life of one rank.
pub fn victim(library: &Path, what: &str, seed: u64, ranks: usize, rank: usize, dir: &Path) {
    let &(_, kind, only) = KINDS.iter().find(|(name, ..)| *name == what).expect("a known kind");
    let penny = Penny::load(library).unwrap_or_else(|problem| panic!("{problem}"));
    let program = Program::repeated(seed, ranks, only);
    let shared = Shared {
        program: &program,
        plant: None,
        planted: AtomicBool::new(false),
        dir,
        trace: false,
        killed: true,
    };
    let mut actor = Actor::new(&penny, &shared, rank, 0);
    say("ok begin");
    let comm = match join(&mut actor, ranks, rank) {
        Ok(comm) => comm,
        Err(failure) => return complain(&actor, &failure),
    };
    say("ok join");
    let members = Arc::new((0..ranks).collect());
    actor.places.push(Some(Place { comm, background: false, members, me: rank }));
    for i in 0.. {
        let step = [program.another(kind, i)];
        if let Err(failure) = play(&mut actor, &step) {
            complain(&actor, &failure);
            break;
        }
        if i == 0 {
            say("ok call");
        }
        if what == "destroy" && i == 1 {
            let ended =
                call!(actor, pennyCommFinalize(comm)).and_then(|()| call!(actor, pennyCommDestroy(comm)));
            return match ended {
                Ok(()) => say("ok end"),
                Err(failure) => complain(&actor, &failure),
            };
        }
    }
    if let Err(failure) = call!(actor, pennyBarrier(comm, NULL)) {
        complain(&actor, &failure);
        if std::env::var_os("SURVIVE").is_some() {
            return match survive(&mut actor, comm, rank, ranks, &failure.sentence) {
                Ok(()) => say("ok survive"),
                Err(failure) => complain(&actor, &failure),
            };
        }
    }
    // The other ranks must not take any of these for the cause.
    match (rank as u64 + seed) % 3 {
        0 => std::process::abort(),
        1 => drop(call!(actor, pennyCommDestroy(comm))),
        _ => {}
    }
}

/// Goes on without the rank that a sentence names: calls of a smaller communicator, with SURVIVE=abort also while the old one's are
/// ended.
fn survive(actor: &mut Actor<'_>, comm: Comm, rank: usize, ranks: usize, sentence: &str) -> Outcome<()> {
    // A rank of another host may have told that it gave up before its own news of the death came.
    let sentence = sentence.split_once(" waited in vain for ").map_or(sentence, |(_, cause)| cause);
    let named = sentence.match_indices(" (pid ").next().and_then(|(at, _)| sentence[..at].rsplit(' ').next());
    let gone: i32 = named.and_then(|name| name.parse().ok()).unwrap_or(-1);
    let flags = i32::from(std::env::var("SURVIVE").is_ok_and(|how| how == "abort"));
    let (mut smaller, config): (Comm, *const Config) = (Comm(NULL), std::ptr::null());
    call!(actor, pennyCommShrink(comm, &gone, 1, &mut smaller, config, flags))?;
    say(&format!("ok shrunk {}", now_ns()));
    let expected: i64 = (0..ranks as i64).filter(|&r| r != i64::from(gone)).map(|r| r + 1).sum();
    for round in 0..100i64 {
        let (mine, mut all) = (rank as i64 + 1 + round, -1i64);
        let (from, to) = ((&raw const mine).cast(), (&raw mut all).cast());
        call!(actor, pennyAllReduce(from, to, 1, DataType(4), SUM, smaller, NULL))?;
        let expected = expected + round * (ranks as i64 - 1);
        if all != expected {
            return Err(Failure {
                code: SUCCESS,
                sentence: format!("the survivors' sum is {all}, not {expected}"),
            });
        }
    }
    call!(actor, pennyCommDestroy(smaller))?;
    call!(actor, pennyCommDestroy(comm))
}

fn join(actor: &mut Actor<'_>, ranks: usize, rank: usize) -> Outcome<Comm> {
    let id = std::fs::read(actor.shared.dir.join("id")).ok().and_then(|bytes| bytes.try_into().ok());
    let id = UniqueId(id.expect("the test has left an id"));
    let mut comm = Comm(NULL);
    let (to, config, n, me): (*mut Comm, *const Config, _, _) =
        (&mut comm, std::ptr::null(), ranks as i32, rank as i32);
    call!(actor, pennyCommInitRankConfig(to, n, id, me, config))?;
    Ok(comm)
}
