//! The parts of the library that only turn words into others.

// Each file is a module of the library; here some of its items are unused.
#[allow(dead_code, missing_docs)]
#[path = "../../src/algo.rs"]
mod algo;
#[allow(dead_code, missing_docs)]
#[path = "../../src/sentence.rs"]
mod sentence;

#[test]
fn algorithms_of_nccl_become_pennys_where_it_has_them() {
    let everywhere = "allreduce:ring;reduce:ring;broadcast:ring;allgather:ring;reducescatter:ring";
    for (text, algo) in [
        ("Ring", everywhere),
        ("RING,tree", everywhere),
        ("Tree", "allreduce:tree;reduce:tree;broadcast:tree"),
        ("Tree,Ring", "allreduce:tree;reduce:tree;broadcast:tree;allgather:ring;reducescatter:ring"),
        ("^Tree", "allreduce:^tree;reduce:^tree;broadcast:^tree"),
        ("^NVLS,PAT", ""),
        ("allreduce:ring", "allreduce:ring"),
        (" AllReduce : Tree ; broadcast:ring;", "allreduce:tree;broadcast:ring"),
        ("", ""),
    ] {
        let read = algo::read(text);
        assert_eq!((read.algo.as_str(), read.ignored), (algo, vec![]), "{text}");
    }
}

#[test]
fn algorithms_without_a_counterpart_are_ignored_with_a_sentence() {
    for (text, algo, why) in [
        ("NVLS", "", "Penny has no nvls"),
        ("PAT,Ring", "allreduce:ring;reduce:ring;broadcast:ring;allgather:ring;reducescatter:ring", "no pat"),
        ("allgather:tree", "", "Penny has no tree for allgather"),
        ("alltoall:ring", "", "`alltoall` is no collective"),
        ("fast", "", "`fast` is no algorithm"),
    ] {
        let read = algo::read(text);
        assert_eq!(read.algo, algo, "{text}");
        let [sentence] = &read.ignored[..] else { panic!("{text}: {:?}", read.ignored) };
        assert!(sentence.contains(why) && sentence.contains("PENNY_ALGO"), "{sentence}");
    }
}

#[test]
fn sentences_have_nccls_names() {
    for (text, told) in [
        ("pennyAllReduce: root 3 is not in 0..2", "root 3 is not in 0..2"),
        ("pennyCommDevice: a: b", "a: b"),
        ("no function: pennyGroupStart comes first", "no function: ncclGroupStart comes first"),
        (
            "pass memory of pennyMemAlloc, or pennyShmemMalloc",
            "pass memory of ncclMemAlloc, or pennyShmemMalloc",
        ),
        ("pennyInvalidUsage, libpenny.so, _pennySend", "ncclInvalidUsage, libpenny.so, _pennySend"),
        ("pennyCommAbort or pennyCommDestroy", "ncclCommAbort or ncclCommDestroy"),
        ("", ""),
    ] {
        assert_eq!(sentence::in_nccls_words(text), told);
    }
}
