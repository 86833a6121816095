//! A call that can be queued, by a group or on streams: prepared, issued, checked.

use crate::actor::{Actor, NULL, Outcome, call};
use crate::api::Out;
use crate::collective::{Collective, Shape};
use crate::program::{Kind, Step};
use crate::random::Random;
use crate::scaled::Scaled;
use crate::transfers::Transfers;
use crate::vector::Vector;

pub enum Work {
    Collective(Box<Collective>),
    Vector(Box<Vector>),
    Scaled(Box<Scaled>),
    Transfers(Transfers),
    Group(Vec<Work>),
}

impl Work {
    /// `None` if this rank takes no part.
    pub fn prepare(actor: &mut Actor<'_>, step: &Step) -> Outcome<Option<Work>> {
        actor.step = step.id;
        if step.kind == Kind::Group {
            let mut works = Vec::new();
            for inner in &step.inner {
                works.extend(Work::prepare(actor, inner)?);
            }
            return Ok(Some(Work::Group(works)));
        }
        let Some(place) = actor.place(step) else { return Ok(None) };
        Ok(Some(match step.kind {
            Kind::Collective => {
                let shape = Shape::draw(actor, &place, step);
                Work::Collective(Box::new(Collective::prepare(actor, &place, step, shape)?))
            }
            Kind::Vector => Work::Vector(Box::new(Vector::prepare(actor, &place, step)?)),
            Kind::Scaled => Work::Scaled(Box::new(Scaled::prepare(actor, &place, step)?)),
            _ => Work::Transfers(Transfers::prepare(actor, &place, step)?),
        }))
    }

    /// Makes the call on one of the streams; a group's calls each on one.
    pub fn issue(&mut self, actor: &mut Actor<'_>, streams: &[Out], random: &mut Random) -> Outcome {
        let stream = random.one(streams);
        match self {
            Work::Collective(work) => work.issue(actor, stream),
            Work::Vector(work) => work.issue(actor, stream),
            Work::Scaled(work) => work.issue(actor, stream, random),
            Work::Transfers(work) => work.issue(actor, stream),
            Work::Group(works) => {
                call!(actor, pennyGroupStart())?;
                for work in works {
                    let nested = random.chance(30);
                    if nested {
                        call!(actor, pennyGroupStart())?;
                    }
                    work.issue(actor, streams, random)?;
                    if nested {
                        call!(actor, pennyGroupEnd())?;
                    }
                }
                call!(actor, pennyGroupEnd())
            }
        }
    }

    /// Makes the call without a stream.
    pub fn make(&mut self, actor: &mut Actor<'_>, random: &mut Random) -> Outcome {
        self.issue(actor, &[NULL], random)
    }

    /// Holds the results against the oracle, and gives the buffers back.
    pub fn check(self, actor: &mut Actor<'_>, random: &mut Random) -> Outcome {
        match self {
            Work::Collective(work) => work.check(actor),
            Work::Vector(work) => work.check(actor),
            Work::Scaled(work) => work.check(actor, random),
            Work::Transfers(work) => work.check(actor),
            Work::Group(works) => works.into_iter().try_for_each(|work| work.check(actor, random)),
        }
    }
}
