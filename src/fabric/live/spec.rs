//! What a rank posts: its part in one call or transfer, as words that others can read.

use super::clock_segment::{PostLine, SPEC};
use crate::fabric::SharedCall;
use crate::fabric::tuning::Tuning;
use crate::plan::{Arrangement, Chunk, Plan, RankView};
use crate::sync::prim::Ordering;
use crate::types::{Collective, Rank};
use std::sync::{Arc, OnceLock};

/// The kind of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A collective call.
    Collective {
        /// The collective.
        collective: Collective,
        /// Its root.
        root: Rank,
        /// Its algorithm, by its index in the table.
        algorithm: u8,
    },
    /// A transfer from one rank of the communicator to another.
    Transfer {
        /// The sender.
        from: Rank,
        /// The receiver.
        to: Rank,
    },
    /// A one-sided put or get.
    Put {
        /// The place that the bytes leave.
        from: Rank,
        /// The place where they arrive.
        to: Rank,
    },
    /// A pause of one rank until its entry: earlier events of other ranks come first.
    Pause,
    /// The library's own exchange: all must have come, and it takes no time.
    Meeting,
}

/// The part of a call that is the same for all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallSpec {
    /// The kind of the call.
    pub what: What,
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// The number that distinguishes variants: type, operation, padding.
    pub kind: u64,
    /// How the machine carries it.
    pub tuning: Tuning,
}

/// The part of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Names the communicator among all of the job.
    pub comm: u64,
    /// Names the call within the communicator.
    pub key: u64,
    /// The call.
    pub spec: CallSpec,
    /// The member's number in the call: its rank; 0 for the sender and 1 for the receiver of a transfer.
    pub member: u32,
    /// Members in all.
    pub members: u32,
}

/// The bit of [`CallSpec::words`] that marks a transfer.
const TRANSFER: u64 = 1 << 63;
/// The bit of [`CallSpec::words`] that marks a put.
const PUT: u64 = 1 << 61;
/// The bit of [`CallSpec::words`] that marks a meeting.
const MEETING: u64 = 1 << 62;
/// The bit of [`CallSpec::words`] that marks a pause.
const PAUSE: u64 = 1 << 60;

/// The bits of the last of [`CallSpec::words`] that are the slice; those above are the protocol.
const SLICE: u64 = (1 << 48) - 1;

impl CallSpec {
    /// Makes a collective as a view of it, by an algorithm; `block` is a block's elements and the bytes of each.
    pub fn of(view: &RankView, algorithm: u8, [count, size]: [u64; 2]) -> CallSpec {
        let what = What::Collective { collective: view.collective, root: view.root, algorithm };
        CallSpec::plain(what, count, size, 0)
    }

    /// Makes a call that is carried as the bare machine carries it.
    pub fn plain(what: What, count: u64, size: u64, kind: u64) -> CallSpec {
        CallSpec { what, count, size, kind, tuning: Tuning::default() }
    }

    /// Encodes the call as words.
    pub(super) fn words(&self) -> [u64; SPEC] {
        let what = match self.what {
            What::Collective { collective, root, algorithm } => {
                collective as u64 | (algorithm as u64) << 8 | (root as u64) << 16
            }
            What::Transfer { from, to } => TRANSFER | from as u64 | (to as u64) << 24,
            What::Put { from, to } => PUT | from as u64 | (to as u64) << 24,
            What::Pause => PAUSE,
            What::Meeting => MEETING,
        };
        let tuning = self.tuning.slice_bytes & SLICE | (self.tuning.protocol as u64) << 48;
        [what, self.count, self.size, self.kind, tuning]
    }

    /// Decodes the words of another rank; `None` if they are invalid.
    pub(super) fn read(words: [u64; SPEC]) -> Option<CallSpec> {
        let [what, count, size, kind, tuning] = words;
        let tuning = Tuning { protocol: (tuning >> 48) as u16, slice_bytes: tuning & SLICE };
        let what = if what & TRANSFER != 0 {
            What::Transfer { from: (what & 0xff_ffff) as Rank, to: (what >> 24 & 0xff_ffff) as Rank }
        } else if what & PUT != 0 {
            What::Put { from: (what & 0xff_ffff) as Rank, to: (what >> 24 & 0xff_ffff) as Rank }
        } else if what == PAUSE {
            What::Pause
        } else if what == MEETING {
            What::Meeting
        } else {
            What::Collective {
                collective: Collective::from_c((what & 0xff) as i32)?,
                root: (what >> 16 & 0xff_ffff) as Rank,
                algorithm: (what >> 8 & 0xff) as u8,
            }
        };
        Some(CallSpec { what, count, size, kind, tuning })
    }

