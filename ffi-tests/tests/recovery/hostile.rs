//! A process of the same user writes over the segments of ranks at work: wrong results and errors, but no crash and no hang.

use crate::ranks::{PLAIN, Rank, Setting, acts, now_ns, random, start, times, turn};
use penny::internals::fabric::live::clock_segment::ClockSegment;
use penny::internals::memory::control::{Header, Life, MAGIC};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const RANKS: u32 = 3;
const REMOTE: i32 = 6;

/// SplitMix64: a seed tells all that follows.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// The shared memory that a process has open.
fn segments(rank: &Rank) -> Vec<File> {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", rank.pid())).into_iter().flatten().flatten();
    let shared = entries.filter(|entry| {
        let name = std::fs::read_link(entry.path()).unwrap_or_default();
        let name = name.to_string_lossy();
        name.starts_with("/dev/shm/") || name.starts_with("/memfd:penny")
    });
    shared.filter_map(|entry| File::options().read(true).write(true).open(entry.path()).ok()).collect()
}

/// Where the file has data, as (offset, bytes).
fn extents(file: &File) -> Vec<(u64, u64)> {
    use std::io::{Seek, SeekFrom};
    let size = file.metadata().map_or(0, |m| m.len());
    let mut found = Vec::new();
    let mut file = file;
    let mut at = 0;
    // BOUND: the file's extents.
    while at < size && found.len() < 1000 {
        let Some(from) = penny_seek(file, at, nix::libc::SEEK_DATA) else { break };
        let to = penny_seek(file, from, nix::libc::SEEK_HOLE).unwrap_or(size);
        found.push((from, to - from));
        at = to;
    }
    let _ = file.seek(SeekFrom::Start(0));
    found
}

fn penny_seek(file: &File, at: u64, whence: i32) -> Option<u64> {
    use std::os::fd::AsRawFd;
    // SAFETY: lseek on an open descriptor with plain numbers.
    let found = unsafe { nix::libc::lseek(file.as_raw_fd(), at as i64, whence) };
    u64::try_from(found).ok()
}

/// One word somewhere; half of all near a segment's beginning, where life lines and counters are.
fn overwrite(files: &[(File, Vec<(u64, u64)>)], chance: &mut Chance) {
    let (file, extents) = &files[chance.below(files.len() as u64) as usize];
    let Some(&(from, bytes)) = extents.get(chance.below(extents.len() as u64) as usize) else { return };
    let room = if chance.below(2) == 0 { bytes.min(8192) } else { bytes };
    let at = from + chance.below(room / 8) * 8;
    let mut before = [0; 8];
    let _ = file.read_exact_at(&mut before, at);
    let before = u64::from_ne_bytes(before);
    let word = match chance.below(6) {
        0 => chance.next(),
        1 => chance.below(64),
        2 => u64::MAX,
        3 => before ^ 1 << chance.below(64),
        4 => before.wrapping_add(chance.below(16)).wrapping_sub(8),
        _ => chance.next() & 0xffff_ffff,
    };
    let _ = file.write_all_at(&word.to_ne_bytes(), at);
}

/// Who writes over what.
struct Attack {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    /// What the ranks call, how often at a time.
    what: &'static str,
    times: u32,
    /// Words that are written meanwhile. Where the first error ends all calls, few in many trials tell more.
    words: u32,
    /// The segments that are written to.
    aim: fn(&File) -> bool,
}

const EVERYTHING: Attack = Attack {
    name: "every segment",
    env: &[("PENNY_TIMEOUT", "3")],
    what: "mixed",
    times: 500,
    words: 300,
    aim: |_| true,
};
const CLOCK: Attack = Attack {
    name: "the declared machine's clock",
    env: &[("PENNY_TIMEOUT", "3"), ("PENNY_FABRIC", "dgx-h100"), ("PENNY_FABRIC_GRACE", "1")],
    what: "mixed",
    times: 60,
    words: 40,
    aim: |file| ClockSegment::observe(file.try_clone().expect("a descriptor")).is_some(),
};
const LEDGER: Attack = Attack {
    name: "heaps with the ledger of races",
    env: &[("PENNY_TIMEOUT", "3"), ("PENNY_CHECK", "race")],
    what: "puts",
    times: 200,
    words: 100,
    aim: |file| !is_control(file),
};

