//! Plays steps: calls, groups, streams, communicators made of others, threads.

use std::ffi::c_int;
use std::sync::Arc;

use crate::actor::{Actor, Failure, NULL, Outcome, Place, call, refused};
use crate::api::{Comm, Config, IN_PROGRESS, INVALID_ARGUMENT, Out, SimInfo};
use crate::buffer::Arena;
use crate::collective::{Collective, Shape};
use crate::program::{Kind, Step};
use crate::random::Random;
use crate::transfers::Transfers;
use crate::{mailbox, onesided, semaphore, shmem, solo, wrong};

/// A call that can be queued, by a group or a stream.
enum Work {
    Collective(Box<Collective>),
    Transfers(Transfers),
    Group(Vec<Work>),
}

impl Work {
    /// `None` if this rank takes no part.
    fn prepare(actor: &mut Actor<'_>, step: &Step) -> Outcome<Option<Work>> {
        actor.step = step.id;
        if step.kind == Kind::Group {
            let mut works = Vec::new();
            for inner in &step.inner {
                works.extend(Work::prepare(actor, inner)?);
            }
            return Ok(Some(Work::Group(works)));
        }
        let Some(place) = actor.place(step) else { return Ok(None) };
        Ok(Some(match step.kind {
            Kind::Collective => {
                let shape = Shape::draw(actor, &place, step);
                Work::Collective(Box::new(Collective::prepare(actor, &place, step, shape)?))
            }
            _ => Work::Transfers(Transfers::prepare(actor, &place, step)?),
        }))
    }

    fn issue(&mut self, actor: &mut Actor<'_>, stream: Out, random: &mut Random) -> Outcome {
        match self {
            Work::Collective(work) => work.issue(actor, stream),
            Work::Transfers(work) => work.issue(actor, stream),
            Work::Group(works) => {
                call!(actor, pennyGroupStart())?;
                for work in works {
                    let nested = random.chance(30);
                    if nested {
                        call!(actor, pennyGroupStart())?;
                    }
                    work.issue(actor, stream, random)?;
                    if nested {
                        call!(actor, pennyGroupEnd())?;
                    }
                }
                call!(actor, pennyGroupEnd())
            }
        }
    }

    fn check(self, actor: &mut Actor<'_>) -> Outcome {
        match self {
            Work::Collective(work) => work.check(actor),
            Work::Transfers(work) => work.check(actor),
            Work::Group(works) => works.into_iter().try_for_each(|work| work.check(actor)),
        }
    }
}

/// Plays steps one after the other.
pub fn play(actor: &mut Actor<'_>, steps: &[Step]) -> Outcome {
    for step in steps {
        actor.step = step.id;
        match step.kind {
            Kind::Collective | Kind::Transfer | Kind::Group => {
                if let Some(mut work) = Work::prepare(actor, step)? {
                    let mut random = Random::of(&[step.salt, 8, actor.rank as u64]);
                    work.issue(actor, NULL, &mut random)?;
                    work.check(actor)?;
                }
            }
            Kind::Exchange => {
                if let Some(mut work) = Work::prepare(actor, step)? {
                    call!(actor, pennyGroupStart())?;
                    work.issue(actor, NULL, &mut Random::of(&[step.salt]))?;
                    call!(actor, pennyGroupEnd())?;
                    work.check(actor)?;
                }
            }
            Kind::Streams => streams(actor, step)?,
            Kind::Split => split(actor, step)?,
            Kind::Threads => threads(actor, step)?,
            // Played by its own thread.
            Kind::Lane => {}
            _ => {
                let Some(place) = actor.place(step) else { continue };
                match step.kind {
                    Kind::Wrong => wrong::bad_input(actor, &place, step)?,
                    Kind::Disagree => wrong::disagree(actor, &place, step)?,
                    Kind::Window => onesided::window(actor, &place, step)?,
                    Kind::Shmem => shmem::heap(actor, &place, step)?,
                    Kind::Mailbox => mailbox::mailbox(actor, &place, step)?,
                    Kind::Semaphore => semaphore::semaphore(actor, &place, step)?,
                    Kind::Clock => clock(actor, &place, step)?,
                    _ => solo::solo(actor, step)?,
                }
            }
        }
    }
    Ok(())
}

