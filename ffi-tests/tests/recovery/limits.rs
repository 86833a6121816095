//! Little of everything: shared memory, descriptors, address space. Work goes on, or a sentence says what is missing.

use crate::ranks::{PLAIN, Said, Setting, acts, start, start_one};

const SYSTEM: i32 = 2;
const ARGUMENT: i32 = 4;
const REMOTE: i32 = 6;
/// Private buffers, then buffers in the heap.
const LIST: [&str; 5] =
    ["join", "call all_reduce 4194304", "heap", "call all_reduce 4194304", "call transfer 300000"];

/// Every rank does its list, or fails with a sentence that contains one of `reasons`; none dies of a signal.
fn four_ranks(setting: &Setting<'_>, reasons: &[&str]) {
    let mut ranks = start(4, setting, |_| acts(&LIST));
    told(&mut ranks, reasons);
}

/// Every rank does all that it was told, or fails as [`four_ranks`] says.
fn told(ranks: &mut [crate::ranks::Rank], reasons: &[&str]) {
    for (r, rank) in ranks.iter_mut().enumerate() {
        let mut sound = true;
        while let Some(said) = rank.try_next() {
            let Said::Failed(e) = said else { continue };
            // A rank without memory fails by itself; its peers are told that it did, or wait for it no longer.
            let known = e.code == SYSTEM && reasons.iter().any(|reason| e.sentence.contains(reason));
            assert!(known || e.code == REMOTE, "rank {r}: {} {}", e.code, e.sentence);
            sound = false;
            break;
        }
        if sound {
            assert_eq!(rank.end(), None, "rank {r}");
        }
    }
}

#[test]
fn ranks_work_with_32_descriptors() {
    let mut ranks = start(4, &Setting { shell: "ulimit -n 32", ..PLAIN }, |_| acts(&LIST));
    for rank in &mut ranks {
        for act in LIST {
            rank.did(act);
        }
    }
}

#[test]
fn little_address_space_is_a_smaller_heap_or_a_sentence() {
    for megabytes in [2000, 400] {
        let shell = format!("ulimit -v {}", megabytes * 1024);
        four_ranks(
            &Setting { shell: &shell, env: &[("PENNY_TIMEOUT", "5")] },
            &["ulimit -v", "PENNY_HEAP_SIZE"],
        );
    }
}

#[test]
fn a_file_that_may_not_be_so_large_is_a_sentence_and_no_signal() {
    // Blocks of 512 bytes: nothing at all, less than a control segment, less than the buffers.
    for blocks in [0, 100, 32768] {
        let shell = format!("ulimit -f {blocks}");
        four_ranks(
            &Setting { shell: &shell, env: &[("PENNY_TIMEOUT", "5")] },
            &["ulimit -f", "PENNY_HEAP_SIZE"],
        );
    }
}

#[test]
fn a_heap_of_more_bytes_than_there_are_addresses_is_a_wrong_argument() {
    for size in ["18446744073709551615", "9223372036854775808", "200T"] {
        let mut rank = start(1, &Setting { env: &[("PENNY_HEAP_SIZE", size)], ..PLAIN }, |_| acts(&["join"]));
        let failed = rank[0].failed();
        assert_eq!(failed.code, ARGUMENT, "{}", failed.sentence);
        assert!(failed.sentence.contains("PENNY_HEAP_SIZE"), "{}", failed.sentence);
    }
}

#[test]
fn who_insists_on_sealed_memory_takes_no_other() {
    let id = penny::internals::comm::unique_id().unwrap();
    let rank = |r: u32, shm| {
        start_one(
            r,
            2,
            &id,
            &Setting { env: &[("PENNY_SHM", shm), ("PENNY_TIMEOUT", "5")], ..PLAIN },
            &acts(&["join"]),
        )
    };
    let (mut posix, mut memfd) = (rank(0, "posix"), rank(1, "memfd"));
    let failed = memfd.failed();
    assert_eq!(failed.code, REMOTE);
    assert!(
        failed.sentence.contains("rank 0") && failed.sentence.contains("PENNY_SHM=memfd"),
        "{}",
        failed.sentence
    );
    posix.failed();
    let mut wrong = start(1, &Setting { env: &[("PENNY_SHM", "hugetlb")], ..PLAIN }, |_| acts(&["join"]));
    let failed = wrong[0].failed();
    assert!(
        failed.code == ARGUMENT && failed.sentence.contains("PENNY_SHM is `hugetlb`"),
        "{}",
        failed.sentence
    );
}

/// Set where this program runs itself within a mount namespace of its own.
const WITHIN: &str = "PENNY_TEST_SMALL_SHM";

#[test]
fn a_small_or_full_dev_shm_is_no_crash() {
    for size in ["64m", "4k"] {
        let again = format!("mount -t tmpfs -o size={size} tmpfs /dev/shm && exec \"$0\" \"$@\"");
        let unshare = |script: &str| {
            let mut command = std::process::Command::new("unshare");
            command.args(["-Urm", "sh", "-c", script]).env(WITHIN, size);
            command
        };
        let may = unshare("mount -t tmpfs tmpfs /dev/shm").output().is_ok_and(|o| o.status.success());
        if !may {
            return println!("SKIPPED: this machine lets nobody make mount namespaces");
        }
        let name = "limits::within_a_small_dev_shm";
        let played = unshare(&again)
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", name, "--nocapture"])
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&played.stdout).into_owned() + &String::from_utf8_lossy(&played.stderr);
        assert!(played.status.success() && said.contains("1 passed"), "/dev/shm of {size}: {said}");
    }
}

#[test]
#[ignore = "runs where a test has mounted a small /dev/shm"]
fn within_a_small_dev_shm() {
    assert!(std::env::var_os(WITHIN).is_some(), "only a_small_or_full_dev_shm_is_no_crash starts this one");
    // Where PENNY_SHM insists on it.
    four_ranks(
        &Setting { env: &[("PENNY_TIMEOUT", "5"), ("PENNY_SHM", "posix")], ..PLAIN },
        &["/dev/shm holds"],
    );
    let mut ranks = start(4, &PLAIN, |_| acts(&LIST));
    for rank in &mut ranks {
        LIST.iter().for_each(|act| rank.did(act));
    }
}
