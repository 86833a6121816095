//! Buffers that are one memory at one address or at two: in-place calls on every kind of memory, and a registered buffer
//! together with its twin in the heap.

use super::collectives::{expected, input, on_ranks, on_ranks_with};
use crate::algorithms;
use crate::comm::{self, Call, CommHandle, Permute, Transfer};
use crate::error::{Code, Result};
use crate::memory::registered::{self, RegisterOutcome};
use crate::memory::view::Address;
use crate::plan::RankView;
use crate::types::{Collective, DataType, Rank, RedOp};

/// Words before and after a call's buffer, which no call may touch.
const GUARD: usize = 24;
const UNTOUCHED: u32 = 0xdead_beef;
/// The most elements of a block here, and the most ranks.
const MOST: usize = 5000;
const RANKS: usize = 6;
/// The kinds of memory: private, of the heap, registered, and registered in its first quarter only.
const KINDS: usize = 4;
const HEAP: usize = 1;
const REGISTERED: usize = 2;

/// One range of words of each kind. Registrations end before the memory is freed: other tests' threads get it next.
struct Memory {
    comm: CommHandle,
    registered: [u64; 2],
    at: [usize; KINDS],
    _private: Vec<Vec<u32>>,
}

#[allow(unsafe_code)]
fn address(at: usize) -> Address<'static> {
    // SAFETY: every test here keeps its memory until its calls have returned.
    unsafe { Address::from_raw(at as *const u8) }
}

#[allow(unsafe_code)]
fn words<'a>(at: usize, len: usize) -> &'a mut [u32] {
    // SAFETY: words of a `Memory` that only its rank uses, and no call at the moment.
    unsafe { std::slice::from_raw_parts_mut(at as *mut u32, len) }
}

impl Memory {
    const WORDS: usize = RANKS * MOST + 2 * GUARD;

