//! A sum of scaled inputs: each member multiplies its input by a number of its own.
//!
//! The number is where the library may read it only while it may: a host's number is changed when the operation is made, a device's number
//! is written just before the call. An operation may be destroyed while calls with it are queued.

use crate::actor::{Actor, NULL, Outcome, Place, Plant, call, refused};
use crate::api::{Comm, INVALID_ARGUMENT, In, Out, RedOp};
use crate::collective::{Collective, Shape, What};
use crate::element::{Class, Patterns, SUM, TYPES, Type};
use crate::program::{Family, Step};
use crate::random::Random;

/// pennyScalarDevice, pennyScalarHostImmediate.
const DEVICE: i32 = 0;
const HOST: i32 = 1;

/// A number that is no factor.
const WRONG: u64 = 0x6b6b_6b6b_6b6b_6b6b;

/// A scaled sum with its operation.
pub struct Scaled {
    sum: Collective,
    comm: Comm,
    kind: Type,
    factor: u64,
    residence: i32,
    /// Where the library reads the number, at any alignment.
    place: Box<[u8; 16]>,
    shift: usize,
    made: Option<RedOp>,
    /// The operation is destroyed as soon as the call is made or queued.
    early: bool,
    step: u32,
}

impl Scaled {
    pub fn prepare(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome<Scaled> {
        let mut random = place.common(step);
        let mut shape = Shape::draw(actor, place, step);
        let whats = [What::AllReduce, What::Reduce, What::ReduceScatter, What::ReduceScatterPadded];
        shape.what = random.one(&whats[..if actor.shared.program.has(Family::Padded) { 4 } else { 3 }]);
        shape.kind = loop {
            let kind = random.one(&TYPES);
            if kind.class != Class::Bool {
                break kind;
            }
        };
        shape.op = SUM;
        shape.count = shape.count.min((1 << 20) / shape.kind.size / place.n());
        let kind = shape.kind;
        let common = random.one(&[0.5, 1.0, 2.0]);
        let factors: Vec<u64> = (0..place.n()).map(|_| kind.factor(common, &mut random)).collect();
        let patterns = Patterns::scaled(kind, &factors, step.salt ^ place.members[0] as u64);
        let mut random = place.own(step);
        Ok(Scaled {
            sum: Collective::with(actor, place, step, shape, patterns)?,
            comm: place.comm,
            kind,
            factor: factors[place.me],
            residence: random.one(&[DEVICE, HOST]),
            place: Box::new([0; 16]),
            shift: random.below(8),
            made: None,
            early: random.chance(50),
            step: step.id,
        })
    }

    fn put(&mut self, bits: u64) {
        self.place[self.shift..][..self.kind.size].copy_from_slice(&bits.to_le_bytes()[..self.kind.size]);
    }

    pub fn issue(&mut self, actor: &mut Actor<'_>, stream: Out, random: &mut Random) -> Outcome {
        actor.step = self.step;
        let (comm, kind, residence) = (self.comm, self.kind.number, self.residence);
        let early = !self.sum.is_empty() && actor.plants(Plant::Factor);
        self.put(if (residence == HOST) == early { WRONG } else { self.factor });
        let mut op = RedOp(-1);
        let (to, scalar): (*mut RedOp, In) = (&mut op, self.place[self.shift..].as_ptr().cast());
        call!(actor, pennyRedOpCreatePreMulSum(to, scalar, kind, residence, comm))?;
        self.made = Some(op);
        self.put(if (residence == HOST) == early { self.factor } else { WRONG });
        self.sum.set_operation(op);
        self.sum.issue(actor, stream)?;
        if self.early {
            self.destroy(actor, random)?;
        }
        Ok(())
    }

    /// Ends the operation; then it is no operation any more.
    fn destroy(&mut self, actor: &mut Actor<'_>, random: &mut Random) -> Outcome {
        let (Some(op), comm) = (self.made.take(), self.comm) else { return Ok(()) };
        call!(actor, pennyRedOpDestroy(op, comm))?;
        if random.chance(20) {
            refused(
                call!(actor, pennyRedOpDestroy(op, comm)),
                INVALID_ARGUMENT,
                "a second pennyRedOpDestroy",
            )?;
        }
        Ok(())
    }

    /// Holds the result against the oracle. Some operations are left for the end of the communicator.
    pub fn check(mut self, actor: &mut Actor<'_>, random: &mut Random) -> Outcome {
        actor.step = self.step;
        if random.chance(70) {
            self.destroy(actor, random)?;
        }
        self.sum.check(actor)
    }
}

/// Calls with an operation that was destroyed, or that was made for another type.
pub fn wrong_operation(actor: &mut Actor<'_>, place: &Place) -> Outcome {
    let (comm, one, mut op) = (place.comm, 1f32, RedOp(-1));
    let (to, scalar): (*mut RedOp, In) = (&mut op, (&raw const one).cast());
    let float = TYPES[7].number;
    call!(actor, pennyRedOpCreatePreMulSum(to, scalar, float, HOST, comm))?;
    let (input, mut output) = ([1f64; 4], [0f64; 4]);
    let (send, recv): (In, Out) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
    let double = TYPES[8].number;
    let outcome = call!(actor, pennyAllReduce(send, recv, 4, double, op, comm, NULL));
    refused(outcome, INVALID_ARGUMENT, "an operation of another type")?;
    call!(actor, pennyRedOpDestroy(op, comm))?;
    call!(actor, pennyAllReduce(send, recv, 4, float, op, comm, NULL))
}
