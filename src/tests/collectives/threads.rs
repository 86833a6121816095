//! Large calls on ranks of several threads: the same bits as with one, however the pieces are run, and errors where the program's
//! function does not run them.

use super::{AbortUnlessDone, Case, every_case, on_ranks_of, run};
use crate::comm::{self, Call, CommHandle, Config, Factor, ParallelFunction, Transfer};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};
use std::ffi::{c_int, c_void};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

type LoopBody = unsafe extern "C" fn(*mut c_void, c_int);

static LOOPS: AtomicU32 = AtomicU32::new(0);

/// Runs a loop on two threads, from its end to its beginning.
#[allow(unsafe_code)]
unsafe extern "C-unwind" fn two_threads(_: *mut c_void, n: c_int, body: Option<LoopBody>, of: *mut c_void) {
    LOOPS.fetch_add(1, Ordering::Relaxed);
    let (body, of) = (body.unwrap(), of.addr());
    let part = |parity: c_int| {
        for index in (0..n).rev().filter(|index| index % 2 == parity) {
            // SAFETY: the body may be called on any thread.
            unsafe { body(std::ptr::without_provenance_mut(of), index) };
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(move || part(1));
        part(0);
    });
}

/// Leaves out the last index.
#[allow(unsafe_code)]
unsafe extern "C-unwind" fn all_but_one(_: *mut c_void, n: c_int, body: Option<LoopBody>, of: *mut c_void) {
    // SAFETY: as above.
    (0..n - 1).for_each(|index| unsafe { body.unwrap()(of, index) });
}

/// Rank 1 has its message; a loop of rank 0 has waited for that in vain.
static IS_SERVED: AtomicBool = AtomicBool::new(false);
static IN_VAIN: AtomicBool = AtomicBool::new(false);

/// Runs a loop when rank 1 has its message.
#[allow(unsafe_code)]
unsafe extern "C-unwind" fn after_the_peer(
    _: *mut c_void,
    n: c_int,
    body: Option<LoopBody>,
    of: *mut c_void,
) {
    let until = Instant::now() + Duration::from_secs(20);
    while !IS_SERVED.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::yield_now();
    }
    IN_VAIN.fetch_or(!IS_SERVED.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: as above.
    (0..n).for_each(|index| unsafe { body.unwrap()(of, index) });
}

/// The settings of a rank with a function of its own.
#[allow(unsafe_code)]
fn by(
    function: unsafe extern "C-unwind" fn(*mut c_void, c_int, Option<LoopBody>, *mut c_void),
    threads: u32,
) -> Config {
    // SAFETY: the functions above may be called on any thread.
    let parallel_for = Some(unsafe { ParallelFunction::new(function, std::ptr::null_mut()) });
    Config { parallel_for, ..of(threads) }
}

fn of(threads: u32) -> Config {
    Config { timeout_ms: Some(60_000), threads: Some(threads), ..Config::default() }
}

#[test]
fn every_collective_is_right_with_several_threads() {
    for n in [1, 2, 3] {
        // Ranks may differ in the number of their threads.
        let unlike = |rank| if rank == 0 { by(two_threads, 3) } else { of(1 + rank) };
        let ways: [&(dyn Fn(Rank) -> Config + Sync); 3] = [&|_| of(2), &|_| by(two_threads, 2), &unlike];
        for config in ways {
            on_ranks_of(n, config, |me, comm| {
                every_case(n, &[40_001, 100_003], |case| run(case, n, me, comm));
            });
        }
    }
    assert!(LOOPS.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_rank_that_sends_to_others_and_to_itself_serves_the_others_first() {
    let config = |rank| if rank == 0 { by(after_the_peer, 2) } else { of(1) };
    on_ranks_of(2, config, |me, comm| {
        let (mut own, mut copied) = (vec![1u8; 1 << 20], vec![0u8; 1 << 20]);
        let (mut word, mut received) = ([2u8; 8], [0u8; 8]);
        let half = |send, peer, data: &mut [u8]| Transfer {
            send,
            buffer: lent(data),
            count: data.len(),
            dtype: DataType::Uint8,
            peer,
            of_collective: false,
        };
        match me {
            0 => {
                comm::group_start().unwrap();
                for transfer in
                    [half(true, 0, &mut own), half(false, 0, &mut copied), half(true, 1, &mut word)]
                {
                    comm::transfer(comm, &transfer, None).unwrap();
                }
                comm::group_end().unwrap();
                assert_eq!(copied, own);
            }
            _ => {
                comm::transfer(comm, &half(false, 0, &mut received), None).unwrap();
                assert_eq!(received, word);
                IS_SERVED.store(true, Ordering::Relaxed);
            }
        }
    });
    assert!(!IN_VAIN.load(Ordering::Relaxed), "rank 0 has copied before it sent");
}

/// The outputs of all-reduces of every type and operation on buffers that are not aligned, and of a scaled sum.
fn outputs(threads: u32) -> Vec<Vec<u8>> {
    const BYTES: usize = 200 << 10;
    let outputs = std::sync::Mutex::new(Vec::new());
    on_ranks_of(
        2,
        |_| of(threads),
        |me, comm| {
            let mut seed = 77 + u64::from(me);
            let mut noise = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as u8
            };
            for &dtype in DataType::ALL {
                let count = BYTES / dtype.size() + 3;
                let bytes = count * dtype.size();
                let served = RedOp::ALL.iter().copied().filter(|op| op.serves(dtype));
                let scaled_too = (dtype == DataType::Float32).then_some((RedOp::Sum, Some(3.0f32)));
                for (op, factor) in served.map(|op| (op, None)).chain(scaled_too) {
                    let mut input: Vec<u8> = (0..bytes + 64).map(|_| noise()).collect();
                    let mut output = vec![0u8; bytes + 64];
                    let call = Call {
                        collective: Collective::AllReduce,
                        send: lent(&mut input[1..]),
                        recv: lent(&mut output[3..]),
                        count,
                        dtype,
                        op,
                        root: 0,
                        padded: false,
                    };
                    match factor {
                        Some(factor) => scaled(comm, call, factor).unwrap(),
                        None => comm::collective(comm, &call, None).unwrap(),
                    }
                    if me == 0 {
                        outputs.lock().unwrap().push(output);
                    }
                }
            }
        },
    );
    outputs.into_inner().unwrap()
}

#[allow(unsafe_code)]
fn lent(bytes: &mut [u8]) -> Address<'static> {
    // SAFETY: the buffers of these tests outlive the calls that they are passed to.
    unsafe { Address::of_mut(bytes).outliving() }
}

