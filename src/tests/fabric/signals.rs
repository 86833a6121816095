//! Puts and signals in the machine's time.

use super::{address, barrier, on_machine};
use crate::comm::{self, AwaitedSignals, CommHandle, Counter, Put, Signal, WindowHandle};
use crate::memory::view::Address;
use crate::types::{DataType, Rank};
use std::sync::Mutex;

const COUNT: usize = 100_000;

/// Memory that others reach: a window over it.
#[allow(unsafe_code)]
fn window(comm: CommHandle) -> (usize, WindowHandle) {
    let memory = comm::mem_alloc(COUNT * 4).unwrap();
    // SAFETY: it is freed after the window is deregistered.
    let address = unsafe { Address::from_raw(memory as *const u8) };
    (memory, comm::window_register(comm, address, COUNT * 4, 0).unwrap().unwrap())
}

fn to(peer: Rank, source: Address<'static>, count: usize, window: WindowHandle) -> Signal {
    let put = Put { source, count, dtype: DataType::Uint32, window, offset: 0 };
    Signal { counter: from(peer), flags: 0, put: Some(put) }
}

fn from(peer: Rank) -> Counter {
    Counter { peer: peer as i32, index: 1, context: 1 }
}

#[test]
fn a_put_takes_what_its_group_is_priced_at_and_who_waits_goes_on_with_it() {
    for clock in ["virtual", "paced:20"] {
        let clocks = Mutex::new([0; 3]);
        on_machine(3, "dgx-h100", clock, "", |rank, comm| {
            let now = || comm::fabric_now(comm).unwrap();
            let await_one = || {
                comm::wait_signals(comm, vec![AwaitedSignals { count: 1, counter: from(0) }], None).unwrap();
            };
            let (memory, window) = window(comm);
            let mut data = vec![rank + 7; COUNT];
            for count in [0, 1, COUNT] {
                barrier(comm).unwrap();
                let before = now();
                if rank == 0 {
                    let put = to(2, address(&mut data), count, window);
                    comm::group_start().unwrap();
                    comm::signal(comm, &put, None).unwrap();
                    let estimated = comm::group_simulate_end().unwrap();
                    assert!(estimated > 0);
                    comm::signal(comm, &put, None).unwrap();
                    assert_eq!(now() - before, estimated, "{count} words, {clock}");
                    // What is put to oneself goes nowhere.
                    comm::signal(comm, &to(0, address(&mut data), count, window), None).unwrap();
                    await_one();
                    assert_eq!(now() - before, estimated, "{count} words, {clock}");
                }
                if rank == 2 {
                    await_one();
                }
                clocks.lock().unwrap()[rank as usize] = now();
                barrier(comm).unwrap();
                let [put, idle, waited] = *clocks.lock().unwrap();
                assert_eq!(put, waited, "who waited has the time of who put");
                assert!(idle < put);
            }
            comm::window_deregister(comm, window).unwrap();
            comm::mem_free(memory).unwrap();
        });
    }
}