    fn new(comm: CommHandle) -> Memory {
        let mut private: Vec<Vec<u32>> = (0..KINDS - 1).map(|_| vec![0; Memory::WORDS]).collect();
        let mut own = private.iter_mut().map(|words| words.as_mut_ptr() as usize);
        let heap = comm::mem_alloc(Memory::WORDS * 4).unwrap();
        let [a, b, c] = std::array::from_fn(|_| own.next().unwrap());
        let registered = [(b, Memory::WORDS * 4), (c, Memory::WORDS)]
            .map(|(at, bytes)| comm::register(comm, address(at), bytes));
        let registered = registered.map(Result::unwrap);
        Memory { comm, registered, at: [a, heap, b, c], _private: private }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.registered.into_iter().for_each(|handle| comm::deregister(self.comm, handle).unwrap());
        comm::mem_free(self.at[HEAP]).unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    collective: Collective,
    root: Rank,
    count: usize,
    kind: usize,
    /// Words between the beginning of the memory and the buffer.
    from: usize,
}

/// One call in place, held against the definition; nothing around its buffer is touched.
fn in_place(case: &Case, n: u32, me: Rank, comm: CommHandle, memory: &Memory, algo: &str) {
    let Case { collective: c, root, count, kind, from } = *case;
    let (ins, outs) = (c.blocks_in(me, n, root) as usize, c.blocks_out(me, n, root) as usize);
    let within = match c {
        Collective::ReduceScatter | Collective::AllGather => me as usize * count,
        Collective::Gather | Collective::Scatter => root as usize * count,
        _ => 0,
    };
    let (send, recv) = match (ins > 0 && outs > 0, ins >= outs) {
        (true, true) => (0, within),
        (true, false) => (within, 0),
        _ => (0, 0),
    };
    let used = ins.max(outs) * count;
    let all = words(memory.at[kind], Memory::WORDS);
    all.fill(UNTOUCHED);
    let buffer = &mut all[from..][..used];
    for b in 0..ins {
        for i in 0..count {
            buffer[send + b * count + i] = input(me, b, i);
        }
    }
    let at = |blocks: usize, word: usize| match blocks {
        0 => Address::NULL,
        _ => address(memory.at[kind] + (from + word) * 4),
    };
    let call = Call {
        collective: c,
        send: at(ins, send),
        recv: at(outs, recv),
        count,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: root as i32,
        padded: false,
    };
    comm::collective(comm, &call, None)
        .unwrap_or_else(|e| panic!("{algo} {case:?} on rank {me} of {n}: {e}"));
    for b in 0..outs {
        for i in 0..count {
            let (got, want) = (buffer[recv + b * count + i], expected(c, n, me, root, b, i));
            assert_eq!(got, want, "{algo} {case:?}: rank {me} of {n}, block {b}, element {i}");
        }
    }
    let untouched = |words: &[u32]| words.iter().all(|&word| word == UNTOUCHED);
    assert!(untouched(&all[..from]) && untouched(&all[from + used..]), "{algo} {case:?}: rank {me} of {n}");
}

/// Block sizes on both sides of where something changes: blocks of 4 and 8 KiB, whole buffers of 8 and 16 KiB.
fn counts(n: usize) -> Vec<usize> {
    let mut all = vec![37, 1024, 1025, MOST];
    all.extend([8 << 10, 16 << 10].iter().map(|bytes| (bytes / 4_usize).div_ceil(n)));
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn calls_in_place_are_right_on_every_kind_of_memory_by_every_algorithm() {
    for n in [2, 3, 4, RANKS as u32] {
        for algorithm in algorithms::ALL {
            let serves = |collective: Collective, root: Rank| {
                algorithm.refuses(&RankView::flat(collective, 0, n, root)).is_none()
            };
            if !Collective::ALL.iter().any(|&c| c != Collective::Barrier && serves(c, 0)) {
                continue;
            }
            on_ranks_with(n, algorithm.name, |me, comm| {
                let memory = Memory::new(comm);
                for &collective in Collective::ALL.iter().filter(|&&c| c != Collective::Barrier) {
                    for root in if collective.rooted() { vec![0, n - 1] } else { vec![0] } {
                        if !serves(collective, root) {
                            continue;
                        }
                        for count in counts(n as usize) {
                            // All alike, then each rank another kind.
                            for round in 0..KINDS + 2 {
                                let kind = if round < KINDS { round } else { (round + me as usize) % KINDS };
                                let from = [0, GUARD, 1][(round + count) % 3];
                                let case = Case { collective, root, count, kind, from };
                                in_place(&case, n, me, comm, &memory, algorithm.name);
                            }
                        }
                    }
                }
            });
        }
    }
}

/// Where the heap sees a range of a registered buffer.
#[allow(unsafe_code)]
fn twin_of(at: usize, bytes: usize) -> usize {
    let RegisterOutcome::Registered(share) = registered::register(address(at), bytes).unwrap() else {
        panic!("not registered")
    };
    let (_, twin) = share.buffer().twin_of(address(at).view(bytes)).unwrap();
    assert!(share.release().expect("it is ours").warning.is_none());
    twin.addr() as usize
}

#[test]
fn one_memory_at_two_addresses_is_right_or_refused() {
    const COUNT: usize = 4096;
    const N: u32 = 3;
    on_ranks(N, |me, comm| {
        let memory = Memory::new(comm);
        // From a page's beginning on, and not of the last page: the rest of a registered buffer has memory of its own.
        let own = memory.at[REGISTERED].next_multiple_of(4096);
        let twin = twin_of(own, 2 * COUNT * 4);
        let call = |collective, send: usize, recv: usize| -> Result<()> {
            let words = words(own, N as usize * COUNT);
            words.iter_mut().enumerate().for_each(|(i, word)| *word = input(me, i / COUNT, i % COUNT));
            let (count, dtype, op) = (COUNT / 4, DataType::Uint32, RedOp::Sum);
            let (send, recv) = (address(send), address(recv));
            comm::collective(
                comm,
                &Call { collective, send, recv, count, dtype, op, root: 0, padded: false },
                None,
            )
        };
        for (send, recv) in [(own, twin), (twin, own), (twin, twin)] {
            call(Collective::AllReduce, send, recv).unwrap();
            let sum = |i: usize| (0..N).map(|r| input(r, 0, i)).fold(0, u32::wrapping_add);
            assert!(words(own, COUNT / 4).iter().enumerate().all(|(i, &word)| word == sum(i)), "rank {me}");
            let block = me as usize * COUNT / 4;
            call(Collective::ReduceScatter, send, recv + block * 4).unwrap();
            let right = |(i, &word): (usize, &u32)| word == sum(block + i);
            assert!(words(own, COUNT)[block..][..COUNT / 4].iter().enumerate().all(right), "rank {me}");
        }
        for (send, recv) in [(own, twin + 64), (twin + 64, own)] {
            let e = call(Collective::AllReduce, send, recv).unwrap_err();
            assert!(e.code == Code::InvalidArgument && e.message.contains("overlap"), "{e}");
        }
        let half = |send, at, count| Transfer {
            send,
            buffer: address(at),
            count,
            dtype: DataType::Uint32,
            peer: me as i32,
            of_collective: false,
        };
        comm::group_start().unwrap();
        comm::transfer(comm, &half(true, own, 100), None).unwrap();
        comm::transfer(comm, &half(false, twin + 8, 100), None).unwrap();
        let e = comm::group_end().unwrap_err();
        assert!(e.code == Code::InvalidArgument && e.message.contains("overlapping"), "{e}");
        let perm: Vec<i32> = (0..N as i32).map(|r| (r + 1) % N as i32).collect();
        let (send, recv, dtype) = (address(own), address(twin + 8), DataType::Uint32);
        let e = comm::permute(comm, Permute { send, recv, count: 100, dtype, perm }, None).unwrap_err();
        assert!(e.code == Code::InvalidArgument && e.message.contains("overlap"), "{e}");
    });
}
