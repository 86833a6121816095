//! Ranks that one thread makes and drives: every call in a group, or each rank's on a stream of its own.

use crate::actor::{Actor, Failure, NULL, Outcome, call};
use crate::api::{Comm, Config, DataType, In, Out, UniqueId};
use crate::buffer::difference;
use crate::element::SUM;
use crate::joining::{begun, in_background, until_made};
use crate::program::{Family, Step};
use crate::random::Random;
use crate::streams::is_over;

const INT64: DataType = DataType(4);

pub fn solo(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let mut random = Random::of(&[step.salt, 11, actor.rank as u64]);
    let n = 1 + random.below(4);
    let polled = random.chance(50) && actor.shared.program.has(Family::Background);
    let comms = match polled {
        true => join_by_polling(actor, n, &mut random)?,
        false => {
            let mut comms = vec![Comm(NULL); n];
            let (to, number, none): (*mut Comm, _, *const i32) =
                (comms.as_mut_ptr(), n as i32, std::ptr::null());
            call!(actor, pennyCommInitAll(to, number, none))?;
            comms
        }
    };
    let mut streams = vec![NULL; if random.chance(50) { n } else { 0 }];
    for place in &mut streams {
        let place: *mut Out = place;
        call!(actor, pennyStreamCreate(place))?;
    }
    for _ in 0..1 + random.below(3) {
        let count = random.below(3000);
        let inputs: Vec<Vec<i64>> =
            (0..n).map(|r| (0..count).map(|i| (r * 10_000 + i) as i64).collect()).collect();
        let mut outputs = vec![vec![-1i64; count]; n];
        if streams.is_empty() {
            call!(actor, pennyGroupStart())?;
        }
        for r in 0..n {
            let (send, recv, comm): (In, Out, _) =
                (inputs[r].as_ptr().cast(), outputs[r].as_mut_ptr().cast(), comms[r]);
            let stream = streams.get(r).copied().unwrap_or(NULL);
            call!(actor, pennyAllReduce(send, recv, count, INT64, SUM, comm, stream))?;
        }
        match streams.is_empty() {
            true => call!(actor, pennyGroupEnd())?,
            false => wait(actor, &streams, &mut random)?,
        }
        let expected: Vec<u8> =
            (0..count).flat_map(|i| ((n * (n - 1) / 2 * 10_000 + n * i) as i64).to_le_bytes()).collect();
        for output in &outputs {
            let is: Vec<u8> = output.iter().flat_map(|word| word.to_le_bytes()).collect();
            difference("a sum of ranks of one thread", 8, &is, &expected)?;
        }
    }
    for stream in streams {
        call!(actor, pennyStreamDestroy(stream))?;
    }
    for comm in comms {
        let mut state = -1;
        let to: *mut i32 = &mut state;
        call!(actor, pennyCommGetAsyncError(comm, to))?;
        if state != 0 {
            return Err(Failure::wrong(format!("the communicator's state is {state}")));
        }
        call!(actor, pennyCommDestroy(comm))?;
    }
    Ok(())
}

/// Waits for one stream after the other, or polls the last one first.
fn wait(actor: &mut Actor<'_>, streams: &[Out], random: &mut Random) -> Outcome {
    let polled = random.chance(50);
    for &stream in streams.iter().rev() {
        // BOUND: the driver ends a job that hangs.
        while polled && !is_over(call!(actor, pennyStreamQuery(stream)))? {
            std::thread::yield_now();
        }
        call!(actor, pennyStreamSynchronize(stream))?;
    }
    Ok(())
}

/// Makes all ranks of a communicator by polling. Before them there may be an attempt that only some of its ranks make.
fn join_by_polling(actor: &mut Actor<'_>, n: usize, random: &mut Random) -> Outcome<Vec<Comm>> {
    let mut config = Config::new();
    config.timeout_ms = 40_000;
    in_background(&mut config);
    let config: *const Config = &config;
    let begin = |actor: &mut Actor<'_>, id: UniqueId, ranks: usize, rank: usize| {
        let mut comm = Comm(NULL);
        let (to, ranks, rank): (*mut Comm, _, _) = (&mut comm, ranks as i32, rank as i32);
        begun(call!(actor, pennyCommInitRankConfig(to, ranks, id, rank, config)), true)?;
        Outcome::Ok(comm)
    };
    if random.chance(30) {
        let id = unique_id(actor, random)?;
        let some: Vec<Comm> = (0..n).map(|r| begin(actor, id, n + 1, r)).collect::<Outcome<_>>()?;
        for comm in some {
            call!(actor, pennyCommAbort(comm))?;
        }
    }
    let id = unique_id(actor, random)?;
    let mut comms = vec![Comm(NULL); n];
    for r in random.order(n) {
        comms[r] = begin(actor, id, n, r)?;
    }
    for &comm in &comms {
        until_made(actor, comm, random)?;
    }
    Ok(comms)
}

fn unique_id(actor: &mut Actor<'_>, random: &mut Random) -> Outcome<UniqueId> {
    let mut id = UniqueId([0; 128]);
    let to: *mut UniqueId = &mut id;
    match random.chance(30) {
        true => call!(actor, pennyGetUniqueIdHosts(to))?,
        false => call!(actor, pennyGetUniqueId(to))?,
    }
    Ok(id)
}
