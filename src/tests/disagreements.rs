//! Ranks that do not agree: every disagreement is found, both sides are told, no wrong byte is passed off as right.

mod rooted;
mod transfers;

use super::collectives::on_ranks;
use crate::comm::{self, Call, CommHandle, Transfer};
use crate::error::{Code, Error, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};
use std::sync::Mutex;

/// Room for the largest call here on four ranks, both directions.
const ROOM: usize = 4 << 18;
const SENTINEL: u8 = 0xa5;

/// A call without buffers.
#[derive(Clone, Copy)]
struct Shape {
    collective: Collective,
    count: usize,
    dtype: DataType,
    op: RedOp,
    root: i32,
}

impl Shape {
    /// As the sentence spells it.
    fn text(&self) -> String {
        let Shape { collective: c, count, dtype, op, root } = self;
        match c {
            Collective::Barrier => c.to_string(),
            _ if c.reduces() && c.rooted() => {
                format!("{c}(count {count}, type {dtype}, op {op}, root {root})")
            }
            _ if c.reduces() => format!("{c}(count {count}, type {dtype}, op {op})"),
            _ if c.rooted() => format!("{c}(count {count}, type {dtype}, root {root})"),
            _ => format!("{c}(count {count}, type {dtype})"),
        }
    }
}

struct Memory {
    send: usize,
    recv: usize,
    private: Vec<Vec<u8>>,
}

impl Memory {
    fn new(heap: bool) -> Memory {
        if heap {
            return Memory {
                send: comm::mem_alloc(ROOM).unwrap(),
                recv: comm::mem_alloc(ROOM).unwrap(),
                private: vec![],
            };
        }
        let private = vec![vec![0u8; ROOM], vec![0u8; ROOM]];
        Memory { send: private[0].as_ptr() as usize, recv: private[1].as_ptr() as usize, private }
    }
    #[allow(unsafe_code)]
    fn bytes(&mut self, at: usize) -> &mut [u8] {
        // SAFETY: `at` is one of the two buffers of ROOM bytes; no call is using them.
        unsafe { std::slice::from_raw_parts_mut(at as *mut u8, ROOM) }
    }
    /// Makes the call. The input is all ones in every byte; the output begins as sentinels.
    fn run(&mut self, comm: CommHandle, shape: &Shape) -> Result<()> {
        self.bytes(self.send).fill(1);
        self.bytes(self.recv).fill(SENTINEL);
        self.call(comm, shape)
    }
    /// Makes the call with whatever the buffers hold: to fill them takes much longer than a small call.
    #[allow(unsafe_code)]
    fn call(&mut self, comm: CommHandle, shape: &Shape) -> Result<()> {
        // SAFETY: ROOM bytes serve every call of this file, and outlive it.
        let (send, recv) =
            unsafe { (Address::from_raw(self.send as *const u8), Address::from_raw(self.recv as *const u8)) };
        let Shape { collective, count, dtype, op, root } = *shape;
        comm::collective(comm, &Call { collective, send, recv, count, dtype, op, root, padded: false }, None)
    }
    fn untouched(&mut self) -> bool {
        self.bytes(self.recv).iter().all(|&b| b == SENTINEL)
    }
    /// An all-reduce on which all agree gives what it should, whatever happened before. Its own result.
    fn all_reduce_is_right(&mut self, comm: CommHandle, n: u32, count: usize) -> Result<()> {
        let shape = Shape {
            collective: Collective::AllReduce,
            count,
            dtype: DataType::Uint8,
            op: RedOp::Sum,
            root: 0,
        };
        let ended = self.run(comm, &shape);
        let right = |(i, &b): (usize, &u8)| b == if i < count { n as u8 } else { SENTINEL };
        assert!(
            self.bytes(self.recv).iter().enumerate().all(right),
            "the call after a disagreement is wrong: {ended:?}"
        );
        ended
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.private.is_empty() {
            comm::mem_free(self.send).unwrap();
            comm::mem_free(self.recv).unwrap();
        }
    }
}

/// Every way in which another shape can differ from this one in a single argument.
fn variants(s: Shape, n: u32) -> Vec<Shape> {
    let mut all = Vec::new();
    if s.collective != Collective::Barrier {
        all.extend(
            [s.count + 1, s.count * 2, 1 << 15]
                .map(|count| Shape { count, ..s })
                .into_iter()
                .filter(|v| v.count != s.count),
        );
        all.extend([DataType::Uint8, DataType::Float32, DataType::Int64].map(|dtype| Shape { dtype, ..s }));
    }
    if s.collective.reduces() {
        all.extend([RedOp::Max, RedOp::Prod].map(|op| Shape { op, ..s }));
    }
    if s.collective.rooted() {
        all.push(Shape { root: (s.root + 1) % n as i32, ..s });
    }
    all.extend(
        Collective::ALL.iter().filter(|&&c| c != s.collective).map(|&collective| Shape { collective, ..s }),
    );
    all
}

