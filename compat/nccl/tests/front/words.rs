//! The parts of the library that only turn words into others.

// Each file is a module of the library or of penny-sys; here some of its items are unused.
#[allow(dead_code, missing_docs)]
#[path = "../../src/algo.rs"]
mod algo;
#[allow(missing_docs)]
#[path = "../../../sys/src/sentence.rs"]
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
        (
            "pennyAllReduce: root 3 is out of range: ranks are 0 to 1",
            "root 3 is out of range: ranks are 0 to 1",
        ),
        ("pennyCommDevice: a: b", "a: b"),
        ("no function: pennyGroupStart comes first", "no function: ncclGroupStart comes first"),
        ("pass memory of pennyMemAlloc, or pennyShmemMalloc", "pass memory of ncclMemAlloc"),
        ("pennyInvalidUsage, libpenny.so, _pennySend", "ncclInvalidUsage, libpenny.so, _pennySend"),
        ("pennyCommAbort or pennyCommDestroy", "ncclCommAbort or ncclCommDestroy"),
        (
            "pennyCommWindowRegister: winFlags is 9; it is PENNY_WIN_DEFAULT, or PENNY_WIN_COLL_SYMMETRIC",
            "winFlags is 9; it is NCCL_WIN_DEFAULT, or NCCL_WIN_COLL_SYMMETRIC",
        ),
        ("no pennyCommMemStat_t: pennyStatMemTotal", "no ncclCommMemStat_t: ncclStatGpuMemTotal"),
        ("raise PENNY_TIMEOUT or timeoutMs; else abort", "raise PENNY_TIMEOUT; else abort"),
        (
            "set PENNY_HEAP_SIZE; MY_PENNY_WIN_DEFAULT stays",
            "set PENNY_HEAP_SIZE; MY_PENNY_WIN_DEFAULT stays",
        ),
        ("rank 1 (µs)", "rank 1 (µs)"),
        ("", ""),
    ] {
        assert_eq!(sentence::in_nccls_words(text), told);
    }
    for (text, told) in [
        ("pennyStreamSynchronize: rank 0: pennyCommShrink makes one", "rank 0: ncclCommShrink makes one"),
        ("pennyMemAlloc: free some with pennyMemFree", "free some with cudaFree"),
        ("of pennyEventCreate or pennyStreamQuery", "of cudaEventCreate or cudaStreamQuery"),
    ] {
        assert_eq!(sentence::in_cudas_words(text), told);
    }
}
