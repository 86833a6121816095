//! A program of channels: what workers of several places send to each other over their links, and when it is there.
//!
//! ```text
//!     channel 0   place 0 --link 0--> place 1      its own payloads, `every` so often
//!     channel 1   place 1 --link 0--> place 3      relays those of channel 0
//! ```
//!
//! Each link that a channel names runs the data mover's programs from the first payload's handshake to the last one's
//! credit. The clockwork follows every packet, so contention of channels on a link, of the two directions for its cores, and
//! links that retrain are all in the times. Nothing else is on those links meanwhile.

use super::channel::Setup;
use super::clockwork::{At, Clockwork};
use super::end::Side;
use super::parameters::Parameters;
use crate::error::{Error, Result};
use crate::topology::faults::FaultKind;
use crate::topology::{MoverSpec, Network, PortId, SignalMode, Termination};
use crate::types::Rank;
use std::collections::BTreeMap;

/// Payloads of all channels of a program, at most: each is followed packet by packet.
const MOST_PAYLOADS: u64 = 1 << 22;

/// A channel: one worker sends, another one receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkChannel {
    /// The place of the sender.
    pub from: Rank,
    /// The place of the receiver, a neighbour.
    pub to: Rank,
    /// Which of the links between the two.
    pub link: u32,
    /// Payloads.
    pub messages: u64,
    /// Bytes of each: whole words.
    pub bytes: u64,
    /// Buffers at each end; 0: as many as the machine's channels have.
    pub buffers: u32,
    /// The sending worker has its payloads this long after each other; 0: all at once.
    pub every_ps: u64,
    /// The channel before this one whose payloads it sends on, as they come; the worker then has none of its own.
    pub relays: Option<usize>,
}

/// How the mover is set up for all channels; what is left out is as on the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoverSetup {
    /// The way in which payloads are announced.
    pub signal: Option<SignalMode>,
    /// What ends the channels.
    pub termination: Option<Termination>,
}

/// The times of a program, by the machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramTimes {
    /// For each channel, when the first payload is where it is needed, and when the last one is.
    pub channels: Vec<[u64; 2]>,
    /// For each place, when its programs have ended and its payloads are there; its start, where it has no channel.
    pub places: Vec<u64>,
}

/// The links that channels name: one class, and each link's ports, the lower place's first.
struct Wires<'a> {
    network: &'a Network,
    links: BTreeMap<[PortId; 2], Vec<usize>>,
}

/// Runs channels, whose places begin at `start_ps`.
pub fn run(
    network: &Network,
    channels: &[LinkChannel],
    setup: MoverSetup,
    start_ps: &[u64],
) -> Result<ProgramTimes> {
    let wires = Wires::of(network, channels)?;
    let mut places = start_ps.to_vec();
    let Some(&[port, _]) = wires.links.keys().next() else {
        return Ok(ProgramTimes { channels: Vec::new(), places });
    };
    let class = network.class(port);
    if let Some([other, _]) = wires.links.keys().find(|[other, _]| network.class(*other) != class) {
        return Err(Error::argument(format!(
            "links {} and {} are of different classes; let the program's channels use links of one",
            network.ports[port as usize].name, network.ports[*other as usize].name
        )));
    }
    let mover: &MoverSpec = class.mover.as_ref().ok_or_else(|| unmoved(network))?;
    let parameters = Parameters::of_mover(class, mover);
    let signal = setup.signal.unwrap_or(mover.signal);
    let termination = setup.termination.unwrap_or(mover.termination);
    let mut works = Clockwork::new(&parameters);
    let mut seats = vec![At { link: 0, channel: 0 }; channels.len()];
    let mut ends = Vec::new();
    for (link, (&ports, of_link)) in wires.links.iter().enumerate() {
        let lower = channels[of_link[0]].from.min(channels[of_link[0]].to);
        let upper = channels[of_link[0]].from.max(channels[of_link[0]].to);
        let setups: Vec<Setup> = of_link
            .iter()
            .map(|&index| {
                let LinkChannel { from, messages, bytes, buffers, .. } = channels[index];
                let sender = if from == lower { Side::Near } else { Side::Far };
                let buffers = if buffers == 0 { mover.buffers } else { buffers };
                Setup { sender, messages, bytes, last_bytes: bytes, buffers }
            })
            .collect();
        let begin = [lower, upper].map(|place| start_ps[place as usize]);
        works.link(&setups, signal, termination, begin).map_err(|why| of(network, ports, &why))?;
        for (channel, &index) in (0..).zip(of_link) {
            seats[index] = At { link, channel };
        }
        for (from_ps, until_ps) in wires.outages(ports)? {
            works.outage(link, from_ps, until_ps - from_ps);
        }
        ends.push([lower, upper]);
    }
    for (index, channel) in channels.iter().enumerate() {
        match channel.relays {
            Some(source) => works.relay(seats[source], seats[index], mover.over_chip_ps(channel.bytes)),
            None => (0..channel.messages).for_each(|message| {
                let after_ps = message.saturating_mul(channel.every_ps);
                works.offer(seats[index], start_ps[channel.from as usize].saturating_add(after_ps));
            }),
        }
    }
    works.run()?;
    if !works.is_finished() {
        return Err(Error::internal("a program of channels did not end"));
    }
    let mut times = vec![[u64::MAX, 0]; channels.len()];
    let by_seat: BTreeMap<At, usize> = seats.iter().enumerate().map(|(index, &at)| (at, index)).collect();
    for taken in works.taken() {
        let index = by_seat[&taken.at];
        let there_ps = taken.at_ps.saturating_add(mover.over_chip_ps(channels[index].bytes));
        times[index] = [times[index][0].min(there_ps), times[index][1].max(there_ps)];
        let place = &mut places[channels[index].to as usize];
        *place = there_ps.max(*place);
    }
    for (link, ends) in ends.iter().enumerate() {
        for (&place, done_ps) in ends.iter().zip(works.finished_ps(link)) {
            places[place as usize] = done_ps.max(places[place as usize]);
        }
    }
    Ok(ProgramTimes { channels: times, places })
}

