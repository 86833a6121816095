//! What messages between hosts look like: words of 64 bits, in the byte order of the machines.
//!
//! ```text
//!     message     | the receiver's token | sender, writes taken in | number, messages taken in | frame | frame | ...
//!     frame       | kind, bytes | number | kind's own words | bytes, padded to a word |
//! ```
//!
//! Nothing of it is trusted: a message with another token, sender or shape is dropped as a whole or from the first frame on that makes
//! no sense.

pub use super::header::{HEADER, MessageHeader};
use crate::kernels;
use crate::memory::view::Payload;
use crate::memory::word::{AtomicOp, Change};
use crate::sys::endpoint::RemoteMemory;
use crate::transport::arrival;
use crate::transport::link::{
    self, Body, Ending, FarAccess, LifeLine, News, RestOfMessage, TakenLine, WantedMessage,
};

/// Words of the largest frame without its bytes.
pub const LARGEST_FRAME: usize = 7;
/// Words of [`Item::Ahead`].
pub const AHEAD: usize = 2;

/// A frame as it travels.
pub enum Item<'a> {
    /// A change of the sender's lines, with its number.
    Line(u64, Body<'a>),
    /// The sender closes its link. It has sent this number of frames.
    Bye(u64),
    /// The sender has taken in all frames up to a goodbye.
    ByeTaken,
    /// The sender has posted this number of frames.
    Posted(u64),
    /// Nothing but the header counts.
    Credit,
    /// The frames that follow belong to the write of this number.
    OfWrite(u32),
    /// The sender wants to be told when all its writes before this number were taken in.
    Ask(u32),
    /// Which of the receiver's writes beyond those of the header the sender has taken in, a bit for each.
    Ahead(u64),
    /// The sender is reached by the rail of this message.
    Hello,
    /// The sender wants an answer with this number, by the rail of this message.
    Question(u64),
    /// The answer.
    Answer(u64),
    /// A bit for each rail that the sender has closed. What has not come by them before does not come any more.
    Closed(u32),
    /// The receiver may write the rest of a message to this memory, by the sender's second endpoint, which has this name.
    Opened(WantedMessage, RemoteMemory, Payload<'a>),
    /// What was left of a message has come with this.
    Rest(RestOfMessage),
}

const DATA: u64 = 1;
const COUNTER: u64 = 2;
const ARRIVAL: u64 = 3;
const LIFE: u64 = 4;
const NEWS: u64 = 5;
const PIECE: u64 = 6;
const TAKEN: u64 = 7;
const SHRINK: u64 = 8;
const PUT: u64 = 9;
const CHANGE: u64 = 10;
const GET: u64 = 11;
const SIGNAL: u64 = 12;
const HOW_FAR: u64 = 13;
const DONE: u64 = 14;
const ANSWER: u64 = 15;
const SERVE: u64 = 21;
/// In a change's word with its operation: the word that changes has 8 bytes.
const WIDE: u64 = 1 << 32;
const BYE: u64 = 16;
const BYE_TAKEN: u64 = 17;
const CREDIT: u64 = 18;
const OF_WRITE: u64 = 19;
const ASK: u64 = 20;
const TAKEN_AHEAD: u64 = 22;
const HELLO: u64 = 23;
const QUESTION: u64 = 24;
const ANSWERED: u64 = 25;
const CLOSED: u64 = 26;
/// An arrival whose payload was not sent.
const WITHDRAWN: u64 = 27;
const POSTED: u64 = 28;
const OPENED: u64 = 29;
const REST: u64 = 30;

/// Appends a frame. `placed`: its bytes are written to their place by themselves.
pub fn put(message: &mut Vec<u64>, item: &Item<'_>, placed: bool) {
    let mut add = |kind: u64, number: u64, own: &[u64], bytes: Payload<'_>| {
        message.extend([kind | (bytes.bytes() as u64) << 32, number]);
        message.extend(own);
        let at = message.len();
        message.resize(at + bytes.bytes().div_ceil(8), 0);
        kernels::copy(Payload::from(&mut message[at..]).part(0, bytes.bytes()), bytes, false);
    };
    let none = Payload::EMPTY;
    match *item {
        Item::Line(number, body) => match body {
            Body::Data { counter, .. } if placed => add(COUNTER, number, &[counter], none),
            Body::Data { at, bytes, counter } => add(DATA, number, &[at as u64, counter], bytes),
            Body::Counter(counter) => add(COUNTER, number, &[counter], none),
            Body::Arrival { seq, args, count, trail, payload, .. } => {
                let payload = if placed { none } else { payload };
                add(ARRIVAL, number, &[seq, args, count, trail], payload);
            }
            Body::Piece { index, args, count, bytes } => {
                let bytes = if placed { none } else { bytes };
                add(PIECE, number, &[index, args, count], bytes);
            }
            Body::Taken(TakenLine { taken, refused, refused_args: [kind, count], .. }) => {
                add(TAKEN, number, &[taken, refused, kind, count], none);
            }
            Body::Life(line) => {
                let both = u64::from(line.pid) | u64::from(line.state) << 32;
                add(LIFE, number, &[both, line.start, line.failed_seq, line.rests], none);
            }
            Body::News(News { disagreement, cause, dead, ending }) => {
                let dead = u64::from(dead.map_or(0, |rank| rank + 1));
                let ending = u64::from(ending.map_or(0, |(ending, by)| ending.word(by)));
                add(NEWS, number, &[disagreement, cause, dead << 32 | ending], none);
            }
            Body::Shrink { words, endpoint } => add(SHRINK, number, &words, endpoint),
            Body::Access(access) => match access {
                FarAccess::Put { at, bytes, .. } => add(PUT, number, &[at], bytes),
                FarAccess::Change { at, wide, change: Change { op, value, expected }, ticket, .. } => {
                    let code = op.number() | if wide { WIDE } else { 0 };
                    add(CHANGE, number, &[at, code, value, expected, ticket], none);
                }
                FarAccess::Get { at, bytes, ticket } => add(GET, number, &[at, bytes, ticket], none),
                FarAccess::Signal { context, index } => {
                    add(SIGNAL, number, &[u64::from(context) << 32 | u64::from(index)], none);
                }
                FarAccess::Ask { of, words: [a, b, c], bytes, ticket, .. } => {
                    add(SERVE, number, &[of, a, b, c, ticket], bytes);
                }
                FarAccess::HowFar => add(HOW_FAR, number, &[], none),
                FarAccess::Done(done) => add(DONE, number, &[done], none),
                FarAccess::Answer { ticket, bytes } => add(ANSWER, number, &[ticket], bytes),
            },
        },
        Item::Bye(frames) => add(BYE, frames, &[], none),
        Item::ByeTaken => add(BYE_TAKEN, 0, &[], none),
        Item::Posted(frames) => add(POSTED, frames, &[], none),
        Item::Credit => add(CREDIT, 0, &[], none),
        Item::OfWrite(number) => add(OF_WRITE, number.into(), &[], none),
        Item::Ask(until) => add(ASK, until.into(), &[], none),
        Item::Ahead(bits) => add(TAKEN_AHEAD, bits, &[], none),
        Item::Hello => add(HELLO, 0, &[], none),
        Item::Question(round) => add(QUESTION, round, &[], none),
        Item::Answer(round) => add(ANSWERED, round, &[], none),
        Item::Closed(rails) => add(CLOSED, rails.into(), &[], none),
        Item::Rest(RestOfMessage { index, args, count }) => add(REST, index, &[args, count], none),
        Item::Opened(message, memory, name) => {
            let WantedMessage { index, kind, count } = message;
            add(OPENED, index, &[kind, count, memory.address, memory.key], name);
        }
    }
}

