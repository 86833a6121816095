//! A rank dies between two stores to shared memory, at each point of the table in the library's `src/die_points.rs`: every
//! survivor is told who, at once, and nothing is left.
//!
//! The ranks are `src/bin/victim` in a build of its own with the feature `die-points`. `DIE_POINTS=pair` takes the points whose
//! name begins so.

use crate::deaths::still_there;
use crate::ranks::{Failure, Rank, Said, Setting, acts, leftovers, start_program, times, turn};
use nix::sys::signal::Signal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const REMOTE: i32 = 6;
const RANKS: u32 = 3;
/// Far more than a death needs to be noticed: a survivor that ends by its deadline has not been told.
const TIMEOUT: (&str, &str) = ("PENNY_TIMEOUT", "20");
/// Some processors copy buffers of these scenes that others read where they lie.
const ZERO_COPY: (&str, &str) = ("PENNY_ZERO_COPY_FROM", "0");
const MACHINE: (&str, &str) = ("PENNY_FABRIC", "dgx-h100");
const RACES: (&str, &str) = ("PENNY_CHECK", "race");

/// The program with die-points.
fn mortal() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = penny_ffi_tests::profile_dir().parent().expect("target/<profile>").join("die-points");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--package", "penny-die-points", "--features", "die-points"])
            // Its speed is of no account.
            .args([
                "--config",
                "profile.dev.opt-level=0",
                "--config",
                "profile.dev.package.penny.opt-level=0",
            ])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(penny_ffi_tests::root())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the ranks with die-points do not build");
        target.join("debug/mortal")
    })
}

/// What ranks do in which one passes a point.
#[derive(Clone, Copy)]
struct Scene {
    /// The call that is repeated until it fails, and its count.
    what: &'static str,
    count: usize,
    /// Further variables of all ranks.
    env: &'static [(&'static str, &'static str)],
    /// Buffers lie in the shareable heap.
    heap: bool,
    /// The rank that dies; `None`: a different one each time.
    victim: Option<u32>,
    /// The point is passed once in a process's life.
    once: bool,
    /// The first passage at which it dies: in the first join no rank knows of a rank that has not come to it.
    from: u32,
}

const PLAIN: Scene =
    Scene { what: "all_reduce", count: 16, env: &[], heap: false, victim: None, once: false, from: 1 };
const ON_MACHINE: Scene = Scene { env: &[MACHINE], ..PLAIN };

/// The ways in which ranks come to a point; each is tried.
fn scenes(point: &str) -> Vec<Scene> {
    let of = |what, count| Scene { what, count, ..PLAIN };
    // The first passage is that of the first join, after which the survivors meet where an id leads, and the dead is only
    // missing there.
    let join = Scene { what: "init", count: 4, from: 2, ..PLAIN };
    match point {
        "arrival_payload" | "direct_done" | "arrival_all" => vec![PLAIN, of("alltoall", 8)],
        "progress_drain" => vec![Scene { heap: true, ..of("all_reduce", 100_000) }],
        "disagreement_found" | "disagreement_noted" => vec![of("roots", 4)],
        "mail_waits" => vec![Scene { victim: Some(2), ..of("full", 1) }],
        // What another communicator's ranks have not heard of yet, only its parent's can miss.
        "join_prepared" => {
            vec![Scene { from: 2, ..of("split", 4) }, Scene { from: 2, ..of("children", 4) }]
        }
        // Only ranks that meet where an id leads have a server to tell.
        "join_over" => vec![join],
        "symmetric_range" | "symmetric_grown" => vec![Scene { once: true, ..of("puts", 1) }],
        "pair_read" | "pair_taken" | "pair_line" | "pair_full" | "pair_copied" => {
            vec![of("transfer", 64), Scene { heap: true, ..of("transfer", 100_000) }, of("transfer", 100_000)]
        }
        "pair_refusal" | "pair_refused" | "pair_refusals" => vec![of("refused", 64)],
        "put_woken" => vec![Scene { what: "puts", ..ON_MACHINE }, Scene { what: "signals", ..ON_MACHINE }],
        // Other ranks' calls must be under way, or the one call is priced alone and logged nowhere.
        "engine_staged" | "engine_logged" => vec![Scene { what: "signals", ..ON_MACHINE }],
        _ => match point.split('_').next().unwrap_or("") {
            "arrival" => vec![PLAIN, of("all_reduce", 100_000), of("broadcast", 16)],
            "borrowed" => vec![Scene { heap: true, ..of("alltoall", 4096) }],
            "step" | "progress" => vec![
                of("all_reduce", 100_000),
                Scene { heap: true, ..of("all_reduce", 100_000) },
                of("reduce_scatter", 20_000),
            ],
            "disagreement" => vec![of("disagree", 4)],
            // A rank that dies before it comes to where an id leads is only missing there.
            "leave" => vec![of("children", 4), of("split", 4)],
            "keeper" => vec![of("children", 4)],
            "join" | "attach" => vec![join, of("split", 4), of("children", 4)],
            "mail" => vec![of("mailbox", 1)],
            "signal" => vec![of("signals", 64)],
            "semaphore" => vec![of("semaphore", 1)],
            "put" | "atomic" | "wait" | "symmetric" => vec![of("puts", 1)],
            "registered" => vec![of("registered", 100_000)],
            "clock" | "engine" => vec![ON_MACHINE, Scene { what: "transfer", count: 64, ..ON_MACHINE }],
            "race" => vec![Scene { env: &[RACES], ..of("puts", 1) }],
            _ => panic!("no ranks come to {point}"),
        },
    }
}

