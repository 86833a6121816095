//! Endpoints of this process that meet, and strangers.

mod ended;

use super::*;
use crate::sys::endpoint::tests::{Words, word};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const WORDS: usize = 1100;

fn open() -> TcpEndpoint {
    TcpEndpoint::open(V4, WORDS, None).unwrap()
}

/// Two that know each other.
fn pair() -> ([TcpEndpoint; 2], [PeerId; 2]) {
    let mut both = [open(), open()];
    let names = both.each_ref().map(|one| one.name.clone());
    let to = [both[0].insert(&names[1]).unwrap(), both[1].insert(&names[0]).unwrap()];
    (both, to)
}

/// What has come to an endpoint.
#[derive(Default, Debug)]
struct Come {
    messages: Vec<Vec<u64>>,
    written: Vec<u32>,
    lost: Vec<String>,
}

impl Come {
    fn take(&mut self, from: &mut TcpEndpoint) {
        let mut sink = |report: Report<'_>| match report {
            Report::Message(words) => self.messages.push(words.to_vec()),
            Report::Written(data) => self.written.push(data),
            Report::Lost(peer, why) => self.lost.push(format!("{peer:?}: {why}")),
        };
        from.poll(&mut sink).unwrap();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
    }
}

/// Sends a message, and takes it in at the other side.
fn pass(both: &mut [TcpEndpoint; 2], to: PeerId, from: usize, value: u64) {
    let mut come = Come::default();
    let mut is_sent = false;
    until("a message", || {
        is_sent = is_sent || both[from].send(to, &[value; 9]).unwrap();
        Come::default().take(&mut both[from]);
        come.take(&mut both[1 - from]);
        !come.messages.is_empty()
    });
    assert_eq!(come.messages, [[value; 9]]);
    assert!(come.lost.is_empty(), "{:?}", come.lost);
}

#[test]
fn both_may_connect_at_once() {
    for _ in 0..200 {
        let (mut both, to) = pair();
        let (mut sent, mut come) = ([false; 2], [Come::default(), Come::default()]);
        until("both messages", || {
            for side in [0, 1] {
                sent[side] = sent[side] || both[side].send(to[side], &[side as u64]).unwrap();
                come[side].take(&mut both[side]);
            }
            come.iter().all(|come| !come.messages.is_empty())
        });
        assert_eq!((&come[0].messages[..], &come[1].messages[..]), (&[vec![1]][..], &[vec![0]][..]));
        assert!(come.iter().all(|come| come.lost.is_empty()), "{come:?}");
        until("one connection", || {
            both.iter_mut().for_each(|one| one.poll(&mut |_| ()).unwrap());
            both.iter().all(|one| one.open.len() == 1 && one.guests.is_empty() && !one.is_restless)
        });
    }
}

