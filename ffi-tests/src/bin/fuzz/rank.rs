//! One process of a job: a thread for each of its ranks, which join and play the program.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::actor::{Actor, Failure, NULL, Outcome, Place, Plant, Shared, call};
use crate::api::{Comm, Config, Penny, UniqueId};
use crate::buffer::Arena;
use crate::joining::{begun, in_background, until_made};
use crate::play::play;
use crate::program::Program;
use crate::random::Random;

/// Plays the ranks of process `process`.
pub fn process(
    library: &Path,
    program: &Program,
    process: usize,
    dir: &Path,
    plant: Option<Plant>,
    trace: bool,
) {
    let penny = Penny::load(library).unwrap_or_else(|problem| panic!("{problem}"));
    let shared = Shared { program, plant, planted: AtomicBool::new(false), dir, trace, killed: false };
    std::thread::scope(|scope| {
        for rank in (0..program.ranks).filter(|rank| rank % program.processes == process) {
            let (penny, shared) = (&penny, &shared);
            scope.spawn(move || {
                let mut actor = Actor::new(penny, shared, rank, 0);
                if let Err(failure) = life(&mut actor) {
                    actor.give_up(&failure);
                }
                actor.enter("the end");
            });
        }
    });
}

fn life(actor: &mut Actor<'_>) -> Outcome {
    let program = actor.shared.program;
    let text = |text: &Option<String>| text.clone().map(|text| CString::new(text).expect("no 0 within"));
    let (algo, fabric) = (text(&program.algo), text(&program.fabric));
    let mut config = Config::new();
    config.timeout_ms = 40_000;
    if program.background {
        in_background(&mut config);
    }
    config.algo = algo.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    config.fabric = fabric.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    let config: *const Config = &config;
    let mut comm = Comm(NULL);
    let to: *mut Comm = &mut comm;
    let (n, rank) = (program.ranks as i32, actor.rank as i32);
    let made = if program.launched {
        call!(actor, pennyCommInitFromEnv(to, config))
    } else {
        let id = id(actor)?;
        call!(actor, pennyCommInitRankConfig(to, n, id, rank, config))
    };
    let mut random = Random::of(&[program.seed, rank as u64, 17]);
    if begun(made, program.background)? {
        until_made(actor, comm, &mut random)?;
    }
    let members = Arc::new((0..program.ranks).collect());
    let background = program.background;
    actor.places.push(Some(Place { comm, background, members, me: actor.rank }));
    if random.chance(30) {
        actor.arena = Some(Arena::new(actor, comm, &mut random)?);
    }
    play(actor, &program.steps)?;
    if let Some(arena) = actor.arena.take() {
        arena.end(actor)?;
    }
    call!(actor, pennyCommDestroy(comm))
}

/// Rank 0 makes the id and leaves it in the job's folder.
fn id(actor: &mut Actor<'_>) -> Outcome<UniqueId> {
    let path = actor.shared.dir.join("id");
    if actor.rank == 0 {
        let mut id = UniqueId([0; 128]);
        let to: *mut UniqueId = &mut id;
        call!(actor, pennyGetUniqueId(to))?;
        let new = actor.shared.dir.join("id.new");
        let told = std::fs::write(&new, id.0).and_then(|()| std::fs::rename(&new, &path));
        told.map_err(|e| Failure::wrong(format!("the id cannot be told: {e}")))?;
        return Ok(id);
    }
    actor.enter("waits for the id");
    // BOUND: the driver ends a job that hangs.
    loop {
        if let Some(bytes) = std::fs::read(&path).ok().and_then(|bytes| bytes.try_into().ok()) {
            return Ok(UniqueId(bytes));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
