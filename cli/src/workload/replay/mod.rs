//! Plays a workload on a declared machine: devices compute, and the engine carries the calls, all of them over the same ports.
//!
//! ```text
//!     nodes that are over --> nodes that can begin --> device: one interval at a time
//!            ^                                    '--> call: waits for its last rank, then the engine has it
//!            '---- when the engine or the device is done with them -----'
//! ```
//!
//! The engine is asked only for what happens before the next thing that a rank does, so that no call comes late. A collective
//! moves nothing before its last rank has come; ranks that came before it have been launched by then. A message sets out when its
//! sender is there; a receive that comes later finds it. Puts and signals: `one_sided.rs`.

mod mail;
mod one_sided;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use penny::internals::fabric::world::World;
use penny::sim::topology::{DeviceSpec, Network};

use super::check::{Matches, Part};
use super::compute::ComputeRule;
use super::pricing::{Carried, Carrier};
use super::program::{Signal, Work, Workload};
use mail::Mail;
use one_sided::{Counters, PutUnderWay};

/// The times of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTimes {
    /// All that it comes after is over.
    pub ready_ps: u64,
    /// It is being done: the device has begun, or a call's last rank has come.
    pub begin_ps: u64,
    /// It is over.
    pub end_ps: u64,
}

/// A workload that was played.
pub struct Played {
    /// By rank and node.
    pub times: Vec<Vec<NodeTimes>>,
    /// How each call was carried.
    pub carried: Vec<Rc<Carried>>,
}

/// A machine and the rules by which a workload is played on it.
pub struct Stage<'a> {
    pub network: &'a Network,
    /// The place of each rank.
    pub places: &'a [u32],
    pub rule: &'a ComputeRule,
    pub device: Option<DeviceSpec>,
}

/// Plays the workload.
pub fn play(
    workload: &Workload,
    matches: &Matches,
    stage: &Stage<'_>,
    carrier: &mut Carrier<'_>,
) -> Result<Played, String> {
    let carried = matches.calls.iter().map(|matched| {
        let ranks = &workload.groups[matched.call.group as usize].ranks;
        let places: Vec<u32> = ranks.iter().map(|&rank| stage.places[rank as usize]).collect();
        carrier.collective(matched.call, &places)
    });
    let carried = carried.collect::<Result<Vec<_>, _>>()?;
    let mut sizes: HashMap<u64, Rc<Carried>> = HashMap::new();
    let messages = matches.messages.iter();
    let messages = messages.map(|message| {
        sizes.entry(message.bytes).or_insert_with(|| Rc::new(carrier.message(message.bytes))).clone()
    });
    let messages = messages.collect();
    for (rank, program) in workload.ranks.iter().enumerate() {
        for (node, work) in (0..).zip(program.nodes.iter().map(|node| &node.work)) {
            let Work::Put(put) = work else { continue };
            one_sided::check_threads(put, stage.network)
                .map_err(|why| format!("{}: {why}", workload.named(rank, node)))?;
            sizes.entry(put.bytes).or_insert_with(|| Rc::new(carrier.message(put.bytes)));
        }
    }
    let mut player = Player::new(workload, matches, stage, &carried, messages, sizes);
    player.run()?;
    let times = player.times;
    Ok(Played { times, carried })
}

/// What the engine carries.
#[derive(Clone, Copy)]
enum Admitted {
    Call(u32),
    Message(u32),
    /// The way of a put of a rank, by its node, to one other.
    Copy(u32, u32),
}

/// A processor of a rank: its device, or its host.
#[derive(Default)]
struct Processor {
    is_busy: bool,
    waiting: BTreeSet<u32>,
}

/// Returns which processor does a work; `None`: none.
fn processor(work: &Work) -> Option<usize> {
    match work {
        Work::Compute(_) => Some(0),
        Work::Host(_) => Some(1),
        Work::Call(_)
        | Work::Send(_)
        | Work::Recv(_)
        | Work::Put(_)
        | Work::Wait { .. }
        | Work::Free(_)
        | Work::Nothing => None,
    }
}

