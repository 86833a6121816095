//! One collective: drawn from a step, issued, checked against the oracle.

use crate::actor::{Actor, Failure, NULL, Outcome, Place, Plant, call};
use crate::api::{In, Out, RedOp};
use crate::buffer::{Buffer, Kind, difference};
use crate::draw::{draw_count, draw_kind, draw_operation};
use crate::element::{Patterns, Type};
use crate::program::{Family, Step};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    AllReduce,
    Reduce,
    Broadcast,
    Bcast,
    AllGather,
    ReduceScatter,
    ReduceScatterPadded,
    AlltoAll,
    Gather,
    Scatter,
    Permute,
    Barrier,
}

use What::*;

const ALL: [What; 14] = [
    AllReduce,
    AllReduce,
    Reduce,
    Broadcast,
    Bcast,
    AllGather,
    ReduceScatter,
    ReduceScatter,
    ReduceScatterPadded,
    AlltoAll,
    Gather,
    Scatter,
    Permute,
    Barrier,
];

/// What all members pass to the call.
#[derive(Clone, Debug)]
pub struct Shape {
    pub what: What,
    pub count: usize,
    pub kind: Type,
    pub op: RedOp,
    pub root: usize,
    /// Of a permutation: whom each member sends to.
    pub perm: Vec<i32>,
}

impl Shape {
    pub fn draw(actor: &Actor<'_>, place: &Place, step: &Step) -> Shape {
        let mut random = place.common(step);
        let n = place.n();
        let what = loop {
            let what = actor.shared.program.only.unwrap_or(random.one(&ALL));
            if what != ReduceScatterPadded || actor.shared.program.has(Family::Padded) {
                break what;
            }
        };
        let (kind, op) = draw_operation(&mut random);
        let mut count = draw_count(&mut random, kind.size, n);
        // A machine of many ranks on few cores: blocks of the largest size only among few.
        if matches!(what, AllGather | ReduceScatter | AlltoAll | Gather | Scatter) {
            count = count.min((2 << 20) / kind.size / n);
        }
        let root = random.below(n);
        let perm = match random.below(3) {
            0 => (0..n).map(|r| ((r + 1) % n) as i32).collect(),
            _ => {
                let idle = random.below(40);
                let order = random.order(n);
                order.into_iter().map(|to| if random.chance(idle) { -1 } else { to as i32 }).collect()
            }
        };
        Shape { what, count, kind, op, root, perm }
    }

    pub fn reduces(&self) -> bool {
        matches!(self.what, AllReduce | Reduce | ReduceScatter | ReduceScatterPadded)
    }

    /// Elements of member `me`'s input and output; `None` where the call does not look at it.
    pub fn sizes(&self, me: usize, n: usize) -> (Option<usize>, Option<usize>) {
        let (count, root) = (self.count, me == self.root);
        let at_root = |elements: usize| root.then_some(elements);
        match self.what {
            AllReduce => (Some(count), Some(count)),
            Reduce => (Some(count), at_root(count)),
            Broadcast | Bcast => (at_root(count), Some(count)),
            AllGather => (Some(count), Some(n * count)),
            ReduceScatter => (Some(n * count), Some(count)),
            ReduceScatterPadded => (Some(count), Some(count.div_ceil(n))),
            AlltoAll => (Some(n * count), Some(n * count)),
            Gather => (Some(count), at_root(n * count)),
            Scatter => (at_root(n * count), Some(count)),
            Permute => ((self.perm[me] >= 0).then_some(count), Some(count)),
            Barrier => (None, None),
        }
    }

    /// Where input and output begin in the one buffer of a call in place; `None` if there is no such form here.
    fn in_place(&self, me: usize) -> Option<(usize, usize)> {
        let root = me == self.root;
        match self.what {
            AllReduce | AlltoAll => Some((0, 0)),
            Reduce | Broadcast if root => Some((0, 0)),
            Bcast => Some((0, 0)),
            AllGather => Some((me * self.count, 0)),
            ReduceScatter => Some((0, me * self.count)),
            Gather if root => Some((me * self.count, 0)),
            Scatter if root => Some((0, me * self.count)),
            Permute if self.perm[me] == me as i32 => Some((0, 0)),
            _ => None,
        }
    }

