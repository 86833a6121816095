//! What a peer promises, near or far: one set of properties, held against every kind of peer, and against links with planted
//! faults, which it must find.

mod faults;
mod refused;

use super::arrival::{Fingerprint, Offer};
use super::in_process::{Delivery, transports};
use super::link::Ending;
use super::net_link::testing::{self, Loopback, Writes};
use super::{Scope, Transport, counter_base};
use crate::error::{Code, Error};
use crate::kernels;
use crate::memory::control::largest_payload;
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::sys::endpoint::Carrier;
use crate::types::{Collective, DataType, Rank, RedOp};
use refused::the_end_of_a_refused_message_harms_no_later_one;
use std::sync::Arc;

/// How the ranks of a test are connected.
#[derive(Clone, Copy, Debug)]
enum Wiring {
    /// By one control segment.
    Near,
    /// By links: each rank is on a host of its own.
    Far(Delivery),
    /// Each rank on a host of its own, over loopback.
    Loopback(&'static Carrier, Writes),
}

/// Why a property does not hold, as one rank sees it.
type Finding = Result<(), String>;

/// A property, given how the ranks are connected.
type Property = fn(Wiring) -> Finding;

struct World {
    ranks: Vec<Arc<Transport>>,
    kill: Box<dyn Fn(Rank) + Sync>,
}

impl World {
    fn new(n: u32, wiring: Wiring) -> World {
        let hosts = Vec::from_iter(0..n);
        let (ranks, network) = match wiring {
            Wiring::Near => transports(&vec![0; n as usize], Delivery::InOrder, 60_000),
            Wiring::Far(delivery) => transports(&hosts, delivery, 60_000),
            Wiring::Loopback(carrier, writes) => {
                let loopback = Loopback::new(&hosts, carrier, writes, 60_000);
                let ranks = loopback.transports.clone();
                return World { ranks, kill: Box::new(move |rank| loopback.kill(rank)) };
            }
        };
        World { ranks, kill: Box::new(move |rank| network.kill(rank)) }
    }

