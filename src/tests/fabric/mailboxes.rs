//! Mailboxes on a declared machine: when messages come, that nothing depends on the host's time, and what ends a wait in vain.

use super::one_sided::price;
use super::{barrier, on_machine};
use crate::comm::{self, CommHandle, MailboxConfig, MailboxHandle};
use crate::error::{Code, Result};
use crate::mailbox::{KeyEntry, Mailboxes, Rest, Want};
use crate::types::Rank;
use std::sync::Mutex;
use std::time::Duration;

/// A cycle of `poets`, in picoseconds.
const CYCLE: u64 = 4762;
/// A hop of 64 bytes there: 64 / 3.36 GB/s, rounded up, and 10 ns.
const HOP: u64 = 19_048 + 10_000;
const MICROSECOND: u64 = 1_000_000;

fn create(comm: CommHandle, threads: u32, slots: u32) -> MailboxHandle {
    comm::mailbox_create(comm, &MailboxConfig { threads, slots, slot_bytes: 64 }).unwrap()
}

fn with<T>(mailbox: MailboxHandle, work: impl FnOnce(&Mailboxes) -> Result<T>) -> Result<T> {
    comm::mailbox(mailbox, work)
}

fn send(mailbox: MailboxHandle, thread: i32, dest: Rank, mask: u64) -> Result<()> {
    with(mailbox, |boxes| boxes.multicast(dest as i32, mask, boxes.send_slot(thread)?))
}

/// Receive and free; who sent it.
fn receive(mailbox: MailboxHandle, thread: i32) -> Result<Rank> {
    with(mailbox, |boxes| {
        let message = boxes.recv(thread)?;
        boxes.free(thread, message.data)?;
        Ok(message.source_rank)
    })
}

fn now(comm: CommHandle) -> u64 {
    comm::fabric_now(comm).unwrap()
}

/// A time at which all ranks are, later than what they have done: not all leave a barrier at once.
fn meet(comm: CommHandle) -> u64 {
    barrier(comm).unwrap();
    let next = (now(comm) / (100 * MICROSECOND) + 1) * 100 * MICROSECOND;
    comm::fabric_advance_to(comm, next).unwrap();
    next
}

/// Held up by the host, for a time that differs from run to run.
fn nap(seed: u64) {
    let random = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    std::thread::sleep(Duration::from_micros(random % 500));
}

#[test]
fn a_message_takes_its_way_and_then_1_plus_2k_cycles_to_k_threads_of_a_core() {
    on_machine(2, "poets", "virtual", "", |rank, comm| {
        let mailbox = create(comm, 64, 8);
        // One thread, two of a core, two of two cores, all of a core, all.
        let fans = [(1 << 5, 3), (0b11, 5), (1 | 1 << 16, 3), (0xffff, 33), (u64::MAX, 33)];
        for (mask, cycles) in fans {
            let start = meet(comm);
            if rank == 0 {
                send(mailbox, 7, 1, mask).unwrap();
                assert_eq!(now(comm) - start, HOP + cycles * CYCLE, "{mask:#x}");
                // To the own mailbox there is no way.
                let (before, own) = (now(comm), 1);
                send(mailbox, 7, 0, own).unwrap();
                assert_eq!(now(comm) - before, 3 * CYCLE);
                receive(mailbox, 0).unwrap();
            } else {
                for thread in (0..64).filter(|thread| mask >> thread & 1 == 1) {
                    receive(mailbox, thread).unwrap();
                    assert_eq!(now(comm) - start, HOP + cycles * CYCLE, "who waits goes on when it has come");
                }
            }
        }
        barrier(comm).unwrap();
        comm::mailbox_destroy(mailbox).unwrap();
    });
}

#[test]
fn a_full_multicast_takes_157_ns_more_than_its_way_and_64_messages_to_one_thread_each_take_64_ways() {
    on_machine(2, "poets", "virtual", "", |rank, comm| {
        let mailbox = create(comm, 64, 64);
        barrier(comm).unwrap();
        if rank == 0 {
            let way = price(comm, true, 1, 64);
            let start = now(comm);
            send(mailbox, 0, 1, u64::MAX).unwrap();
            let multicast = now(comm) - start;
            assert_eq!((multicast - way) / 1000, 157, "nanoseconds");
            (0..63).for_each(|thread| send(mailbox, 0, 1, 1 << thread).unwrap());
            assert_eq!(now(comm) - start - multicast, 63 * (way + 3 * CYCLE));
        } else {
            (0..64).for_each(|thread| assert_eq!(receive(mailbox, thread).unwrap(), 0));
            (0..63).for_each(|thread| assert_eq!(receive(mailbox, thread).unwrap(), 0));
        }
        barrier(comm).unwrap();
    });
}