    /// What member `me` must find in its output.
    fn expected(&self, patterns: &Patterns, me: usize, n: usize) -> Vec<u8> {
        let (_, elements) = self.sizes(me, n);
        let size = self.kind.size;
        let mut result = vec![0; elements.unwrap_or(0) * size];
        let of = |m: usize| patterns.inputs[m].as_slice();
        let block = self.count * size;
        match self.what {
            AllReduce | Reduce => patterns.write(&patterns.folded, 0, &mut result),
            ReduceScatter => patterns.write(&patterns.folded, me * self.count, &mut result),
            ReduceScatterPadded => {
                let start = me * self.count.div_ceil(n);
                let there = self.count.saturating_sub(start).min(self.count.div_ceil(n));
                patterns.write(&patterns.folded, start, &mut result[..there * size]);
            }
            Broadcast | Bcast => patterns.write(of(self.root), 0, &mut result),
            AllGather | Gather => {
                for (m, to) in result.chunks_mut(block.max(1)).enumerate() {
                    patterns.write(of(m), 0, to);
                }
            }
            AlltoAll => {
                for (m, to) in result.chunks_mut(block.max(1)).enumerate() {
                    patterns.write(of(m), me * self.count, to);
                }
            }
            Scatter => patterns.write(of(self.root), me * self.count, &mut result),
            Permute => {
                if let Some(from) = self.perm.iter().position(|&to| to == me as i32) {
                    patterns.write(of(from), 0, &mut result);
                }
            }
            Barrier => {}
        }
        result
    }
}

/// A collective with its buffers.
pub struct Collective {
    shape: Shape,
    place: Place,
    patterns: Patterns,
    send: Option<Buffer>,
    recv: Option<Buffer>,
    /// In place: where the input and the output begin in `recv`.
    within: Option<(usize, usize)>,
    /// What stands for a buffer that the call does not look at.
    unused: Out,
    call: String,
    step: u32,
}

impl Collective {
    pub fn prepare(actor: &mut Actor<'_>, place: &Place, step: &Step, shape: Shape) -> Outcome<Collective> {
        let (reduction, salt) = (shape.reduces().then_some(shape.op), step.salt ^ place.members[0] as u64);
        let patterns = Patterns::new(shape.kind, reduction, place.n(), salt);
        Collective::with(actor, place, step, shape, patterns)
    }

