//! Communicators that are made while the program polls: `blocking = 0`.

use std::ffi::c_int;

use crate::actor::{Actor, Failure, Outcome, Place, Plant, call};
use crate::api::{Comm, Config, DataType, IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, Out};
use crate::random::Random;

/// Sets what a communicator that is made while the program polls has in its config.
pub fn in_background(config: &mut Config) {
    config.blocking = 0;
}

/// Whether a communicator is still being made, by the outcome of the call that makes it.
pub fn begun(outcome: Outcome, background: bool) -> Outcome<bool> {
    match outcome {
        Ok(()) => Ok(false),
        Err(failure) if failure.code == IN_PROGRESS && background => Ok(true),
        Err(failure) => Err(failure),
    }
}

fn state(actor: &mut Actor<'_>, comm: Comm) -> Outcome<c_int> {
    let mut state = -1;
    let to: *mut c_int = &mut state;
    call!(actor, pennyCommGetAsyncError(comm, to))?;
    Ok(state)
}

/// Polls until a communicator that is being made is made. Until then it takes no calls.
pub fn until_made(actor: &mut Actor<'_>, comm: Comm, random: &mut Random) -> Outcome {
    // BOUND: the driver ends a job that hangs.
    loop {
        match state(actor, comm)? {
            0 => return Ok(()),
            IN_PROGRESS if actor.plants(Plant::Joined) => return Ok(()),
            IN_PROGRESS => {}
            code => {
                // The next call on it tells why.
                let why = match call!(actor, pennyBarrier(comm, crate::actor::NULL)) {
                    Err(failure) => failure.sentence,
                    Ok(()) => {
                        return Err(Failure::wrong(format!("a communicator in state {code} took a call")));
                    }
                };
                return Err(Failure { code, sentence: format!("the communicator's state is {code}: {why}") });
            }
        }
        if random.chance(20) {
            // A call that must not be made in either state: which one it is, is not known.
            let at = 0x10 as Out;
            let outcome = call!(actor, pennyBcast(at, 1, DataType(0), -1, comm, crate::actor::NULL));
            match outcome {
                Err(failure) if [INVALID_ARGUMENT, INVALID_USAGE].contains(&failure.code) => {}
                other => return other.and(Err(Failure::wrong("a broadcast from rank -1 was made".into()))),
            }
        }
        std::thread::yield_now();
    }
}

/// Polls until a new communicator is made, and the one that it is made from takes calls again.
pub fn child_until_made(actor: &mut Actor<'_>, parent: &Place, child: Comm, random: &mut Random) -> Outcome {
    if !child.0.is_null() {
        until_made(actor, child, random)?;
    }
    until_made(actor, parent.comm, random)
}
