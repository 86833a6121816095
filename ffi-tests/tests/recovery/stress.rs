//! Much of everything: communicators after and beside one another, more ranks than cores.

use crate::ranks::{times, turn};
use penny::internals::comm::{self, Call, CommHandle, Config};
use penny::internals::memory::view::Address;
use penny::internals::types::{Collective, DataType, RedOp};

/// Runs `work` on `n` ranks, each a thread.
fn on_ranks(n: u32, work: impl Fn(u32, CommHandle) + Sync) {
    let id = comm::unique_id().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..n {
            let work = &work;
            scope.spawn(move || {
                let config = Config { timeout_ms: Some(60_000), ..Config::default() };
                let handle = comm::init_rank(n as i32, &id, rank as i32, &config).unwrap();
                work(rank, handle);
                comm::destroy(handle).unwrap();
            });
        }
    });
}

/// An all-reduce of `count` words that begin `shift` bytes after an aligned address.
fn all_reduce(n: u32, rank: u32, comm: CommHandle, count: usize, shift: usize) {
    let mut input = vec![0u8; count * 4 + shift];
    let mut output = vec![0u8; count * 4 + shift];
    for (i, word) in input[shift..].chunks_exact_mut(4).enumerate() {
        word.copy_from_slice(&(rank + i as u32).to_ne_bytes());
    }
    // SAFETY: `count` words behind each address, which outlive the call.
    let (send, recv) = unsafe {
        (Address::from_raw(input[shift..].as_ptr()), Address::from_raw(output[shift..].as_mut_ptr()))
    };
    let (collective, dtype, op) = (Collective::AllReduce, DataType::Uint32, RedOp::Sum);
    comm::collective(comm, &Call { collective, send, recv, count, dtype, op, root: 0, padded: false }, None)
        .unwrap();
    for (i, word) in output[shift..].chunks_exact(4).enumerate() {
        let got = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        assert_eq!(got, n * (n - 1) / 2 + n * i as u32, "element {i} on rank {rank}");
    }
}

/// What a process holds: descriptors, threads, mappings, resident pages.
fn holdings() -> [usize; 4] {
    let entries = |dir: &str| std::fs::read_dir(dir).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident = statm.split(' ').nth(1).unwrap().parse().unwrap();
    [entries("/proc/self/fd"), entries("/proc/self/task"), maps, resident]
}

#[test]
#[ignore = "plays alone in a process of its own, where what it holds can be counted"]
fn communicators_one_after_another() {
    let cycles = times(3_000, 100_000);
    let mut before = holdings();
    for cycle in 0..cycles {
        on_ranks(2, |rank, comm| all_reduce(2, rank, comm, 100, 0));
        if cycle == cycles / 3 {
            before = holdings();
        }
    }
    // A server's thread ends a moment after its guests.
    let settled =
        |after: [usize; 4]| after[0] <= before[0] && after[1] <= before[1] && after[2] <= before[2] + 8;
    for _ in 0..100 {
        if settled(holdings()) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let after = holdings();
    assert!(settled(after), "descriptors, threads, mappings, pages: {before:?} before, {after:?} after");
    let grown = after[3].saturating_sub(before[3]) * 4;
    println!("resident_growth_KiB {grown} 64 {}", if grown <= 64 { "PASS" } else { "FAIL" });
    assert!(grown <= 1024, "{grown} KiB more after {cycles} communicators");
}

#[test]
fn thousands_of_communicators_one_after_another_leave_nothing() {
    let _turn = turn();
    let played = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "stress::communicators_one_after_another", "--nocapture"])
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&played.stdout).into_owned() + &String::from_utf8_lossy(&played.stderr);
    println!("{}", said.lines().find(|line| line.contains("resident_growth")).unwrap_or(""));
    assert!(played.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn two_communicators_work_at_once_from_two_threads_of_each_rank() {
    std::thread::scope(|scope| {
        for count in [50, 40_000] {
            scope.spawn(move || {
                on_ranks(2, |rank, comm| (0..200).for_each(|i| all_reduce(2, rank, comm, count + i, i % 4)));
            });
        }
    });
}

#[test]
fn sixteen_ranks_share_the_cores() {
    on_ranks(16, |rank, comm| {
        for count in [1, 1000, 33_333, 200_001] {
            all_reduce(16, rank, comm, count, (rank % 5) as usize);
        }
    });
}

#[test]
#[ignore = "needs 20 GiB"]
fn more_than_two_to_the_31_elements() {
    const COUNT: usize = (1 << 31) + 4097;
    on_ranks(2, |rank, comm| {
        let input = vec![rank as u8 + 1; COUNT];
        let mut output = vec![0u8; COUNT];
        // SAFETY: COUNT bytes each, which outlive the call.
        let (send, recv) =
            unsafe { (Address::from_raw(input.as_ptr()), Address::from_raw(output.as_mut_ptr())) };
        let (collective, dtype, op) = (Collective::AllReduce, DataType::Int8, RedOp::Sum);
        let call = Call { collective, send, recv, count: COUNT, dtype, op, root: 0, padded: false };
        comm::collective(comm, &call, None).unwrap();
        assert!(output.iter().all(|&b| b == 3));
    });
}