    /// Runs each rank's part on a thread. A rank that finds something ends the others' waits.
    fn run(&self, part: impl Fn(&Transport) -> Finding + Sync) -> Finding {
        let findings: Vec<Finding> = std::thread::scope(|scope| {
            let threads = self.ranks.iter().map(|t| {
                let part = &part;
                scope.spawn(move || part(t).inspect_err(|_| t.end_calls(Ending::Aborted)))
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().expect("a rank's thread")).collect()
        });
        let (aborted, own): (Vec<_>, Vec<_>) =
            findings.into_iter().filter_map(Result::err).partition(|text| text.contains("aborted"));
        own.into_iter().chain(aborted).next().map_or(Ok(()), Err)
    }

    /// Ends a rank's process, as far as others see.
    fn kill(&self, rank: Rank) {
        (self.kill)(rank);
        self.ranks[rank as usize].control().life(rank).node.mark_dead();
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

fn scope(seq: u64, root: u32) -> Scope {
    let mine = Fingerprint {
        collective: Collective::Broadcast,
        dtype: DataType::Uint8,
        op: RedOp::Sum,
        root,
        algorithm: 0,
        padded: false,
        count: 9,
    };
    Scope::new(seq, [mine.pack(), 9], seq, None)
}

/// Bytes that differ for every number.
fn pattern(number: u64, words: usize) -> Vec<u64> {
    (0..words as u64).map(|i| (number << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

fn write(place: Payload<'_>, mut words: Vec<u64>) {
    kernels::copy(place, Payload::from(&mut words[..]), false);
}

fn read(place: Payload<'_>) -> Vec<u64> {
    let mut words = vec![0; place.bytes() / 8];
    kernels::copy(Payload::from(&mut words[..]), place, false);
    words
}

/// Publishes a counter to one peer.
fn publish(t: &Transport, to: Rank, counter: u64) {
    t.publish(counter);
    if t.is_far(to) {
        t.send_counter(to, counter);
    }
}

fn an_arrival_is_seen_whole_or_not_at_all(wiring: Wiring) -> Finding {
    const CALLS: u64 = 200;
    // Words of payloads: in the line, and behind it.
    let words = |seq: u64| [1, 4, 5, largest_payload(2) / 8, 100][seq as usize % 5];
    World::new(2, wiring).run(|t| {
        for seq in 1..=CALLS {
            let mut scope = scope(seq, 0);
            let offer = Offer { payload: true, ..Offer::default() };
            if t.rank() == 0 {
                // The reader arrives when it has read. Payloads of two calls in a row are apart, whatever their sizes.
                t.wait(&mut scope, || t.has_arrived(1, seq.saturating_sub(2))).map_err(text)?;
                let bytes = words(seq) * 8;
                write(t.payload_of(0, seq, bytes, false), pattern(seq, words(seq)));
                t.arrive(&scope, &offer, bytes, |_| true);
                continue;
            }
            let found = t.meet(0, &mut scope).map_err(text)?;
            let payload = read(t.payload_of(0, seq, words(seq) * 8, false));
            if found != offer || scope.doubt || payload != pattern(seq, words(seq)) {
                return Err(format!("the arrival at call {seq} was torn"));
            }
            t.arrive(&scope, &Offer::default(), 0, |_| true);
        }
        Ok(())
    })
}

fn a_payload_that_comes_late_harms_no_later_one(wiring: Wiring) -> Finding {
    // Words of a payload that goes by a message, and of one that is written to its place, which is the same.
    let (small, large) = (128, largest_payload(2) / 8);
    World::new(2, wiring).run(|t| {
        let offer = Offer { payload: true, ..Offer::default() };
        let arrive = |seq: u64, words: usize| {
            if words > 0 {
                write(t.payload_of(0, seq, words * 8, false), pattern(seq, words));
            }
            t.arrive(&scope(seq, 0), &offer, words * 8, |_| true);
            t.flush_far();
        };
        for first in (1..40).step_by(4) {
            let last = first + 2;
            if t.rank() == 0 {
                arrive(first, small);
                t.wait(&mut scope(first, 0), || t.has_arrived(1, first + 1)).map_err(text)?;
                arrive(first + 1, 0);
                arrive(last, large);
                t.wait(&mut scope(last, 0), || t.has_arrived(1, last + 1)).map_err(text)?;
                arrive(last + 1, 0);
                continue;
            }
            // It needs nothing of the first call, and has no look at what comes before it waits for the last.
            (first..last).for_each(|seq| arrive(seq, 0));
            std::thread::sleep(std::time::Duration::from_millis(10));
            let mut waiting = scope(last, 0);
            t.meet(0, &mut waiting).map_err(text)?;
            if read(t.payload_of(0, last, large * 8, false)) != pattern(last, large) {
                return Err(format!("the payload of call {last} was overwritten"));
            }
            arrive(last, 0);
            arrive(last + 1, 0);
            t.meet(0, &mut scope(last + 1, 0)).map_err(text)?;
        }
        Ok(())
    })
}

fn counters_never_go_back(wiring: Wiring) -> Finding {
    const LAST: u64 = 500;
    World::new(2, wiring).run(|t| {
        if t.rank() == 0 {
            (1..=LAST).for_each(|counter| publish(t, 1, counter));
            return Ok(());
        }
        let (mut seen, mut back) = (0, false);
        t.wait(&mut scope(1, 0), || {
            let now = t.lines(0).progress(0).counter.load(Ordering::Acquire);
            back |= now < seen || now > LAST;
            seen = now;
            seen == LAST || back
        })
        .map_err(text)?;
        if back { Err("a counter went back".into()) } else { Ok(()) }
    })
}

/// A sender with `slots` slots, and a reader that looks at each some more times before it gives it back.
fn stream(wiring: Wiring, slots: u64, looks: u32) -> Finding {
    const WORDS: usize = 40;
    World::new(2, wiring).run(|t| {
        let mut scope = scope(1, 0);
        for k in 1..=300 {
            let at = (k % slots) as usize * WORDS * 8;
            if t.rank() == 0 {
                t.await_counter(1, k.saturating_sub(slots), &mut scope).map_err(text)?;
                write(t.staging(0, at, WORDS * 8), pattern(k, WORDS));
                t.publish(k);
                if t.is_far(1) {
                    t.send_slot(1, at, WORDS * 8, k);
                }
                continue;
            }
            t.await_counter(0, k, &mut scope).map_err(text)?;
            for look in 0..=looks {
                if read(t.staging(0, at, WORDS * 8)) != pattern(k, WORDS) {
                    let when = if look == 0 { "not there when the counter says so" } else { "overwritten" };
                    return Err(format!("the bytes of slice {k} are {when}"));
                }
                std::thread::yield_now();
                t.poll_far();
            }
            publish(t, 0, k);
        }
        Ok(())
    })
}

fn a_slots_bytes_are_there_when_the_counter_says_so(wiring: Wiring) -> Finding {
    stream(wiring, 8, 0)
}

fn a_slot_is_reused_when_its_reader_is_done(wiring: Wiring) -> Finding {
    stream(wiring, 1, 10)?;
    stream(wiring, 3, 4)
}

fn a_disagreement_is_told_to_both(wiring: Wiring) -> Finding {
    World::new(2, wiring).run(|t| {
        let (me, peer) = (t.rank(), 1 - t.rank());
        let mut scope = scope(1, me);
        t.arrive(&scope, &Offer::default(), 0, |_| true);
        // One rank looks at the other's arguments; the other waits for data that never comes.
        let ended = match me {
            0 => t.meet(peer, &mut scope).map(drop),
            _ => t.await_counter(peer, counter_base(1) + 1, &mut scope),
        };
        match ended {
            Err(e) if e.code == Code::InvalidUsage && e.message.contains(&format!("rank {peer} passed")) => {
                Ok(())
            }
            other => Err(format!("rank {me} was told {other:?}")),
        }
    })
}

/// Waits for rank 1's arrival, which must end with an error that says why.
fn in_vain(t: &Transport, why: &str) -> Finding {
    match t.meet(1, &mut scope(1, 0)) {
        Err(e) if e.code == Code::RemoteError && e.message.contains("rank 1") && e.message.contains(why) => {
            Ok(())
        }
        other => Err(format!("rank {} was told {other:?}", t.rank())),
    }
}

fn a_death_ends_the_wait(wiring: Wiring) -> Finding {
    let world = World::new(3, wiring);
    world.run(|t| {
        if t.rank() == 1 {
            world.kill(1);
            return Ok(());
        }
        in_vain(t, "died")
    })
}

fn giving_up_and_aborting_and_leaving_end_the_wait(wiring: Wiring) -> Finding {
    type Way = (fn(&Transport), &'static str);
    let ways: [Way; 4] = [
        (|t| t.fail(7), "gave up after an error in its call #7"),
        (Transport::leave, "has destroyed the communicator"),
        (|t| t.end_calls(Ending::Aborted), "aborted the communicator; make a new one (pennyCommShrink makes"),
        (
            |t| t.end_calls(Ending::Revoked),
            "revoked the communicator; make a new one (pennyCommShrink or pennyCommSplit makes",
        ),
    ];
    ways.into_iter().try_for_each(|(end, why)| {
        World::new(3, wiring).run(|t| {
            if t.rank() == 1 {
                end(t);
                return Ok(());
            }
            in_vain(t, why)
        })
    })
}

fn leaving_after_ones_part_harms_nobody(wiring: Wiring) -> Finding {
    World::new(3, wiring).run(|t| {
        let mut scope = scope(1, 0);
        t.arrive(&scope, &Offer::default(), 0, |_| true);
        match t.rank() {
            0 => t.await_counter(2, counter_base(1) + 1, &mut scope).map_err(text),
            1 => {
                t.publish_quietly(counter_base(2) - 1);
                t.leave();
                Ok(())
            }
            _ => {
                std::thread::sleep(std::time::Duration::from_millis(20));
                publish(t, 0, counter_base(1) + 1);
                Ok(())
            }
        }
    })
}

/// Every property for each of some ways to connect the ranks.
fn hold(property: Property, wirings: impl IntoIterator<Item = Wiring>) {
    for wiring in wirings {
        if let Err(finding) = property(wiring) {
            panic!("{wiring:?}: {finding}");
        }
    }
}

macro_rules! properties {
    ($wirings:expr; $($property:ident)*) => {$(
        #[test]
        fn $property() {
            hold(super::$property, $wirings);
        }
    )*};
}

macro_rules! peers {
    ($($kind:ident: $wirings:expr;)*) => {$(
        mod $kind {
            use super::*;
            properties! {
                $wirings;
                an_arrival_is_seen_whole_or_not_at_all
                a_payload_that_comes_late_harms_no_later_one
                the_end_of_a_refused_message_harms_no_later_one
                counters_never_go_back
                a_slots_bytes_are_there_when_the_counter_says_so
                a_slot_is_reused_when_its_reader_is_done
                a_disagreement_is_told_to_both
                a_death_ends_the_wait
                giving_up_and_aborting_and_leaving_end_the_wait
                leaving_after_ones_part_harms_nobody
            }
        }
    )*};
}

peers! {
    near: [Wiring::Near];
    far_in_order: [Wiring::Far(Delivery::InOrder)];
    far_by_two_rails: (0..4).map(|seed| Wiring::Far(Delivery::TwoRails(seed)));
    far_reordered: (0..10).map(|seed| Wiring::Far(Delivery::Reordered(seed)));
    over_loopback: over_loopback();
}

/// The ways over TCP, and over libfabric if there is one.
fn over_loopback() -> Vec<Wiring> {
    let ways = [Writes::WithTrailers, Writes::Alone, Writes::ByTwoRails];
    let all = testing::carriers().iter();
    all.flat_map(|carrier| ways.map(|writes| Wiring::Loopback(carrier, writes))).collect()
}