/// Returns the number of a kind's own words.
fn own_words(kind: u64) -> Option<usize> {
    Some(match kind {
        DATA | SHRINK | REST => 2,
        COUNTER | PUT | SIGNAL | DONE | ANSWER => 1,
        ARRIVAL | TAKEN | WITHDRAWN | OPENED | LIFE => 4,
        NEWS | PIECE | GET => 3,
        CHANGE | SERVE => 5,
        BYE | BYE_TAKEN | CREDIT | OF_WRITE | ASK | HOW_FAR | TAKEN_AHEAD | HELLO | QUESTION | ANSWERED
        | CLOSED | POSTED => 0,
        _ => return None,
    })
}

/// Makes the last of some frames, whose bytes lie elsewhere, one that shows none: a counter or an arrival that tells of it.
pub fn withdraw(mut frames: &mut [u64]) {
    // BOUND: the words.
    while let [first, _, own @ ..] = frames {
        let Some(words) = own_words(*first & 0xffff_ffff) else { return };
        let words = words + ((*first >> 32) as usize).div_ceil(8);
        if words >= own.len() {
            match (*first, own) {
                (COUNTER, [counter]) => *counter = link::WITHDRAWN,
                (ARRIVAL, _) => *first = WITHDRAWN,
                _ => {}
            }
            return;
        }
        frames = &mut own[words..];
    }
}

