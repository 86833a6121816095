//! A random program: a tree of steps that follows from a seed, known to all ranks. What a step does in detail follows from
//! its salt alone, so that steps can be left out without changing the others.

use std::collections::BTreeSet;

use crate::collective::What;
use crate::random::Random;
use crate::setting::{ENVIRONMENTS, MACHINES, draw_methods};

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Collective,
    /// A collective whose blocks have sizes of their own.
    Vector,
    /// A sum of scaled inputs.
    Scaled,
    /// A send and its receive, outside of a group.
    Transfer,
    /// Sends and receives between many, in a group.
    Exchange,
    /// The inner steps in one group.
    Group,
    /// The inner steps on streams, with events.
    Streams,
    /// A split or a division into groups; the inner steps run on all communicators there are.
    Split,
    /// Communicators for several threads of each rank; each inner step is a `Lane`.
    Threads,
    /// What one thread does.
    Lane,
    /// The inner steps while the thread has a progress hook.
    Hook,
    /// Arguments that are refused.
    Wrong,
    /// One rank calls otherwise than the others.
    Disagree,
    Window,
    Shmem,
    Mailbox,
    Semaphore,
    /// The clock of a declared machine.
    Clock,
    /// Ranks that one thread makes and drives.
    Solo,
}

/// What can be left out of all programs, by the name that `--without` takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Reduce-scatter in place on registered memory.
    InPlaceRegistered,
    /// Padded reduce-scatter.
    Padded,
    /// Several threads of a rank on a declared machine.
    ThreadsOnMachines,
    /// Streams on a declared machine.
    StreamsOnMachines,
    /// Declared machines.
    Machines,
    /// Disagreement about the root.
    Roots,
    /// Duplicates of communicators.
    Dup,
    /// Communicators that are made while the program polls.
    Background,
    Kind(Kind),
}

/// The names of families.
pub const FAMILIES: [(&str, Family); 22] = [
    ("in-place-registered", Family::InPlaceRegistered),
    ("padded", Family::Padded),
    ("threads-on-machines", Family::ThreadsOnMachines),
    ("streams-on-machines", Family::StreamsOnMachines),
    ("machines", Family::Machines),
    ("roots", Family::Roots),
    ("dup", Family::Dup),
    ("background", Family::Background),
    ("vector", Family::Kind(Kind::Vector)),
    ("scaled", Family::Kind(Kind::Scaled)),
    ("hook", Family::Kind(Kind::Hook)),
    ("group", Family::Kind(Kind::Group)),
    ("streams", Family::Kind(Kind::Streams)),
    ("split", Family::Kind(Kind::Split)),
    ("threads", Family::Kind(Kind::Threads)),
    ("wrong", Family::Kind(Kind::Wrong)),
    ("disagree", Family::Kind(Kind::Disagree)),
    ("window", Family::Kind(Kind::Window)),
    ("shmem", Family::Kind(Kind::Shmem)),
    ("mailbox", Family::Kind(Kind::Mailbox)),
    ("semaphore", Family::Kind(Kind::Semaphore)),
    ("solo", Family::Kind(Kind::Solo)),
];

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    pub id: u32,
    pub salt: u64,
    pub kind: Kind,
    pub inner: Vec<Step>,
}

/// A program and the setting in which it is played.
#[derive(Clone, Debug)]
pub struct Program {
    pub seed: u64,
    pub ranks: usize,
    /// The number of processes of which the ranks are threads.
    pub processes: usize,
    /// Ranks meet by the variables of a launcher, not by an id.
    pub launched: bool,
    /// They join while the program polls.
    pub background: bool,
    pub algo: Option<String>,
    pub fabric: Option<String>,
    /// Variables.
    pub env: Vec<(&'static str, &'static str)>,
    pub steps: Vec<Step>,
    without: Vec<Family>,
    /// The one collective that there is, if it is one.
    pub only: Option<What>,
    /// A planted fault goes into the first result of this rank in this step or a later one.
    pub planted_rank: usize,
    pub planted_from: u32,
}

