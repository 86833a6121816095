//! The host profile over real processes: one rank reads it, and all choose by it.

use penny::internals::comm::this_host;
use penny::internals::planner::profile::{FORMAT, VERSION};
use penny_ffi_tests::{compiler, ranks, root};
use std::path::Path;

/// Ranks of the first communicator; its halves have two.
const RANKS: usize = 4;
/// All-reduces of the communicator and its copy go by a ring, those of its halves by a tree.
const CHOICES: &str = "4 = \"all_reduce:4k-inf:ring\"\n2-3 = \"all_reduce:4k-inf:tree\"";
/// What other ranks would choose by theirs.
const OTHERS: &str = "2-8 = \"all_reduce:0-inf:simple_ring;broadcast:0-inf:tree\"";

/// A profile of this host.
fn profile(auto: &str) -> String {
    let host = this_host();
    let head = format!("format = {FORMAT}\nversion = \"{VERSION}\"\ncpu = \"{}\"\n", host.cpu);
    format!("{head}cores = {}\n[auto]\n{auto}\n", host.cores)
}

/// Puts a profile where a rank looks for its own.
fn put(caches: &Path, rank: usize, text: &str) {
    let folder = caches.join(rank.to_string()).join("penny");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(this_host().file_name()), text).unwrap();
}

/// What the library says on each rank. `caches`: where each has a folder, if any has one.
fn said(caches: Option<&Path>, env: &[(&str, &str)]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("host_profile");
    compiler::program(&root().join("ffi-tests/c/host_profile.c"), &program);
    let mut all = vec![("PENNY_DEBUG", "info")];
    all.extend(caches.map(|caches| ("TEST_CACHE", caches.to_str().unwrap())));
    all.extend(env);
    ranks::run(&program, dir.path(), RANKS, &all)
}

/// Every rank chose as `CHOICES` says, in the communicator, its halves and its copy.
#[track_caller]
fn all_chose_by_rank_0(said: &[String]) {
    for text in said {
        let count = |what: &str| text.matches(what).count();
        assert_eq!(count("all_reduce of 8192 bytes by ring, says the host profile"), 2, "{said:?}");
        assert_eq!(count("all_reduce of 400000 bytes by ring, says the host profile"), 2, "{said:?}");
        assert_eq!(count("all_reduce of 8192 bytes by tree, says the host profile"), 1, "{said:?}");
        assert_eq!(count("says the host profile"), 6, "{said:?}");
    }
}

#[track_caller]
fn nobody_chose_by_a_profile(said: &[String]) {
    assert!(said.iter().all(|text| !text.contains("says the host profile")), "{said:?}");
}

#[test]
fn all_ranks_choose_by_the_profile_of_rank_0_whatever_the_others_find() {
    let caches = tempfile::tempdir().unwrap();
    put(caches.path(), 0, &profile(CHOICES));
    put(caches.path(), 1, &profile(OTHERS));
    put(caches.path(), 2, "no profile");
    all_chose_by_rank_0(&said(Some(caches.path()), &[("TEST_PROFILE_3", "none")]));
}

#[test]
fn without_a_profile_at_rank_0_no_rank_has_one() {
    let caches = tempfile::tempdir().unwrap();
    put(caches.path(), 1, &profile(OTHERS));
    nobody_chose_by_a_profile(&said(Some(caches.path()), &[]));
    put(caches.path(), 0, &profile(CHOICES));
    nobody_chose_by_a_profile(&said(Some(caches.path()), &[("TEST_PROFILE_0", "none")]));
    nobody_chose_by_a_profile(&said(None, &[]));
}

#[test]
fn a_file_is_named_by_the_variable_and_may_lie_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, profile(CHOICES)).unwrap();
    all_chose_by_rank_0(&said(None, &[("PENNY_HOST_PROFILE", file.to_str().unwrap())]));
}

#[test]
fn a_file_that_is_no_profile_of_this_host_is_warned_of_once_with_its_name_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let path = file.to_str().unwrap();
    let warned = |told: &str| {
        // Rank 0 joins twice.
        let said = said(None, &[("TEST_PROFILE_0", path), ("PENNY_DEBUG", "warn")]);
        let warning = format!("penny: rank 0: the host profile {path} is not used: ");
        assert_eq!(said[0].matches(&warning).count(), 1, "{said:?}");
        assert!(said[0].contains(told) && said[0].contains("penny calibrate host"), "{told}: {said:?}");
        assert!(said[1..].iter().all(|text| !text.contains("host profile")), "{said:?}");
    };
    warned("No such file");
    let good = profile(CHOICES);
    for (text, told) in [
        (good.replace(VERSION, "0.0.1"), "Penny 0.0.1 wrote it"),
        (good.replace("cores = ", "cores = 9"), "another host"),
        (good.replace(":ring", ":rong"), "`rong` is no algorithm"),
        (good.replace("all_reduce:4k-inf:ring", "alltoall:4k-inf:ring"), "ring does not serve alltoall"),
        (good[..good.len() / 2].into(), "is not used"),
    ] {
        std::fs::write(&file, text).unwrap();
        warned(told);
    }
}

#[test]
fn what_the_variables_ask_for_comes_before_the_profile() {
    let caches = tempfile::tempdir().unwrap();
    (0..RANKS).for_each(|rank| put(caches.path(), rank, &profile(CHOICES)));
    for (variable, value) in [
        ("PENNY_ALGO", "two_shot"),
        ("PENNY_ALGO", "allreduce:^ring,^tree"),
        ("PENNY_OPTIONS", r#"{"method":"clockwise_ring"}"#),
        // A tree and a ring do not fold in rank order.
        ("PENNY_REPRODUCIBLE", "1"),
        ("PENNY_FABRIC", "dgx-h100"),
    ] {
        nobody_chose_by_a_profile(&said(Some(caches.path()), &[(variable, value)]));
    }
}
