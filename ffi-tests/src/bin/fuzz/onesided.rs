//! Windows: puts with signals between random ranks, round after round.

use crate::actor::{Actor, NULL, Outcome, Place, call, refused};
use crate::api::{INVALID_ARGUMENT, Out, WaitSignal};
use crate::buffer::{Buffer, Kind, difference};
use crate::collective::plant;
use crate::draw::draw_kind;
use crate::element::{Patterns, TYPES, Type};
use crate::program::Step;

/// A put that all ranks know of.
struct Put {
    from: usize,
    to: usize,
    count: usize,
    kind: Type,
    /// Where in the target's part.
    offset: usize,
    index: i32,
    context: i32,
    patterns: Patterns,
}

pub fn window(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    let mut random = place.common(step);
    // The puts of all rounds have places of their own, so that nothing has to be told back.
    let rounds = 1 + random.below(3);
    let mut sizes = vec![0; n];
    let mut puts: Vec<Vec<Put>> = Vec::new();
    for round in 0..rounds {
        let mut list = Vec::new();
        for i in 0..random.below(3 * n + 1) {
            let (from, to, kind) = (random.below(n), random.below(n), random.one(&TYPES));
            let limit = random.one(&[60, 60, 60, 60, 20_000]);
            let count = random.below(limit);
            let salt = step.salt ^ ((round * 1000 + i) as u64) << 20;
            let offset = sizes[to] + random.below(9);
            sizes[to] = offset + count * kind.size;
            let (index, context) = (random.below(64) as i32, random.below(8) as i32);
            list.push(Put {
                from,
                to,
                count,
                kind,
                offset,
                index,
                context,
                patterns: Patterns::new(kind, None, 1, salt),
            });
        }
        puts.push(list);
    }
    let mut own = place.own(step);
    let mut inbox = Buffer::new(actor, comm, Kind::Heap, sizes[me], 1, &mut own)?;
    inbox.bytes().fill(0xee);
    let mut expected = vec![0xee; sizes[me]];
    let mut win = NULL;
    let (at, size, to): (_, _, *mut Out) = (inbox.at(0), sizes[me], &mut win);
    call!(actor, pennyCommWindowRegister(comm, at, size, to, 0))?;
    for list in &puts {
        let grouped = own.chance(40);
        if grouped {
            call!(actor, pennyGroupStart())?;
        }
        let mut sources = Vec::new();
        for put in list.iter().filter(|put| put.from == me) {
            let kind = draw_kind(&mut own);
            let mut source =
                Buffer::new(actor, comm, kind, put.count * put.kind.size, put.kind.size, &mut own)?;
            put.patterns.write(&put.patterns.inputs[0], 0, source.bytes());
            let (from, count, kind, peer) = (source.input(0), put.count, put.kind.number, put.to as i32);
            let (offset, index, context) = (put.offset, put.index, put.context);
            call!(
                actor,
                pennyPutSignal(from, count, kind, peer, win, offset, index, context, 0, comm, NULL)
            )?;
            sources.push(source);
        }
        let mut awaited: Vec<WaitSignal> = list
            .iter()
            .filter(|put| put.to == me)
            .map(|put| WaitSignal { count: 1, peer: put.from as i32, index: put.index, context: put.context })
            .collect();
        let (number, list_at) = (awaited.len() as i32, awaited.as_mut_ptr());
        if number > 0 {
            call!(actor, pennyWaitSignal(number, list_at, comm, NULL))?;
        }
        if grouped {
            call!(actor, pennyGroupEnd())?;
        }
        for mut source in sources {
            source.guards()?;
            source.free(actor)?;
        }
        for put in list.iter().filter(|put| put.to == me) {
            let to = &mut expected[put.offset..][..put.count * put.kind.size];
            put.patterns.write(&put.patterns.inputs[0], 0, to);
        }
        // What later rounds write may be there already: only what was waited for is looked at.
        for put in list.iter().filter(|put| put.to == me) {
            let range = put.offset..put.offset + put.count * put.kind.size;
            difference("what was put", put.kind.size, &inbox.bytes()[range.clone()], &expected[range])?;
        }
    }
    if own.chance(30) {
        let past = sizes[0] + 1;
        let outcome = call!(actor, pennyPutSignal(at, 1, TYPES[1].number, 0, win, past, 0, 0, 0, comm, NULL));
        refused(outcome, INVALID_ARGUMENT, "a put past the end of a window")?;
    }
    call!(actor, pennyCommWindowDeregister(comm, win))?;
    plant(actor, &mut inbox, 0, expected.len());
    difference("the window", 1, inbox.bytes(), &expected)?;
    inbox.guards()?;
    inbox.free(actor)
}
