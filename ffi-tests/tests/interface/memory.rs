//! Where shared memory lies, and what is left of it: without /dev/shm, with little of it, as sealed memfds, with little
//! address space, with heaps larger than the machine.

use penny_ffi_tests::{compiler, ranks, root};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Runs ffi-tests/c/NAME.c on `on` ranks, each started by a shell that runs a command first.
#[track_caller]
fn holds_after(shell: &str, name: &str, on: usize, env: &[(&str, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let (program, script) = (dir.path().join(name), dir.path().join("start"));
    compiler::program(&root().join("ffi-tests/c").join(name).with_extension("c"), &program);
    std::fs::write(&script, format!("#!/bin/sh\nulimit -c 0\n{shell} && exec {}\n", program.display()))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = ranks::run(&script, dir.path(), on, env);
    assert!(
        said.iter().all(|text| !text.is_empty() && text == &said[0]),
        "every rank runs every case: {said:?}"
    );
}

/// Programs that use every kind of shared memory: collectives, the heap, registered buffers, the symmetric heap,
/// windows, mailboxes.
const EVERYTHING: [&str; 7] =
    ["collectives", "reductions", "memory", "shmem", "window", "mailbox", "point_to_point"];

#[test]
fn everything_works_on_sealed_memfds() {
    for name in EVERYTHING {
        holds_after("true", name, 2, &[("PENNY_SHM", "memfd")]);
    }
}

#[test]
fn a_sealed_memfd_cannot_be_shrunk_under_the_ranks_that_use_it() {
    holds_after("true", "truncation", 3, &[("PENNY_SHM", "memfd")]);
}

/// Set where this program runs itself within a mount namespace of its own.
const WITHIN: &str = "PENNY_TEST_DEV_SHM";

/// What /dev/shm may be, by a script that makes it so.
const PLACES: [(&str, &str); 3] = [
    ("4 KiB", "mount -t tmpfs -o size=4k tmpfs /dev/shm"),
    ("read-only", "mount -t tmpfs -o ro tmpfs /dev/shm"),
    // A /dev without it; what lies below a mount point cannot be removed.
    (
        "absent",
        "new=$(mktemp -d) && mount -t tmpfs tmpfs $new && for node in null zero full random urandom tty; do \
         touch $new/$node && mount --bind /dev/$node $new/$node; done && mount --rbind $new /dev && ! [ -e /dev/shm ]",
    ),
];

/// A command that runs a script, with `$0` and `$@`, in a mount namespace of its own.
fn unshare(script: &str) -> Command {
    let mut command = Command::new("unshare");
    // What is mounted there is not seen outside.
    command.args([if nix::unistd::geteuid().is_root() { "-m" } else { "-Urm" }, "sh", "-c", script]);
    command
}

#[test]
fn everything_works_without_a_dev_shm_that_will_do() {
    if !unshare("mount -t tmpfs tmpfs /dev/shm").output().is_ok_and(|o| o.status.success()) {
        return println!("SKIPPED: this machine lets nobody make mount namespaces");
    }
    // Built outside: the namespace is for the ranks.
    penny_ffi_tests::library::dir();
    for (place, script) in PLACES {
        let played = unshare(&format!("{script} && exec \"$0\" \"$@\""))
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "memory::within_such_a_place", "--nocapture"])
            .env(WITHIN, place)
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&played.stdout).into_owned() + &String::from_utf8_lossy(&played.stderr);
        assert!(played.status.success() && said.contains("1 passed"), "/dev/shm is {place}: {said}");
    }
}

#[test]
#[ignore = "runs where everything_works_without_a_dev_shm_that_will_do has mounted something else"]
fn within_such_a_place() {
    let place = std::env::var(WITHIN).expect("only another test starts this one");
    assert!(place != "absent" || !Path::new("/dev/shm").exists());
    for name in EVERYTHING {
        holds_after("true", name, 2, &[]);
    }
}

#[test]
fn heaps_that_are_together_more_than_a_process_can_map_are_no_hindrance() {
    // 384 ranks: 48 processes of 8 threads, or as many processes.
    let long = std::env::var_os("PENNY_LONG").is_some_and(|v| v == "1");
    let (processes, threads) = if long { (384, "1") } else { (48, "8") };
    holds_after("true", "address_space", processes, &[("PENNY_HEAP_SIZE", "4T"), ("TEST_THREADS", threads)]);
}

#[test]
fn little_address_space_is_shared_sparingly() {
    // `ulimit -v` counts KiB.
    holds_after("ulimit -v 8388608", "address_space", 8, &[("TEST_FILLER", "1")]);
    // Far enough that what is mapped of a peer's heap at first does not reach it.
    holds_after(
        "ulimit -v 1048576",
        "address_space",
        2,
        &[("TEST_FILLER", "200"), ("PENNY_HEAP_SIZE", "300M")],
    );
}

#[test]
fn files_may_be_limited_in_size() {
    // `ulimit -f` counts blocks of 512 bytes: 512 MiB, and the symmetric heap of these programs grows to 168 MiB.
    for name in ["collectives", "memory", "shmem"] {
        holds_after("ulimit -f 1048576", name, 2, &[]);
    }
}