/// What the ranks of one disagreement returned, from the call itself and from the one after it.
type Outcome = Vec<(Result<()>, Result<()>)>;

/// One rank passes `odd`, the others `usual`.
fn disagree(
    n: u32,
    usual: Shape,
    odd: Shape,
    who: Rank,
    comm: CommHandle,
    me: Rank,
    memory: &mut Memory,
) -> (Result<()>, Result<()>) {
    let mine = if me == who { odd } else { usual };
    let first = memory.run(comm, &mine);
    if let Err(e) = &first {
        assert_eq!(e.code, Code::InvalidUsage, "{e}");
    }
    if mine.collective.reduces() && first.is_err() {
        assert!(memory.untouched(), "{} left something behind on rank {me} of {n}", mine.text());
    }
    (first, memory.all_reduce_is_right(comm, n, 40))
}

fn names_both(e: &Error, a: &Shape, b: &Shape) -> bool {
    e.message.contains(&a.text()) && e.message.contains(&b.text()) && e.message.contains("disagree")
}

#[test]
fn every_disagreement_in_one_argument_is_found_and_told_with_both_sides() {
    let mut pairs = 0;
    for (n, heap, count) in [(2, false, 5), (3, true, 700), (4, false, 700), (4, true, 20_000)] {
        let cases: Vec<(Shape, Shape, Rank)> = Collective::ALL
            .iter()
            .map(|&collective| Shape { collective, count, dtype: DataType::Int32, op: RedOp::Sum, root: 0 })
            .flat_map(|usual| variants(usual, n).into_iter().map(move |odd| (usual, odd)))
            .enumerate()
            .map(|(i, (usual, odd))| (usual, odd, i as Rank % n))
            .collect();
        pairs += cases.len();
        let told: Mutex<Vec<Outcome>> =
            Mutex::new(cases.iter().map(|_| vec![(Ok(()), Ok(())); n as usize]).collect());
        on_ranks(n, |me, comm| {
            let mut memory = Memory::new(heap);
            for (i, &(usual, odd, who)) in cases.iter().enumerate() {
                let ended = disagree(n, usual, odd, who, comm, me, &mut memory);
                told.lock().unwrap()[i][me as usize] = ended;
            }
        });
        for ((usual, odd, who), ended) in cases.iter().zip(told.into_inner().unwrap()) {
            let what = format!("{} on {n} ranks, {} on rank {who}", usual.text(), odd.text());
            for (rank, (first, next)) in ended.iter().enumerate() {
                for e in [first, next].into_iter().filter_map(|r| r.as_ref().err()) {
                    assert!(names_both(e, usual, odd), "{what}: rank {rank} is told `{e}`");
                }
            }
            // Both sides hear of it, in the call or, if they had left it by then, in the next.
            assert!(ended.iter().all(|(first, next)| first.is_err() || next.is_err()), "{what}: {ended:?}");
            let everybody = usual.collective.everybody() && odd.collective.everybody();
            assert!(
                !everybody || ended.iter().all(|(first, _)| first.is_err()),
                "{what} came through: {ended:?}"
            );
        }
    }
    println!("disagreements_found {pairs} 100 {}", if pairs >= 100 { "PASS" } else { "FAIL" });
    assert!(pairs >= 100);
}

#[test]
fn calls_in_another_order_are_found_by_every_pair_of_collectives() {
    let all = |collective| Shape { collective, count: 300, dtype: DataType::Uint16, op: RedOp::Sum, root: 1 };
    on_ranks(3, |me, comm| {
        let mut memory = Memory::new(false);
        for (i, &a) in Collective::ALL.iter().enumerate() {
            for &b in &Collective::ALL[i + 1..] {
                let (first, second) = if me == 2 { (b, a) } else { (a, b) };
                let ended = [
                    memory.run(comm, &all(first)),
                    memory.run(comm, &all(second)),
                    memory.all_reduce_is_right(comm, 3, 9),
                ];
                assert!(ended.iter().any(|e| e.is_err()), "{a} and {b} crossed on rank {me}");
                for e in ended.iter().filter_map(|e| e.as_ref().err()) {
                    assert!(names_both(e, &all(a), &all(b)), "{a} and {b} crossed: rank {me} is told `{e}`");
                }
            }
        }
    });
}