fn scaled(comm: CommHandle, call: Call<'static>, by: f32) -> Result<()> {
    let mut by = by.to_ne_bytes();
    let factor = Factor::read(Address::of_mut(&mut by), call.dtype);
    let number = comm::premul_sum_create(comm, call.dtype, factor)?;
    comm::scaled(comm, number, call).and_then(|call| comm::sum_scaled(comm, call, None))?;
    comm::premul_sum_destroy(comm, number)
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let alone = outputs(1);
    assert!(alone.len() > 100);
    for threads in [2, 3] {
        assert!(outputs(threads) == alone, "{threads} threads");
    }
}

#[test]
fn a_large_message_arrives_whole() {
    const COUNT: usize = 300_001;
    on_ranks_of(
        2,
        |_| by(two_threads, 3),
        |me, comm| {
            let mut buffer = super::Buffer::new(me == 0, COUNT);
            if me == 0 {
                buffer.slice().iter_mut().zip(5..).for_each(|(place, value)| *place = value);
            }
            let (buffer_at, peer) = (buffer.at(0), 1 - me as i32);
            let half = Transfer {
                send: me == 0,
                buffer: buffer_at,
                count: COUNT,
                dtype: DataType::Uint32,
                peer,
                of_collective: false,
            };
            comm::transfer(comm, &half, None).unwrap();
            assert!(buffer.slice().iter().copied().eq(5..5 + COUNT as u32));
        },
    );
}

/// Has rank 1 of two leave out a part of a call, and checks that both are told within a fraction of their time limit.
fn fails(call: impl Fn(Rank, CommHandle) -> Result<()> + Sync) {
    let id = comm::unique_id().unwrap();
    let (begun, told) = (Instant::now(), Barrier::new(2));
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (call, told) = (&call, &told);
            scope.spawn(move || {
                let config = if rank == 1 { by(all_but_one, 4) } else { of(1) };
                let handle = comm::init_rank(2, &id, rank, &config).unwrap();
                let mut ended = AbortUnlessDone { handle, done: false };
                let error = call(rank as Rank, handle).unwrap_err();
                if rank == 1 {
                    assert_eq!(error.code, Code::InvalidUsage);
                    assert!(error.message.starts_with("parallelFor of rank 1 returned when it"), "{error}");
                    let again = call(rank as Rank, handle).unwrap_err();
                    assert!(again.message.contains("is broken since an earlier call"), "{again}");
                } else {
                    assert_eq!(error.code, Code::RemoteError);
                    assert!(error.message.starts_with("rank 1 (pid"), "{error}");
                }
                ended.done = true;
                told.wait();
                comm::abort(handle).unwrap();
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(50), "a rank has waited for its time limit");
}

#[test]
fn a_function_that_leaves_out_an_index_fails_the_call_on_all_ranks() {
    const COUNT: usize = 500_000;
    let call = |collective, send: Address<'static>, recv| Call {
        collective,
        send,
        recv,
        count: COUNT,
        dtype: DataType::Float32,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    };
    for collective in [Collective::AllReduce, Collective::AllGather, Collective::AlltoAll] {
        fails(|_, comm| {
            let (mut input, mut output) = (vec![1u8; COUNT * 8], vec![0u8; COUNT * 8]);
            comm::collective(comm, &call(collective, lent(&mut input), lent(&mut output)), None)
        });
    }
    fails(|_, comm| {
        let (mut input, mut output) = (vec![1u8; COUNT * 4], vec![0u8; COUNT * 4]);
        scaled(comm, call(Collective::AllReduce, lent(&mut input), lent(&mut output)), 2.0)
    });
}

#[test]
fn a_case_of_no_bytes_asks_for_no_threads() {
    on_ranks_of(
        2,
        |_| by(all_but_one, 2),
        |me, comm| {
            let case = Case {
                collective: Collective::AllReduce,
                root: 0,
                count: 1000,
                heap: false,
                in_place: false,
            };
            run(&case, 2, me, comm);
        },
    );
}
