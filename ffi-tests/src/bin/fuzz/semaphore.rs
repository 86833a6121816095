//! Semaphores and remote copies round the ring.

use crate::actor::{Actor, NULL, Outcome, Place, call};
use crate::api::{Device, In, Out, RemoteCopy};
use crate::buffer::difference;
use crate::program::Step;
use crate::random::Random;

fn content(step: &Step, turn: usize, from: usize, bytes: usize) -> Vec<u8> {
    let mut random = Random::of(&[step.salt, turn as u64, from as u64, 55]);
    (0..bytes).map(|_| random.next() as u8).collect()
}

pub fn semaphore(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    let mut random = place.common(step);
    call!(actor, pennyShmemInit(comm))?;
    let (mut sent, mut come, mut turn) = (NULL, NULL, NULL);
    for (kind, name, at) in [(0, c"sent", &mut sent), (0, c"come", &mut come), (1, c"turn", &mut turn)] {
        let (name, to): (_, *mut Out) = (name.as_ptr(), at);
        call!(actor, pennySemaphoreCreate(comm, kind, name, 3, to))?;
    }
    let turns = 1 + random.below(4);
    let bytes = 1 + random.below(30_000);
    let distance = random.below(n);
    let mut memory = NULL;
    let to: *mut Out = &mut memory;
    call!(actor, pennyShmemMalloc(to, bytes * turns, comm))?;
    for i in 0..turns {
        let source = content(step, i, me, bytes);
        let to = Device { kind: 1, coord: [((me + distance) % n) as i32, 0, 0, 0] };
        let src: In = source.as_ptr().cast();
        let dst: Out = memory.cast::<u8>().wrapping_add(i * bytes).cast();
        let index = random.below(3) as i32;
        let copy = RemoteCopy {
            src,
            dst,
            bytes,
            send_sem: sent,
            send_index: index,
            recv_sem: come,
            recv_index: index,
            device: to,
        };
        let copy: *const RemoteCopy = &copy;
        call!(actor, pennyRemoteCopyStart(comm, copy))?;
        if random.chance(50) {
            call!(actor, pennyRemoteCopyWait(comm, copy))?;
        } else {
            call!(actor, pennyRemoteCopyWaitRecv(comm, copy))?;
            call!(actor, pennyRemoteCopyWaitSend(comm, copy))?;
        }
        let expected = content(step, i, (me + n - distance) % n, bytes);
        // SAFETY: symmetric memory of this rank, whose turn has come and is not written again.
        let is = unsafe { std::slice::from_raw_parts(dst.cast::<u8>(), bytes) };
        difference("a remote copy", 1, is, &expected)?;
        let (next, inc) =
            (Device { kind: 1, coord: [((me + 1) % n) as i32, 0, 0, 0] }, 1 + random.below(5) as u64);
        call!(actor, pennySemaphoreSignal(turn, index, inc, next))?;
        call!(actor, pennySemaphoreWait(turn, index, inc))?;
    }
    call!(actor, pennyShmemBarrierAll(comm))?;
    for semaphore in [sent, come, turn] {
        call!(actor, pennySemaphoreDestroy(semaphore))?;
    }
    call!(actor, pennyShmemFinalize(comm))
}
