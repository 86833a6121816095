//! Writes and their numbers, as one rank sees a peer.

use super::*;
use crate::sys::endpoint::RemoteMemory;
use crate::transport::net_link::address::RailAddress;
use std::net::{IpAddr, Ipv4Addr};

fn peer() -> FarPeer {
    let memory = RemoteMemory { address: 0, key: 0 };
    let rail = RailAddress { at: IpAddr::V4(Ipv4Addr::LOCALHOST), endpoint: Vec::new(), memory };
    let rails = vec![rail.clone(), rail];
    let address = RankAddress {
        host: String::new(),
        rails,
        machine: 0,
        token: 0,
        with_trailers: true,
        total: 0,
        cut: 0,
    };
    FarPeer::new(PeerId::nth(0), address)
}

#[test]
fn writes_are_taken_in_once_in_any_order_and_beyond_the_numbers_end() {
    let mut peer = peer();
    for start in (0..3 * NUMBERS).step_by(WRITES as usize).take(200_000) {
        assert_eq!(peer.seen, start);
        for i in [1, 0, 63, 62, 5] {
            let number = (start + i) & NUMBERS;
            assert_eq!(peer.find(number), Some(start + i));
            peer.saw(start + i);
            assert_eq!(peer.find(number), None, "twice");
        }
        for i in 0..WRITES {
            if let Some(number) = peer.find((start + i) & NUMBERS) {
                peer.saw(number);
            }
        }
    }
    assert_eq!(peer.find(peer.seen.wrapping_add(WRITES) & NUMBERS), None, "more than may be under way");
}

#[test]
fn acknowledgements_that_cannot_be_are_not_believed() {
    let mut peer = peer();
    peer.written = 10;
    peer.acknowledge(11);
    assert_eq!(peer.acknowledged, 0);
    peer.acknowledge(7);
    peer.acknowledge(3);
    assert_eq!(peer.acknowledged, 7);
    (peer.written, peer.acknowledged) = (3, u32::MAX - 2);
    peer.acknowledge(1);
    assert_eq!((peer.acknowledged, peer.has_room()), (1, true));
    peer.written = 65;
    assert!(!peer.has_room());
}

#[test]
fn a_place_is_free_again_when_the_write_to_it_was_taken_in() {
    let mut peer = peer();
    let under_way = |peer: &FarPeer| [100, 200, 300, 400].map(|there| peer.is_under_way(there, 8));
    [100, 200, 300].into_iter().for_each(|there| peer.wrote(there, 0, 8, 0, &[]));
    assert_eq!(under_way(&peer), [true, true, true, false]);
    assert!(
        peer.is_under_way(93, 8)
            && peer.is_under_way(307, 1)
            && !peer.is_under_way(92, 8)
            && !peer.is_under_way(108, 92)
    );
    peer.acknowledge(2);
    assert_eq!(under_way(&peer), [false, false, true, false]);
    peer.acknowledge(4);
    assert_eq!(under_way(&peer), [false, false, true, false], "more than were written");
}

#[test]
fn a_rail_is_lighter_when_writes_by_it_were_taken_in_before_others() {
    let mut peer = peer();
    (0..4).for_each(|_| peer.wrote(0, 0, 10, peer.rails.lightest(), &[]));
    peer.wrote(0, 0, 10, 0, &[]);
    assert_eq!(peer.rails.lightest(), 1, "30 bytes against 20");
    peer.acknowledge_ahead(0, 0b10101);
    assert_eq!((peer.rails.lightest(), peer.acknowledged), (0, 0), "what is left went by the second");
    peer.acknowledge(3);
    peer.acknowledge_ahead(1, 0b1110);
    peer.acknowledge_ahead(900, u64::MAX);
    peer.acknowledge(5);
    assert_eq!(peer.under_way.len(), 0);
    assert!(peer.ahead().is_empty());
    peer.saw(1);
    assert_eq!(peer.ahead().len(), super::super::wire::AHEAD);
}

#[test]
fn a_peer_that_asks_is_told_once_when_its_writes_were_taken_in() {
    let mut peer = peer();
    peer.asks(2);
    peer.saw(1);
    assert!(!peer.is_owed());
    peer.saw(0);
    assert!(peer.is_owed() && !peer.is_owed());
}

#[test]
fn half_a_write_that_has_come_by_a_closed_rail_is_waited_for_again() {
    let mut peer = peer();
    assert!(peer.bytes_came(0, 0).is_none() && peer.bytes_came(1, 1).is_none());
    assert!(peer.frames_came(2, &[7]).is_none());
    peer.close(0);
    assert_eq!(
        peer.frames_came(0, &[5]),
        None,
        "its bytes go again by another rail, maybe over those of the next write"
    );
    assert_eq!(peer.bytes_came(0, 1), Some(vec![5]));
    assert_eq!((peer.frames_came(1, &[6]), peer.bytes_came(2, 1)), (Some(vec![6]), Some(vec![7])));
}