#[test]
fn strangers_are_sent_away_and_disturb_nobody() {
    let (mut both, to) = pair();
    let at = both[1].door.as_ref().unwrap().name.at;
    let own = Name { at, token: 5 };
    let hello = |token: u64| {
        wire::hello(token, own, wire::Standing { taken: 0, number: 1 })
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect()
    };
    let greetings: [Vec<u8>; 4] = [vec![0; 200], b"GET / HTTP/1.1\r\n\r\n".repeat(9), hello(7), Vec::new()];
    let mut strangers: Vec<TcpStream> = (0..400)
        .map(|k| {
            let mut stranger = TcpStream::connect(at).unwrap();
            stranger.write_all(&greetings[k % 4]).unwrap();
            if k % 8 == 0 {
                both[1].poll(&mut |_| ()).unwrap();
            }
            stranger
        })
        .collect();
    (0..20).for_each(|value| pass(&mut both, to[0], 0, value));
    until("their end", || {
        both[1].poll(&mut |_| ()).unwrap();
        (1..=64).contains(&both[1].guests.len())
    });
    // Silent ones are kept for a while; the others are closed.
    strangers[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(matches!(strangers[0].read(&mut [0]), Ok(0) | Err(_)));
    both[1].guests.iter_mut().for_each(|guest| guest.grow_old());
    until("the silent ones' end", || {
        both[1].poll(&mut |_| ()).unwrap();
        both[1].guests.is_empty()
    });
    (0..20).for_each(|value| pass(&mut both, to[1], 1, value));
}

#[test]
fn many_peers_are_heard_by_one_descriptor() {
    const PEERS: usize = 20;
    let mut one = open();
    let mut others: Vec<TcpEndpoint> = (0..PEERS).map(|_| open()).collect();
    let name = one.name.clone();
    let to: Vec<PeerId> = others.iter_mut().map(|other| other.insert(&name).unwrap()).collect();
    let back: Vec<PeerId> = others.iter().map(|other| one.insert(&other.name).unwrap()).collect();
    let mut come = Come::default();
    for round in 0..10u64 {
        for (other, &to) in others.iter_mut().zip(&to) {
            until("room", || {
                come.take(&mut one);
                other.poll(&mut |_| ()).unwrap();
                other.send(to, &vec![round; 1 + 100 * round as usize]).unwrap()
            });
        }
    }
    until("all messages", || {
        come.take(&mut one);
        come.messages.len() == 10 * PEERS
    });
    assert!(one.open.len() == PEERS && one.watched.is_some());
    // More than the sockets hold is sent on when there is room.
    let mut posted = 0;
    while one.pending() < 20 {
        assert!(one.send(back[3], &[9; WORDS]).unwrap());
        posted += 1;
    }
    let mut come = Come::default();
    until("the others", || {
        one.poll(&mut |_| ()).unwrap();
        come.take(&mut others[3]);
        come.messages.len() == posted
    });
    assert_eq!(one.pending(), 0);
}

/// A range of a test.
struct Lent(usize, usize);

// SAFETY: it is one of memory that is never freed.
unsafe impl LentRange for Lent {
    fn base(&self) -> usize {
        self.0
    }
    fn bytes(&self) -> usize {
        self.1
    }
}

#[test]
fn a_range_that_is_closed_while_it_is_written_is_written_no_more_and_the_next_messages_come() {
    const BYTES: usize = 32 << 20;
    let (mut both, to) = pair();
    pass(&mut both, to[0], 0, 1);
    let names = both.each_mut().map(|one| one.open_second().unwrap());
    let second = both[0].insert(&names[1]).unwrap();
    let ((_, from), (target, at)) = (Words::new(BYTES / 8, 7), Words::new(BYTES / 8 + 1, 0));
    let (trailers, trailer_at) = Words::new(4, 0);
    let trailers = both[1].register(Box::new(trailers), 0, 32, Use::Written).unwrap();
    let behind = both[1].remote(trailers).place(8);
    // An odd number of bytes: what follows is padded.
    let bytes = BYTES - 3;
    let opened = both[1].open_to_others(&Lent(target.base(), bytes)).unwrap();
    let mut come = Come::default();
    let mut posted = false;
    until("some bytes", || {
        posted = posted
            || both[0]
                .write_by_second(second, &Lent(from, bytes), &[3, 4], [opened.place(0), behind], 77)
                .unwrap();
        both[0].poll(&mut |_| ()).unwrap();
        come.take(&mut both[1]);
        word(at, 0) == 7
    });
    assert!(both[0].held_by_second(second) == 1 && come.written.is_empty(), "it has come at once");
    both[1].close_to_others(opened.key);
    let seen: Vec<u64> = (0..BYTES / 8).map(|i| word(at, i)).collect();
    until("the trailer", || {
        both[0].poll(&mut |_| ()).unwrap();
        come.take(&mut both[1]);
        !come.written.is_empty()
    });
    assert_eq!((come.written, both[0].held_by_second(second)), (vec![77], 0));
    assert!((0..BYTES / 8).all(|i| word(at, i) == seen[i]), "bytes came to a closed range");
    assert_eq!([word(trailer_at, 1), word(trailer_at, 2)], [3, 4]);
    // A range that is closed is not found; the first endpoint does not reach it either.
    let again = both[1].open_to_others(&Lent(target.base(), bytes)).unwrap();
    let mut come = Come::default();
    let source = SourceRange::Lent(&Lent(from, 64));
    assert!(both[0].write(to[0], source, &[], [again.place(0); 2], 5).unwrap());
    until("the end of the connection", || {
        both[0].poll(&mut |_| ()).unwrap();
        come.take(&mut both[1]);
        !come.lost.is_empty()
    });
    assert!(come.written.is_empty() && come.lost[0].contains("makes no sense"), "{come:?}");
    both.iter_mut().for_each(Endpoint::shut_second);
    assert_eq!(both[1].memories.target(again.place(0), 1, true), None);
}

#[test]
fn ports_that_are_named_are_used_and_their_want_is_told() {
    let free = std::net::TcpListener::bind((V4, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    let told = TcpEndpoint::open(V4, WORDS, Some(&(port..=port))).err().unwrap().message.clone();
    assert!(
        told.contains(&format!("127.0.0.1, port {port}: ")) && told.contains("PENNY_LINK_PORTS"),
        "{told}"
    );
    drop(free);
    let ports = port..=port.saturating_add(20);
    let mut one = TcpEndpoint::open(V4, WORDS, Some(&ports)).unwrap();
    one.open_second().unwrap();
    for door in [&one.door, &one.second] {
        assert!(ports.contains(&door.as_ref().unwrap().name.at.port()));
    }
    let elsewhere = TcpEndpoint::open(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), WORDS, None).err().unwrap();
    assert!(elsewhere.message.contains("at the local address 192.0.2.7: "), "{elsewhere}");
    assert!(one.insert(&[1, 2, 3]).unwrap_err().message.contains("has 3 bytes"));
    let v6 = Name { at: "[::1]:7".parse().unwrap(), token: 0 };
    assert!(one.insert(&v6.bytes()).unwrap_err().message.contains("use IPv4 or IPv6 addresses everywhere"));
}
