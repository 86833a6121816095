//! A workload: what every rank computes and sends, and what waits for what.
//!
//! ```text
//!     rank 0    forward ---> all_reduce(tp) ---> backward ---------> optimiser
//!                                                    \                 /
//!                                                     all_reduce(dp) --        beside what follows it
//! ```
//!
//! - A node begins when all nodes are over that it comes after; these stand before it in its rank's list.
//! - A rank has a device and a host. Each does one thing at a time; of those that could begin, the first in the list.
//! - The calls of a group are matched by their order in each member's list, messages by theirs between two ranks under one tag.
//! - A put is matched by nobody: what waits for it waits for the signals that come after it.

use std::collections::HashMap;

use penny::{Collective, Rank};

/// A workload of some ranks.
pub struct Workload {
    /// Its name, for the head of the table.
    pub name: String,
    /// What every rank does.
    pub ranks: Vec<RankProgram>,
    /// The ranks of each group, by the numbers that calls name.
    pub groups: Vec<Group>,
    /// The names of the counters of signals, by the numbers that puts and waits name. Every rank has its own of each.
    pub counters: Vec<String>,
    /// The free slots of mailboxes at the begin.
    pub slots: Vec<Signal>,
    /// Steps of a loop, which the table shows one by one; nodes name theirs.
    pub steps: u32,
    /// What to know about the source, a line each.
    pub remarks: Vec<String>,
}

/// Ranks that make calls together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its ranks, in their order in the group.
    pub ranks: Vec<Rank>,
}

/// What one rank does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankProgram {
    /// The file that says so.
    pub file: String,
    /// In an order in which they could be done one by one.
    pub nodes: Vec<Node>,
}

/// Something that a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name and number in its file, for sentences.
    pub label: String,
    /// The step of which it is.
    pub step: u32,
    /// The nodes of its rank that are over before it begins.
    pub after: Vec<u32>,
    /// What is done.
    pub work: Work,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// The device computes.
    Compute(Interval),
    /// The host computes for this many picoseconds, beside the device.
    Host(u64),
    /// The rank takes part in a collective.
    Call(GroupCall),
    /// A message to a rank, which is buffered: over when it has left.
    Send(Message),
    /// A message from a rank: over when it is there.
    Recv(Message),
    /// Bytes for the memory of other ranks, of which these ranks know only by signals: over when all are there.
    Put(Put),
    /// Waits until `count` signals of a counter have come to the rank, and takes them off.
    Wait { counter: u32, count: u64 },
    /// A thread of the rank's mailbox is done with a message.
    Free(Free),
    /// A place in the order, which takes no time.
    Nothing,
}

/// A time of computing, or what is computed in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its length where it was recorded.
    pub time_ps: Option<u64>,
    /// Floating-point operations.
    pub flops: Option<u64>,
    /// Bytes from and to memory.
    pub bytes: Option<u64>,
}

/// A collective of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupCall {
    pub collective: Collective,
    /// Index in [`Workload::groups`].
    pub group: u32,
    /// Bytes of a block: the buffer, or what one rank gives to or gets from another.
    pub block: u64,
    /// The root's place in the group; 0 where there is none.
    pub root: Rank,
}

/// One end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub peer: Rank,
    pub bytes: u64,
    pub tag: u64,
}

/// Bytes from the memory of one rank to that of others, to all of them at once. Without bytes that move it takes no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The rank whose memory holds the bytes: the rank itself, or the one from which it gets them.
    pub from: Rank,
    /// The ranks to which they go, and the threads of each rank's mailbox that are to have them, thread t being bit t; 0: no mailbox.
    pub to: Vec<(Rank, u64)>,
    /// The counter of free slots of the mailboxes, from which it takes one at each of its ranks, one after the other, before it sets out.
    pub slots: Option<u32>,
    /// Bytes to each.
    pub bytes: u64,
    /// What is given when all bytes are there.
    pub signals: Vec<Signal>,
}

/// The end of a message for one of the threads that have it: with the last of them its slot is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// The counter of free slots.
    pub slots: u32,
    /// The counter of the thread's messages.
    pub messages: u32,
    /// Which of them it is, counted from 0.
    pub nth: u64,
}

/// Signals for a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub rank: Rank,
    /// Index in [`Workload::counters`].
    pub counter: u32,
    pub count: u64,
}

/// The names of counters, each with its number.
#[derive(Default)]
pub struct CounterNames {
    pub names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl CounterNames {
    /// Returns the number of a counter.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// The bytes of a signal, and of the request of a get.
pub const WORD: u64 = 8;

impl Workload {
    /// Returns how sentences name a node.
    pub fn named(&self, rank: usize, node: u32) -> String {
        let RankProgram { file, nodes } = &self.ranks[rank];
        format!("{file}: rank {rank}, {}", nodes[node as usize].label)
    }
}

impl GroupCall {
    /// Returns the call in words: `all_reduce of 4096 bytes`.
    pub fn words(&self) -> String {
        match self.collective {
            Collective::Barrier => "a barrier".to_owned(),
            collective if collective.rooted() => {
                format!("{collective} of blocks of {} bytes from or to its rank {}", self.block, self.root)
            }
            collective => format!("{collective} of blocks of {} bytes", self.block),
        }
    }
}