/// Each call on a stream that its rank has drawn, with events that order streams and tell when results are there.
fn streams(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let mut random = Random::of(&[step.salt, 9, actor.rank as u64]);
    let mut streams = vec![NULL; 1 + random.below(3)];
    let mut events = [NULL; 3];
    for place in &mut streams {
        let place: *mut Out = place;
        call!(actor, pennyStreamCreate(place))?;
    }
    for place in &mut events {
        let place: *mut Out = place;
        call!(actor, pennyEventCreate(place))?;
    }
    let mut works = Vec::new();
    for inner in &step.inner {
        let Some(mut work) = Work::prepare(actor, inner)? else { continue };
        let stream = if random.chance(12) { NULL } else { random.one(&streams) };
        work.issue(actor, stream, &mut random)?;
        works.push(work);
        actor.step = step.id;
        if random.chance(40) {
            let (event, on, then) = (random.one(&events), random.one(&streams), random.one(&streams));
            call!(actor, pennyEventRecord(event, on))?;
            call!(actor, pennyStreamWaitEvent(then, event))?;
        }
        if random.chance(20) {
            let event = random.one(&events);
            soon(call!(actor, pennyEventQuery(event)))?;
        }
        if random.chance(20) && actor.shared.program.fabric.is_none() {
            let (stream, nothing): (_, extern "C" fn(Out)) = (random.one(&streams), nothing);
            call!(actor, pennyStreamLaunchHostFunc(stream, nothing, NULL))?;
        }
    }
    for &stream in &streams {
        if random.chance(50) {
            let event = events[0];
            call!(actor, pennyEventRecord(event, stream))?;
            call!(actor, pennyEventSynchronize(event))?;
            soon(call!(actor, pennyStreamQuery(stream)))?;
        } else {
            call!(actor, pennyStreamSynchronize(stream))?;
        }
    }
    for work in works {
        work.check(actor)?;
    }
    for event in events {
        call!(actor, pennyEventDestroy(event))?;
    }
    for stream in streams {
        call!(actor, pennyStreamDestroy(stream))?;
        refused(call!(actor, pennyStreamDestroy(stream)), INVALID_ARGUMENT, "a second pennyStreamDestroy")?;
    }
    Ok(())
}

extern "C" fn nothing(_: Out) {}

/// pennyInProgress is as good as pennySuccess.
fn soon(outcome: Outcome) -> Outcome {
    outcome.or_else(|failure| if failure.code == IN_PROGRESS { Ok(()) } else { Err(failure) })
}

/// Divides a communicator, plays the inner steps on what there is then, and ends the part.
fn split(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let place = actor.place(step);
    let child = match &place {
        Some(place) => divide(actor, place, step)?,
        None => None,
    };
    let mut random = Random::of(&[step.salt, actor.rank as u64, 17]);
    let mut arena = None;
    if let Some(place) =
        child.as_ref().or(place.as_ref()).filter(|_| actor.arena.is_none() && random.chance(50))
    {
        actor.arena = Some(Arena::new(actor, place.comm, &mut random)?);
        arena = Some(());
    }
    actor.places.push(child.clone());
    play(actor, &step.inner)?;
    actor.places.pop();
    if let Some(arena) = arena.and_then(|()| actor.arena.take()) {
        arena.end(actor)?;
    }
    actor.step = step.id;
    let Some(child) = child else { return Ok(()) };
    let comm = child.comm;
    if place.is_some_and(|place| place.own(step).chance(20)) {
        call!(actor, pennyCommFinalize(comm))?;
    }
    call!(actor, pennyCommDestroy(comm))?;
    refused(call!(actor, pennyCommDestroy(comm)), INVALID_ARGUMENT, "a second pennyCommDestroy")
}