/// The points that a test of their own is about.
const APART: [&str; 10] = [
    "fail_cause",
    "fail_call",
    "fail_state",
    "fail_counted",
    "death_noted",
    "abort_begun",
    "abort_told",
    "abort_rung",
    "halt_writing",
    "halt_written",
];

fn chosen(point: &str) -> bool {
    std::env::var("DIE_POINTS").map_or(true, |only| point.starts_with(&only))
}

/// Starts ranks of which those that `dies` names have the order to die.
fn start(
    n: u32,
    env: &[(&str, &str)],
    order: &str,
    dies: impl Fn(u32) -> bool,
    list: impl Fn(u32) -> Vec<String>,
) -> Vec<Rank> {
    let id = penny::internals::comm::unique_id().expect("an id");
    let id: String = id.0.iter().map(|b| format!("{b:02x}")).collect();
    let program = mortal().to_str().expect("text");
    (0..n)
        .map(|rank| {
            let mut env = [&[TIMEOUT, ZERO_COPY], env].concat();
            if dies(rank) {
                env.push(("PENNY_DIE_AT", order));
            }
            let arguments = [rank.to_string(), n.to_string(), id.clone()];
            let list = list(rank);
            let arguments = arguments.iter().chain(&list).map(String::as_str);
            start_program(rank, program, &Setting { env: &env, shell: "true" }, arguments)
        })
        .collect()
}

/// The first failure that a rank tells.
fn first_failure(rank: &mut Rank) -> Option<Failure> {
    // BOUND: what it says; a guard ends each wait.
    loop {
        match rank.try_next()? {
            Said::Ok(_) => {}
            Said::Failed(failure) => return Some(failure),
        }
    }
}

/// All but the dead rank are told who died, and end by themselves. Complains else.
fn told(ranks: &mut [Rank], dead: u32, about: &str, also: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    let pid = ranks[dead as usize].pid();
    for (r, rank) in ranks.iter_mut().enumerate().filter(|&(r, _)| r as u32 != dead) {
        // In a communicator of some ranks a rank has another number, and the same PID.
        let named = |text: &str| {
            let by_name = ["pid", "PID"].iter().any(|word| text.contains(&format!("({word} {pid}")));
            by_name || also.iter().any(|words| text.contains(words))
        };
        match first_failure(rank) {
            None => complaints.push(format!("{about}: rank {r} ends without an error")),
            Some(said) if said.code != REMOTE || !named(&said.sentence) => complaints.push(format!(
                "{about}: rank {r} says {} `{}` of the death of rank {dead} (pid {pid})",
                said.code, said.sentence
            )),
            Some(_) => {}
        }
        let ended = rank.outlast();
        if !ended.success() {
            complaints.push(format!("{about}: rank {r} ended with {ended}"));
        }
    }
    complaints
}

