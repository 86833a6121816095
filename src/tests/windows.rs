//! Windows and signals, ranks as threads: what a signal announces has come, in any order of the threads.

use super::collectives::{everywhere, everywhere_with_children};
use crate::comm::{self, AwaitedSignals, Call, CommHandle, Config, Counter, Put, Signal, WindowHandle};
use crate::error::Code;
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};

/// Words of the shareable heap, opened to the others.
struct Opened {
    memory: usize,
    len: usize,
    window: WindowHandle,
}

impl Opened {
    #[allow(unsafe_code)]
    fn new(comm: CommHandle, len: usize) -> Opened {
        let memory = comm::mem_alloc(len * 8).unwrap();
        // SAFETY: it is freed after the window is deregistered.
        let address = unsafe { Address::from_raw(memory as *const u8) };
        Opened { memory, len, window: comm::window_register(comm, address, len * 8, 0).unwrap().unwrap() }
    }
    #[allow(unsafe_code)]
    fn word(&self, at: usize) -> u64 {
        assert!(at < self.len);
        // SAFETY: within the memory; peers may write it meanwhile.
        unsafe { (self.memory as *const u64).add(at).read_volatile() }
    }
    fn close(self, comm: CommHandle) {
        meet(comm);
        comm::window_deregister(comm, self.window).unwrap();
        comm::mem_free(self.memory).unwrap();
    }
}

#[allow(unsafe_code)]
fn put_word(comm: CommHandle, counter: Counter, window: WindowHandle, at: usize, word: u64) {
    // SAFETY: the word outlives the call.
    let source = unsafe { Address::from_raw((&raw const word).cast()) };
    let put = Put { source, count: 1, dtype: DataType::Uint64, window, offset: at * 8 };
    comm::signal(comm, &Signal { counter, flags: 0, put: Some(put) }, None).unwrap();
}

fn meet(comm: CommHandle) {
    let call = Call {
        collective: Collective::Barrier,
        send: Address::NULL,
        recv: Address::NULL,
        count: 0,
        dtype: DataType::Uint8,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    };
    comm::collective(comm, &call, None).unwrap();
}

fn counter(peer: Rank, index: u64, context: u64) -> Counter {
    Counter { peer: peer as i32, index: index as i32, context: context as i32 }
}

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}

const RANKS: u32 = 4;
const PUTS: usize = 600;
const INDICES: u64 = 3;
const CONTEXTS: u64 = 3;

/// Index and context of each put of one rank to another, in their order: what both ends know.
fn history(seed: u64, from: Rank, to: Rank) -> Vec<(u64, u64)> {
    let mut dice = Dice(seed * 1000 + u64::from(from * RANKS + to) + 1);
    (0..PUTS).map(|_| (dice.below(INDICES), dice.below(CONTEXTS))).collect()
}

/// A rank that has taken the k-th signal of a kind knows that all puts of that context up to it have come.
#[test]
fn a_signal_says_that_every_earlier_put_of_its_context_has_come() {
    everywhere(RANKS, |me, comm| {
        let opened = Opened::new(comm, RANKS as usize * PUTS);
        for seed in 1..=5u64 {
            let value = |from: Rank, k: usize| seed << 32 | u64::from(from) << 16 | (k as u64 + 1);
            let mut dice = Dice(seed * 77 + u64::from(me) + 1);
            let mut put = [0usize; RANKS as usize];
            let mut taken = [[[0usize; INDICES as usize]; CONTEXTS as usize]; RANKS as usize];
            let mut left: Vec<(Rank, u64, u64)> = (0..RANKS)
                .flat_map(|r| history(seed, r, me).into_iter().map(move |(i, c)| (r, i, c)))
                .collect();
            // All puts come before all waits, so no two ranks wait for each other.
            while put.iter().any(|&k| k < PUTS) {
                let to = dice.below(u64::from(RANKS)) as usize;
                for _ in 0..dice.below(40) {
                    let k = put[to];
                    if k == PUTS {
                        break;
                    }
                    let (index, context) = history(seed, me, to as Rank)[k];
                    let at = me as usize * PUTS + k;
                    put_word(comm, counter(to as Rank, index, context), opened.window, at, value(me, k));
                    put[to] += 1;
                }
            }
            while !left.is_empty() {
                let (from, index, context) = left[dice.below(left.len() as u64) as usize];
                let same = |x: &(Rank, u64, u64)| *x == (from, index, context);
                let most = left.iter().filter(|x| same(x)).count() as u64;
                let count = 1 + dice.below(most.min(20));
                let awaited = AwaitedSignals { count: count as i32, counter: counter(from, index, context) };
                comm::wait_signals(comm, vec![awaited], None).unwrap();
                for _ in 0..count {
                    let at = left.iter().position(same).unwrap();
                    left.swap_remove(at);
                }
                let seen = &mut taken[from as usize][context as usize][index as usize];
                *seen += count as usize;
                let theirs = history(seed, from, me);
                let of_kind = theirs.iter().enumerate().filter(|(_, x)| **x == (index, context));
                let (last, _) = of_kind.take(*seen).last().unwrap();
                for (k, _) in theirs[..=last].iter().enumerate().filter(|(_, x)| x.1 == context) {
                    assert_eq!(opened.word(from as usize * PUTS + k), value(from, k));
                }
            }
            // What the next round overwrites has been read.
            meet(comm);
        }
        opened.close(comm);
    });
}

#[test]
fn at_the_deadline_the_sentence_says_what_was_missing() {
    everywhere_with_children(3, |me, comm| {
        let config = Config { timeout_ms: Some(200), ..Config::default() };
        let impatient = comm::split(comm, Some(0), 0, Some(config)).unwrap().unwrap();
        if me == 1 {
            comm::signal(impatient, &Signal { counter: counter(0, 5, 2), flags: 0, put: None }, None)
                .unwrap();
        }
        meet(comm);
        if me == 0 {
            let awaited = vec![
                AwaitedSignals { count: 3, counter: counter(1, 5, 2) },
                AwaitedSignals { count: 1, counter: counter(2, 0, 0) },
            ];
            let e = comm::wait_signals(impatient, awaited, None).unwrap_err();
            assert_eq!(e.code, Code::Timeout, "{e}");
            let parts = [
                "rank 0 waited 0.2 s for 3 signals from rank 1 with sigIdx 5 and ctx 2, of which 1 came",
                "and for those of 1 further descriptor",
                "rank 1 (pid",
                "rank 2 (pid",
            ];
            for part in parts {
                assert!(e.message.contains(part), "{e}");
            }
            let e = comm::wait_signals(
                impatient,
                vec![AwaitedSignals { count: 1, counter: counter(1, 5, 2) }],
                None,
            );
            assert_eq!(e.unwrap_err().code, Code::Timeout, "broken for good");
        }
        meet(comm);
        comm::destroy(impatient).unwrap();
    });
}
