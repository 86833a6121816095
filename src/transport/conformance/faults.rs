//! Links with planted faults, and links that deliver what cannot be.

use super::{
    Property, Wiring, a_slot_is_reused_when_its_reader_is_done,
    a_slots_bytes_are_there_when_the_counter_says_so, an_arrival_is_seen_whole_or_not_at_all, scope,
};
use crate::error::Code;
use crate::memory::control::lines::Lines;
use crate::memory::control::{Control, Layout, largest_payload};
use crate::memory::heap;
use crate::memory::view::Payload;
use crate::sync::wait::Backoff;
use crate::sys::cpu;
use crate::transport::Transport;
use crate::transport::far::Far;
use crate::transport::in_process::Delivery;
use crate::transport::link::{Body, Frame, Incoming, Link};
use crate::transport::threads::{RankThreads, ThreadSettings};
use crate::types::Rank;
use std::sync::Arc;

/// A link that delivers the same frames at every poll.
struct Broken(Tells);

/// What a broken link tells.
type Tells = fn(&mut dyn FnMut(Incoming<'_>));

impl Link for Broken {
    fn post(&self, _: Rank, _: Frame<'_>) -> crate::error::Result<()> {
        Ok(())
    }
    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> crate::error::Result<()> {
        self.0(sink);
        Ok(())
    }
}

fn frame(from: Rank, number: u64, body: Body<'_>) -> Incoming<'_> {
    Incoming::Frame(Frame { from, number, body })
}

#[test]
fn frames_that_cannot_be_end_the_communicator_with_a_sentence() {
    let cases: [(Tells, &str); 6] = [
        (|sink| sink(frame(0, 0, Body::Counter(1))), "which is no rank of another host"),
        (|sink| sink(frame(9, 0, Body::Counter(1))), "which is no rank of another host"),
        (|sink| sink(frame(1, 0, Body::Counter(1))), "came twice"),
        (|sink| sink(frame(1, u64::MAX, Body::Counter(1))), "far ahead of one that is missing"),
        (
            |sink| {
                let bytes = &mut vec![1; 8][..];
                sink(frame(1, 0, Body::Data { at: usize::MAX, bytes: Payload::from(bytes), counter: 1 }));
            },
            "does not fit its staging memory",
        ),
        (
            |sink| {
                let words = &mut vec![1; largest_payload(2) / 8 + 1][..];
                let payload = Payload::from(words);
                sink(frame(
                    1,
                    0,
                    Body::Arrival {
                        seq: 1,
                        args: 0,
                        count: 0,
                        trail: 0,
                        payload,
                        part: None,
                        may_wait: false,
                    },
                ));
            },
            "larger than an arrival",
        ),
    ];
    for (deliver, why) in cases {
        let t = behind(deliver, 0);
        let told = t.meet(1, &mut scope(1, 0)).unwrap_err();
        assert!(told.code == Code::RemoteError && told.message.contains(why), "{told}");
    }
}

/// Returns rank 0 of two behind a broken link. `beside`: far ranks on this machine.
fn behind(deliver: Tells, beside: usize) -> Transport {
    let control = Arc::new(Control::create(Layout::new(2, 4096)).unwrap());
    let mirror = Arc::new(Lines::private(control.layout(), 0).unwrap());
    let mut far = Far::new(&control, 0, Box::new([false, true]), mirror, Box::new(Broken(deliver))).unwrap();
    far.beside = beside;
    let heaps = (0..2).map(|_| heap::own().unwrap()).collect();
    Transport::new(control, 0, heaps, Backoff::for_ranks(2, None), 60_000_000_000)
        .with_far(Some(far))
        .with_threads(RankThreads::new(ThreadSettings::default()))
}

#[test]
fn ranks_of_several_hosts_on_one_machine_share_its_cores() {
    let cores = cpu::usable_cores();
    assert_eq!(behind(|_| {}, 0).threads_for(1 << 20).is_some(), cores > 1);
    assert!(behind(|_| {}, cores).threads_for(1 << 20).is_none());
}

/// Does the property find a planted fault with one of some seeds? The clock of the threads decides when it shows.
fn finds(property: Property, fault: fn(u64) -> Delivery, finding: &str) {
    let found = (0..50).find_map(|seed| property(Wiring::Far(fault(seed))).err());
    assert!(found.as_ref().is_some_and(|found| found.contains(finding)), "{found:?}");
}

#[test]
fn counters_that_take_effect_as_they_come_are_found() {
    finds(
        a_slots_bytes_are_there_when_the_counter_says_so,
        Delivery::Renumbered,
        "not there when the counter says so",
    );
}

#[test]
fn a_torn_arrival_is_found() {
    finds(an_arrival_is_seen_whole_or_not_at_all, |_| Delivery::Torn, "was torn");
}

#[test]
fn a_slot_given_back_too_early_is_found() {
    finds(a_slot_is_reused_when_its_reader_is_done, |_| Delivery::Hasty, "the bytes of slice");
}
