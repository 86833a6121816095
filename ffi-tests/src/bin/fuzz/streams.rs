//! Calls on streams, with events that order the streams and tell when results are there, and functions of the program between them.
//!
//! The calls are on all communicators there are, and on duplicates of one. A group's calls may be on several communicators and several
//! streams. What is queued is waited for, or polled.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::actor::{Actor, Failure, NULL, Outcome, Place, Plant, call, refused};
use crate::api::{Comm, IN_PROGRESS, INVALID_ARGUMENT, Out};
use crate::joining::{begun, child_until_made};
use crate::program::{Family, Step};
use crate::random::Random;
use crate::work::Work;

/// A stream, and the functions that were queued on it.
struct Stream {
    handle: Out,
    functions: Vec<Pin<Box<Function>>>,
    called: Box<AtomicUsize>,
}

/// A function that was queued on a stream.
struct Function {
    called: *const AtomicUsize,
    number: usize,
}

/// Counts the calls that come in the order of queuing.
extern "C" fn count(function: Out) {
    // SAFETY: the stream's owner keeps both until the stream has come to its end.
    let (function, called) = unsafe {
        let function = &*function.cast::<Function>();
        (function, &*function.called)
    };
    let _ =
        called.compare_exchange(function.number, function.number + 1, Ordering::Relaxed, Ordering::Relaxed);
}

impl Stream {
    fn new(actor: &mut Actor<'_>) -> Outcome<Stream> {
        let mut handle = NULL;
        let to: *mut Out = &mut handle;
        call!(actor, pennyStreamCreate(to))?;
        Ok(Stream { handle, functions: Vec::new(), called: Box::default() })
    }

    fn queue_function(&mut self, actor: &mut Actor<'_>) -> Outcome {
        let function = Box::pin(Function { called: &raw const *self.called, number: self.functions.len() });
        let (stream, count, argument): (_, extern "C" fn(Out), Out) =
            (self.handle, count, (&raw const *function).cast_mut().cast());
        self.functions.push(function);
        if actor.plants(Plant::Host) {
            return Ok(());
        }
        call!(actor, pennyStreamLaunchHostFunc(stream, count, argument))
    }

    /// All work is complete, so all functions were called.
    fn check(&self) -> Outcome {
        let (called, queued) = (self.called.load(Ordering::Relaxed), self.functions.len());
        match called == queued {
            true => Ok(()),
            false => {
                let sentence = format!("the first {called} of {queued} functions were called in their order");
                Err(Failure::wrong(sentence))
            }
        }
    }

    fn end(self, actor: &mut Actor<'_>) -> Outcome {
        let stream = self.handle;
        call!(actor, pennyStreamDestroy(stream))?;
        refused(call!(actor, pennyStreamDestroy(stream)), INVALID_ARGUMENT, "a second pennyStreamDestroy")
    }
}

pub fn streams(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let duplicate = match Random::of(&[step.salt, 19]).chance(40) && actor.shared.program.has(Family::Dup) {
        true => Some(duplicate(actor, step)?),
        false => None,
    };
    if let Some(place) = &duplicate {
        actor.places.push(place.clone());
    }
    queue_all(actor, step)?;
    actor.step = step.id;
    if duplicate.is_some() {
        actor.places.pop();
    }
    match duplicate.flatten() {
        Some(place) => {
            let comm = place.comm;
            call!(actor, pennyCommDestroy(comm))
        }
        None => Ok(()),
    }
}

/// A duplicate of one of the communicators; `None` if this rank takes no part.
pub fn duplicate(actor: &mut Actor<'_>, step: &Step) -> Outcome<Option<Place>> {
    let Some(place) = actor.place(step) else { return Ok(None) };
    let (comm, mut new) = (place.comm, Comm(NULL));
    let to: *mut Comm = &mut new;
    if begun(call!(actor, pennyCommDup(comm, to)), place.background)? {
        child_until_made(actor, &place, new, &mut place.own(step))?;
    }
    Ok(Some(Place { comm: new, ..place }))
}

fn queue_all(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let mut random = Random::of(&[step.salt, 9, actor.rank as u64]);
    let mut streams = Vec::new();
    for _ in 0..1 + random.below(3) {
        streams.push(Stream::new(actor)?);
    }
    let handles: Vec<Out> = streams.iter().map(|stream| stream.handle).collect();
    let mut events = [NULL; 3];
    for place in &mut events {
        let place: *mut Out = place;
        call!(actor, pennyEventCreate(place))?;
    }
    let mut works = Vec::new();
    for inner in &step.inner {
        let Some(mut work) = Work::prepare(actor, inner)? else { continue };
        match random.below(100) {
            0..12 => work.make(actor, &mut random)?,
            12..60 => work.issue(actor, &[random.clone().one(&handles)], &mut random)?,
            60..85 => work.issue(actor, &handles, &mut random)?,
            _ => work.issue(actor, &[&handles[..], &[NULL]].concat(), &mut random)?,
        }
        works.push(work);
        actor.step = step.id;
        if random.chance(40) {
            let (event, on, then) = (random.one(&events), random.one(&handles), random.one(&handles));
            call!(actor, pennyEventRecord(event, on))?;
            call!(actor, pennyStreamWaitEvent(then, event))?;
        }
        if random.chance(20) {
            let event = random.one(&events);
            is_over(call!(actor, pennyEventQuery(event)))?;
        }
        if random.chance(20) {
            let on = random.below(streams.len());
            streams[on].queue_function(actor)?;
        }
    }
    wait(actor, &handles, events[0], &mut random)?;
    for stream in &streams {
        stream.check()?;
    }
    for work in works {
        work.check(actor, &mut random)?;
    }
    actor.step = step.id;
    for event in events {
        call!(actor, pennyEventDestroy(event))?;
    }
    streams.into_iter().try_for_each(|stream| stream.end(actor))
}

/// Waits for all streams, or polls them, each in a way of its own.
fn wait(actor: &mut Actor<'_>, streams: &[Out], event: Out, random: &mut Random) -> Outcome {
    let mut polled = Vec::new();
    for &stream in streams {
        match random.below(4) {
            0 => {
                call!(actor, pennyEventRecord(event, stream))?;
                call!(actor, pennyEventSynchronize(event))?;
                is_over(call!(actor, pennyStreamQuery(stream)))?;
            }
            1 => {
                call!(actor, pennyEventRecord(event, stream))?;
                while !is_over(call!(actor, pennyEventQuery(event)))? {
                    std::thread::yield_now();
                }
                // The event tells what failed since the event before it; the stream tells all.
                if !is_over(call!(actor, pennyStreamQuery(stream)))? {
                    return Err(Failure::wrong("a stream has work left behind its last event".into()));
                }
            }
            2 => polled.push(stream),
            _ => call!(actor, pennyStreamSynchronize(stream))?,
        }
    }
    // BOUND: the driver ends a job that hangs.
    while !polled.is_empty() {
        let mut left = Vec::new();
        for stream in polled {
            if !is_over(call!(actor, pennyStreamQuery(stream)))? {
                left.push(stream);
            }
        }
        polled = left;
        std::thread::yield_now();
    }
    Ok(())
}

/// Whether what was asked about is complete.
pub fn is_over(outcome: Outcome) -> Outcome<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(failure) if failure.code == IN_PROGRESS => Ok(false),
        Err(failure) => Err(failure),
    }
}