#[test]
fn a_machine_without_mailboxes_takes_the_way_alone() {
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        let mailbox = create(comm, 64, 8);
        barrier(comm).unwrap();
        if rank == 0 {
            let start = now(comm);
            send(mailbox, 0, 1, u64::MAX).unwrap();
            assert_eq!(now(comm) - start, price(comm, true, 1, 64));
            let before = now(comm);
            send(mailbox, 0, 0, 0b10).unwrap();
            assert_eq!(now(comm), before);
        } else {
            receive(mailbox, 63).unwrap();
        }
        barrier(comm).unwrap();
    });
}

#[test]
fn copies_by_a_key_set_out_together_and_come_when_the_last_one_has() {
    on_machine(5, "poets", "virtual", "", |rank, comm| {
        let mailbox = create(comm, 64, 8);
        let start = meet(comm);
        // Two copies to the neighbour in a row, one behind the other, and one to the neighbour in a column.
        let took = 2 * 19_048 + 10_000 + 2 * 33 * CYCLE;
        if rank == 0 {
            let entry = |dest, mask, local_key| KeyEntry { dest, mask, local_key };
            let entries = [entry(1, u64::MAX, 1), entry(4, 1, 2), entry(1, u64::MAX, 3)];
            with(mailbox, |boxes| boxes.key_send(boxes.key_create(&entries)?, boxes.send_slot(0)?)).unwrap();
            assert_eq!(now(comm) - start, took);
        } else if rank == 1 || rank == 4 {
            receive(mailbox, 0).unwrap();
            assert_eq!(now(comm) - start, took);
        }
        barrier(comm).unwrap();
    });
}

#[test]
fn who_waits_for_room_goes_on_when_the_receiver_frees_a_slot() {
    for run in 0..10 {
        on_machine(2, "poets", "virtual", "", |rank, comm| {
            let mailbox = create(comm, 1, 1);
            let (start, sent) = (meet(comm), HOP + 3 * CYCLE);
            for k in 1..=3 {
                nap(run * 7 + k * 2 + u64::from(rank));
                if rank == 0 {
                    send(mailbox, 0, 1, 1).unwrap();
                    assert_eq!(now(comm) - start, k * sent + (k - 1) * MICROSECOND);
                    continue;
                }
                with(mailbox, |boxes| {
                    let message = boxes.recv(0)?;
                    comm::fabric_advance(comm, MICROSECOND)?;
                    boxes.free(0, message.data)
                })
                .unwrap();
            }
            if rank == 0 {
                let want = Want { send: Some(1), recv: false };
                assert_eq!(with(mailbox, |boxes| boxes.wait_until(0, want)).unwrap(), (true, false));
                assert_eq!(now(comm) - start, 3 * (sent + MICROSECOND));
            }
            barrier(comm).unwrap();
        });
    }
}

/// Messages to everybody, to neighbours and by turns, then idleness; each rank dawdles in its own way.
fn busy(rank: Rank, n: u32, comm: CommHandle, seed: u64) -> Vec<u64> {
    let mailbox = create(comm, 4, 64);
    barrier(comm).unwrap();
    let dawdle = |k: u64| nap(seed ^ (u64::from(rank) + 1 + 64 * k));
    let mut clocks = Vec::new();
    for round in 1..=5u64 {
        dawdle(round);
        comm::fabric_advance(comm, 70_000 * (u64::from(rank) * 11 % 5)).unwrap();
        for k in 1..n {
            send(mailbox, (round % 4) as i32, (rank + k) % n, 0b1011).unwrap();
            dawdle(round + 10 * u64::from(k));
        }
        // The order in which messages come is the machine's affair.
        for _ in 1..n {
            clocks.push(u64::from(receive(mailbox, 0).unwrap()));
            clocks.push(now(comm));
        }
        for thread in [1, 3] {
            (1..n).for_each(|_| assert_ne!(receive(mailbox, thread).unwrap(), rank));
            dawdle(round + 20);
        }
        barrier(comm).unwrap();
        clocks.push(now(comm));
    }
    clocks
}

#[test]
fn messages_come_in_the_machines_order_and_at_its_time_however_ranks_are_held_up() {
    let n = 4;
    let mut all = Vec::new();
    for run in 0..15 {
        let clocks = Mutex::new(vec![Vec::new(); n as usize]);
        on_machine(n, "poets", "virtual", "", |rank, comm| {
            let mine = busy(rank, n, comm, run);
            clocks.lock().unwrap()[rank as usize] = mine;
        });
        all.push(clocks.into_inner().unwrap());
    }
    assert!(all.iter().all(|clocks| *clocks == all[0]), "{all:?}");
}

