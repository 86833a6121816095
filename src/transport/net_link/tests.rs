//! Ranks over loopback that do not wait in calls, strangers, and what they send.

use super::address::RankAddress;
use super::peer::WRITES;
use super::testing::{carriers, rails};
use super::wire::{self, Item, MessageHeader};
use super::{MESSAGE, NetLink, Prepared};
use crate::error::Result;
use crate::kernels;
use crate::memory::control::lines::Lines;
use crate::memory::control::{Control, FAILED, LEFT, Layout};
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::sys::endpoint::{Carrier, Place, SourceRange, Use};
use crate::sys::network::Interface;
use crate::transport::Transport;
use crate::transport::far::Far;
use crate::transport::in_process::{connected, controls};
use crate::transport::link::{Body, Frame, Incoming, Link, News};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Two ranks on two hosts. `with_trailers`: their writes end with the frame.
fn two(carrier: &Carrier, with_trailers: bool) -> (Vec<Arc<Transport>>, Vec<Vec<u8>>) {
    let controls = controls(&[0, 1]);
    let prepare = |rank: u32| {
        let mut prepared =
            NetLink::prepare(&controls[rank as usize], rank, 2, &[Interface::loopback()], carrier).unwrap();
        prepared.own.with_trailers &= with_trailers;
        prepared
    };
    let prepared = [prepare(0), prepare(1)];
    let blobs = prepared.each_ref().map(Prepared::blob);
    let mut left: Vec<_> = prepared.into_iter().map(Some).collect();
    let ranks = connected(&[0, 1], &controls, 60_000, |rank, _| {
        let mut others: Vec<_> = blobs.iter().cloned().map(Some).collect();
        others[rank as usize] = None;
        left[rank as usize].take().unwrap().connect(&others).unwrap()
    });
    (ranks, blobs.into())
}

/// Waits without polling: the attendants do.
fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("nothing has come in a minute");
}

fn counter(t: &Transport, of: u32) -> u64 {
    t.lines(of).progress(of).counter.load(Ordering::Acquire)
}

#[test]
fn a_rank_that_does_not_poll_hears_of_another_and_of_its_end() {
    for carrier in carriers() {
        for with_trailers in [true, false] {
            let (ranks, _) = two(carrier, with_trailers);
            until(|| ranks[0].joined(1) && ranks[1].joined(0));
            let mut words: Vec<u64> = (0..3000).collect();
            kernels::copy(ranks[0].staging(0, 64, 24_000), Payload::from(&mut words[..]), false);
            // A slot that is written, one that is sent, and the rank's end.
            ranks[0].send_slot(1, 64, 24_000, 7);
            ranks[0].send_slot(1, 64, 80, 8);
            ranks[0].leave();
            let life = ranks[1].lines(0).life(0);
            until(|| life.state.load(Ordering::Acquire) == LEFT);
            assert_eq!(counter(&ranks[1], 0), 8);
            let mut come = vec![0; 3000];
            kernels::copy(Payload::from(&mut come[..]), ranks[1].staging(0, 64, 24_000), false);
            assert!(come == words);
            ranks[0].note_far_death(1);
            let told = ranks[0].check_ranks([1].into_iter()).unwrap_err();
            assert!(told.message.contains("rank 1") && told.message.contains("died"), "{told}");
        }
    }
}

#[test]
fn more_than_the_provider_takes_at_once_arrives_whole_and_the_last_words_too() {
    for carrier in carriers() {
        for with_trailers in [true, false] {
            let (mut ranks, _) = two(carrier, with_trailers);
            // The receiver's words about writes come from its attendant alone.
            for k in 1..=1000 {
                let bytes = if k % 3 == 0 { 20_000 } else { 800 };
                ranks[0].send_slot(1, 0, bytes, k);
            }
            let receiver = ranks.pop().unwrap();
            // The sender's link ends at once: it waits until all was taken in.
            drop(ranks);
            assert_eq!(counter(&receiver, 0), 1000);
        }
    }
}

