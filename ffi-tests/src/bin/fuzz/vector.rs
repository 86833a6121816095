//! One collective whose blocks have sizes of their own: drawn from a step, issued, checked against the oracle.
//!
//! Blocks of a buffer lie in any order, with gaps between them that no call may write. Blocks of an input may also lie on top of each
//! other, and the place of an empty block means nothing.

use crate::actor::{Actor, NULL, Outcome, Place, Plant, call, refused};
use crate::api::{INVALID_USAGE, In, Out, RedOp};
use crate::blocks::Blocks;
use crate::buffer::{Buffer, difference};
use crate::collective::plant;
use crate::draw::{draw_count, draw_kind, draw_operation};
use crate::element::{Patterns, Type};
use crate::program::Step;
use crate::random::Random;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    AlltoAll,
    AllGather,
    Gather,
    Scatter,
    ReduceScatter,
}

use Form::*;

const ALL: [Form; 5] = [AlltoAll, AllGather, Gather, Scatter, ReduceScatter];

/// What fills an output before the call, and the gaps between its blocks.
const EMPTY: u8 = 0xee;

/// What all members know of the call.
struct Shape {
    form: Form,
    kind: Type,
    op: RedOp,
    root: usize,
    /// Elements from each member to each.
    counts: Vec<Vec<usize>>,
    /// The members whose input blocks lie on top of each other.
    piled: Vec<bool>,
}

impl Shape {
    fn draw(random: &mut Random, n: usize, forms: &[Form]) -> Shape {
        let form = random.one(forms);
        let (kind, op) = draw_operation(random);
        let most = (1 << 20) / kind.size / n;
        let mut draw =
            |empty: usize| if random.chance(empty) { 0 } else { draw_count(random, kind.size, n).min(most) };
        let list: Vec<usize> = (0..n).map(|_| draw(20)).collect();
        let mut counts: Vec<Vec<usize>> = (0..n).map(|_| (0..n).map(|_| draw(20)).collect()).collect();
        let symmetric = random.chance(40);
        for from in 0..n {
            for to in 0..n {
                counts[from][to] = match form {
                    AlltoAll if symmetric => counts[from.min(to)][from.max(to)],
                    AlltoAll => counts[from][to],
                    AllGather | Gather => list[from],
                    Scatter | ReduceScatter => list[to],
                };
            }
        }
        let piled = (0..n).map(|_| matches!(form, AlltoAll | Scatter) && random.chance(10)).collect();
        Shape { form, kind, op, root: random.below(n), counts, piled }
    }

    fn n(&self) -> usize {
        self.counts.len()
    }

    /// Elements from each member to member `me`.
    fn to(&self, me: usize) -> Vec<usize> {
        self.counts.iter().map(|row| row[me]).collect()
    }

    /// Where the block from one member to another begins in the sender's pattern.
    fn start(&self, from: usize, to: usize) -> usize {
        match self.form {
            AllGather | Gather => 0,
            AlltoAll | Scatter if self.piled[from] => 0,
            AlltoAll | Scatter => to * 31,
            ReduceScatter => self.counts[from][..to].iter().sum(),
        }
    }

    /// The blocks of member `me`'s input; `None` where the call does not look at it.
    fn input(&self, me: usize, random: &mut Random) -> Option<Blocks> {
        match self.form {
            AlltoAll => Some(Blocks::draw(self.counts[me].clone(), self.piled[me], random)),
            Scatter => {
                (me == self.root).then(|| Blocks::draw(self.counts[me].clone(), self.piled[me], random))
            }
            AllGather | Gather => Some(Blocks::packed(vec![self.counts[me][0]])),
            ReduceScatter => Some(Blocks::packed(self.counts[me].clone())),
        }
    }

    /// The blocks of member `me`'s output; `None` where the call does not look at it.
    fn output(&self, me: usize, random: &mut Random) -> Option<Blocks> {
        match self.form {
            AlltoAll | AllGather => Some(Blocks::draw(self.to(me), false, random)),
            Gather => (me == self.root).then(|| Blocks::draw(self.to(me), false, random)),
            Scatter | ReduceScatter => Some(Blocks::packed(vec![self.counts[self.root][me]])),
        }
    }

    /// Is there a call in place for member `me`?
    fn has_in_place(&self, me: usize) -> bool {
        match self.form {
            AlltoAll => !self.piled[me] && self.counts[me] == self.to(me),
            AllGather | ReduceScatter => true,
            Gather => me == self.root,
            Scatter => me == self.root && !self.piled[me],
        }
    }
}

/// A list as a call takes it.
fn address(list: &[usize]) -> *const usize {
    list.as_ptr()
}

/// A vector call with its buffers.
pub struct Vector {
    shape: Shape,
    place: Place,
    patterns: Patterns,
    input: Option<Blocks>,
    output: Option<Blocks>,
    send: Option<Buffer>,
    /// In place the only buffer.
    recv: Option<Buffer>,
    in_place: bool,
    /// What the call must leave in `recv` where it writes nothing.
    before: Vec<u8>,
    /// What stands for addresses that the call does not look at.
    unused: Out,
    call: String,
    step: u32,
}