/// Takes the first frame off the words of a message, if they begin with one.
pub fn take<'a>(rest: &mut &'a mut [u64]) -> Option<Item<'a>> {
    let &[first, number, ..] = &rest[..] else { return None };
    let (kind, bytes) = (first & 0xffff_ffff, (first >> 32) as usize);
    let own = own_words(kind)?;
    let words = 2 + own + bytes.div_ceil(8);
    if words > rest.len()
        || bytes > 0 && !matches!(kind, DATA | ARRIVAL | PIECE | SHRINK | PUT | ANSWER | SERVE | OPENED)
    {
        return None;
    }
    let (frame, others) = std::mem::take(rest).split_at_mut(words);
    *rest = others;
    let (head, tail) = frame.split_at_mut(2 + own);
    let own = &head[2..];
    let bytes = Payload::from(tail).part(0, bytes);
    let body = match kind {
        DATA => Body::Data { at: usize::try_from(own[0]).ok()?, bytes, counter: own[1] },
        COUNTER => Body::Counter(own[0]),
        ARRIVAL | WITHDRAWN => {
            let withdrawn = if kind == WITHDRAWN { arrival::WITHDRAWN } else { 0 };
            let [seq, args, count, trail] = [own[0], own[1] | withdrawn, own[2], own[3]];
            Body::Arrival { seq, args, count, trail, payload: bytes, part: None, may_wait: false }
        }
        PIECE => Body::Piece { index: own[0], args: own[1], count: own[2], bytes },
        TAKEN => {
            let refused_args = [own[2], own[3]];
            Body::Taken(TakenLine { taken: own[0], refused: own[1], refused_args, may_wait: false })
        }
        LIFE => Body::Life(LifeLine {
            pid: own[0] as u32,
            state: (own[0] >> 32) as u32,
            start: own[1],
            failed_seq: own[2],
            rests: own[3],
        }),
        NEWS => Body::News(News {
            disagreement: own[0],
            cause: own[1],
            dead: ((own[2] >> 32) as u32).checked_sub(1),
            ending: Ending::of(own[2] as u32),
        }),
        SHRINK => Body::Shrink { words: [own[0], own[1]], endpoint: bytes },
        PUT => Body::Access(FarAccess::Put { at: own[0], bytes, more: false }),
        CHANGE => Body::Access(FarAccess::Change {
            at: own[0],
            wide: own[1] & WIDE != 0,
            change: Change { op: AtomicOp::of(own[1] & !WIDE)?, value: own[2], expected: own[3] },
            ticket: own[4],
            more: false,
        }),
        GET => Body::Access(FarAccess::Get { at: own[0], bytes: own[1], ticket: own[2] }),
        SIGNAL => Body::Access(FarAccess::Signal { context: (own[0] >> 32) as u32, index: own[0] as u32 }),
        SERVE => Body::Access(FarAccess::Ask {
            of: own[0],
            words: [own[1], own[2], own[3]],
            bytes,
            ticket: own[4],
            more: false,
        }),
        HOW_FAR => Body::Access(FarAccess::HowFar),
        DONE => Body::Access(FarAccess::Done(own[0])),
        ANSWER => Body::Access(FarAccess::Answer { ticket: own[0], bytes }),
        BYE => return Some(Item::Bye(number)),
        BYE_TAKEN => return Some(Item::ByeTaken),
        CREDIT => return Some(Item::Credit),
        ASK => return Some(Item::Ask(u32::try_from(number).ok()?)),
        TAKEN_AHEAD => return Some(Item::Ahead(number)),
        HELLO => return Some(Item::Hello),
        QUESTION => return Some(Item::Question(number)),
        ANSWERED => return Some(Item::Answer(number)),
        POSTED => return Some(Item::Posted(number)),
        REST => return Some(Item::Rest(RestOfMessage { index: number, args: own[0], count: own[1] })),
        OPENED => {
            let message = WantedMessage { index: number, kind: own[0], count: own[1] };
            return Some(Item::Opened(message, RemoteMemory { address: own[2], key: own[3] }, bytes));
        }
        CLOSED => return Some(Item::Closed(u32::try_from(number).ok()?)),
        _ => return Some(Item::OfWrite(u32::try_from(number).ok()?)),
    };
    Some(Item::Line(number, body))
}

#[cfg(all(test, not(loom)))]
#[path = "wire_tests.rs"]
mod tests;