    /// A collective of the given inputs and results.
    pub fn with(
        actor: &mut Actor<'_>,
        place: &Place,
        step: &Step,
        shape: Shape,
        patterns: Patterns,
    ) -> Outcome<Collective> {
        let (me, n, size) = (place.me, place.n(), shape.kind.size);
        let mut random = place.own(step);
        let mut kinds = [draw_kind(&mut random), draw_kind(&mut random)];
        let within = shape.in_place(me).filter(|_| shape.what == Bcast || random.chance(40));
        let broken = shape.what == ReduceScatter && within.is_some();
        if broken && !actor.shared.program.has(Family::InPlaceRegistered) && kinds[1] == Kind::Registered {
            kinds[1] = Kind::Heap;
        }
        let (ins, outs) = shape.sizes(me, n);
        let unused = if random.chance(50) { NULL } else { 0x10 as Out };
        let mut made = Collective {
            place: place.clone(),
            patterns,
            send: None,
            recv: None,
            within,
            unused,
            call: String::new(),
            step: step.id,
            shape,
        };
        let mut make = |actor: &mut Actor<'_>, kind: Kind, elements: usize| {
            Buffer::new(actor, place.comm, kind, elements * size, size, &mut random)
        };
        let input = made.patterns.inputs[me].clone();
        if let Some((from, _)) = within {
            let whole = ins.unwrap_or(0).max(outs.unwrap_or(0));
            let mut buffer = make(actor, kinds[1], whole)?;
            if let Some(elements) = ins {
                made.patterns.write(&input, 0, &mut buffer.bytes()[from * size..][..elements * size]);
            }
            made.recv = Some(buffer);
            return Ok(made);
        }
        if let Some(elements) = ins {
            let mut buffer = make(actor, kinds[0], elements)?;
            made.patterns.write(&input, 0, buffer.bytes());
            made.send = Some(buffer);
        }
        if let Some(elements) = outs {
            let mut buffer = make(actor, kinds[1], elements)?;
            buffer.bytes().fill(0xee);
            made.recv = Some(buffer);
        }
        Ok(made)
    }

    /// Has the call nothing to do?
    pub fn is_empty(&self) -> bool {
        self.shape.count == 0
    }

    /// Sets the operation with which the call will be made.
    pub fn set_operation(&mut self, op: RedOp) {
        self.shape.op = op;
    }

    /// Makes the call.
    pub fn issue(&mut self, actor: &mut Actor<'_>, stream: Out) -> Outcome {
        actor.step = self.step;
        let s = &self.shape;
        let (from, to) = self.within.unwrap_or((0, 0));
        let size = s.kind.size;
        let recv = self.recv.as_ref().map_or(self.unused, |buffer| buffer.at(to * size));
        let send: In = match (&self.send, self.within, &self.recv) {
            (Some(buffer), ..) => buffer.input(0),
            (None, Some(_), Some(buffer)) => buffer.input(from * size),
            _ => self.unused,
        };
        let (count, kind, op, root, comm) = (s.count, s.kind.number, s.op, s.root as i32, self.place.comm);
        let perm = s.perm.as_ptr();
        let outcome = match s.what {
            AllReduce => call!(actor, pennyAllReduce(send, recv, count, kind, op, comm, stream)),
            Reduce => call!(actor, pennyReduce(send, recv, count, kind, op, root, comm, stream)),
            Broadcast => call!(actor, pennyBroadcast(send, recv, count, kind, root, comm, stream)),
            Bcast => call!(actor, pennyBcast(recv, count, kind, root, comm, stream)),
            AllGather => call!(actor, pennyAllGather(send, recv, count, kind, comm, stream)),
            ReduceScatter => call!(actor, pennyReduceScatter(send, recv, count, kind, op, comm, stream)),
            ReduceScatterPadded => {
                call!(actor, pennyReduceScatterPadded(send, recv, count, kind, op, comm, stream))
            }
            AlltoAll => call!(actor, pennyAlltoAll(send, recv, count, kind, comm, stream)),
            Gather => call!(actor, pennyGather(send, recv, count, kind, root, comm, stream)),
            Scatter => call!(actor, pennyScatter(send, recv, count, kind, root, comm, stream)),
            Permute => call!(actor, pennyPermute(send, recv, count, kind, perm, comm, stream)),
            Barrier => call!(actor, pennyBarrier(comm, stream)),
        };
        self.call = actor.call().to_owned();
        outcome
    }

    /// Holds the result against the oracle, and gives the buffers back.
    pub fn check(mut self, actor: &mut Actor<'_>) -> Outcome {
        actor.step = self.step;
        let (me, n, size) = (self.place.me, self.place.n(), self.shape.kind.size);
        let about = format!(
            "{}, member {me} of {n}, send {:?}, recv {:?}{}",
            self.call,
            self.send.as_ref().map(Buffer::kind),
            self.recv.as_ref().map(Buffer::kind),
            if self.within.is_some() { ", in place" } else { "" }
        );
        actor.about(&about);
        let expected = self.shape.expected(&self.patterns, me, n);
        if let Some(recv) = &mut self.recv {
            let to = self.within.map_or(0, |(_, to)| to * size);
            plant(actor, recv, to, expected.len());
            difference("the result", size, &recv.bytes()[to..][..expected.len()], &expected)?;
            recv.guards()?;
        }
        if let Some(send) = &mut self.send {
            let mut input = vec![0; send.bytes().len()];
            self.patterns.write(&self.patterns.inputs[me], 0, &mut input);
            difference("the input has changed", size, send.bytes(), &input)?;
            send.guards()?;
        }
        self.free(actor)
    }

    /// Holds the input and the guards only: the call was refused, and the output is undefined.
    pub fn check_refused(&mut self, untouched: bool) -> Outcome {
        if let Some(send) = &mut self.send {
            let mut input = vec![0; send.bytes().len()];
            self.patterns.write(&self.patterns.inputs[self.place.me], 0, &mut input);
            difference(
                "the input of a refused call has changed",
                self.shape.kind.size,
                send.bytes(),
                &input,
            )?;
            send.guards()?;
        }
        if let Some(recv) = &mut self.recv {
            recv.guards()?;
            if untouched && self.within.is_none() && recv.bytes().iter().any(|&byte| byte != 0xee) {
                return Err(Failure::wrong("the output of a refused reduction was written".to_owned()));
            }
        }
        Ok(())
    }

    /// The buffers are the caller's again. No rank writes to them until all have left the refused call, which a barrier ensures.
    pub fn is_left_alone(&mut self, actor: &mut Actor<'_>) -> Outcome {
        let (call, comm) = (self.call.clone(), self.place.comm);
        let input = self.send.as_mut().map(|send| send.bytes().to_vec());
        if let Some(recv) = &mut self.recv {
            recv.bytes().fill(0xee);
        }
        call!(actor, pennyBarrier(comm, NULL))?;
        actor.about(&call);
        let wrong = |what: &str| {
            Err(Failure::wrong(format!("the {what} of a refused call was written when it was over")))
        };
        if self.recv.as_mut().is_some_and(|recv| recv.bytes().iter().any(|&byte| byte != 0xee)) {
            return wrong("output");
        }
        if self.send.as_mut().map(|send| send.bytes().to_vec()) == input { Ok(()) } else { wrong("input") }
    }

    /// Gives the buffers back.
    pub fn free(self, actor: &mut Actor<'_>) -> Outcome {
        self.send.into_iter().chain(self.recv).try_for_each(|buffer| buffer.free(actor))
    }
}

/// Makes the fault that the command line asks for.
pub fn plant(actor: &Actor<'_>, buffer: &mut Buffer, at: usize, len: usize) {
    if len == 0 {
        return;
    }
    if actor.plants(Plant::Bit) {
        buffer.bytes()[at + len / 2] ^= 4;
    }
    if actor.plants(Plant::Before) {
        *buffer.before() ^= 0x10;
    }
    if actor.plants(Plant::Lost) {
        buffer.bytes()[at..][..len].fill(0xee);
    }
}