/// One death.
fn dies_at(point: &str, passage: u32, victim: u32, scene: &Scene) -> Vec<String> {
    let &Scene { what, count, env, heap, .. } = scene;
    let about = format!("{point}:{passage} in {what} {count}{}", if heap { " on the heap" } else { "" });
    let again = format!("loop {what} {count}");
    let list = |rank: u32| {
        let ending = ["destroy", "exit", "abort"][rank as usize % 3];
        let first: &[&str] = if heap { &["heap"] } else { &[] };
        // What failed is asked for once more, but for ids, to which survivors that have ended do not come.
        let twice: &[&str] = if what == "init" { &[] } else { &[&again] };
        acts(&[first, &["join", &again], twice, &[ending]].concat())
    };
    let mut ranks = start(RANKS, env, &format!("{point}:{passage}"), |rank| rank == victim, list);
    let mut complaints = told(&mut ranks, victim, &about, &[]);
    let _ = first_failure(&mut ranks[victim as usize]);
    match ranks[victim as usize].end() {
        Some(signal) if signal == Signal::SIGKILL as i32 => {}
        ended => complaints.push(format!("{about}: rank {victim} did not die there: {ended:?}")),
    }
    complaints
}

/// A hang or wrong bytes are a complaint too, and the other points still have their turn.
fn guarded(about: &str, trial: impl FnOnce() -> Vec<String>) -> Vec<String> {
    catch_unwind(AssertUnwindSafe(trial)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map_or("a panic", String::as_str);
        vec![format!("{about}: {text}")]
    })
}

