use super::*;

/// A table as the program prints it; `titles` are its two lines, `rows` its rows.
fn table(program: &str, ranks: usize, rows: &str) -> String {
    let devices: String = (0..ranks)
        .map(|rank| format!("#  Rank {rank:2} Group  0 Pid   9 on  node device  {rank} [0x0f] GPU\n"))
        .collect();
    format!(
        "# Collective test starting: {program}\n# nThread 1 nGpus 1 minBytes 8 maxBytes 32 step: 2(factor)\n#\n# Using devices\n\
         {devices}#\n#                                              out-of-place            in-place\n\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n\
         {rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5\n"
    )
}

const ROWS: &str = "     1048576        262144     float     sum      -1    27.37   38.31   67.04      0    27.31   38.39   67.19      0\n\
                    67108864      16777216     float     sum      -1      584  114.81  200.91      0   581.9  115.33  201.82    N/A\n";

fn times(found: &Found) -> Vec<(usize, f64)> {
    found.samples.iter().map(|s| (s.bytes, (s.seconds * 1e9).round() / 1e3)).collect()
}

fn only(text: &str, place: Place) -> Found {
    let found = tables(text, place);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

const OUT: [(usize, f64); 2] = [(1 << 20, 27.37), (64 << 20, 584.0)];

#[test]
fn a_log_is_read_whatever_its_launcher_puts_before_its_lines() {
    let plain = table("all_reduce_perf_mpi", 8, ROWS);
    let tagged = |tag: &str| -> String {
        format!(
            "Warning: Permanently added 'a' to the list of known hosts.\n+ export A=1\n{}",
            plain.lines().map(|line| format!("{tag}{line}\n")).collect::<String>()
        )
    };
    for tag in [
        "",
        "[1,0]<stdout>:",
        "   [1,12]<stdout>:",
        " 0: ",
        "[0] ",
        "x3005c0s13b0n0.hsn.cm.example.gov 0: ",
        "node-3: ",
        "launcher-0  | ",
        "2024-05-01T08:00:00.123Z ",
        "2024-05-01T08:00:00Z [1,0]<stdout>:",
    ] {
        let found = only(&tagged(tag), Place::Out);
        assert_eq!(times(&found), OUT, "{tag}");
        assert_eq!((found.ranks, subject(&found).map(Subject::name)), (Some(8), Some("all_reduce")), "{tag}");
        assert_eq!(times(&only(&tagged(tag), Place::In)), [(1 << 20, 27.31), (64 << 20, 581.9)], "{tag}");
    }
}

#[test]
fn what_nccl_says_within_and_between_rows_is_passed_over() {
    let pieces = "     1048576        262144     float     sum      -1node0:71:71 [0] NCCL INFO Launch\n    27.37   38.31   67.04      0\n\
        node0:71:99 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 - Init COMPLETE\n    27.31   38.39   67.19      0\n\
        67108864      16777216     float     sum      -1      584  114.81  200.91      0   node1:9:9 [3] NCCL WARN slow\n   581.9  115.33  201.82    N/A\n";
    let pieces = pieces.replace("-1node0", "-1 node0");
    for place in [Place::Out, Place::In] {
        let (whole, cut) = (table("all_reduce_perf", 8, ROWS), table("all_reduce_perf", 8, &pieces));
        assert_eq!(times(&only(&cut, place)), times(&only(&whole, place)));
    }
}

#[test]
fn a_launcher_may_put_its_tag_before_each_piece_of_a_row() {
    let plain = table("all_reduce_perf", 8, ROWS);
    let pieces = plain.replace("      -1  ", "      -1[0]").replace("      0    27", "      0[0]    27");
    let tagged: String = pieces.lines().map(|line| format!("[0] {line}\n")).collect();
    assert!(tagged.matches("[0]").count() > tagged.lines().count() + 2, "{tagged}");
    for place in [Place::Out, Place::In] {
        assert_eq!(times(&only(&tagged, place)), times(&only(&plain, place)));
    }
}

#[test]
fn old_titles_name_no_root_or_one_place_and_rows_may_have_words_behind() {
    let old = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n\
        1048576   262144   float     sum    27   38.31   67.04    N/A    27.31   38.39   67.19    N/A\n";
    assert_eq!(times(&only(old, Place::Out)), [(1 << 20, 27.0)]);
    // Neither redop nor root.
    let gather = old.replace("redop", "").replace("sum", "");
    assert_eq!(times(&only(&gather, Place::In)), [(1 << 20, 27.31)]);
    let one = "#  size  count  type  redop  root   time   algbw   busbw  #wrong\n\
        1048576   262144   float     sum    -1   27   38.31   67.04   0\n";
    let found = only(one, Place::Out);
    assert_eq!((times(&found), found.one_place), (vec![(1 << 20, 27.0)], true));
    let none = only(one, Place::In);
    assert_eq!((none.samples.len(), none.without), (0, 1));
    let noted = ROWS.replace("67.19      0", "67.19      0   <-- first").replace("-1", "");
    assert_eq!(times(&only(&table("all_reduce_perf", 8, &noted), Place::Out)), OUT);
    // No titles at all.
    assert_eq!(times(&only(ROWS, Place::Out)), OUT);
    assert_eq!(times(&only(ROWS, Place::In)).len(), 2);
}

#[test]
fn each_table_of_a_log_is_found_with_its_line_ranks_and_program() {
    let text = format!(
        "{}{}",
        table("all_gather_perf", 4, ROWS),
        table("all_reduce_perf", 16, &ROWS.replace(" 0\n", " 3\n")).replace("0 OK", "3 FAILED")
    );
    let found = tables(&text, Place::Out);
    assert_eq!(
        found.iter().map(|table| (table.line, table.ranks, table.failed)).collect::<Vec<_>>(),
        [(11, Some(4), false), (39, Some(16), true)]
    );
    assert_eq!(
        found.iter().map(|t| t.program.clone().unwrap()).collect::<Vec<_>>(),
        ["all_gather", "all_reduce"]
    );
    // Ranks of a program without MPI print a table each.
    let twice: String = table("all_reduce_perf", 1, ROWS)
        .lines()
        .flat_map(|line| [format!("[1,0]<stdout>:{line}\n"), format!("[1,1]<stdout>:{line}\n")])
        .collect();
    let found = tables(&twice, Place::Out);
    assert_eq!(found.iter().map(|table| times(table).len()).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn the_collective_is_told_by_the_program_or_by_the_ratio_of_bandwidths() {
    let named = |line: &str| subject(&only(&format!("{line}\n{ROWS}"), Place::Out)).map(Subject::name);
    assert_eq!(named("mpirun -np 8 ./build/reduce_scatter_perf -b 8 -e 1G"), Some("reduce_scatter"));
    assert_eq!(named("# all_gather_sim  fabric: x"), Some("all_gather"));
    assert_eq!(named("Linking  build/alltoall.o > build/alltoall_perf"), Some("all_reduce"), "1.75 times");
    assert_eq!(named("$ srun ./sendrecv_perf_mpi -b 8"), Some("sendrecv"));
    assert_eq!(only(ROWS, Place::Out).implied, Some(8));
    assert_eq!(
        only(&ROWS.replace("114.81", "2.01").replace("200.91", "3.97"), Place::Out).implied,
        Some(8),
        "in doubt"
    );
    let same = ROWS.replace("67.04", "33.52").replace("200.91", "100.45");
    assert_eq!(subject(&only(&same, Place::Out)), None);
    let set = format!("a:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n{ROWS}");
    assert_eq!(only(&set, Place::Out).set_algorithm.as_deref(), Some("Ring"));
}

#[test]
fn nothing_in_a_log_makes_the_reader_panic() {
    let text = table("all_reduce_perf", 2, ROWS);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..2000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..4 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state % bytes.len() as u64) as usize;
            match state >> 60 {
                0..8 => bytes[at] = (state >> 32) as u8,
                8..12 => drop(bytes.drain(at..(at + 30).min(bytes.len()))),
                _ => drop(bytes.splice(at..at, b"[1,\n: 0 N/A \xc3\xa9".iter().copied())),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        for place in [Place::Out, Place::In] {
            assert!(
                tables(&text, place).iter().all(|table| subject(table).is_none_or(|s| !s.name().is_empty()))
            );
        }
    }
}
