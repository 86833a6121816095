//! A link between threads, for tests: it delays and reorders frames from a seed, and kills ranks.

use super::Transport;
use super::arrival::WITHDRAWN;
use super::far::Far;
use super::link::{self, Body, Frame, Incoming, Link, OwnedBody};
use crate::error::Result;
use crate::kernels;
use crate::memory::control::lines::Lines;
use crate::memory::control::{Control, Layout};
use crate::memory::heap;
use crate::memory::view::{LentBytes, Payload};
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sync::wait::Backoff;
use crate::types::Rank;
use std::sync::{Arc, Mutex};

/// The way in which links deliver frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At the next poll, in the order in which frames were posted.
    InOrder,
    /// Each frame after some polls of its own, as this seed says.
    Reordered(u64),
    /// As `Reordered`, and bytes of callers' memory are lent: they are read when the sender has polled some times.
    Lent(u64),
    /// Each frame by one of two rails, as this seed says. What goes by one stays in order; the second stands still for some polls.
    TwoRails(u64),
    /// As `Reordered`, with a planted fault: frames are numbered as they come, so that counters take effect out of order.
    Renumbered(u64),
    /// In order, with a planted fault: an arrival comes without its payload first, and whole at the next poll.
    Torn,
    /// In order, with a planted fault: counters show one more step than their ranks have done.
    Hasty,
}

/// A frame under way.
struct Sent {
    from: Rank,
    number: u64,
    body: OwnedBody,
    /// Polls until it comes.
    delay: u32,
    /// The rail by which it goes.
    rail: usize,
    /// Bytes of a caller's memory that are still to be read, where they begin in the body's, and the sender's polls until then.
    lent: Option<(LentBytes, usize, u32)>,
}

impl Sent {
    /// Reads what is lent, or does without it.
    fn read_lent(&mut self, withdrawn: bool) {
        let Some((lent, at, _)) = self.lent.take() else { return };
        match withdrawn {
            true => self.body = OwnedBody::of(withdrawn_from(self.body.body())),
            false => kernels::copy(self.body.bytes().part(at, lent.view().bytes()), lent.view(), false),
        }
    }
}

