//! Connections that end, and those that replace others.

use super::*;

/// Ends the open connection of one side, as something between the two would.
fn reset(endpoint: &TcpEndpoint) {
    for peer in &endpoint.peers {
        if let PeerState::Open(stream, _) = &peer.state {
            // SAFETY: no pointers.
            unsafe { libc::shutdown(stream.descriptor(), libc::SHUT_RDWR) };
        }
    }
}

/// A greeting to one side of a pair as from the other, with this number.
fn greeting(both: &[TcpEndpoint; 2], number: u64) -> TcpStream {
    let [from, to] = both.each_ref().map(|one| one.door.as_ref().unwrap().name);
    let mut stream = TcpStream::connect(to.at).unwrap();
    let words = wire::hello(to.token, from, wire::Standing { taken: 0, number });
    stream.write_all(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()).unwrap();
    stream
}

#[test]
fn a_connection_that_ends_at_rest_is_made_anew_and_nothing_is_lost() {
    for side in [0, 1] {
        let (mut both, to) = pair();
        for value in 0..50 {
            pass(&mut both, to[0], 0, value);
            pass(&mut both, to[1], 1, value + 100);
            if value % 10 == 3 {
                reset(&both[side]);
                // Both see it before they send again.
                until("both to see it", || {
                    both.iter_mut().for_each(|one| one.poll(&mut |_| ()).unwrap());
                    both.iter().all(|one| one.open.len() == 1)
                });
                (0..1000).for_each(|_| both.iter_mut().for_each(|one| one.poll(&mut |_| ()).unwrap()));
            }
        }
    }
}

#[test]
fn what_was_under_way_when_a_connection_ended_is_told_to_be_lost() {
    let (mut both, to) = pair();
    pass(&mut both, to[0], 0, 1);
    pass(&mut both, to[1], 1, 2);
    // It is in the sockets, and is not taken in.
    (0..3).for_each(|value| assert!(both[0].send(to[0], &[value; 900]).unwrap()));
    for one in &both {
        let PeerState::Open(stream, _) = &one.peers[0].state else { panic!("no connection") };
        // What is left unread is dropped.
        // SAFETY: no pointers.
        unsafe { libc::shutdown(stream.descriptor(), libc::SHUT_RD) };
    }
    let mut ways = both.each_mut().map(|one| std::mem::replace(&mut one.peers[0].state, PeerState::None));
    for (one, state) in both.iter_mut().zip(&mut ways) {
        one.open.clear();
        one.peers[0].is_wanted = true;
        one.is_restless = true;
        if let PeerState::Open(_, intake) = state {
            one.peers[0].taken = intake.taken;
        }
    }
    drop(ways);
    let mut come = [Come::default(), Come::default()];
    until("what is lost", || {
        both.iter_mut().zip(&mut come).for_each(|(one, come)| come.take(one));
        !come[0].lost.is_empty()
    });
    assert!(come[0].lost[0].contains("3 of the messages to it were on their way"), "{:?}", come[0].lost);
    assert!(come[1].messages.is_empty());
}

#[test]
fn a_peer_that_is_gone_is_told_to_be_lost() {
    let (both, to) = pair();
    let [mut one, mut other] = both;
    until("a connection", || {
        let sent = one.send(to[0], &[1; 3]).unwrap();
        one.poll(&mut |_| ()).unwrap();
        other.poll(&mut |_| ()).unwrap();
        sent
    });
    drop(other);
    let mut come = Come::default();
    until("its end", || {
        come.take(&mut one);
        !come.lost.is_empty()
    });
    assert!(come.lost[0].contains("refused") && come.lost[0].contains("PeerId(0)"), "{:?}", come.lost);
    assert!(!one.send(to[0], &[1; 3]).unwrap() && one.may_sleep().is_some());
}

