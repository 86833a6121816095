//! Plays steps: calls, groups, communicators made of others, threads.

use std::ffi::c_int;
use std::sync::Arc;

use crate::actor::{Actor, Failure, NULL, Outcome, Place, call, refused};
use crate::api::{Comm, Config, INVALID_ARGUMENT, SimInfo};
use crate::buffer::Arena;
use crate::joining::{begun, child_until_made, in_background};
use crate::program::{Family, Kind, Step};
use crate::random::Random;
use crate::streams::duplicate;
use crate::work::Work;
use crate::{hook, mailbox, onesided, semaphore, shmem, solo, streams, wrong};

/// Plays steps one after the other.
pub fn play(actor: &mut Actor<'_>, steps: &[Step]) -> Outcome {
    for step in steps {
        actor.step = step.id;
        match step.kind {
            Kind::Collective | Kind::Vector | Kind::Scaled | Kind::Transfer | Kind::Group => {
                if let Some(mut work) = Work::prepare(actor, step)? {
                    let mut random = Random::of(&[step.salt, 8, actor.rank as u64]);
                    work.make(actor, &mut random)?;
                    work.check(actor, &mut random)?;
                }
            }
            Kind::Exchange => {
                if let Some(mut work) = Work::prepare(actor, step)? {
                    let mut random = Random::of(&[step.salt]);
                    call!(actor, pennyGroupStart())?;
                    work.make(actor, &mut random)?;
                    call!(actor, pennyGroupEnd())?;
                    work.check(actor, &mut random)?;
                }
            }
            Kind::Streams => streams::streams(actor, step)?,
            Kind::Hook => hook::hooked(actor, step)?,
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
    if random.chance(20) && actor.shared.program.has(Family::Dup) {
        return duplicate(actor, step);
    }
    let mut new = Comm(NULL);
    let to: *mut Comm = &mut new;
    let mut background = place.background;
    let mut made;
    let grouped = random.chance(25);
    if grouped {
        call!(actor, pennyGroupStart())?;
    }
    let members: Vec<usize> = if random.chance(50) {
        let parts: Vec<usize> = (1..=n).filter(|size| n % size == 0).collect();
        let (kind, size) = (random.below(3) as c_int, random.one(&parts));
        let (kind, size) = if kind == 0 { (0, n) } else { (kind, size) };
        let length = size as c_int;
        made = call!(actor, pennyCommGroup(comm, kind, length, to));
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
        let mut config = Config::new();
        if random.chance(20) && actor.shared.program.has(Family::Background) {
            background = true;
            in_background(&mut config);
        }
        let config: *const Config =
            if background != place.background || random.chance(50) { &config } else { std::ptr::null() };
        made = call!(actor, pennyCommSplit(comm, mine, place_in, to, config));
        let mut order: Vec<usize> = (0..n).filter(|&r| color[r] == mine && mine != -1).collect();
        order.sort_by_key(|&r| (key[r], r));
        order
    };
    if grouped {
        made = made.and_then(|()| call!(actor, pennyGroupEnd()));
    }
    if begun(made, background)? {
        child_until_made(actor, place, new, &mut place.own(step))?;
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
    Ok(Some(Place { comm: new, background, members, me }))
}

/// A communicator for each lane, then a thread for each.
fn threads(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let Some(place) = actor.place(step) else { return Ok(()) };
    let comm = place.comm;
    let mut lanes = Vec::new();
    for _ in &step.inner {
        let mut new = Comm(NULL);
        let to: *mut Comm = &mut new;
        if begun(call!(actor, pennyCommGroup(comm, 0, 0, to)), place.background)? {
            child_until_made(actor, &place, new, &mut place.own(step))?;
        }
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
