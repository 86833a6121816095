//! Ranks that make calls of 25 kinds through the C interface (src/bin/fuzz/victim.rs), of which one is killed or
//! stopped: all survivors name it, and none hangs.
//!
//! What is random follows from `KILLS_SEED`, drawn and printed unless set. `KILLS_KIND=shmem` plays one kind alone.

use crate::ranks::{Failure, Rank, Said, Setting, now_ns, random, start_program, times, turn};
use penny_ffi_tests::library;
use std::time::Duration;

const REMOTE: i32 = 6;
const TIMEOUT: i32 = 8;

/// The kinds of calls that go on until they fail.
const KINDS: [&str; 25] = [
    "all_reduce",
    "reduce",
    "broadcast",
    "bcast",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "gather",
    "scatter",
    "permute",
    "vector",
    "scaled",
    "hook",
    "barrier",
    "transfer",
    "exchange",
    "group",
    "streams",
    "split",
    "divide",
    "window",
    "shmem",
    "mailbox",
    "semaphore",
    "all",
];

/// The kind of calls of a trial.
fn kind_of(number: u64) -> String {
    std::env::var("KILLS_KIND").unwrap_or_else(|_| KINDS[number as usize % KINDS.len()].to_owned())
}

/// Random numbers that can be had again.
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        let seed = std::env::var("KILLS_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| random(1_000_000_000));
        println!("KILLS_SEED={seed}");
        Chance(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A communicator's ranks, and the folder in which they find its id.
struct Job {
    ranks: Vec<Rank>,
    _dir: tempfile::TempDir,
    /// For messages.
    about: String,
}

/// Starts ranks that repeat one kind of call.
fn start(kind: &str, n: u64, seed: u64, setting: &Setting<'_>) -> Job {
    let id = penny::internals::comm::unique_id().expect("an id");
    start_by(&id, kind, n, seed, |_| setting.shell.to_owned(), setting.env)
}

/// The same with an id, and what a shell does before it becomes a rank.
fn start_by(
    id: &penny::internals::bootstrap::UniqueId,
    kind: &str,
    n: u64,
    seed: u64,
    shell: impl Fn(u32) -> String,
    env: &[(&str, &str)],
) -> Job {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("id"), id.0).expect("it is ours");
    let library = library::dir().join("libpenny.so");
    let (library, folder) = (library.to_str().expect("text"), dir.path().to_str().expect("text"));
    let (seed, count) = (seed.to_string(), n.to_string());
    let ranks = (0..n as u32)
        .map(|rank| {
            let number = rank.to_string();
            let arguments = ["--victim", kind, "--process", &number, "--ranks", &count, "--seed", &seed];
            let further = ["--dir", folder, "--library", library];
            let fuzz = env!("CARGO_BIN_EXE_fuzz");
            let setting = Setting { env, shell: &shell(rank) };
            start_program(rank, fuzz, &setting, arguments.into_iter().chain(further))
        })
        .collect();
    Job { ranks, _dir: dir, about: format!("{kind} on {n} ranks, seed {seed}") }
}

impl Job {
    /// Checks that all ranks have done this. A panic follows the trial's seed in the output.
    fn did(&mut self, acts: &[&str]) {
        println!("{}", self.about);
        for rank in &mut self.ranks {
            acts.iter().for_each(|act| rank.did(act));
        }
    }

    /// What each survivor says first that is not that something was done; `None` where it came through.
    fn verdicts(&mut self, victim: usize) -> Vec<(usize, Option<Failure>)> {
        let mut verdicts = Vec::new();
        for (r, rank) in self.ranks.iter_mut().enumerate().filter(|&(r, _)| r != victim) {
            let verdict = loop {
                match rank.try_next() {
                    None => break None,
                    Some(Said::Ok(_)) => {}
                    Some(Said::Failed(failure)) => break Some(failure),
                }
            };
            verdicts.push((r, verdict));
        }
        verdicts
    }
}

/// What is found in many trials: complaints, and the times that the last survivors took.
#[derive(Default)]
struct Findings {
    trials: u32,
    wrong: Vec<String>,
    last: Vec<u64>,
}

impl Findings {
    fn report(mut self, name: &str) {
        self.last.sort_unstable();
        let ms = |share: usize| {
            let at = (self.last.len() * share / 100).min(self.last.len().saturating_sub(1));
            self.last.get(at).map_or(0.0, |&ns| ns as f64 / 1e6)
        };
        let (p50, p99, max) = (ms(50), ms(99), ms(100));
        println!(
            "{name}: {} trials, {} timed, last survivor p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms",
            self.trials,
            self.last.len()
        );
        let wrong = self.wrong.len();
        assert!(wrong == 0, "{wrong} complaints in {} trials:\n{}", self.trials, self.wrong.join("\n"));
    }

    /// Kills some rank within `most_us` microseconds of the first call, and looks at what the survivors say.
    fn hold_after_kill(&mut self, job: &mut Job, chance: &mut Chance, most_us: u64, must_fail: bool) {
        job.did(&["begin", "join", "call"]);
        std::thread::sleep(Duration::from_micros(chance.below(most_us)));
        let victim = chance.below(job.ranks.len() as u64) as usize;
        let since = now_ns();
        job.ranks[victim].kill();
        self.hold(job, victim, since, must_fail, &[REMOTE]);
    }

    /// Every survivor must have failed and named the victim.
    fn hold(&mut self, job: &mut Job, victim: usize, since: u64, must_fail: bool, codes: &[i32]) {
        self.trials += 1;
        let pid = format!("(pid {}", job.ranks[victim].pid());
        let mut last = None;
        let before = self.wrong.len();
        for (r, verdict) in job.verdicts(victim) {
            match verdict {
                None if !must_fail => {}
                None => self.wrong.push(format!("{}: rank {r} came through", job.about)),
                Some(said) => {
                    if !codes.contains(&said.code) || !said.sentence.contains(&pid) {
                        let (about, code) = (&job.about, said.code);
                        let sentence = &said.sentence;
                        self.wrong.push(format!(
                            "{about}: rank {r} says {code} `{sentence}`, rank {victim} {pid})"
                        ));
                    }
                    let took = said.returned.saturating_sub(since.max(said.entered));
                    last = last.max(Some(took));
                }
            }
        }
        if self.wrong.len() > before && codes == [REMOTE] {
            // A rank that has failed before it was killed is another matter.
            let said = std::iter::from_fn(|| job.ranks[victim].try_next());
            self.wrong.extend(said.map(|said| format!("rank {victim} said before: {said:?}")));
        }
        self.last.extend(last);
    }
}

#[test]
fn survivors_of_a_kill_in_any_kind_of_call_name_the_dead() {
    let _turn = turn();
    let (mut chance, mut found) = (Chance::new(), Findings::default());
    for trial in 0..times(44, 880) {
        let n = 2 + chance.below(4);
        let setting = Setting { env: &[], shell: "true" };
        let mut job = start(&kind_of(trial.into()), n, chance.below(1 << 30), &setting);
        found.hold_after_kill(&mut job, &mut chance, 8_000, true);
    }
    found.report("kills_in_calls");
}

/// Kinds of calls of the communicator that all ranks share, and of no other one, that leave nothing queued when they fail.
const OF_ALL: [&str; 10] = [
    "all_reduce",
    "broadcast",
    "alltoall",
    "gather",
    "barrier",
    "transfer",
    "exchange",
    "permute",
    "scatter",
    "mailbox",
];

impl Findings {
    /// Kills a rank in the midst of a call. The others see the call fail, shrink the communicator, and go on.
    fn hold_survivors(&mut self, job: &mut Job, chance: &mut Chance, how: &str) {
        job.did(&["begin", "join", "call"]);
        std::thread::sleep(Duration::from_micros(chance.below(8_000)));
        let victim = chance.below(job.ranks.len() as u64) as usize;
        let killed = now_ns();
        job.ranks[victim].kill();
        self.trials += 1;
        let mut last = 0;
        for (r, rank) in job.ranks.iter_mut().enumerate().filter(|&(r, _)| r != victim) {
            // The call that fails, and the barrier behind it.
            let both = [rank.try_next(), rank.try_next()];
            if !both.iter().all(|said| matches!(said, Some(Said::Failed(_)))) {
                self.wrong.push(format!("{} ({how}): rank {r} says {both:?}", job.about));
                continue;
            }
            match (rank.next(), rank.try_next()) {
                (Said::Ok(shrunk), Some(Said::Ok(end))) if end == "survive" => {
                    let at = shrunk.rsplit(' ').next().and_then(|at| at.parse().ok()).unwrap_or(u64::MAX);
                    last = last.max(at.saturating_sub(killed));
                }
                said => self.wrong.push(format!("{} ({how}): rank {r} says {said:?}", job.about)),
            }
        }
        self.last.push(last);
    }
}

#[test]
fn survivors_of_a_kill_go_on_in_a_smaller_communicator() {
    let _turn = turn();
    let (mut chance, mut found) = (Chance::new(), Findings::default());
    for trial in 0..times(20, 400) {
        let n = 3 + chance.below(3);
        let how = ["default", "abort"][trial as usize / OF_ALL.len() % 2];
        let setting = Setting { env: &[("SURVIVE", how)], shell: "true" };
        let kind = OF_ALL[trial as usize % OF_ALL.len()];
        let mut job = start(kind, n, chance.below(1 << 30), &setting);
        found.hold_survivors(&mut job, &mut chance, how);
    }
    found.report("kills_survived");
}

#[test]
fn survivors_of_a_kill_while_ranks_join_name_the_dead_or_the_missing() {
    let _turn = turn();
    let (mut chance, mut found) = (Chance::new(), Findings::default());
    for _ in 0..times(8, 60) {
        let n = 2 + chance.below(4);
        // A rank that dies before it has said that it is there can only be missing.
        let setting = Setting { env: &[("PENNY_TIMEOUT", "3")], shell: "true" };
        let mut job = start("init", n, chance.below(1 << 30), &setting);
        let victim = chance.below(n) as usize;
        job.ranks[victim].did("begin");
        std::thread::sleep(Duration::from_micros(chance.below(6_000)));
        let since = now_ns();
        job.ranks[victim].kill();
        found.trials += 1;
        let mut last = None;
        let (pid, number) = (format!("(pid {}", job.ranks[victim].pid()), format!("rank {victim}"));
        for (r, verdict) in job.verdicts(victim) {
            let right = verdict.as_ref().is_some_and(|said| match said.code {
                REMOTE => said.sentence.contains(&pid) || said.sentence.contains(&number),
                TIMEOUT => said.sentence.contains(&number) || said.sentence.contains(&format!(": {victim}")),
                _ => false,
            });
            if let Some(said) = verdict.as_ref().filter(|said| said.code == REMOTE) {
                last = last.max(Some(said.returned.saturating_sub(since.max(said.entered))));
            }
            if !right {
                found.wrong.push(format!("{}: rank {r} says {verdict:?}, rank {victim} {pid})", job.about));
            }
        }
        found.last.extend(last);
    }
    found.report("kills_in_init");
}

#[test]
fn survivors_of_a_kill_while_ranks_leave_come_through_or_name_the_dead() {
    let _turn = turn();
    let (mut chance, mut found) = (Chance::new(), Findings::default());
    for _ in 0..times(8, 60) {
        let n = 2 + chance.below(4);
        let setting = Setting { env: &[], shell: "true" };
        let mut job = start("destroy", n, chance.below(1 << 30), &setting);
        found.hold_after_kill(&mut job, &mut chance, 400, false);
    }
    found.report("kills_in_destroy");
}

#[test]
fn survivors_of_a_stop_in_any_kind_of_call_blame_the_stopped_rank() {
    let _turn = turn();
    let (mut chance, mut found) = (Chance::new(), Findings::default());
    for trial in 0..times(6, 100) {
        let n = 2 + chance.below(4);
        let kind = kind_of(u64::from(trial) * 7 + chance.below(22));
        let setting = Setting { env: &[("PENNY_TIMEOUT", "2")], shell: "true" };
        let mut job = start(&kind, n, chance.below(1 << 30), &setting);
        job.did(&["begin", "join", "call"]);
        std::thread::sleep(Duration::from_micros(chance.below(8_000)));
        let victim = chance.below(n) as usize;
        job.ranks[victim].signal(nix::sys::signal::Signal::SIGSTOP);
        found.hold(&mut job, victim, now_ns(), true, &[REMOTE, TIMEOUT]);
        job.ranks[victim].kill();
    }
    found.report("stops");
}

#[test]
fn survivors_of_a_kill_on_another_host_name_the_dead() {
    let _turn = turn();
    let carriers = penny_ffi_tests::hosts::carriers();
    let (mut chance, mut found) = (Chance::new(), Findings::default());
    for trial in 0..times(25, 200) {
        let n = 2 + chance.below(3);
        let id = penny::internals::bootstrap::create_id_for_hosts().expect("an id");
        let hosts = 2 + chance.below(n - 1) as u32;
        let shell = |rank: u32| format!("export PENNY_HOST_ID=h{}", rank % hosts);
        let carrier = &carriers[trial as usize / 2 % carriers.len()];
        let env = Vec::from_iter(carrier.iter().map(|(name, value)| (*name, &**value)));
        let kind = KINDS[trial as usize % KINDS.len()];
        let mut job = start_by(&id, kind, n, chance.below(1 << 30), shell, &env);
        found.hold_after_kill(&mut job, &mut chance, 8_000, true);
    }
    found.report("kills_on_several_hosts");
}

#[test]
fn survivors_of_a_kill_on_another_host_go_on_in_a_smaller_communicator() {
    let _turn = turn();
    let carriers = penny_ffi_tests::hosts::carriers();
    let (mut chance, mut found) = (Chance::new(), Findings::default());
    for trial in 0..times(10, 200) {
        let n = 3 + chance.below(3);
        let id = penny::internals::bootstrap::create_id_for_hosts().expect("an id");
        let hosts = 2 + chance.below(n - 1) as u32;
        let shell = |rank: u32| format!("export PENNY_HOST_ID=h{}", rank % hosts);
        let how = ["default", "abort"][trial as usize / OF_ALL.len() % 2];
        let carrier = carriers[trial as usize / 2 % carriers.len()].iter();
        let env = Vec::from_iter(carrier.map(|(name, value)| (*name, &**value)).chain([("SURVIVE", how)]));
        let kind = OF_ALL[trial as usize % OF_ALL.len()];
        let mut job = start_by(&id, kind, n, chance.below(1 << 30), shell, &env);
        found.hold_survivors(&mut job, &mut chance, how);
    }
    found.report("kills_survived_on_several_hosts");
}