/// Returns what comes of a body whose bytes are not sent.
fn withdrawn_from(body: Body<'_>) -> Body<'static> {
    match body {
        Body::Arrival { seq, args, count, trail, .. } => {
            let args = args | WITHDRAWN;
            Body::Arrival { seq, args, count, trail, payload: Payload::EMPTY, part: None, may_wait: false }
        }
        _ => Body::Counter(link::WITHDRAWN),
    }
}

/// All links of one communicator.
pub struct Network {
    /// The frames in flight, by receiver.
    under_way: Vec<Mutex<Vec<Sent>>>,
    dead: Vec<AtomicBool>,
}

impl Network {
    /// Ends a rank's process, as far as others see: what it sends and what is under way from it is lost.
    pub fn kill(&self, rank: Rank) {
        self.dead[rank as usize].store(true, Ordering::SeqCst);
    }

    fn is_dead(&self, rank: Rank) -> bool {
        self.dead[rank as usize].load(Ordering::SeqCst)
    }
}

/// One rank's link.
struct Port {
    near: Arc<Control>,
    network: Arc<Network>,
    rank: Rank,
    delivery: Delivery,
    state: Mutex<PortState>,
}

struct PortState {
    random: u64,
    /// For each rank, whether its death has been told.
    told: Vec<bool>,
    /// For each rank, the number of frames that have been delivered.
    delivered: Vec<u64>,
}

impl PortState {
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Link for Port {
    fn post(&self, to: Rank, frame: Frame<'_>) -> Result<()> {
        if self.network.is_dead(self.rank) {
            return Ok(());
        }
        let rail = match self.delivery {
            Delivery::TwoRails(_) => self.state.lock().unwrap().random() as usize % 2,
            _ => 0,
        };
        let delay = match self.delivery {
            Delivery::Reordered(_) | Delivery::Renumbered(_) | Delivery::Lent(_) => {
                let mut state = self.state.lock().unwrap();
                let most = if state.random().is_multiple_of(8) { 60 } else { 6 };
                (state.random() % most) as u32
            }
            Delivery::TwoRails(_) if rail == 1 => (self.state.lock().unwrap().random() % 12) as u32,
            Delivery::InOrder | Delivery::TwoRails(_) | Delivery::Torn | Delivery::Hasty => 0,
        };
        let (body, bytes) = frame.body.with_its_whole();
        let is_lent = !bytes.is_empty() && self.near.offset_of(bytes).is_none();
        let polls = || (self.state.lock().unwrap().random() % 4) as u32;
        let at = if let Body::Arrival { part: Some([at, _]), .. } = frame.body { at } else { 0 };
        let lent = is_lent.then(|| (bytes.lend(), at, polls()));
        assert!(lent.is_none() || self.takes_lent().is_some(), "bytes of a caller's memory");
        let sent = Sent { from: frame.from, number: frame.number, body, delay, rail, lent };
        self.network.under_way[to as usize].lock().unwrap().push(sent);
        Ok(())
    }

    fn takes_lent(&self) -> Option<usize> {
        matches!(self.delivery, Delivery::Lent(_)).then_some(0)
    }

    fn holds_lent(&self) -> bool {
        let mut holds = false;
        self.of_mine(|sent| holds |= sent.lent.is_some());
        holds
    }

    fn give_back_lent(&self) {
        self.of_mine(|sent| sent.read_lent(true));
    }

    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        self.of_mine(|sent| match &mut sent.lent {
            Some((.., polls @ 1..)) => *polls -= 1,
            _ => sent.read_lent(false),
        });
        let mut state = self.state.lock().unwrap();
        for rank in (0..state.told.len()).filter(|&r| self.network.is_dead(r as Rank)) {
            if !std::mem::replace(&mut state.told[rank], true) {
                sink(Incoming::Death(rank as Rank));
            }
        }
        let mut come = Vec::new();
        {
            let mut under_way = self.network.under_way[self.rank as usize].lock().unwrap();
            let all = std::mem::take(&mut *under_way);
            let mut stands = vec![false; 2 * state.told.len()];
            for mut sent in all.into_iter().filter(|sent| !self.network.is_dead(sent.from)) {
                // Behind one that does not come yet.
                let rail = &mut stands[2 * sent.from as usize + sent.rail];
                if matches!(self.delivery, Delivery::TwoRails(_))
                    && std::mem::replace(rail, *rail || sent.delay > 0)
                {
                    under_way.push(sent);
                    continue;
                }
                match sent.delay.checked_sub(1) {
                    None if sent.lent.is_none() => come.push(sent),
                    left => {
                        sent.delay = left.unwrap_or(0);
                        under_way.push(sent);
                    }
                }
            }
            if self.delivery == Delivery::Torn {
                self.tear(&mut state, &mut come, &mut under_way, sink);
            }
        }
        if matches!(self.delivery, Delivery::Reordered(_) | Delivery::Renumbered(_) | Delivery::Lent(_)) {
            // BOUND: the frames that have come.
            for i in (1..come.len()).rev() {
                let j = state.random() as usize % (i + 1);
                come.swap(i, j);
            }
        }
        for mut sent in come {
            let delivered = &mut state.delivered[sent.from as usize];
            let renumbered = matches!(self.delivery, Delivery::Renumbered(_) | Delivery::Torn);
            let number = if renumbered { *delivered } else { sent.number };
            *delivered += 1;
            let body = match sent.body.body() {
                Body::Counter(counter) if self.delivery == Delivery::Hasty => Body::Counter(counter + 1),
                body => body,
            };
            sink(Incoming::Frame(Frame { from: sent.from, number, body }));
        }
        Ok(())
    }
}

/// The number of a frame that has been torn already.
const TORN: u64 = u64::MAX;

impl Port {
    /// Does something with each frame of this rank that is under way.
    fn of_mine(&self, mut with: impl FnMut(&mut Sent)) {
        for to in &self.network.under_way {
            to.lock().unwrap().iter_mut().filter(|sent| sent.from == self.rank).for_each(&mut with);
        }
    }

    /// Delivers all frames up to the first untorn arrival, and of this one the line without its payload.
    fn tear(
        &self,
        state: &mut PortState,
        come: &mut Vec<Sent>,
        under_way: &mut Vec<Sent>,
        sink: &mut dyn FnMut(Incoming<'_>),
    ) {
        let whole = |sent: &mut Sent| {
            !matches!(sent.body.body(), Body::Arrival { payload, .. } if !payload.is_empty())
                || sent.number == TORN
        };
        let Some(first) = come.iter_mut().position(|sent| !whole(sent)) else { return };
        let mut later = come.split_off(first);
        let mut deliver = |sent: &mut Sent, torn: bool| {
            let body = match sent.body.body() {
                Body::Arrival { seq, args, count, trail, payload, part, may_wait } if torn => {
                    Body::Arrival { seq, args, count, trail, payload: payload.part(0, 0), part, may_wait }
                }
                body => body,
            };
            let number = state.delivered[sent.from as usize];
            state.delivered[sent.from as usize] += 1;
            sink(Incoming::Frame(Frame { from: sent.from, number, body }));
        };
        come.drain(..).for_each(|mut sent| deliver(&mut sent, false));
        deliver(&mut later[0], true);
        later[0].number = TORN;
        later.append(under_way);
        *under_way = later;
    }
}

/// The transports of ranks that are threads of this process, on hosts as `hosts` says by rank, with links between hosts.
pub fn transports(hosts: &[u32], delivery: Delivery, timeout_ms: u64) -> (Vec<Arc<Transport>>, Arc<Network>) {
    let network = Arc::new(Network {
        under_way: hosts.iter().map(|_| Mutex::default()).collect(),
        dead: hosts.iter().map(|_| AtomicBool::new(false)).collect(),
    });
    let controls = controls(hosts);
    let far = |rank: Rank, far: Box<[bool]>| {
        let seed = match delivery {
            Delivery::Reordered(seed)
            | Delivery::Renumbered(seed)
            | Delivery::TwoRails(seed)
            | Delivery::Lent(seed) => seed,
            Delivery::InOrder | Delivery::Torn | Delivery::Hasty => 0,
        };
        let random = (seed * 1024 + u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let state = PortState { random, told: vec![false; hosts.len()], delivered: vec![0; hosts.len()] };
        let near = &controls[rank as usize];
        let port =
            Port { near: near.clone(), network: network.clone(), rank, delivery, state: Mutex::new(state) };
        let mirror = Lines::private(near.layout(), 0).unwrap();
        Far::new(near, rank, far, Arc::new(mirror), Box::new(port)).unwrap()
    };
    let all = connected(hosts, &controls, timeout_ms, far);
    (all, network)
}

/// The control segment of each rank's host, by rank.
pub fn controls(hosts: &[u32]) -> Vec<Arc<Control>> {
    let layout = Layout::new(hosts.len() as u32, 32 << 10);
    let most = hosts.iter().max().map_or(0, |&host| host + 1);
    let of_hosts: Vec<_> = (0..most).map(|_| Arc::new(Control::create(layout).unwrap())).collect();
    hosts.iter().map(|&host| of_hosts[host as usize].clone()).collect()
}

/// The transports of ranks over these segments. `far` makes the far peers of a rank, given which ranks these are.
pub fn connected(
    hosts: &[u32],
    controls: &[Arc<Control>],
    timeout_ms: u64,
    mut far: impl FnMut(Rank, Box<[bool]>) -> Far,
) -> Vec<Arc<Transport>> {
    let mut transport = |(rank, &host): (Rank, &u32)| {
        let heaps = hosts.iter().map(|_| heap::own().unwrap()).collect();
        let backoff = Backoff::for_ranks(hosts.len(), None);
        let control = controls[rank as usize].clone();
        let transport = Transport::new(control, rank, heaps, backoff, timeout_ms * 1_000_000);
        let is_far: Box<[bool]> = hosts.iter().map(|&other| other != host).collect();
        Arc::new(transport.with_far(is_far.contains(&true).then(|| far(rank, is_far))))
    };
    let all: Vec<_> = (0..).zip(hosts).map(&mut transport).collect();
    all.iter().for_each(|t| t.number_hosts(hosts.to_vec()));
    all.iter().for_each(|t| t.live(std::process::id(), 1));
    all
}