impl Wires<'_> {
    /// Refuses channels that are no channels of the machine's links, and those that relay what is not there.
    fn of<'a>(network: &'a Network, channels: &[LinkChannel]) -> Result<Wires<'a>> {
        let mut wires = Wires { network, links: BTreeMap::new() };
        let wrong = |index: usize, what: String| Err(Error::argument(format!("channel {index}: {what}")));
        let mut payloads = 0u64;
        for (index, channel) in channels.iter().enumerate() {
            let LinkChannel { from, messages, bytes, .. } = *channel;
            if messages == 0 {
                return wrong(index, "has no message; give it one".into());
            }
            payloads = payloads.saturating_add(messages);
            if let Some(source) = channel.relays {
                let Some(source_of) = channels[..index].get(source) else {
                    return wrong(
                        index,
                        format!("relays channel {source}, which is not before it; list that one first"),
                    );
                };
                if (source_of.to, source_of.messages, source_of.bytes) != (from, messages, bytes) {
                    return wrong(
                        index,
                        format!(
                            "sends {messages} payloads of {bytes} B from place {from} and relays channel {source}, which brings {} \
                             of {} B to place {}; make them the same",
                            source_of.messages, source_of.bytes, source_of.to
                        ),
                    );
                }
                if channels[..index].iter().any(|other| other.relays == Some(source)) {
                    return wrong(
                        index,
                        format!("relays channel {source}, which another one relays already; take one"),
                    );
                }
            }
            match wires.ports(channel) {
                Ok(ports) => wires.links.entry(ports).or_default().push(index),
                Err(what) => return wrong(index, what),
            }
        }
        match payloads > MOST_PAYLOADS {
            true => Err(Error::argument(format!(
                "{payloads} payloads are too many to follow; send at most {MOST_PAYLOADS}"
            ))),
            false => Ok(wires),
        }
    }

    /// The two ports of a channel's link, the lower place's first.
    fn ports(&self, channel: &LinkChannel) -> Result<[PortId; 2], String> {
        let LinkChannel { from, to, link, .. } = *channel;
        let places = self.network.shape.nranks();
        if from >= places || to >= places || from == to {
            return Err(format!("goes from place {from} to place {to}; name two of the {places} places"));
        }
        let lane = u16::try_from(link).map_err(|_| format!("there is no link {link}; count from 0"))?;
        let port = |from: Rank, to: Rank| {
            let mut way = Vec::new();
            self.network.routes.route(from, to, lane, &mut way)?;
            match way[..] {
                [port] if self.network.class(port).mover.is_some() => Ok(port),
                [_] => Err(unmoved(self.network).message.clone()),
                _ => Err(format!("places {from} and {to} are no neighbours; relay over those between")),
            }
        };
        let (lower, upper) = (from.min(to), from.max(to));
        let ports = [port(lower, upper)?, port(upper, lower)?];
        // Lanes beyond the links of an edge come round to the first.
        if link > 0 {
            let mut first = Vec::new();
            for lane in 0..lane {
                self.network.routes.route(lower, upper, lane, &mut first)?;
            }
            if first.contains(&ports[0]) {
                return Err(format!("there is no link {link} between places {from} and {to}; count from 0"));
            }
        }
        Ok(ports)
    }

    /// When a link is down: while one of its directions is.
    fn outages(&self, ports: [PortId; 2]) -> Result<Vec<(u64, u64)>> {
        let mut outages = Vec::new();
        for fault in self.network.faults.iter().filter(|fault| ports.contains(&fault.port)) {
            if fault.kind != FaultKind::Down {
                let name = &self.network.ports[fault.port as usize].name;
                return Err(Error::argument(format!(
                    "link {name} has a fault other than down, which channels do not follow; leave it out"
                )));
            }
            outages.push((fault.from_ps, fault.until_ps));
        }
        outages.sort_unstable();
        outages.dedup();
        Ok(outages)
    }
}

fn unmoved(network: &Network) -> Error {
    Error::argument(format!(
        "no data mover serves the links of {}; take t3000:mover=ethernet, or a file with [mover]",
        network.name
    ))
}

fn of(network: &Network, ports: [PortId; 2], why: &Error) -> Error {
    Error::argument(format!("link {}: {}", network.ports[ports[0] as usize].name, why.message))
}