    /// Returns the view for which its plans are made.
    pub(super) fn view(&self, members: u32, arrangement: Arrangement) -> RankView {
        match self.what {
            What::Collective { collective, root, .. } => {
                // A barrier is a reduction of nothing: everybody's end follows from everybody's beginning.
                let collective =
                    if collective == Collective::Barrier { Collective::AllReduce } else { collective };
                RankView::flat(collective, 0, members, root).arranged(arrangement)
            }
            What::Transfer { .. } | What::Put { .. } | What::Meeting => {
                RankView::flat(Collective::Broadcast, 0, 2, 0)
            }
            What::Pause => RankView::flat(Collective::Broadcast, 0, 1, 0),
        }
    }

    /// Converts the members' places and entry times for the engine: a put has two ends but only one member that posts
    /// it.
    pub(super) fn ends(&self, places: Vec<Rank>, entries: Vec<u64>) -> (Vec<Rank>, Vec<u64>) {
        match (self.what, entries.first()) {
            (What::Put { from, to }, Some(&entry_ps)) => (vec![from, to], vec![entry_ps; 2]),
            _ => (places, entries),
        }
    }

    /// Returns the member who is done when the engine has finished with one of the [`ends`](Self::ends).
    pub(super) fn finishes(&self, end: usize) -> Option<usize> {
        match (self.what, end) {
            (What::Put { .. }, 0) => None,
            (What::Put { .. }, _) => Some(0),
            _ => Some(end),
        }
    }

    /// Converts the call for the engine.
    pub(super) fn call(&self, plans: Arc<[Plan]>, view: RankView) -> SharedCall {
        SharedCall { plans, view, count: self.count, size: self.size, tuning: self.tuning }
    }
}

/// Makes the plans of one message from member 0 to member 1.
pub(super) fn transfer_plans() -> Arc<[Plan]> {
    static PLANS: OnceLock<Arc<[Plan]>> = OnceLock::new();
    let make = || {
        let (mut sender, mut receiver) = (Plan::new(1), Plan::new(1));
        sender.send(1, Chunk::part(0));
        receiver.recv_copy(0, Chunk::part(0));
        Arc::from(vec![sender, receiver])
    };
    PLANS.get_or_init(make).clone()
}

/// Makes the empty plans of a pause.
pub(super) fn pause_plans() -> Arc<[Plan]> {
    static PLANS: OnceLock<Arc<[Plan]>> = OnceLock::new();
    PLANS.get_or_init(|| Arc::from(vec![Plan::new(1)])).clone()
}

impl Post {
    pub(super) fn write(&self, line: &PostLine, entry_ps: u64) {
        line.comm.store(self.comm, Ordering::Relaxed);
        line.key.store(self.key, Ordering::Relaxed);
        for (to, word) in line.spec.iter().zip(self.spec.words()) {
            to.store(word, Ordering::Relaxed);
        }
        line.member.store(self.member, Ordering::Relaxed);
        line.members.store(self.members, Ordering::Relaxed);
        line.entry_ps.store(entry_ps, Ordering::Relaxed);
        line.stage.store(0, Ordering::Relaxed);
    }

    /// Reads a line; `None` if it is invalid.
    pub(super) fn read(line: &PostLine) -> Option<Post> {
        let post = Post {
            comm: line.comm.load(Ordering::Relaxed),
            key: line.key.load(Ordering::Relaxed),
            spec: CallSpec::read(line.spec.each_ref().map(|word| word.load(Ordering::Relaxed)))?,
            member: line.member.load(Ordering::Relaxed),
            members: line.members.load(Ordering::Relaxed),
        };
        let sound = match post.spec.what {
            What::Collective { root, .. } => root < post.members,
            What::Transfer { .. } => post.members == 2,
            What::Put { .. } | What::Pause => post.members == 1,
            What::Meeting => true,
        };
        (sound && post.member < post.members).then_some(post)
    }
}

impl std::fmt::Display for CallSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.what {
            What::Collective { collective: Collective::Barrier, .. } => write!(f, "barrier"),
            What::Meeting => write!(f, "the making or the end of something that all ranks share"),
            What::Collective { collective, .. } => {
                write!(f, "{collective} of {} x {} bytes", self.count, self.size)
            }
            What::Pause => write!(f, "the delivery of a message"),
            What::Put { .. } => write!(f, "put or get of {} bytes", self.count * self.size),
            What::Transfer { from, to } => {
                write!(f, "send of {} bytes from rank {from} to rank {to}", self.count * self.size)
            }
        }
    }
}
