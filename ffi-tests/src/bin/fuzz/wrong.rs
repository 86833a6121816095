//! Calls that must be refused with a sentence, and leave everything usable: bad arguments, and ranks that disagree.

use crate::actor::{Actor, Failure, NULL, Outcome, Place, call, refused};
use crate::api::{Comm, DataType, INVALID_ARGUMENT, INVALID_USAGE, In, Out, RedOp};
use crate::collective::{Collective, Shape, What};
use crate::element::{BIT_AND, LOGICAL_AND, LOGICAL_OR, SUM, TYPES};
use crate::program::{Family, Kind, Step};
use crate::{scaled, vector};

const FLOAT: DataType = DataType(7);
const BYTE: DataType = DataType(1);

/// One wrong call, which no other rank is told of.
pub fn bad_input(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let mut random = place.own(step);
    for _ in 0..1 + random.below(4) {
        let grouped = random.chance(30);
        let case = random.below(CASES.len());
        let (what, code, wrong) = CASES[case];
        let grouped = grouped && case >= UNGROUPED;
        if grouped {
            call!(actor, pennyGroupStart())?;
        }
        refused(wrong(actor, place), code, what)?;
        if grouped {
            refused(call!(actor, pennyGroupEnd()), code, "the group of a refused call")?;
        }
    }
    Ok(())
}