#[test]
fn a_greeting_that_has_lain_while_another_connection_was_made_is_not_believed() {
    for _ in 0..20 {
        let (mut both, to) = pair();
        // The lesser name's connection serves.
        if both[0].door.as_ref().unwrap().name.words() > both[1].door.as_ref().unwrap().name.words() {
            both.swap(0, 1);
        }
        let greet = |one: &mut TcpEndpoint| {
            one.want(0);
            until("a greeting", || {
                one.go_on(0, crate::sys::clock::now_ns(), &mut |_| ()).unwrap();
                matches!(one.peers[0].state, PeerState::Greeting { .. })
            });
        };
        both.iter_mut().for_each(greet);
        // The second accepts the first's, whose greeting comes behind its own.
        until("a connection", || {
            both[1].poll(&mut |_| ()).unwrap();
            both[1].open.len() == 1
        });
        until("its answer", || {
            both[0].go_on(0, crate::sys::clock::now_ns(), &mut |_| ()).unwrap();
            both[0].open.len() == 1
        });
        for (value, from) in (0..40).zip([0, 1].into_iter().cycle()) {
            pass(&mut both, to[from], from, value);
        }
        assert_eq!(both.each_ref().map(|one| one.peers[0].number), [1, 2], "no other was made");
    }
}

#[test]
fn greetings_that_are_old_and_greetings_whose_end_has_come_replace_no_connection() {
    for (number, is_closed) in [(1, false), (99, true)] {
        let (mut both, to) = pair();
        pass(&mut both, to[0], 0, 1);
        pass(&mut both, to[1], 1, 2);
        let numbers = both.each_ref().map(|one| one.peers[0].number);
        let stream = greeting(&both, number);
        let kept = (!is_closed).then_some(stream);
        until("a look at it", || {
            both[1].look_after_connections(&mut |_| ());
            std::thread::sleep(Duration::from_millis(1));
            both[1].guests.is_empty() && both[1].next_due().is_none()
        });
        (0..20).for_each(|value| pass(&mut both, to[value as usize % 2], value as usize % 2, value));
        assert_eq!(both.each_ref().map(|one| one.peers[0].number), numbers, "{number}: no other was made");
        drop(kept);
    }
}

#[test]
fn what_lies_in_the_socket_of_a_connection_that_is_replaced_has_come() {
    let (mut both, to) = pair();
    pass(&mut both, to[0], 0, 1);
    (0..3).for_each(|value| assert!(both[0].send(to[0], &[value; 9]).unwrap()));
    reset(&both[0]);
    until("a greeting", || {
        both[0].poll(&mut |_| ()).unwrap();
        matches!(both[0].peers[0].state, PeerState::Greeting { .. })
    });
    let mut come = [Come::default(), Come::default()];
    until("another connection", || {
        let messages = &mut come[1].messages;
        both[1].look_after_connections(&mut |report| match report {
            Report::Message(words) => messages.push(words.to_vec()),
            _ => panic!("another report"),
        });
        come[0].take(&mut both[0]);
        both[0].open.len() == 1
    });
    assert!(come.iter().all(|come| come.lost.is_empty()), "{come:?}");
    assert_eq!(come[1].messages, [[0; 9], [1; 9], [2; 9]]);
}

#[test]
fn what_has_come_by_a_connection_to_which_nothing_can_be_sent_is_taken_in() {
    let (mut both, to) = pair();
    pass(&mut both, to[0], 0, 1);
    while both[1].pending() == 0 {
        assert!(both[1].send(to[1], &[9; WORDS]).unwrap());
    }
    (0..3).for_each(|value| assert!(both[0].send(to[0], &[value; 9]).unwrap()));
    // What it has not read is a reason for the system to end the connection at once.
    both[0].leave(0, PeerState::None);
    let mut come = Come::default();
    until("its end", || {
        come.take(&mut both[1]);
        both[0].poll(&mut |_| ()).unwrap();
        !come.lost.is_empty()
    });
    assert_eq!(come.messages, [[0; 9], [1; 9], [2; 9]]);
}