/// A link without an attendant.
struct Unattended(NetLink);

impl Link for Unattended {
    fn post(&self, to: u32, frame: Frame<'_>) -> Result<()> {
        self.0.post(to, frame)
    }
    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        self.0.poll(sink)
    }
    fn is_behind(&self) -> bool {
        self.0.is_behind()
    }
}

#[test]
fn a_rank_that_fails_can_wait_until_its_last_words_are_sent() {
    for carrier in carriers() {
        let controls = controls(&[0, 1]);
        let mut prepared = [0, 1].map(|rank: u32| {
            Some(
                NetLink::prepare(&controls[rank as usize], rank, 2, &[Interface::loopback()], carrier)
                    .unwrap(),
            )
        });
        let blobs = prepared.each_ref().map(|prepared| prepared.as_ref().unwrap().blob());
        let ranks = connected(&[0, 1], &controls, 60_000, |rank, far| {
            let mut others = blobs.clone().map(Some);
            others[rank as usize] = None;
            let prepared = prepared[rank as usize].take().unwrap();
            if rank == 1 {
                return prepared.connect(&others).unwrap();
            }
            let mirror = prepared.mirror.clone();
            let link = Unattended(prepared.link(&others).unwrap());
            Far::new(&controls[0], rank, far, mirror, Box::new(link)).unwrap()
        });
        until(|| {
            ranks[0].poll_far();
            ranks[0].joined(1) && ranks[1].joined(0)
        });
        (1..=500).for_each(|k| ranks[0].send_slot(1, 0, 20_000, k));
        ranks[0].fail(3);
        ranks[0].send_all_until(u64::MAX);
        // From here on rank 0's link is not polled: what has not been sent stays unsent, as if the process had ended.
        let life = ranks[1].lines(0).life(0);
        until(|| life.state.load(Ordering::Acquire) == FAILED);
        assert_eq!(counter(&ranks[1], 0), 500);
    }
}

#[test]
fn strangers_and_forged_frames_are_dropped_and_harm_nobody() {
    for carrier in carriers() {
        let (ranks, blobs) = two(carrier, true);
        let layout = Layout::new(2, 32 << 10);
        let address = RankAddress::of(&blobs[1], 1, layout).unwrap();
        let mut stranger = carrier.open(LOOPBACK, MESSAGE).unwrap();
        let to = stranger.insert(&address.rails[0].endpoint).unwrap();
        let frame = |token: u64, from: u32, item: &Item<'_>| {
            let mut message =
                MessageHeader { token, from, seen: 0, number: None, messages: 0 }.words().to_vec();
            wire::put(&mut message, item, false);
            message
        };
        let news = Item::Line(0, Body::Counter(u64::MAX));
        let mut cut = frame(address.token, 0, &news);
        cut.pop();
        let messages = [
            // Nothing, garbage, a wrong token, no member, the receiver itself, a kind that there is not, a cut frame.
            vec![],
            vec![u64::MAX; MESSAGE],
            frame(address.token ^ 1, 0, &news),
            frame(address.token, 9, &news),
            frame(address.token, 1, &news),
            [&frame(address.token, 0, &Item::Credit)[..wire::HEADER], &[99, 0]].concat(),
            cut,
            frame(address.token, 0, &Item::OfWrite(4_000_000)),
        ];
        for message in messages {
            until(|| {
                stranger.poll(&mut |_| ()).unwrap();
                stranger.send(to, &message).unwrap()
            });
        }
        // A write without a trailer, with the right key; one by a rank that there is not.
        let near = Control::create(layout).unwrap();
        let memory = stranger.register(Box::new(near.segment().clone()), 0, 4096, Use::Send).unwrap();
        let place = Place { address: address.rails[0].memory.address, key: address.rails[0].memory.key };
        for data in [3, 700 << 22, u32::MAX] {
            until(|| {
                stranger.poll(&mut |_| ()).unwrap();
                let source = SourceRange::Memory { memory, at: 0, bytes: 64 };
                stranger.write(to, source, &[], [place; 2], data).unwrap()
            });
        }
        until(|| {
            stranger.poll(&mut |_| ()).unwrap();
            stranger.pending() == 0
        });
        // The true rank's frames still count.
        ranks[0].send_slot(1, 0, 20_000, 5);
        until(|| counter(&ranks[1], 0) == 5);
        assert!(ranks[1].check_far().is_ok() && ranks[0].check_far().is_ok());
    }
}

