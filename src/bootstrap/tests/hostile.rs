//! Strangers, liars and noise at the door.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::bootstrap::frame;
use crate::sys::socket;

/// Connects as a process that does not know the protocol.
pub fn connect(name: &[u8]) -> OwnedFd {
    loop {
        match socket::connect(name) {
            Ok(connection) => return connection,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    }
}

/// Show up with a packet of our own making; returns the verdict, `None` if the door was closed without one.
fn knock_with(ticket: &Invitation, packet: &[u8]) -> Option<Error> {
    let connection = connect(ticket.name());
    // A server that has turned it away meanwhile reads nothing.
    socket::send(&connection, packet, &[]).ok()?;
    socket::wait(&mut [socket::PollEntry::readable(&connection)], None).unwrap();
    let mut buffer = [0; frame::MAX_BYTES];
    let len = socket::receive(&connection, &mut buffer).map_or(0, |p| p.len);
    match frame::Answer::decode(&buffer[..len]) {
        Some(frame::Answer::Verdict(error)) => Some(error),
        _ => None,
    }
}

fn hello_packet(ticket: &Invitation, secret: Secret, version: [u8; 24]) -> Vec<u8> {
    let serial = ticket.serial;
    frame::HelloFrame {
        serial,
        secret,
        version,
        abi: frame::ABI,
        rank: 1,
        nranks: 2,
        nfds: 0,
        time_limit: None,
        info: b"",
    }
    .encode()
}

#[test]
fn another_version_is_an_error_on_every_rank_that_names_both() {
    let place = id_place();
    let ticket = ticket_of(&place);
    let mut version = [0; 24];
    version[..5].copy_from_slice(b"9.8.7");
    thread::scope(|s| {
        let waiting = s.spawn(|| attend(&place, 0, 2, LONG));
        // Whichever comes first: the verdict stays for the other.
        let told = knock_with(&ticket, &hello_packet(&ticket, ticket.secret, version)).unwrap();
        assert_eq!(told.code, Code::InvalidUsage);
        assert!(told.message.contains("uses Penny 9.8.7"), "{told}");
        assert!(told.message.contains(concat!("uses Penny ", env!("CARGO_PKG_VERSION"))), "{told}");
        assert_eq!(waiting.join().unwrap().unwrap_err(), told);
    });
}

#[test]
fn a_wrong_secret_is_refused_and_the_meeting_goes_on() {
    let place = id_place();
    let ticket = ticket_of(&place);
    for byte in [0, 15] {
        let mut wrong = ticket.secret;
        wrong.0[byte] ^= 1;
        let refusal = knock_with(&ticket, &hello_packet(&ticket, wrong, frame::VERSION)).unwrap();
        assert!(refusal.message.starts_with("this id is not open"), "{refusal}");
    }
    for heard in gather(&place, &all_of(2), LONG) {
        assert_eq!(heard.unwrap(), everybody(2));
    }
}

#[test]
fn ten_thousand_strangers_and_a_thousand_idlers_neither_break_nor_join_a_meeting() {
    let place = id_place();
    let ticket = ticket_of(&place);
    let idlers = processes::hold_idle(&place, 1000);
    thread::scope(|s| {
        let waiting = s.spawn(|| attend(&place, 0, 3, LONG));
        let mut noise = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..10_000 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i);
            let bytes = noise.to_le_bytes().repeat(1 + (noise >> 60) as usize * 40);
            // The server may have hung up on us already; that is its right.
            let _ =
                socket::send(&connect(ticket.name()), &bytes[..(noise >> 33) as usize % bytes.len()], &[]);
        }
        assert!(!waiting.is_finished());
        for heard in gather(&place, &[(1, 3), (2, 3)], LONG) {
            assert_eq!(heard.unwrap(), everybody(3));
        }
        assert_eq!(waiting.join().unwrap().unwrap(), everybody(3));
    });
    idlers.release();
}

#[test]
fn a_hello_with_a_lying_length_or_a_huge_packet_fails_the_liar_or_nobody() {
    let place = id_place();
    let ticket = ticket_of(&place);
    // Longer than any packet may be: dropped unread.
    let mut huge = hello_packet(&ticket, ticket.secret, frame::VERSION);
    huge.resize(100_000, 7);
    assert_eq!(knock_with(&ticket, &huge), None);
    // Without the secret nothing that is said matters.
    let mut lying = hello_packet(&ticket, Secret([9; 16]), frame::VERSION);
    let at = lying.len() - 4;
    lying[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(knock_with(&ticket, &lying).unwrap().message.starts_with("this id is not open"));
    for heard in gather(&place, &all_of(2), LONG) {
        assert_eq!(heard.unwrap(), everybody(2));
    }
    // With it the liar is one of us, and everybody hears that it talks nonsense.
    let place = id_place();
    let ticket = ticket_of(&place);
    lying[8..32].copy_from_slice(&hello_packet(&ticket, ticket.secret, frame::VERSION)[8..32]);
    let told = knock_with(&ticket, &lying).unwrap();
    assert_eq!(told.code, Code::InternalError);
    assert_eq!(attend(&place, 0, 2, LONG).unwrap_err(), told);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_packet_without_the_secret_disturbs_a_meeting(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..200), any::<bool>()), 1..8)
    ) {
        let place = id_place();
        let ticket = ticket_of(&place);
        for (mut packet, like_a_hello) in packets {
            if like_a_hello {
                let mut start = hello_packet(&ticket, Secret([0; 16]), frame::VERSION);
                start.truncate(16);
                packet.splice(0..0, start);
            }
            knock_with(&ticket, &packet);
        }
        for heard in gather(&place, &all_of(2), LONG) {
            prop_assert_eq!(heard.unwrap(), everybody(2));
        }
    }
}