struct Player<'a> {
    workload: &'a Workload,
    matches: &'a Matches,
    stage: &'a Stage<'a>,
    carried: &'a [Rc<Carried>],
    messages: Vec<Rc<Carried>>,
    /// How puts are carried, by their bytes.
    sizes: HashMap<u64, Rc<Carried>>,
    counters: Counters,
    mail: Mail,
    /// Puts that begin at this moment, by rank and node.
    setting_out: Vec<(u32, u32)>,
    /// By rank and node.
    puts: HashMap<(u32, u32), PutUnderWay>,
    world: World,
    admitted: Vec<Admitted>,
    times: Vec<Vec<NodeTimes>>,
    /// By rank and node: the nodes that come after it.
    followers: Vec<Vec<Vec<u32>>>,
    /// By rank and node: what it still waits for.
    missing: Vec<Vec<u32>>,
    /// Of each rank the device and the host.
    processors: Vec<[Processor; 2]>,
    /// Members of each call that have not come.
    absent: Vec<u32>,
    /// When the engine is done with a receive's message, and whether its rank is there.
    arrivals: Vec<(Option<u64>, bool)>,
    /// Nodes that are over at a time.
    over: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl<'a> Player<'a> {
    fn new(
        workload: &'a Workload,
        matches: &'a Matches,
        stage: &'a Stage<'a>,
        carried: &'a [Rc<Carried>],
        messages: Vec<Rc<Carried>>,
        sizes: HashMap<u64, Rc<Carried>>,
    ) -> Player<'a> {
        let programs = &workload.ranks;
        let mut followers: Vec<Vec<Vec<u32>>> =
            programs.iter().map(|program| vec![Vec::new(); program.nodes.len()]).collect();
        for (program, followers) in programs.iter().zip(&mut followers) {
            for (index, node) in (0..).zip(&program.nodes) {
                node.after.iter().for_each(|&before| followers[before as usize].push(index));
            }
        }
        let missing = |program: &super::program::RankProgram| {
            program.nodes.iter().map(|node| node.after.len() as u32).collect()
        };
        Player {
            workload,
            matches,
            stage,
            carried,
            world: World::new(Arc::new(stage.network.clone())),
            admitted: Vec::new(),
            times: programs.iter().map(|program| vec![NodeTimes::default(); program.nodes.len()]).collect(),
            followers,
            missing: programs.iter().map(missing).collect(),
            processors: programs.iter().map(|_| Default::default()).collect(),
            absent: matches.calls.iter().map(|call| call.nodes.len() as u32).collect(),
            arrivals: vec![(None, false); messages.len()],
            messages,
            sizes,
            counters: Counters::of(workload),
            mail: Mail::default(),
            setting_out: Vec::new(),
            puts: HashMap::new(),
            over: BinaryHeap::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for rank in 0..self.workload.ranks.len() {
            for node in 0..self.missing[rank].len() {
                if self.missing[rank][node] == 0 {
                    self.ready(rank as u32, node as u32, 0)?;
                }
            }
            self.compute(rank as u32, 0)?;
        }
        self.set_out(0)?;
        // BOUND: one turn for each node that is over and each member that the engine is done with.
        loop {
            let next_ps = self.over.peek().map_or(u64::MAX, |Reverse((at_ps, ..))| *at_ps);
            let finished = self.world.advance(next_ps).map_err(|e| e.message.clone())?;
            if let Some(finished) = finished {
                self.finished(self.admitted[finished.call as usize], finished.member, finished.exit_ps)?;
                continue;
            }
            let Some(Reverse((now_ps, ..))) = self.over.peek().copied() else { return self.ended() };
            // All that is over at this moment comes before what the devices do next.
            let mut touched = BTreeSet::new();
            while let Some(&Reverse((at_ps, rank, node))) = self.over.peek()
                && at_ps == now_ps
            {
                self.over.pop();
                touched.insert(rank);
                self.end(rank, node, now_ps)?;
            }
            for rank in touched {
                self.compute(rank, now_ps)?;
            }
            self.set_out(now_ps)?;
        }
    }

    fn work(&self, rank: u32, node: u32) -> &'a Work {
        &self.workload.ranks[rank as usize].nodes[node as usize].work
    }

    fn times(&mut self, rank: u32, node: u32) -> &mut NodeTimes {
        &mut self.times[rank as usize][node as usize]
    }

    /// A node is over.
    fn end(&mut self, rank: u32, node: u32, now_ps: u64) -> Result<(), String> {
        self.times(rank, node).end_ps = now_ps;
        self.give_signals(rank, node, now_ps)?;
        if let Some(processor) = processor(self.work(rank, node)) {
            self.processors[rank as usize][processor].is_busy = false;
        }
        for index in 0..self.followers[rank as usize][node as usize].len() {
            let follower = self.followers[rank as usize][node as usize][index];
            let missing = &mut self.missing[rank as usize][follower as usize];
            *missing -= 1;
            if *missing == 0 {
                self.ready(rank, follower, now_ps)?;
            }
        }
        Ok(())
    }

    /// A node can begin.
    fn ready(&mut self, rank: u32, node: u32, now_ps: u64) -> Result<(), String> {
        *self.times(rank, node) = NodeTimes { ready_ps: now_ps, begin_ps: now_ps, end_ps: now_ps };
        match (self.matches.parts[rank as usize][node as usize], self.work(rank, node)) {
            (Part::Call(call, _), _) => {
                self.absent[call as usize] -= 1;
                if self.absent[call as usize] == 0 {
                    self.call(call, now_ps)?;
                }
            }
            (Part::Send(message), _) => self.send(message, now_ps)?,
            (Part::Recv(message), _) => {
                let (arrived, is_there) = &mut self.arrivals[message as usize];
                *is_there = true;
                if let Some(arrived_ps) = *arrived {
                    self.over.push(Reverse((arrived_ps.max(now_ps), rank, node)));
                }
            }
            (Part::Alone, Work::Put(put)) => self.claim(rank, node, put, now_ps)?,
            (Part::Alone, Work::Free(free)) => self.free(rank, node, *free, now_ps)?,
            (Part::Alone, &Work::Wait { counter, count }) => {
                let wait = Signal { rank, counter, count };
                self.wait((rank, node), wait, now_ps)?;
            }
            (Part::Alone, work) => match processor(work) {
                Some(processor) => {
                    self.processors[rank as usize][processor].waiting.insert(node);
                }
                None => self.over.push(Reverse((now_ps, rank, node))),
            },
        }
        Ok(())
    }

    /// The processors of a rank that are free begin with the first work that waits for them.
    fn compute(&mut self, rank: u32, now_ps: u64) -> Result<(), String> {
        for index in 0..2 {
            let processor = &mut self.processors[rank as usize][index];
            if processor.is_busy {
                continue;
            }
            let Some(node) = processor.waiting.pop_first() else { continue };
            processor.is_busy = true;
            let time_ps = match self.work(rank, node) {
                Work::Compute(interval) => self.stage.rule.time_ps(*interval, self.stage.device),
                Work::Host(time_ps) => *time_ps,
                _ => 0,
            };
            self.times(rank, node).begin_ps = now_ps;
            let end_ps = self.after(now_ps, time_ps)?;
            self.over.push(Reverse((end_ps, rank, node)));
        }
        Ok(())
    }

    /// All ranks of a call have come.
    fn call(&mut self, call: u32, now_ps: u64) -> Result<(), String> {
        let matched = &self.matches.calls[call as usize];
        let ranks = &self.workload.groups[matched.call.group as usize].ranks;
        let carried = &self.carried[call as usize];
        let (mut places, mut entry_ps) = (Vec::new(), Vec::new());
        for (&rank, &node) in ranks.iter().zip(&matched.nodes) {
            places.push(self.stage.places[rank as usize]);
            let times = &mut self.times[rank as usize][node as usize];
            times.begin_ps = now_ps;
            entry_ps.push(times.ready_ps.saturating_add(carried.launch_ps).max(now_ps));
        }
        self.admit(Admitted::Call(call), &carried.clone(), &places, &entry_ps)
    }

    fn send(&mut self, message: u32, now_ps: u64) -> Result<(), String> {
        let matched = &self.matches.messages[message as usize];
        let places = [matched.from, matched.to].map(|rank| self.stage.places[rank as usize]);
        let carried = self.messages[message as usize].clone();
        let at_ps = self.after(now_ps, carried.launch_ps)?;
        // The receive is being done from now on, or from when its rank comes.
        let recv = &mut self.times[matched.to as usize][matched.recv as usize];
        recv.begin_ps = recv.begin_ps.max(now_ps);
        self.admit(Admitted::Message(message), &carried, &places, &[at_ps, at_ps])
    }

    fn admit(
        &mut self,
        what: Admitted,
        carried: &Carried,
        places: &[u32],
        entry_ps: &[u64],
    ) -> Result<(), String> {
        self.world.admit(&carried.shared, places, entry_ps).map_err(|e| e.message.clone())?;
        self.admitted.push(what);
        Ok(())
    }

    /// The engine is done with a member of a call.
    fn finished(&mut self, what: Admitted, member: u32, exit_ps: u64) -> Result<(), String> {
        match what {
            Admitted::Copy(..) if member == 0 => {}
            Admitted::Copy(rank, node) => self.arrived(rank, node, exit_ps)?,
            Admitted::Call(call) => {
                let matched = &self.matches.calls[call as usize];
                let rank = self.workload.groups[matched.call.group as usize].ranks[member as usize];
                self.over.push(Reverse((exit_ps, rank, matched.nodes[member as usize])));
            }
            Admitted::Message(message) => {
                let matched = &self.matches.messages[message as usize];
                if member == 0 {
                    self.over.push(Reverse((exit_ps, matched.from, matched.send)));
                    return Ok(());
                }
                let (arrived, is_there) = &mut self.arrivals[message as usize];
                *arrived = Some(exit_ps);
                if *is_there {
                    self.over.push(Reverse((exit_ps, matched.to, matched.recv)));
                }
            }
        }
        Ok(())
    }

    fn after(&self, now_ps: u64, time_ps: u64) -> Result<u64, String> {
        let sum = now_ps.checked_add(time_ps).filter(|&at_ps| at_ps < u64::MAX);
        sum.ok_or_else(|| format!("{} takes longer than 2^64 picoseconds", self.workload.name))
    }
}