fn survive(attack: &Attack, seed: u64) {
    let &Attack { name, env, what, times, words, aim } = attack;
    println!("{name}: seed {seed:#x}");
    let mut chance = Chance(seed);
    let first = format!("call {what} 100");
    let mut ranks = start(RANKS, &Setting { env, ..PLAIN }, |rank| {
        let ending = ["destroy", "exit", "abort"][rank as usize];
        let mut list = acts(&["heap", "join", &first, "hold"]);
        list.extend(std::iter::repeat_n(format!("repeat {times} {what} 100"), 3));
        list.extend(acts(&[
            "call split 10",
            "call transfer 1000",
            "call mailbox 1",
            "call signals 10",
            ending,
        ]));
        list
    });
    for rank in &mut ranks {
        ["heap", "join", &first].iter().for_each(|act| rank.did(act));
    }
    // Opened while they hold: a rank that has ended has taken its descriptors with it.
    let opened: Vec<_> = ranks.iter().flat_map(segments).filter(aim).collect();
    ranks.iter_mut().for_each(Rank::release);
    std::thread::sleep(Duration::from_millis(chance.below(30)));
    let files: Vec<_> = opened
        .into_iter()
        .map(|f| {
            let e = extents(&f);
            (f, e)
        })
        .collect();
    assert!(!files.is_empty(), "no segment to write to");
    for _ in 0..words {
        overwrite(&files, &mut chance);
        std::thread::sleep(Duration::from_micros(chance.below(300)));
    }
    for (r, rank) in ranks.iter_mut().enumerate() {
        let ended = rank.outlast();
        assert!(ended.success(), "{name}, seed {seed:#x}: rank {r} ended with {ended}");
    }
}

#[test]
fn random_words_in_every_shared_segment_end_no_rank_and_hang_none() {
    attacked(&EVERYTHING, times(6, 60));
}

#[test]
fn random_words_in_a_declared_machines_clock_end_no_rank_and_hang_none() {
    attacked(&CLOCK, times(8, 200));
}

#[test]
fn random_words_in_heaps_with_the_ledger_of_races_end_no_rank_and_hang_none() {
    attacked(&LEDGER, times(6, 100));
}

fn attacked(attack: &Attack, times: u32) {
    let _turn = turn();
    if let Some(seed) = std::env::var("PENNY_TEST_SEED")
        .ok()
        .and_then(|s| u64::from_str_radix(s.trim_start_matches("0x"), 16).ok())
    {
        return survive(attack, seed);
    }
    for _ in 0..times {
        survive(attack, random(u64::MAX));
    }
}

fn is_control(file: &File) -> bool {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 0).is_ok() && u64::from_ne_bytes(word) == MAGIC
}

/// The control segment that a rank has open.
fn control(rank: &Rank) -> File {
    segments(rank).into_iter().find(is_control).expect("a control segment")
}

#[test]
fn the_death_of_a_rank_whose_life_word_was_overwritten_is_noticed_all_the_same() {
    let mut ranks = start(RANKS, &PLAIN, |_| acts(&["join", "call all_reduce 16", "loop all_reduce 16"]));
    for rank in &mut ranks {
        ["join", "call all_reduce 16"].iter().for_each(|act| rank.did(act));
    }
    let node = size_of::<Header>() + size_of::<Life>();
    control(&ranks[0]).write_all_at(&[0; 16], node as u64).unwrap();
    let killed = now_ns();
    ranks[1].kill();
    for r in [0, 2] {
        let said = ranks[r].failed();
        let named = said.sentence.contains(&format!("rank 1 (pid {}) died", ranks[1].pid()));
        assert!(said.code == REMOTE && named, "rank {r}: {} {}", said.code, said.sentence);
        assert!(said.returned - killed < 20_000_000_000, "rank {r} waited for the deadline");
    }
}