impl Vector {
    pub fn prepare(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome<Vector> {
        let shape = Shape::draw(&mut place.common(step), place.n(), &ALL);
        Vector::with(actor, place, step, shape)
    }

    fn with(actor: &mut Actor<'_>, place: &Place, step: &Step, shape: Shape) -> Outcome<Vector> {
        let (me, size) = (place.me, shape.kind.size);
        let mut random = place.own(step);
        let reduces = shape.form == ReduceScatter;
        let salt = step.salt ^ place.members[0] as u64;
        let patterns = Patterns::new(shape.kind, reduces.then_some(shape.op), shape.n(), salt);
        let mut made = Vector {
            place: place.clone(),
            patterns,
            input: shape.input(me, &mut random),
            output: shape.output(me, &mut random),
            send: None,
            recv: None,
            in_place: shape.has_in_place(me) && random.chance(40),
            before: Vec::new(),
            unused: if random.chance(50) { NULL } else { 0x10 as Out },
            call: String::new(),
            step: step.id,
            shape,
        };
        if made.in_place && made.shape.form == AlltoAll {
            made.input.clone_from(&made.output);
        }
        let mut make = |actor: &mut Actor<'_>, bytes: usize| {
            let kind = draw_kind(&mut random);
            let mut buffer = Buffer::new(actor, place.comm, kind, bytes, size, &mut random)?;
            buffer.bytes().fill(EMPTY);
            Outcome::Ok(buffer)
        };
        let extent = |blocks: &Option<Blocks>| blocks.as_ref().map(|blocks| blocks.extent() * size);
        if made.in_place {
            let bytes = extent(&made.input).max(extent(&made.output)).unwrap_or(0);
            let mut buffer = make(actor, bytes)?;
            made.before = vec![EMPTY; bytes];
            let at = made.send_at();
            made.write_input(at, &mut made.before.clone()).clone_into(&mut made.before);
            buffer.bytes().copy_from_slice(&made.before);
            made.recv = Some(buffer);
            return Ok(made);
        }
        if let Some(bytes) = extent(&made.input) {
            let mut buffer = make(actor, bytes)?;
            made.write_input(0, buffer.bytes());
            made.send = Some(buffer);
        }
        if let Some(bytes) = extent(&made.output) {
            made.recv = Some(make(actor, bytes)?);
            made.before = vec![EMPTY; bytes];
        }
        Ok(made)
    }

    /// Where the input begins in the one buffer of a call in place, in elements.
    fn send_at(&self) -> usize {
        match (self.shape.form, &self.output) {
            (AllGather | Gather, Some(output)) => output.range(self.place.me).start,
            _ => 0,
        }
    }

    /// Where the output begins in the one buffer of a call in place, in elements.
    fn recv_at(&self) -> usize {
        match (self.shape.form, &self.input) {
            (Scatter | ReduceScatter, Some(input)) => input.range(self.place.me).start,
            _ => 0,
        }
    }

