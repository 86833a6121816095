//! Every collective by every algorithm, ranks as threads, against what the definition says.

#[cfg(not(loom))]
mod ahead;
#[cfg(not(loom))]
mod borrowed;
#[cfg(not(loom))]
pub mod hosts;
#[cfg(not(loom))]
pub use hosts::{everywhere, everywhere_with_children};
#[cfg(not(loom))]
mod order;
#[cfg(not(loom))]
mod private;
#[cfg(not(loom))]
mod pushed;
#[cfg(not(loom))]
mod small;
#[cfg(not(loom))]
mod swapped;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod tried;

use crate::comm::{self, Call, CommHandle, Config};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};

/// Run `work` on `n` ranks, each on its own thread with its own communicator.
pub fn on_ranks(n: u32, work: impl Fn(Rank, CommHandle) + Sync) {
    on_ranks_with(n, "", work);
}

/// The same with the algorithms that `algo` asks for, in the words of `PENNY_ALGO`.
pub fn on_ranks_with(n: u32, algo: &str, work: impl Fn(Rank, CommHandle) + Sync) {
    let algo = Some(algo.to_owned()).filter(|algo| !algo.is_empty());
    on_ranks_of(n, |_| Config { timeout_ms: Some(60_000), algo: algo.clone(), ..Config::default() }, work);
}

/// The same with settings by rank.
pub fn on_ranks_of(n: u32, config: impl Fn(Rank) -> Config + Sync, work: impl Fn(Rank, CommHandle) + Sync) {
    let id = comm::unique_id().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..n {
            let (work, config) = (&work, &config);
            scope.spawn(move || {
                let handle = comm::init_rank(n as i32, &id, rank as i32, &config(rank)).unwrap();
                let mut ended = AbortUnlessDone { handle, done: false };
                work(rank, handle);
                ended.done = true;
                comm::destroy(handle).unwrap();
            });
        }
    });
}

/// A rank that fails its test takes the others with it, instead of letting them wait.
struct AbortUnlessDone {
    handle: CommHandle,
    done: bool,
}

impl Drop for AbortUnlessDone {
    fn drop(&mut self) {
        if !self.done {
            let _ = comm::abort(self.handle);
        }
    }
}

/// Memory for a test's buffer, private or in the heap, freed with it.
pub struct Buffer {
    addr: usize,
    words: Vec<u32>,
    heap: bool,
    len: usize,
}

impl Buffer {
    pub fn new(heap: bool, len: usize) -> Buffer {
        if heap {
            return Buffer { addr: comm::mem_alloc(len * 4).unwrap(), words: Vec::new(), heap, len };
        }
        let mut words = vec![0u32; len];
        Buffer { addr: words.as_mut_ptr() as usize, words, heap, len }
    }
    #[allow(unsafe_code)]
    pub fn slice(&mut self) -> &mut [u32] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: `len` words at `addr`, ours alone between calls.
        unsafe { std::slice::from_raw_parts_mut(self.addr as *mut u32, self.len) }
    }
    #[allow(unsafe_code)]
    pub fn at(&self, word: usize) -> Address<'static> {
        // SAFETY: the buffer outlives the call it is passed to.
        unsafe { Address::from_raw((self.addr + word * 4) as *const u8) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.heap {
            comm::mem_free(self.addr).unwrap();
        }
        self.words.clear();
    }
}

/// Element `i` of block `b` of rank `r`'s input, different everywhere.
pub fn input(r: Rank, b: usize, i: usize) -> u32 {
    (r + 1) * 1_000_003 + b as u32 * 10_007 + i as u32 * 31
}

/// Element `i` of block `block` of rank `me`'s output.
pub fn expected(c: Collective, n: u32, me: Rank, root: Rank, block: usize, i: usize) -> u32 {
    // Rank 0's input once for each rank, and what that of rank r has more, r times the first number of `input`.
    let sum =
        |b: usize| n.wrapping_mul(input(0, b, i)).wrapping_add((n * (n - 1) / 2).wrapping_mul(1_000_003));
    match c {
        Collective::AllReduce | Collective::Reduce => sum(0),
        Collective::Broadcast => input(root, 0, i),
        Collective::AllGather | Collective::Gather => input(block as Rank, 0, i),
        Collective::ReduceScatter => sum(me as usize),
        Collective::AlltoAll => input(block as Rank, me as usize, i),
        Collective::Scatter => input(root, me as usize, i),
        Collective::Barrier => 0,
    }
}

struct Case {
    collective: Collective,
    root: Rank,
    count: usize,
    heap: bool,
    in_place: bool,
}

fn run(case: &Case, n: u32, me: Rank, comm: CommHandle) {
    outcome(case, n, me, comm).unwrap_or_else(|e| panic!("{} on rank {me} of {n}: {e}", case.collective));
}

