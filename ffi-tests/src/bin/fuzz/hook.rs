//! A progress hook: the inner steps are played while the thread has one.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use crate::actor::{Actor, Failure, NULL, Outcome, Plant, call};
use crate::api::{INVALID_USAGE, Out, Progress};
use crate::play::play;
use crate::program::Step;

/// What a thread's hook is called with.
pub struct Hook {
    owner: ThreadId,
    /// The thread is in a call of the library.
    inside: AtomicBool,
    calls: AtomicU64,
    /// A call that came at another time, or on another thread.
    astray: AtomicBool,
    /// What a call of the library returned that was not refused.
    not_refused: AtomicBool,
    start_group: unsafe extern "C" fn() -> c_int,
}

impl Hook {
    /// Notes whether the thread is in a call.
    pub fn may_be_called(&self, inside: bool) {
        self.inside.store(inside, Ordering::Relaxed);
    }

    /// What was wrong with the calls so far.
    pub fn complaint(&self) -> Outcome {
        if self.astray.load(Ordering::Relaxed) {
            return Err(Failure::wrong(
                "the progress hook was called outside of a call of its thread".into(),
            ));
        }
        match self.not_refused.load(Ordering::Relaxed) {
            true => Err(Failure::wrong("a call within the progress hook was not refused".into())),
            false => Ok(()),
        }
    }
}

/// The function that the library calls.
extern "C" fn progress(hook: Out) {
    // SAFETY: the thread that has set it keeps it until it has set none.
    let hook = unsafe { &*hook.cast::<Hook>() };
    if hook.owner != thread::current().id() || !hook.inside.load(Ordering::Relaxed) {
        hook.astray.store(true, Ordering::Relaxed);
    }
    if hook.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) {
        // SAFETY: it takes nothing.
        let code = unsafe { (hook.start_group)() };
        if code != INVALID_USAGE {
            hook.not_refused.store(true, Ordering::Relaxed);
        }
    }
}

pub fn hooked(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let hook = Box::new(Hook {
        owner: thread::current().id(),
        inside: AtomicBool::new(false),
        calls: AtomicU64::new(0),
        astray: AtomicBool::new(false),
        not_refused: AtomicBool::new(false),
        start_group: actor.penny.pennyGroupStart,
    });
    let (function, argument): (Progress, Out) = (Some(progress), (&raw const *hook).cast_mut().cast());
    call!(actor, pennySetProgress(function, argument))?;
    actor.hook = Some(hook);
    let played = play(actor, &step.inner);
    actor.step = step.id;
    if actor.plants(Plant::Hook) {
        progress(argument);
    }
    let none: Progress = None;
    let unset = call!(actor, pennySetProgress(none, NULL));
    actor.hook = None;
    played.and(unset)
}