impl Program {
    /// The program of a seed for one of some numbers of ranks.
    pub fn draw(seed: u64, ranks: &[usize], without: &[Family]) -> Program {
        let mut random = Random::of(&[seed, 7]);
        let n = random.one(ranks);
        let machine = random.chance(20) && !without.contains(&Family::Machines);
        let fabric = machine.then(|| {
            let fits: Vec<&str> = MACHINES.iter().filter(|m| m.1 >= n).map(|m| m.0).collect();
            random.one(&fits).to_owned()
        });
        let processes = match random.below(10) {
            0 => 1,
            1 => n.div_ceil(2),
            _ => n,
        };
        let algo = random.chance(50).then(|| draw_methods(&mut random)).filter(|asked| !asked.is_empty());
        let mut env = Vec::new();
        while random.chance(30) {
            let setting = random.one(&ENVIRONMENTS);
            let methods_clash = setting.0 == "PENNY_REPRODUCIBLE" && algo.is_some();
            if !methods_clash && !env.iter().any(|(name, _)| *name == setting.0) {
                env.push(setting);
            }
        }
        let mut program = Program {
            seed,
            ranks: n,
            processes,
            launched: processes == n && random.chance(30),
            background: random.chance(20) && !without.contains(&Family::Background),
            algo,
            fabric,
            env,
            steps: Vec::new(),
            without: without.to_vec(),
            only: None,
            planted_rank: random.below(n),
            planted_from: 0,
        };
        let mut ids = 1;
        let steps = 6 + random.below(18);
        program.steps = (0..steps).map(|_| program.step(&mut random, 0, &mut ids)).collect();
        program.planted_from = ids / 3;
        program
    }

    /// The setting of ranks that play one kind of step again and again.
    pub fn repeated(seed: u64, ranks: usize, only: Option<What>) -> Program {
        Program {
            seed,
            ranks,
            processes: ranks,
            launched: false,
            background: false,
            algo: None,
            fabric: None,
            env: Vec::new(),
            steps: Vec::new(),
            without: vec![Family::InPlaceRegistered, Family::Padded],
            only,
            planted_rank: 0,
            planted_from: 0,
        }
    }

    /// Returns step number `i` of ranks that repeat steps of one kind.
    pub fn another(&self, kind: Kind, i: u32) -> Step {
        let mut random = Random::of(&[self.seed, u64::from(i), 13]);
        let mut step = self.of_kind(kind, &mut random, 1, &mut (i * 1000 + 1));
        if kind == Kind::Split {
            // What is killed is the split, not what its children do.
            step.inner.truncate(1);
            step.inner.retain(|inner| inner.kind == Kind::Collective);
        }
        if kind == Kind::Hook {
            // Calls whose failure is that of the rank that is killed.
            let inner = [Kind::Collective, Kind::Exchange, Kind::Vector];
            let mut ids = i * 1000 + 500;
            step.inner = inner.map(|kind| self.of_kind(kind, &mut random, 1, &mut ids)).to_vec();
        }
        step
    }

    /// May programs have this?
    pub fn has(&self, family: Family) -> bool {
        !self.without.contains(&family)
    }

    fn may(&self, kind: Kind, depth: usize) -> bool {
        let machine = self.fabric.is_some();
        let deep = matches!(kind, Kind::Split | Kind::Threads | Kind::Streams) && depth >= 2;
        let nested = matches!(kind, Kind::Threads | Kind::Solo | Kind::Hook) && depth >= 1;
        let here = match kind {
            Kind::Threads => !machine || self.has(Family::ThreadsOnMachines),
            Kind::Streams => !machine || self.has(Family::StreamsOnMachines),
            Kind::Clock => machine,
            // One thread that drives several ranks has the other ranks' clocks against it on a machine.
            Kind::Solo => !machine,
            _ => true,
        };
        here && !deep && !nested && self.has(Family::Kind(kind))
    }