#[test]
fn a_peer_that_cannot_be_connected_to_is_named() {
    for carrier in carriers() {
        let controls = controls(&[0, 1]);
        let prepare = |rank: u32| {
            NetLink::prepare(&controls[rank as usize], rank, 2, &[Interface::loopback()], carrier).unwrap()
        };
        let (one, gone) = (prepare(0), prepare(1).blob());
        // The second rank's endpoint is closed already.
        let link = one.link(&[None, Some(gone)]).unwrap();
        link.state.lock().others.patience_ns = 1_000_000;
        link.post(1, Frame { from: 0, number: 0, body: Body::News(News::default()) }).unwrap();
        let mut told = None;
        until(|| {
            told = link.poll(&mut |_| ()).err();
            told.is_some()
        });
        let told = told.unwrap();
        assert!(told.message.contains("cannot be reached: no connection to it within"), "{told}");
    }
}

#[test]
fn a_rail_that_does_not_reach_a_peer_is_named_though_another_does() {
    for carrier in carriers() {
        let controls = controls(&[0, 1]);
        let rails = rails(2);
        let prepare =
            |rank: u32| NetLink::prepare(&controls[rank as usize], rank, 2, &rails, carrier).unwrap();
        let (one, mut other) = (prepare(0), prepare(1));
        // The port is closed: a connection to it is refused.
        other.own.rails[1].endpoint = carrier.open(rails[1].address, MESSAGE).unwrap().name().to_vec();
        let (blob, others) = (one.blob(), other.blob());
        let [link, peer] =
            [one.link(&[None, Some(others)]).unwrap(), other.link(&[Some(blob), None]).unwrap()];
        link.state.lock().others.patience_ns = 300_000_000;
        let mut told = None;
        until(|| {
            peer.poll(&mut |_| ()).unwrap();
            told = link.poll(&mut |_| ()).err();
            told.is_some()
        });
        let told = told.unwrap();
        let named = "cannot be reached: no connection to it by lo2 (127.0.0.2 here, 127.0.0.2 there)";
        assert!(told.message.contains("rank 1 on ") && told.message.contains(named), "{told}");
        let one_rail = NetLink::prepare(&controls[0], 0, 2, &rails[..1], carrier).unwrap();
        let refused = one_rail.link(&[None, Some(prepare(1).blob())]).err().unwrap();
        assert!(refused.message.contains("this rank uses 1 of the interfaces"), "{refused}");
    }
}

/// The links of two ranks, and their mirrors.
fn pair(carrier: &Carrier) -> ([NetLink; 2], [Arc<Lines>; 2]) {
    let controls = controls(&[0, 1]);
    let mut prepared = [0, 1].map(|rank: u32| {
        Some(NetLink::prepare(&controls[rank as usize], rank, 2, &[Interface::loopback()], carrier).unwrap())
    });
    let blobs = prepared.each_ref().map(|prepared| prepared.as_ref().unwrap().blob());
    let mirrors = prepared.each_ref().map(|prepared| prepared.as_ref().unwrap().mirror.clone());
    let links = [0, 1].map(|rank: usize| {
        let mut others = blobs.clone().map(Some);
        others[rank] = None;
        prepared[rank].take().unwrap().link(&others).unwrap()
    });
    (links, mirrors)
}