/// The caller's part of a communicator.
fn divide(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome<Option<Place>> {
    let mut random = place.common(step);
    let (comm, n) = (place.comm, place.n());
    let mut new = Comm(NULL);
    let to: *mut Comm = &mut new;
    let grouped = random.chance(25);
    if grouped {
        call!(actor, pennyGroupStart())?;
    }
    let members: Vec<usize> = if random.chance(50) {
        let parts: Vec<usize> = (1..=n).filter(|size| n % size == 0).collect();
        let (kind, size) = (random.below(3) as c_int, random.one(&parts));
        let (kind, size) = if kind == 0 { (0, n) } else { (kind, size) };
        let length = size as c_int;
        call!(actor, pennyCommGroup(comm, kind, length, to))?;
        match kind {
            2 => (0..n).filter(|r| r % (n / size) == place.me % (n / size)).collect(),
            _ => (0..n).filter(|r| r / size == place.me / size).collect(),
        }
    } else {
        let colors = 1 + random.below(3);
        let idle = random.below(30);
        let draw =
            |random: &mut Random| if random.chance(idle) { -1 } else { random.below(colors) as c_int * 7 };
        let color: Vec<c_int> = (0..n).map(|_| draw(&mut random)).collect();
        let key: Vec<c_int> = (0..n).map(|_| random.below(5) as c_int - 2).collect();
        let (mine, place_in) = (color[place.me], key[place.me]);
        let config = Config::new();
        let config: *const Config = if random.chance(50) { &config } else { std::ptr::null() };
        call!(actor, pennyCommSplit(comm, mine, place_in, to, config))?;
        let mut order: Vec<usize> = (0..n).filter(|&r| color[r] == mine && mine != -1).collect();
        order.sort_by_key(|&r| (key[r], r));
        order
    };
    if grouped {
        call!(actor, pennyGroupEnd())?;
    }
    if members.is_empty() {
        let none = new.0.is_null();
        return if none {
            Ok(None)
        } else {
            Err(Failure::wrong("a rank without color got a communicator".into()))
        };
    }
    let me = members.iter().position(|&r| r == place.me).expect("a member of its own part");
    let (mut count, mut rank) = (0, 0);
    let (count_at, rank_at): (*mut c_int, *mut c_int) = (&mut count, &mut rank);
    call!(actor, pennyCommCount(new, count_at))?;
    call!(actor, pennyCommUserRank(new, rank_at))?;
    if (count as usize, rank as usize) != (members.len(), me) {
        let sentence = format!("rank {rank} of {count} instead of rank {me} of {}", members.len());
        return Err(Failure::wrong(sentence));
    }
    let members = Arc::new(members.iter().map(|&r| place.members[r]).collect());
    Ok(Some(Place { comm: new, members, me }))
}

/// A communicator for each lane, then a thread for each.
fn threads(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let Some(place) = actor.place(step) else { return Ok(()) };
    let comm = place.comm;
    let mut lanes = Vec::new();
    for _ in &step.inner {
        let mut new = Comm(NULL);
        let to: *mut Comm = &mut new;
        call!(actor, pennyCommGroup(comm, 0, 0, to))?;
        lanes.push(new);
    }
    std::thread::scope(|scope| {
        for (i, (lane, &comm)) in step.inner.iter().zip(&lanes).enumerate() {
            let (penny, shared, rank, place) = (actor.penny, actor.shared, actor.rank, place.clone());
            scope.spawn(move || {
                let mut actor = Actor::new(penny, shared, rank, i + 1);
                actor.places.push(Some(Place { comm, ..place }));
                if let Err(failure) = play(&mut actor, &lane.inner) {
                    actor.give_up(&failure);
                }
                actor.enter("the end of its lane");
            });
        }
    });
    for new in lanes {
        call!(actor, pennyCommDestroy(new))?;
    }
    Ok(())
}

/// The declared machine's clock never goes back.
fn clock(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let comm = place.comm;
    let (mut before, mut after) = (0u64, 0u64);
    let (first, second): (*mut u64, *mut u64) = (&mut before, &mut after);
    let ns = place.own(step).below(5000) as u64;
    call!(actor, pennyFabricNow(comm, first))?;
    call!(actor, pennyFabricAdvance(comm, ns))?;
    call!(actor, pennyFabricNow(comm, second))?;
    let mut info =
        SimInfo { size: size_of::<SimInfo>(), magic: 1_346_720_585, version: 100, time: 0.0, ps: 0 };
    let to: *mut SimInfo = &mut info;
    call!(actor, pennyGroupStart())?;
    call!(actor, pennyBarrier(comm, NULL))?;
    call!(actor, pennyGroupSimulateEnd(to))?;
    if after < before + ns * 1000 {
        return Err(Failure::wrong(format!("{after} ps after {before} ps and {ns} ns")));
    }
    Ok(())
}