    fn step(&self, random: &mut Random, depth: usize, ids: &mut u32) -> Step {
        const WEIGHTS: [(Kind, usize); 18] = [
            (Kind::Collective, 28),
            (Kind::Vector, 9),
            (Kind::Scaled, 5),
            (Kind::Hook, 3),
            (Kind::Transfer, 5),
            (Kind::Exchange, 7),
            (Kind::Group, 9),
            (Kind::Streams, 9),
            (Kind::Split, 8),
            (Kind::Threads, 5),
            (Kind::Wrong, 6),
            (Kind::Disagree, 4),
            (Kind::Window, 4),
            (Kind::Shmem, 5),
            (Kind::Mailbox, 4),
            (Kind::Semaphore, 3),
            (Kind::Clock, 3),
            (Kind::Solo, 2),
        ];
        let total: usize = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let kind = loop {
            let mut at = random.below(total);
            let drawn = WEIGHTS.iter().find(|(_, weight)| {
                let here = at < *weight;
                at = at.saturating_sub(*weight);
                here
            });
            match drawn {
                Some(&(kind, _)) if self.may(kind, depth) => break kind,
                _ => {}
            }
        };
        self.of_kind(kind, random, depth, ids)
    }

    fn of_kind(&self, kind: Kind, random: &mut Random, depth: usize, ids: &mut u32) -> Step {
        let mut step = Step { id: *ids, salt: random.next(), kind, inner: Vec::new() };
        *ids += 1;
        let grouped = [Kind::Collective, Kind::Collective, Kind::Exchange, Kind::Vector, Kind::Scaled];
        let queued = [Kind::Collective, Kind::Vector, Kind::Scaled, Kind::Transfer, Kind::Group, Kind::Group];
        let mut some = |most: usize, kinds: &[Kind]| {
            let mut kinds: Vec<Kind> = (0..1 + random.below(most)).map(|_| random.one(kinds)).collect();
            kinds.retain(|kind| self.has(Family::Kind(*kind)));
            kinds
        };
        let inner: Vec<Kind> = match kind {
            Kind::Group => some(5, &grouped),
            Kind::Streams => some(7, &queued),
            Kind::Threads => vec![Kind::Lane; 2 + random.below(3)],
            _ => Vec::new(),
        };
        step.inner = inner.into_iter().map(|kind| self.of_kind(kind, random, depth + 1, ids)).collect();
        if matches!(kind, Kind::Split | Kind::Lane | Kind::Hook) {
            let count = 1 + random.below(6);
            step.inner = (0..count).map(|_| self.step(random, depth + 1, ids)).collect();
        }
        step
    }

    /// The numbers of all steps.
    pub fn ids(&self) -> BTreeSet<u32> {
        fn visit(steps: &[Step], ids: &mut BTreeSet<u32>) {
            for step in steps {
                ids.insert(step.id);
                visit(&step.inner, ids);
            }
        }
        let mut ids = BTreeSet::new();
        visit(&self.steps, &mut ids);
        ids
    }

    /// Leaves out all other steps.
    pub fn keep(&mut self, ids: &BTreeSet<u32>) {
        fn visit(steps: &mut Vec<Step>, ids: &BTreeSet<u32>) {
            steps.retain(|step| ids.contains(&step.id));
            for step in steps {
                visit(&mut step.inner, ids);
            }
        }
        visit(&mut self.steps, ids);
    }

    /// The steps in lines.
    pub fn listing(&self) -> String {
        fn visit(steps: &[Step], depth: usize, lines: &mut String) {
            for step in steps {
                lines.push_str(&format!("{:depth$}    {} {:?}\n", "", step.id, step.kind));
                visit(&step.inner, depth + 4, lines);
            }
        }
        let mut lines = String::new();
        visit(&self.steps, 0, &mut lines);
        lines
    }

    /// Its setting in a line.
    pub fn setting(&self) -> String {
        format!(
            "{} ranks in {} processes{}{}, PENNY_ALGO {}, PENNY_FABRIC {}, {:?}",
            self.ranks,
            self.processes,
            if self.launched { " (launched)" } else { "" },
            if self.background { " (polled)" } else { "" },
            self.algo.as_deref().unwrap_or("unset"),
            self.fabric.as_deref().unwrap_or("unset"),
            self.env
        )
    }
}