    /// Writes the input's blocks to a buffer whose element `at` is the input's first.
    fn write_input<'b>(&self, at: usize, to: &'b mut [u8]) -> &'b mut [u8] {
        let (me, size) = (self.place.me, self.shape.kind.size);
        let input = self.input.as_ref().expect("a rank without an input writes none");
        for peer in 0..input.counts.len() {
            let range = input.range(peer);
            let part = &mut to[(at + range.start) * size..(at + range.end) * size];
            self.patterns.write(&self.patterns.inputs[me], self.shape.start(me, peer), part);
        }
        to
    }

    /// Makes the call. Its lists are overwritten when it returns.
    pub fn issue(&mut self, actor: &mut Actor<'_>, stream: Out) -> Outcome {
        actor.step = self.step;
        let s = &self.shape;
        let at = |buffer: &Option<Buffer>, element: usize| {
            buffer.as_ref().map_or(self.unused, |buffer| buffer.at(element * s.kind.size))
        };
        let (send, recv): (In, Out) = match self.in_place {
            true => (at(&self.recv, self.send_at()).cast_const(), at(&self.recv, self.recv_at())),
            false => (at(&self.send, 0).cast_const(), at(&self.recv, 0)),
        };
        let unused = self.unused.cast::<usize>().cast_const();
        let mut lists: Vec<Vec<usize>> = Vec::new();
        let mut addresses = |blocks: &Option<Blocks>| match blocks {
            None => (unused, unused, 0),
            Some(blocks) => {
                lists.extend([blocks.counts.clone(), blocks.at.clone()]);
                let [.., counts, displs] = &lists[..] else { unreachable!("two were just added") };
                let displs = if blocks.listed { address(displs) } else { std::ptr::null() };
                (address(counts), displs, blocks.counts[0])
            }
        };
        let (sendcounts, senddispls, sendcount) = addresses(&self.input);
        let (recvcounts, recvdispls, recvcount) = addresses(&self.output);
        let (kind, op, root, comm) = (s.kind.number, s.op, s.root as i32, self.place.comm);
        let outcome = match s.form {
            AlltoAll => call!(
                actor,
                pennyAlltoAllv(
                    send, sendcounts, senddispls, recv, recvcounts, recvdispls, kind, comm, stream
                )
            ),
            AllGather => {
                call!(
                    actor,
                    pennyAllGatherv(send, sendcount, recv, recvcounts, recvdispls, kind, comm, stream)
                )
            }
            Gather => {
                call!(
                    actor,
                    pennyGatherv(send, sendcount, recv, recvcounts, recvdispls, kind, root, comm, stream)
                )
            }
            Scatter => {
                call!(
                    actor,
                    pennyScatterv(send, sendcounts, senddispls, recv, recvcount, kind, root, comm, stream)
                )
            }
            ReduceScatter => {
                call!(actor, pennyReduceScatterv(send, recv, sendcounts, kind, op, comm, stream))
            }
        };
        lists.iter_mut().for_each(|list| list.fill(usize::MAX));
        self.call = actor.call().to_owned();
        outcome
    }

    /// What the call leaves in `recv`.
    fn expected(&self) -> Vec<u8> {
        let (me, s, size) = (self.place.me, &self.shape, self.shape.kind.size);
        let mut result = self.before.clone();
        let Some(output) = &self.output else { return result };
        let shift = if self.in_place { self.recv_at() } else { 0 };
        for i in 0..output.counts.len() {
            let range = output.range(i);
            let to = &mut result[(shift + range.start) * size..(shift + range.end) * size];
            match s.form {
                ReduceScatter => self.patterns.write(&self.patterns.folded, s.start(me, me), to),
                Scatter => self.patterns.write(&self.patterns.inputs[s.root], s.start(s.root, me), to),
                _ => self.patterns.write(&self.patterns.inputs[i], s.start(i, me), to),
            }
        }
        result
    }

    /// Holds the result against the oracle, and gives the buffers back.
    pub fn check(mut self, actor: &mut Actor<'_>) -> Outcome {
        actor.step = self.step;
        self.about(actor);
        let (expected, size) = (self.expected(), self.shape.kind.size);
        let gap = self.output.as_ref().filter(|_| !self.in_place).and_then(Blocks::gap);
        if let Some(recv) = &mut self.recv {
            plant(actor, recv, 0, expected.len());
            if let Some(gap) = gap.filter(|_| actor.plants(Plant::Gap)) {
                recv.bytes()[gap * size] ^= 1;
            }
        }
        self.hold("the result", &expected)?;
        self.free(actor)
    }

    fn about(&self, actor: &mut Actor<'_>) {
        let (form, me, n) = (self.shape.form, self.place.me, self.place.n());
        let shown = |blocks: &Option<Blocks>| {
            blocks.as_ref().map(|blocks| format!("{:?} at {:?}", blocks.counts, blocks.at))
        };
        actor.about(&format!(
            "{}, {form:?} of member {me} of {n}, send {:?} {:?}, recv {:?} {:?}{}",
            self.call,
            self.send.as_ref().map(Buffer::kind),
            shown(&self.input),
            self.recv.as_ref().map(Buffer::kind),
            shown(&self.output),
            if self.in_place { ", in place" } else { "" }
        ));
    }

    /// Holds the output, the input and the guards.
    fn hold(&mut self, what: &str, expected: &[u8]) -> Outcome {
        let size = self.shape.kind.size;
        let mut send = self.send.take();
        if let Some(recv) = &mut self.recv {
            difference(what, size, recv.bytes(), expected)?;
            recv.guards()?;
        }
        if let Some(send) = &mut send {
            let mut input = vec![EMPTY; send.bytes().len()];
            self.write_input(0, &mut input);
            difference("the input has changed", size, send.bytes(), &input)?;
            send.guards()?;
        }
        self.send = send;
        Ok(())
    }

    fn free(self, actor: &mut Actor<'_>) -> Outcome {
        self.send.into_iter().chain(self.recv).try_for_each(|buffer| buffer.free(actor))
    }
}

/// One rank has other counts than the others: all are refused, and nothing is written.
pub fn disagree(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let mut random = place.common(step);
    let n = place.n();
    let mut shape = Shape::draw(&mut random, n, &[AllGather, ReduceScatter]);
    let (odd, other) = (random.below(n), random.below(n));
    if odd == place.me {
        match shape.form {
            AllGather => shape.counts[other].iter_mut().for_each(|count| *count += 1),
            _ => shape.counts.iter_mut().for_each(|row| row[other] += 1),
        }
    }
    let mut work = Vector::with(actor, place, step, shape)?;
    refused(work.issue(actor, NULL), INVALID_USAGE, "a vector call that the ranks do not agree on")?;
    work.about(actor);
    let before = work.before.clone();
    work.hold("the output of a refused vector call", &before)?;
    let comm = place.comm;
    call!(actor, pennyBarrier(comm, NULL))?;
    work.about(actor);
    work.hold("the output of a refused vector call, when all had left it,", &before)?;
    work.free(actor)
}
