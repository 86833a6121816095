//! The output of NCCL_DEBUG.

use super::{dir, program};
use std::fs;
use std::process::Command;

/// Runs c/told.c; its standard output and the files that it left.
fn told(env: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
    let temp = tempfile::tempdir().unwrap();
    let program = program("told", temp.path(), &[]);
    let files = temp.path().join("files");
    fs::create_dir(&files).unwrap();
    let mut command = Command::new(&program);
    command.current_dir(&files).env("LD_LIBRARY_PATH", dir()).envs(env.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    let files = fs::read_dir(&files).unwrap().map(|entry| read(entry.unwrap())).collect();
    (String::from_utf8(output.stdout).unwrap(), files)
}

/// The texts of lines, after their heads were checked.
fn texts<'a>(lines: &'a str, word: &str) -> Vec<&'a str> {
    let head = format!(" NCCL {word} ");
    let of = |line: &'a str| {
        let (head, text) = line.split_once(&head)?;
        let (place, device) = head.split_once(" [")?;
        assert_eq!(place.split(':').count(), 3, "{line}");
        assert!(place.split(':').skip(1).all(|number| number.parse::<u32>().is_ok()), "{line}");
        assert!(device.strip_suffix(']').is_some_and(|number| number.parse::<u32>().is_ok()), "{line}");
        Some(text)
    };
    lines.lines().filter_map(of).collect()
}

const REFUSED: &str = "ncclAllReduce: datatype is 12; NCCL's are 0 to 11";

#[test]
fn nothing_is_printed_unless_it_is_asked_for() {
    for env in
        [&[][..], &[("NCCL_DEBUG", "loud")], &[("NCCL_DEBUG_SUBSYS", "ALL"), ("NCCL_DEBUG_FILE", "log")]]
    {
        assert_eq!(told(env), (String::new(), vec![]), "{env:?}");
    }
}

#[test]
fn the_version_is_one_line() {
    let version = concat!("NCCL version 2.27.7+penny", env!("CARGO_PKG_VERSION"), "\n");
    let (said, files) = told(&[("NCCL_DEBUG", "version"), ("NCCL_DEBUG_FILE", "log")]);
    assert_eq!((said.as_str(), files), (version, vec![]));
    let (said, _) = told(&[("NCCL_DEBUG", "WARN")]);
    assert!(said.starts_with(version), "{said}");
    assert_eq!(texts(&said, "WARN"), [REFUSED]);
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn communicators_and_calls_are_told_in_a_file() {
    let file = ("NCCL_DEBUG_FILE", "%h.%p.%%.log");
    let (said, files) = told(&[("NCCL_DEBUG", "INFO"), file]);
    assert_eq!(said, "");
    let [(name, text)] = &files[..] else { panic!("{files:?}") };
    let (host, process) = text.split(':').next().zip(text.split(':').nth(1)).unwrap();
    assert_eq!(name, &format!("{host}.{process}.%.log"));
    let info = texts(text, "INFO");
    for (rank, of) in [(0, 2), (1, 2)] {
        for end in ["START", "COMPLETE"] {
            let found = info.iter().filter(|line| {
                line.starts_with("ncclCommInitAll comm 0x")
                    && line.contains(&format!("rank {rank} nranks {of} cudaDev {} commId 0x", 5 + rank))
                    && line.ends_with(&format!("- Init {end}"))
            });
            assert_eq!(found.count(), 1, "{text}");
        }
        let ended = format!("rank {rank} nranks {of} cudaDev {} - Destroy COMPLETE", 5 + rank);
        assert!(info.iter().any(|line| line.starts_with("comm 0x") && line.ends_with(&ended)), "{text}");
    }
    // A line about a communicator carries its device.
    for line in text.lines().filter(|line| line.contains(" cudaDev ")) {
        let device = line.split(" cudaDev ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(line.contains(&format!(" [{device}] NCCL INFO ")), "{line}");
    }
    assert!(text.contains(&format!(" [5] NCCL WARN {REFUSED}")), "{text}");
    assert!(!text.contains("opCount") && texts(text, "WARN") == [REFUSED], "{text}");
}

#[test]
fn calls_are_told_where_the_subsystem_or_the_level_says_so() {
    for env in [
        &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")][..],
        &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "^INIT,ENV")],
        &[("NCCL_DEBUG", "TRACE"), ("NCCL_DEBUG_SUBSYS", "NET")],
    ] {
        let (said, _) = told(env);
        let calls = texts(&said, "INFO");
        let found = calls.iter().filter(|line| {
            line.starts_with("AllReduce: opCount 0 sendbuff 0x")
                && line.contains(" count 3 datatype 7 op 2 root 0 comm 0x")
                && line.ends_with(" [nranks=2] stream 0x0")
        });
        assert_eq!(found.count(), 2, "{env:?}: {said}");
        for device in ["[5]", "[6]"] {
            let found = said.lines().filter(|line| line.contains(&format!("{device} NCCL INFO AllReduce: ")));
            assert_eq!(found.filter(|line| line.contains("opCount 0 ")).count(), 1, "{env:?}: {said}");
        }
        assert!(!said.contains("Init COMPLETE"), "{env:?}: {said}");
    }
}

#[test]
fn choices_of_algorithms_are_told() {
    let (said, _) = told(&[("NCCL_DEBUG", "INFO"), ("NCCL_ALGO", "NVLS,Ring")]);
    assert!(texts(&said, "INFO").contains(&"NCCL_ALGO set by environment to NVLS,Ring"), "{said}");
    assert!(texts(&said, "WARN").iter().any(|line| line.contains("Penny has no nvls")), "{said}");
    let (said, _) = told(&[("NCCL_DEBUG", "WARN"), ("NCCL_ALGO", "Ring"), ("PENNY_ALGO", "tree")]);
    assert!(said.contains("NCCL_ALGO is ignored, because PENNY_ALGO is set"), "{said}");
}