/// A thread that takes what comes until all are idle.
fn until_idle(mailbox: MailboxHandle, thread: i32, seed: u64) -> (Rest, u32) {
    let mut received = 0;
    // BOUND: the messages that are sent.
    loop {
        match with(mailbox, |boxes| boxes.idle(thread, true)).unwrap() {
            Rest::Message => {
                receive(mailbox, thread).unwrap();
                received += 1;
                nap(seed + u64::from(received));
            }
            ended => return (ended, received),
        }
    }
}

#[test]
fn threads_of_all_ranks_are_idle_at_the_latest_of_their_clocks() {
    let n = 4;
    for run in 0..4u64 {
        let clocks = Mutex::new(Vec::new());
        on_machine(n, "poets", "virtual", "", |rank, comm| {
            let clocks = &clocks;
            let mailbox = create(comm, 2, 8);
            let start = meet(comm);
            // Two threads of a core: five cycles, and three for the one thread of the own mailbox.
            let way = |dest| price(comm, true, dest, 64);
            let took =
                if rank == 0 { (1..n).map(|dest| way(dest) + 5 * CYCLE).sum::<u64>() + 3 * CYCLE } else { 0 };
            if rank == 0 {
                for dest in 1..n {
                    nap(run + u64::from(dest));
                    send(mailbox, 0, dest, 0b11).unwrap();
                }
                send(mailbox, 0, 0, 0b10).unwrap();
                assert_eq!(now(comm) - start, took);
            }
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    scope.spawn(move || {
                        let (ended, received) = until_idle(mailbox, thread, run * 31 + u64::from(rank));
                        clocks.lock().unwrap().push(now(comm));
                        assert_eq!(ended, Rest::AllVoted);
                        assert_eq!(received, u32::from(rank > 0 || thread == 1));
                        if rank == 0 {
                            assert_eq!(now(comm) - start, took, "rank 0 was the last to do something");
                        }
                    });
                }
            });
            barrier(comm).unwrap();
            comm::mailbox_destroy(mailbox).unwrap();
        });
        let clocks = clocks.into_inner().unwrap();
        assert!(clocks.len() == 8 && clocks.iter().all(|&at| at == clocks[0]), "{clocks:?}");
    }
}

#[test]
fn a_receive_that_nobody_serves_is_a_deadlock_that_names_the_rank() {
    on_machine(3, "poets", "virtual", "", |rank, comm| {
        let mailbox = create(comm, 1, 8);
        let ended = if rank == 1 {
            receive(mailbox, 0).map(drop)
        } else {
            with(mailbox, |boxes| boxes.idle(0, true)).map(drop)
        };
        let e = ended.unwrap_err();
        assert_eq!(e.code, Code::InvalidUsage, "{e}");
        assert!(e.message.contains("deadlock") && e.message.contains("rank 1 waits for"), "{e}");
    });
}

#[test]
fn a_program_that_polls_lets_the_clock_go_on() {
    on_machine(2, "poets", "virtual", "", |rank, comm| {
        let mailbox = create(comm, 1, 8);
        barrier(comm).unwrap();
        if rank == 0 {
            comm::fabric_advance(comm, 5 * MICROSECOND).unwrap();
            send(mailbox, 0, 1, 1).unwrap();
        } else {
            let start = now(comm);
            // BOUND: the other rank sends after 5 us.
            let message = loop {
                if let Some(message) = with(mailbox, |boxes| boxes.try_recv(0)).unwrap() {
                    break message;
                }
            };
            assert!(now(comm) - start >= 5 * MICROSECOND, "polling takes time");
            with(mailbox, |boxes| boxes.free(0, message.data)).unwrap();
        }
        barrier(comm).unwrap();
    });
}

#[test]
fn a_mailbox_with_more_threads_than_the_machines_is_refused_on_all_ranks() {
    let small = "name = \"small\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"1ns\"\n[line]\nshape = \"2\"\nlink = \"w\"\n\
                 [mailbox]\nthreads = 16\ncores = 4\ncycle = \"5ns\"\n";
    let path = std::env::temp_dir().join(format!("penny-mailboxes-{}.toml", std::process::id()));
    std::fs::write(&path, small).unwrap();
    on_machine(2, path.to_str().unwrap(), "virtual", "", |rank, comm| {
        let threads = if rank == 0 { 17 } else { 16 };
        let e = comm::mailbox_create(comm, &MailboxConfig { threads, slots: 4, slot_bytes: 64 }).unwrap_err();
        let told = if rank == 0 { "threads is 17 on rank 0" } else { "rank 0 could not make its mailbox" };
        assert!(e.message.contains(told), "{e}");
        comm::mailbox_destroy(create(comm, 16, 4)).unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}