#[test]
fn bytes_that_were_given_back_are_not_sent_and_their_frames_are() {
    for carrier in carriers() {
        const FRAMES: u64 = 100;
        let ([sender, receiver], [_, mirror]) = pair(carrier);
        let least = sender.takes_lent().expect("a provider that sends from any memory");
        let mut words = vec![7u64; 3000];
        let bytes = Payload::from(&mut words[..]);
        assert!(bytes.bytes() > least && !sender.holds_lent());
        let mut come = Vec::new();
        let mut take = |link: &NetLink| {
            link.poll(&mut |event| {
                let Incoming::Frame(Frame { number, body: Body::Counter(counter), .. }) = event else {
                    panic!("a frame of another kind")
                };
                come.push((number, counter));
            })
            .unwrap();
            come.len() as u64
        };
        let post = |number: u64, body: Body<'_>| sender.post(1, Frame { from: 0, number, body }).unwrap();
        // The receiver takes in nothing: some writes wait for its word.
        (0..FRAMES).for_each(|number| post(number, Body::Data { at: 64, bytes, counter: 1 + number }));
        assert!(sender.holds_lent());
        sender.give_back_lent();
        assert!(!sender.holds_lent());
        kernels::zero(bytes);
        post(FRAMES, Body::Counter(FRAMES + 1));
        until(|| {
            sender.poll(&mut |_| ()).unwrap();
            take(&receiver) > FRAMES
        });
        // Those that were made visible have the bytes that they had when they were posted.
        let withdrawn = come.iter().filter(|(_, counter)| *counter == 0).count() as u64;
        assert!((FRAMES - u64::from(WRITES)..=FRAMES).contains(&withdrawn), "{withdrawn} frames");
        assert!(come.iter().all(|&(number, counter)| counter == 0 || counter == number + 1));
        if withdrawn < FRAMES {
            let mut seen = vec![0; 3000];
            kernels::copy(Payload::from(&mut seen[..]), mirror.staging(0, 64, 24_000), false);
            assert!(seen.iter().all(|&word| word == 7));
        }
    }
}

#[test]
fn a_call_does_not_wait_until_the_dead_have_taken_in_what_it_has_lent() {
    for carrier in carriers() {
        let ([sender, _receiver], [mirror, _]) = pair(carrier);
        let mut words = vec![7u64; 3000];
        let bytes = Payload::from(&mut words[..]);
        // The provider takes some of the writes; the others wait in the queue.
        (0..100).for_each(|number| {
            let body = Body::Data { at: 64, bytes, counter: 1 + number };
            sender.post(1, Frame { from: 0, number, body }).unwrap();
        });
        assert!(sender.holds_lent());
        mirror.life(1).node.mark_dead();
        assert!(!sender.holds_lent());
    }
}

#[test]
fn frames_that_are_lost_with_their_connection_are_missed_and_late_ones_are_not() {
    for carrier in carriers() {
        for loses in [false, true] {
            let ([sender, receiver], _) = pair(carrier);
            for link in [&sender, &receiver] {
                let mut state = link.state.lock();
                (state.others.look_ns, state.others.late_ns) = (1_000_000, 20_000_000);
            }
            let post = |number| {
                sender.post(1, Frame { from: 0, number, body: Body::Counter(number) }).unwrap();
                if loses && number == 0 {
                    // As if it had gone by a connection that was lost.
                    sender.state.lock().others.peers[1].as_mut().unwrap().held.truncate(wire::HEADER);
                }
            };
            (0..3).for_each(post);
            let mut told = None;
            let mut come = 0;
            until(|| {
                sender.poll(&mut |_| ()).unwrap();
                told = receiver.poll(&mut |_| come += 1).err();
                // A process at rest does not wake for this.
                let rests =
                    |link: &NetLink| link.state.lock().others.until_look() == std::time::Duration::MAX;
                told.is_some() || come == 3 && rests(&sender) && rests(&receiver)
            });
            assert_eq!(told.is_some(), loses, "{told:?}");
            if let Some(told) = told {
                assert!(told.message.contains("1 of the frames that rank 0 on "), "{told}");
            }
        }
    }
}