fn verdict(name: &str, deaths: u32, complaints: &[String]) {
    println!("{name} {deaths} deaths, {} complaints", complaints.len());
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// The names of the table, read from the source: this test's library has none.
fn table() -> Vec<String> {
    let source =
        std::fs::read_to_string(penny_ffi_tests::root().join("src/die_points.rs")).expect("the table");
    let table =
        source.split("= table! {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the table");
    table.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

#[test]
fn a_death_at_any_point_is_told_to_all() {
    let _turn = turn();
    let before = leftovers();
    let (mut deaths, mut complaints) = (0, Vec::new());
    for (number, point) in table().iter().enumerate() {
        if APART.contains(&point.as_str()) || !chosen(point) {
            continue;
        }
        for (way, scene) in scenes(point).iter().enumerate() {
            for round in 0..times(2, 6) {
                let passage = scene.from + 2 * round;
                if scene.once && round > 0 {
                    continue;
                }
                let victim = scene.victim.unwrap_or((number + way) as u32 + round) % RANKS;
                let found = guarded(point, || dies_at(point, passage, victim, scene));
                found.iter().for_each(|complaint| println!("{complaint}"));
                complaints.extend(found);
                deaths += 1;
            }
        }
        println!("{point}: {deaths} deaths, {} complaints so far", complaints.len());
    }
    let left = still_there(&before);
    assert!(left.is_empty(), "left behind: {left:?}");
    verdict("die_points", deaths, &complaints);
}

#[test]
fn a_death_at_any_point_of_the_first_join_is_told_to_all() {
    let _turn = turn();
    let (mut deaths, mut complaints) = (0, Vec::new());
    let joins = |point: &&String| {
        let first = ["join_", "attach_", "keeper_word", "keeper_linked"];
        first.iter().any(|begin| point.starts_with(begin)) && *point != "join_prepared" && chosen(point)
    };
    for (number, point) in table().iter().filter(joins).enumerate() {
        for (way, env) in [&[][..], &[MACHINE]].into_iter().enumerate() {
            // Rank 0 of a declared machine has its life kept at the clock before anybody has heard of it.
            let victim = if way == 1 { 1 + number as u32 % 2 } else { number as u32 % RANKS };
            let list = |_| acts(&["join", "loop all_reduce 16", "exit"]);
            found(&mut complaints, point, || {
                let mut ranks = start(RANKS, env, &format!("{point}:1"), |rank| rank == victim, list);
                told(&mut ranks, victim, &format!("{point} of the first join"), &[])
            });
            deaths += 1;
        }
    }
    verdict("die_points_of_the_first_join", deaths, &complaints);
}

fn found(complaints: &mut Vec<String>, about: &str, trial: impl FnOnce() -> Vec<String>) {
    let found = guarded(about, trial);
    found.iter().for_each(|complaint| println!("{complaint}"));
    complaints.extend(found);
}

#[test]
fn a_death_at_any_point_of_an_abort_is_told_to_all() {
    let _turn = turn();
    let mut complaints = Vec::new();
    for (number, point) in ["abort_begun", "abort_told", "abort_rung"].into_iter().enumerate() {
        let victim = number as u32 % RANKS;
        let list = |rank: u32| match rank == victim {
            true => acts(&["join", "repeat 3 all_reduce 16", "abort"]),
            false => acts(&["join", "loop all_reduce 16", "exit"]),
        };
        found(&mut complaints, point, || {
            let mut ranks = start(RANKS, &[], &format!("{point}:1"), |rank| rank == victim, list);
            told(&mut ranks, victim, point, &[&format!("rank {victim} aborted")])
        });
    }
    verdict("die_points_of_an_abort", 3, &complaints);
}

#[test]
fn a_death_while_a_rank_gives_up_is_told_to_the_others() {
    let _turn = turn();
    let mut complaints = Vec::new();
    for point in ["fail_cause", "fail_call", "fail_state", "fail_counted"] {
        // Rank 1 waits for rank 0, which sleeps, until its deadline; and dies while it tells that it has given up.
        let list = |rank: u32| match rank {
            0 => acts(&["join", "call all_reduce 16", "sleep 2500", "call all_reduce 100000", "exit"]),
            _ => acts(&["join", "call all_reduce 16", "call all_reduce 100000", "exit"]),
        };
        found(&mut complaints, point, || {
            let env = [("PENNY_TIMEOUT", "1")];
            let mut ranks = start(2, &env, &format!("{point}:1"), |rank| rank == 1, list);
            told(&mut ranks, 1, point, &[])
        });
    }
    verdict("die_points_of_giving_up", 4, &complaints);
}

#[test]
fn a_death_while_a_rank_notes_anothers_death_is_told_to_the_third() {
    let _turn = turn();
    let mut complaints = Vec::new();
    for _ in 0..times(3, 20) {
        found(&mut complaints, "death_noted", || {
            let list = |_| acts(&["join", "call all_reduce 16", "loop all_reduce 16", "exit"]);
            let mut ranks = start(RANKS, &[], "death_noted:1", |rank| rank == 1, list);
            for rank in &mut ranks {
                ["join", "call all_reduce 16"].iter().for_each(|act| rank.did(act));
            }
            ranks[2].kill();
            let also = format!("rank 1 (pid {}) died", ranks[1].pid());
            let third = &mut ranks[..];
            let said = first_failure(&mut third[0]);
            let first = format!("rank 2 (pid {}) died", third[2].pid());
            let named = |said: &Failure| said.sentence.contains(&first) || said.sentence.contains(&also);
            match said {
                Some(said) if said.code == REMOTE && named(&said) => Vec::new(),
                said => vec![format!("death_noted: rank 0 says {said:?}")],
            }
        });
    }
    verdict("die_points_of_a_note", 3, &complaints);
}

#[test]
fn a_death_while_a_rank_writes_why_a_machine_halts_is_told_to_all() {
    let _turn = turn();
    let mut complaints = Vec::new();
    for point in ["halt_writing", "halt_written"] {
        found(&mut complaints, point, || {
            let list = |_| acts(&["join", "call all_reduce 16", "call deadlock 1", "exit"]);
            // Whichever rank finds the deadlock dies: only the first one to find it writes.
            let mut ranks = start(RANKS, &[MACHINE], &format!("{point}:1"), |_| true, list);
            let verdicts: Vec<Option<Failure>> = ranks.iter_mut().map(first_failure).collect();
            let dead: Vec<usize> =
                (0..).zip(&verdicts).filter(|(_, v)| v.is_none()).map(|(r, _)| r).collect();
            let [dead] = dead[..] else { return vec![format!("{point}: {dead:?} died: {verdicts:?}")] };
            let named = format!("rank {dead} (pid {}", ranks[dead].pid());
            let right = |said: &Failure| said.code == REMOTE && said.sentence.contains(&named);
            let wrong = verdicts.iter().flatten().filter(|said| !right(said));
            wrong.map(|said| format!("{point}: instead of `{named}`: {said:?}")).collect()
        });
    }
    verdict("die_points_of_a_halt", 2, &complaints);
}