type Wrong = fn(&mut Actor<'_>, &Place) -> Outcome;

/// The first cases of the table are of calls that a group does not queue.
const UNGROUPED: usize = 9;

const CASES: [(&str, i32, Wrong); 26] = [
    ("pennyGroupEnd without a group", INVALID_USAGE, |actor, _| call!(actor, pennyGroupEnd())),
    ("pennyMemFree of no memory", INVALID_ARGUMENT, |actor, _| {
        let nothing = 0x1000 as Out;
        call!(actor, pennyMemFree(nothing))
    }),
    ("pennyCommDeregister of no registration", INVALID_ARGUMENT, |actor, place| {
        let (comm, nothing) = (place.comm, 0x77 as Out);
        call!(actor, pennyCommDeregister(comm, nothing))
    }),
    ("pennyStreamSynchronize of no stream", INVALID_ARGUMENT, |actor, _| {
        let nothing = 0x1234 as Out;
        call!(actor, pennyStreamSynchronize(nothing))
    }),
    ("a communicator of no ranks", INVALID_ARGUMENT, |actor, _| {
        let mut comm = Comm(NULL);
        let (to, none): (*mut Comm, *const i32) = (&mut comm, std::ptr::null());
        call!(actor, pennyCommInitAll(to, 0, none))
    }),
    ("a send to oneself outside of a group", INVALID_USAGE, |actor, place| {
        let (comm, me, word) = (place.comm, place.me as i32, 5u64);
        let from = (&raw const word).cast();
        call!(actor, pennySend(from, 8, BYTE, me, comm, NULL))
    }),
    ("pennyMemAlloc without a place", INVALID_ARGUMENT, |actor, _| {
        let nowhere: *mut Out = std::ptr::null_mut();
        call!(actor, pennyMemAlloc(nowhere, 64))
    }),
    ("pennyCommDup without a place", INVALID_ARGUMENT, |actor, place| {
        let (comm, nowhere): (_, *mut Comm) = (place.comm, std::ptr::null_mut());
        call!(actor, pennyCommDup(comm, nowhere))
    }),
    ("a scaled sum of bools", INVALID_ARGUMENT, |actor, place| {
        let (comm, one, mut op) = (place.comm, 1u8, SUM);
        let (to, scalar): (*mut RedOp, In) = (&mut op, (&raw const one).cast());
        call!(actor, pennyRedOpCreatePreMulSum(to, scalar, DataType(64), 1, comm))
    }),
    ("an operation that was destroyed", INVALID_ARGUMENT, scaled::wrong_operation),
    ("blocks that overlap", INVALID_ARGUMENT, |actor, place| {
        let (comm, n) = (place.comm, place.n());
        let (counts, displs) = (vec![2usize; n + 1], vec![0usize; n + 1]);
        let (counts, displs): (*const usize, *const usize) = (counts.as_ptr(), displs.as_ptr());
        let (from, to) = (WORDS.as_ptr().cast(), WORDS.as_ptr().wrapping_add(32).cast_mut().cast());
        let to = if n == 1 { NULL } else { to };
        call!(actor, pennyAllGatherv(from, 2, to, counts, displs, FLOAT, comm, NULL))
    }),
    ("a type that does not exist", INVALID_ARGUMENT, |actor, place| {
        all_reduce(actor, place, 1, DataType(99), SUM)
    }),
    ("an operation that does not exist", INVALID_ARGUMENT, |actor, place| {
        all_reduce(actor, place, 1, FLOAT, RedOp(5))
    }),
    ("bits of floats", INVALID_ARGUMENT, |actor, place| all_reduce(actor, place, 2, FLOAT, BIT_AND)),
    ("a sum of bools", INVALID_ARGUMENT, |actor, place| all_reduce(actor, place, 2, DataType(64), SUM)),
    ("more than the address space", INVALID_ARGUMENT, |actor, place| {
        all_reduce(actor, place, usize::MAX / 2, FLOAT, SUM)
    }),
    ("an input at NULL", INVALID_ARGUMENT, |actor, place| {
        let (comm, to) = (place.comm, WORDS.as_ptr().cast::<()>().cast_mut().cast());
        call!(actor, pennyAllReduce(NULL, to, 3, FLOAT, SUM, comm, NULL))
    }),
    ("an output at NULL", INVALID_ARGUMENT, |actor, place| {
        let (comm, from) = (place.comm, WORDS.as_ptr().cast());
        call!(actor, pennyAllReduce(from, NULL, 3, FLOAT, SUM, comm, NULL))
    }),
    ("buffers that overlap", INVALID_ARGUMENT, |actor, place| {
        let (comm, from): (_, *const u8) = (place.comm, WORDS.as_ptr().cast());
        let (from, to): (In, Out) = (from.cast(), from.wrapping_add(4).cast_mut().cast());
        call!(actor, pennyAllReduce(from, to, 9, FLOAT, SUM, comm, NULL))
    }),
    ("a root behind the last rank", INVALID_ARGUMENT, |actor, place| {
        let n = place.n() as i32;
        broadcast(actor, place, n)
    }),
    ("a root below 0", INVALID_ARGUMENT, |actor, place| broadcast(actor, place, -1)),
    ("a peer behind the last rank", INVALID_ARGUMENT, |actor, place| {
        let (comm, n, from) = (place.comm, place.n() as i32, WORDS.as_ptr().cast());
        call!(actor, pennySend(from, 1, FLOAT, n, comm, NULL))
    }),
    ("a permutation to a rank that is not there", INVALID_ARGUMENT, |actor, place| {
        let perm = vec![place.n() as i32; place.n()];
        permute(actor, place, &perm)
    }),
    ("a signal that does not exist", INVALID_ARGUMENT, |actor, place| {
        let comm = place.comm;
        call!(actor, pennySignal(0, 64, 0, 0, comm, NULL))
    }),
    ("an invented stream", INVALID_ARGUMENT, |actor, place| {
        let (comm, stream) = (place.comm, 0x55 as Out);
        call!(actor, pennyBarrier(comm, stream))
    }),
    ("a communicator that is none", INVALID_ARGUMENT, |actor, _| {
        let comm = Comm(0xdead as Out);
        call!(actor, pennyBarrier(comm, NULL))
    }),
];

/// Memory of wrong calls, which must not be written.
static WORDS: [u32; 64] = [0; 64];

fn all_reduce(actor: &mut Actor<'_>, place: &Place, count: usize, kind: DataType, op: RedOp) -> Outcome {
    let (comm, from): (_, *const u8) = (place.comm, WORDS.as_ptr().cast());
    let (from, to): (In, Out) = (from.cast(), from.wrapping_add(128).cast_mut().cast());
    call!(actor, pennyAllReduce(from, to, count, kind, op, comm, NULL))
}

fn broadcast(actor: &mut Actor<'_>, place: &Place, root: i32) -> Outcome {
    let (comm, at) = (place.comm, WORDS.as_ptr().cast::<()>().cast_mut().cast());
    call!(actor, pennyBcast(at, 3, FLOAT, root, comm, NULL))
}

fn permute(actor: &mut Actor<'_>, place: &Place, perm: &[i32]) -> Outcome {
    let (comm, from, perm): (_, *const u8, _) = (place.comm, WORDS.as_ptr().cast(), perm.as_ptr());
    let (from, to): (In, Out) = (from.cast(), from.wrapping_add(128).cast_mut().cast());
    call!(actor, pennyPermute(from, to, 3, FLOAT, perm, comm, NULL))
}

/// One rank calls otherwise than the others: every rank is told, and the next call is right again.
pub fn disagree(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let n = place.n();
    if n == 1 {
        return Ok(());
    }
    let mut random = place.common(step);
    if actor.shared.program.has(Family::Kind(Kind::Vector)) && random.chance(25) {
        return vector::disagree(actor, place, step);
    }
    if actor.shared.program.has(Family::Roots) && random.chance(40) {
        return roots_differ(actor, place, step);
    }
    let mut shape = Shape::draw(actor, place, step);
    // Calls in which every rank hears of every other.
    shape.what = random.one(&[What::AllReduce, What::AllGather, What::ReduceScatter, What::AlltoAll]);
    shape.count = 1 + shape.count.min((1 << 20) / shape.kind.size / n);
    let odd = random.below(n) == place.me;
    let how = random.below(4);
    let (kind, op) = (random.one(&TYPES[..6]), random.one(&[0, 1, 2, 3]));
    let reduces = shape.reduces();
    if odd {
        match how {
            0 => shape.count += 1,
            1 => shape.count = shape.count * 3 + 5,
            2 if reduces => {
                let right = shape.op.0;
                shape.op = RedOp(if right == op { (op + 1) % 4 } else { op });
                if !crate::element::serves(shape.op, shape.kind.class) {
                    shape.op = if right == LOGICAL_AND.0 { LOGICAL_OR } else { LOGICAL_AND };
                }
            }
            3 if kind.number != shape.kind.number && crate::element::serves(shape.op, kind.class) => {
                shape.kind = kind;
            }
            _ => shape.count += 2,
        }
    }
    call_otherwise(actor, place, step, shape)
}

fn call_otherwise(actor: &mut Actor<'_>, place: &Place, step: &Step, shape: Shape) -> Outcome {
    let untouched = shape.reduces();
    let mut work = Collective::prepare(actor, place, step, shape)?;
    let outcome = work.issue(actor, NULL);
    refused(outcome, INVALID_USAGE, "a call that the ranks do not agree on")?;
    work.check_refused(untouched)?;
    work.is_left_alone(actor)?;
    work.free(actor)
}

/// One rank takes another for the root. It is told within the call or at one of the next two, which are made all the same.
fn roots_differ(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let n = place.n();
    let mut random = place.common(step);
    let mut shape = Shape::draw(actor, place, step);
    shape.what = random.one(&[What::Broadcast, What::Reduce, What::Gather, What::Scatter]);
    shape.count = 1 + shape.count.min((1 << 20) / shape.kind.size / n);
    let odd = random.below(n) == place.me;
    if odd {
        shape.root = (shape.root + 1 + random.below(n - 1)) % n;
    }
    let mut work = Collective::prepare(actor, place, step, shape)?;
    let comm = place.comm;
    let mut told = 0;
    let mut hear = |outcome: Outcome| match outcome {
        Err(failure) if failure.code == INVALID_USAGE => {
            told += 1;
            Ok(())
        }
        other => other,
    };
    hear(work.issue(actor, NULL))?;
    hear(call!(actor, pennyBarrier(comm, NULL)))?;
    hear(call!(actor, pennyBarrier(comm, NULL)))?;
    if odd && told == 0 {
        return Err(Failure::wrong("nobody told this rank that it took another for the root".to_owned()));
    }
    work.check_refused(false)?;
    work.free(actor)
}