#[test]
fn disagreements_one_after_another_end_every_call() {
    // Each rank differs in turn, in rooted calls that some leave early: nobody may miss the notice of its own call.
    on_ranks(4, |me, comm| {
        let mut memory = Memory::new(true);
        for i in 0..200u32 {
            let collective =
                [Collective::Broadcast, Collective::Reduce, Collective::Gather, Collective::Scatter]
                    [i as usize % 4];
            let count = if me == i / 4 % 4 { 20_001 } else { 20_000 };
            let shape = Shape {
                collective,
                count,
                dtype: DataType::Uint32,
                op: RedOp::Sum,
                root: (i / 16 % 4) as i32,
            };
            if let Err(e) = memory.run(comm, &shape) {
                assert_eq!(e.code, Code::InvalidUsage, "call {i}: {e}");
            }
        }
        // The first call that needs everybody brings the late news; after it there are none.
        if let Err(e) = memory.all_reduce_is_right(comm, 4, 100) {
            assert_eq!(e.code, Code::InvalidUsage, "{e}");
        }
        memory.all_reduce_is_right(comm, 4, 100).unwrap();
    });
}

#[test]
fn a_count_that_only_one_rank_could_mean_is_a_disagreement_and_one_beyond_all_memory_an_argument() {
    on_ranks(3, |me, comm| {
        let mut memory = Memory::new(false);
        // Rank 2, which is no root, has one buffer: two so large would overlap.
        for collective in [Collective::Reduce, Collective::Gather, Collective::Scatter] {
            let shape = |count| Shape { collective, count, dtype: DataType::Uint8, op: RedOp::Sum, root: 0 };
            let usual = shape(1000);
            for count in [1 << 45, (1 << 54) - 1] {
                let odd = shape(count);
                let ended = memory.run(comm, if me == 2 { &odd } else { &usual });
                let next = memory.all_reduce_is_right(comm, 3, 5);
                // A root that had sent what it has learns of it at the next call.
                let told = ended.is_err() || (me == 0 && next.is_err());
                assert!(me == 1 || told, "{collective}: rank {me} came through");
                for e in [ended, next].into_iter().filter_map(Result::err) {
                    assert!(
                        e.code == Code::InvalidUsage && names_both(&e, &odd, &usual),
                        "{collective}: {e}"
                    );
                }
            }
            for count in [1 << 56, isize::MAX as usize / 3, isize::MAX as usize, usize::MAX] {
                let e = memory.run(comm, &shape(count)).unwrap_err();
                assert!(e.code == Code::InvalidArgument && e.message.contains("more than memory"), "{e}");
            }
        }
        memory.all_reduce_is_right(comm, 3, 5).unwrap();
    });
}

/// One half of a transfer between this rank and `peer`.
#[allow(unsafe_code)]
fn half(memory: &Memory, send: bool, peer: Rank, count: usize, dtype: DataType) -> Transfer<'static> {
    let at = if send { memory.send } else { memory.recv };
    // SAFETY: ROOM bytes serve every transfer of this file.
    let buffer = unsafe { Address::from_raw(at as *const u8) };
    Transfer { send, buffer, count, dtype, peer: peer as i32, of_collective: false }
}

#[test]
fn halves_of_a_transfer_that_do_not_fit_are_refused_and_the_next_are_right() {
    use DataType::*;
    let cases =
        [(10, Int8, 11, Int8), (10, Int32, 10, Float32), (0, Int8, 4, Int8), (50_000, Int8, 49_999, Int8)];
    let cases = [
        cases,
        [(4, Int8, 0, Int8), (1, Int64, 8, Int8), (70_000, Uint16, 70_000, Int16), (8, Bool, 90_000, Bool)],
    ];
    for heap in [false, true] {
        on_ranks(2, |me, comm| {
            let mut memory = Memory::new(heap);
            for (sent, sent_type, received, received_type) in cases.concat() {
                memory.bytes(memory.send).fill(7);
                memory.bytes(memory.recv).fill(SENTINEL);
                let sends = format!("rank 0 sends (count {sent}, type {sent_type})");
                let receives = format!("(count {received}, type {received_type})");
                // A small message is on its way before anybody can refuse it, and its sender told only at the next.
                let first = match me {
                    0 => comm::transfer(comm, &half(&memory, true, 1, sent, sent_type), None),
                    _ => comm::transfer(comm, &half(&memory, false, 0, received, received_type), None),
                };
                assert!(memory.untouched(), "{sends}, {receives}");
                memory.all_reduce_is_right(comm, 2, 3).expect("transfers do not disturb collectives");
                memory.bytes(memory.send).fill(7);
                let next = comm::transfer(comm, &half(&memory, me == 0, 1 - me, 100, Int8), None);
                if me == 1 {
                    assert!(next.is_ok(), "{next:?}");
                    assert!(
                        memory.bytes(memory.recv)[..100].iter().all(|&b| b == 7),
                        "after {sends}, {receives}"
                    );
                }
                let told: Vec<_> = [first, next].into_iter().filter_map(Result::err).collect();
                assert!(
                    told.len() == 1 && told[0].code == Code::InvalidUsage,
                    "{sends}, {receives}: {told:?}"
                );
                let said = &told[0].message;
                assert!(
                    said.contains(&receives) && (me == 0 || said.contains(&sends)),
                    "{sends}, {receives}: {said}"
                );
            }
        });
    }
}