/// How the call ends; where it succeeds, the output is right.
fn outcome(case: &Case, n: u32, me: Rank, comm: CommHandle) -> Result<()> {
    let Case { collective: c, root, count, heap, in_place } = *case;
    let (ins, outs) = (c.blocks_in(me, n, root) as usize, c.blocks_out(me, n, root) as usize);
    // Where, in place, the smaller buffer lies in the larger one.
    let offset = match c {
        Collective::ReduceScatter | Collective::AllGather => me as usize * count,
        Collective::Gather | Collective::Scatter => root as usize * count,
        _ => 0,
    };
    let together = in_place && ins > 0 && outs > 0;
    let words = if together { ins.max(outs) * count } else { (ins + outs) * count };
    let mut buffer = Buffer::new(heap, words.max(1));
    let (send, recv) = match together {
        true if ins >= outs => (0, offset),
        true => (offset, 0),
        false => (0, ins * count),
    };
    let slice = buffer.slice();
    slice.fill(0xdead_beef);
    for b in 0..ins {
        for i in 0..count {
            slice[send + b * count + i] = input(me, b, i);
        }
    }
    let null_if = |blocks: usize, at: usize| if blocks == 0 { Address::NULL } else { buffer.at(at) };
    let call = Call {
        collective: c,
        send: null_if(ins, send),
        recv: null_if(outs, recv),
        count,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: root as i32,
        padded: false,
    };
    comm::collective(comm, &call, None)?;
    let slice = buffer.slice();
    for b in 0..outs {
        for i in 0..count {
            let (got, want) = (slice[recv + b * count + i], expected(c, n, me, root, b, i));
            assert_eq!(
                got, want,
                "{c} count {count} root {root} heap {heap} in place {in_place}: rank {me} of {n}, block {b}, element {i}"
            );
        }
    }
    Ok(())
}

fn every_case(n: u32, counts: &[usize], work: impl Fn(&Case) + Sync) {
    for &collective in Collective::ALL {
        for root in if collective.rooted() { vec![0, n - 1] } else { vec![0] } {
            for &count in counts {
                for (heap, in_place) in [(false, false), (false, true), (true, false), (true, true)] {
                    work(&Case { collective, root, count, heap, in_place });
                }
            }
        }
    }
}

#[test]
fn automatic_choice_is_right_for_every_collective() {
    for n in [1, 2, 3, 4, 7] {
        on_ranks(n, |me, comm| {
            every_case(n, &[1, n as usize - 1 + (n == 1) as usize, 11, 300, 5000, 70_001], |case| {
                run(case, n, me, comm)
            });
        });
    }
}

#[test]
fn one_thread_makes_and_uses_several_ranks_in_groups() {
    let id = comm::unique_id().unwrap();
    comm::group_start().unwrap();
    let ranks: Vec<CommHandle> =
        (0..3).map(|r| comm::init_rank(3, &id, r, &Config::default()).unwrap()).collect();
    assert!(comm::count(ranks[0]).is_err(), "a handle is not valid before the group ends");
    comm::group_end().unwrap();
    let mut buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(false, 5)).collect();
    comm::group_start().unwrap();
    for (r, (&rank, buffer)) in ranks.iter().zip(&mut buffers).enumerate() {
        buffer.slice().fill(10u32.pow(r as u32));
        let call = Call {
            collective: Collective::AllReduce,
            send: buffer.at(0),
            recv: buffer.at(0),
            count: 5,
            dtype: DataType::Uint32,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        };
        comm::collective(rank, &call, None).unwrap();
    }
    comm::group_end().unwrap();
    for (rank, mut buffer) in ranks.into_iter().zip(buffers) {
        assert_eq!(buffer.slice(), [111; 5]);
        comm::destroy(rank).unwrap();
    }
}

#[test]
fn a_group_that_failed_joins_nobody() {
    let id = comm::unique_id().unwrap();
    comm::group_start().unwrap();
    let handle = comm::init_rank(2, &id, 0, &Config::default()).unwrap();
    comm::group_fail(&crate::error::Error::argument("another call was wrong"));
    assert!(comm::group_end().is_err());
    assert!(comm::count(handle).is_err());
}

#[test]
fn finalize_tells_what_broke_the_communicator() {
    on_ranks(2, |rank, comm| {
        if rank == 1 {
            return; // It destroys its communicator, and the other rank's call fails.
        }
        let barrier = Call {
            collective: Collective::Barrier,
            send: Address::NULL,
            recv: Address::NULL,
            count: 0,
            dtype: DataType::Uint8,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        };
        let ended = comm::collective(comm, &barrier, None).unwrap_err();
        assert_eq!(ended.code, Code::RemoteError);
        let told = comm::finalize(comm).unwrap_err();
        assert_eq!(told.code, Code::RemoteError);
        assert!(told.message.contains(&ended.message), "{told} does not tell: {ended}");
    });
}
