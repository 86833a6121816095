//! Tenstorrent's machines: what their guide says of whole collectives. The links alone are with the data mover.

use super::*;

#[test]
fn an_all_gather_on_a_line_reaches_half_of_a_ring() {
    for preset in ["t3000", "galaxy"] {
        for chips in [4, 8] {
            let shape = |name: &str| format!("[{name}]\nshape = \"{chips}\"\nlink = \"eth\"\n");
            let time = |shape_name: &str, algorithm: &str| {
                let network = reshaped(preset, &shape(shape_name));
                priced(&network, Collective::AllGather, algorithm, 1 << 28).1 as f64
            };
            let (ring, line) = (time("ring", "ring_pair"), time("line", "line"));
            assert_near(ring / line, 0.5, 0.03);
            // Both directions of the ring are full.
            let received = f64::from(1 << 28) * (1.0 - 1.0 / f64::from(chips));
            assert_near(received / ring * 1e3, 2.0 * 12.5 * 1500.0 / 1550.0, 0.03);
        }
    }
}

#[test]
fn a_chip_inside_a_galaxy_sends_over_sixteen_links_at_once() {
    let network = topology::open("galaxy").unwrap();
    let inside = network.shape.rank([1, 1, 0]);
    let neighbours = [[0, 1, 0], [2, 1, 0], [1, 0, 0], [1, 2, 0]].map(|at| network.shape.rank(at));
    // Four neighbours four times: a lane for each link.
    let peers = |rank: Rank| if rank == inside { neighbours.map(|n| [n; 4]).concat() } else { Vec::new() };
    let bytes = 1 << 26;
    let rate = 16.0 * f64::from(bytes) / all_send(&network, peers, bytes as u64, u64::MAX) as f64 * 1e3;
    // 1600 Gb/s, framing included.
    assert_near(rate * 1550.0 / 1500.0, 200.0, 0.03);
}

/// A ring of all chips of a t3000 over single links.
const RING: [Rank; 8] = [0, 2, 4, 6, 7, 5, 3, 1];

/// A message of `bytes` bytes goes once round the chips of a t3000, each of which hands it on: the time of a hop in nanoseconds.
fn hop_ns(arguments: &str, bytes: u64) -> f64 {
    let network = topology::open(&format!("t3000:mover=ethernet{arguments}")).unwrap();
    let chunk = crate::plan::Chunk::part(0);
    let mut plans = vec![Plan::new(1); 8];
    plans[0].copy_send(chunk, RING[1]);
    for hop in 1..8 {
        plans[RING[hop] as usize].recv_copy_send(RING[hop - 1], chunk, RING[(hop + 1) % 8]);
    }
    plans[0].recv_copy(RING[7], chunk);
    let view = RankView::flat(Collective::Broadcast, 0, 8, 0);
    let call = PricedCall { plans: &plans, places: &places(8), view, count: bytes, size: 1, slice_bytes: 0 };
    let outcome = engine::price(&network, &call, &[0; 8]).unwrap();
    *outcome.exit_ps.iter().max().unwrap() as f64 / 8e3
}

#[test]
fn a_flit_takes_690_ns_a_hop_through_the_mover_650_merged_and_a_kilobyte_about_a_microsecond() {
    assert_near(hop_ns("", 16), 650.0, 0.01);
    assert_near(hop_ns("", 16) * 8.0, 5200.0, 0.01);
    assert_near(hop_ns(",mover.signal=separate", 16), 690.0, 0.01);
    // Handed on by the cores alone, as in the guide's ping; and by a worker that asks for it.
    assert_near(hop_ns("", 1024), 762.0, 0.01);
    assert_near(hop_ns(",mover.receiver=pull", 1024), 1000.0, 0.06);
    // Beyond 5 KB most of a hop is the link's bandwidth.
    let wire_ns =
        |bytes: u64| topology::open("t3000").unwrap().classes[0].serialisation_ps(bytes) as f64 / 1e3;
    assert!(wire_ns(1024) < 0.2 * hop_ns("", 1024) && wire_ns(8192) > 0.4 * hop_ns("", 8192));
}

/// The time between messages of a stream over one link, as a part of what their bytes take at the line rate.
fn utilisation(arguments: &str, bytes: u64) -> f64 {
    let network = topology::open(&format!("n300:mover=ethernet{arguments}")).unwrap();
    let end_ps = |messages: u32| {
        let mut plans = vec![Plan::new(messages); 2];
        for part in 0..messages {
            plans[0].send(1, crate::plan::Chunk::part(part));
            plans[1].recv_copy(0, crate::plan::Chunk::part(part));
        }
        let view = RankView::flat(Collective::Broadcast, 0, 2, 0);
        let count = bytes * u64::from(messages);
        let call = PricedCall { plans: &plans, places: &places(2), view, count, size: 1, slice_bytes: 0 };
        *engine::price(&network, &call, &[0; 2]).unwrap().exit_ps.iter().max().unwrap()
    };
    (bytes * 80 * 100) as f64 / (end_ps(200) - end_ps(100)) as f64
}

#[test]
fn small_packets_use_91_per_cent_of_the_wire_and_payloads_beyond_a_kilobyte_lose_3_to_6() {
    // Alone on the wire: a stream of them is bound by the cores.
    let class = topology::open("n300:mover=ethernet,mover.reverse=idle").unwrap().classes[0].clone();
    let alone = |bytes: u64| (bytes * 80) as f64 / class.serialisation_ps(bytes + 16) as f64;
    assert_near(alone(576), 0.91, 0.02);
    assert_near(alone(704), 0.91, 0.01);
    for (payload, channels) in [(2048, 30), (4096, 18), (8192, 8), (16384, 4)] {
        let arguments = format!(",mover.reverse=idle,mover.payload={payload}B,mover.channels={channels}");
        let lost = 1.0 - utilisation(&arguments, payload);
        assert!((0.03..0.06).contains(&lost), "payloads of {payload} B lose {lost}");
    }
    // Small messages wait for the cores, not for the wire.
    assert!(utilisation(",mover.payload=576B,mover.channels=30", 576) < 0.4);
}

#[test]
fn a_stream_is_bound_by_credits_until_the_slots_cover_the_round_trip() {
    let share = |channels: u32| utilisation(&format!(",mover.reverse=idle,mover.channels={channels}"), 8192);
    // 1833 ns until a slot is free again, 676 of them on the wire.
    assert_near(share(1), 8192.0 * 0.08 / 1833.0, 0.01);
    assert_near(share(2), 2.0 * share(1), 0.001);
    assert!(share(3) > 0.96 && share(3) == share(8));
    let in_turn =
        utilisation(",mover.reverse=idle,mover.channels=1,mover.sharing=round_robin,mover.buffers=2", 8192);
    assert_eq!(in_turn, share(2));
    let shared = utilisation(",mover.reverse=idle,mover.channels=2,mover.sharing=shared", 8192);
    assert_eq!(shared, share(2));
}

#[test]
fn collectives_over_the_mover_reach_94_per_cent_of_the_line_rate_of_their_links() {
    for (machine, links) in [("t3000", 4.0), ("galaxy", 8.0)] {
        let with = all_reduce(&format!("{machine}:mover=ethernet"), "neighbour_rings", 1 << 30).2;
        assert_near(with / (links * 12.5), 0.948, 0.01);
        // Both ways at once, credits included; idle, they are no part of the wire's time.
        let idle =
            all_reduce(&format!("{machine}:mover=ethernet,mover.reverse=idle"), "neighbour_rings", 1 << 30).2;
        assert_near(idle / (links * 12.5), 0.963, 0.01);
    }
}

#[test]
fn programs_that_begin_with_each_call_shake_hands_and_drain() {
    let time = |programs: &str| {
        let network = topology::open(&format!("n300:mover=ethernet,mover.programs={programs}")).unwrap();
        network.launch_ps
    };
    assert_eq!(time("standing"), 0);
    // Three words one way and an acknowledgement: 3 (48 + 5.28 + 500) + 40 ns.
    assert_eq!(time("call"), 1_699_840);
}

#[test]
fn a_short_slice_does_not_overtake_the_long_one_before_it() {
    let network = topology::open("n300:shape=3,mover=ethernet,mover.reverse=idle").unwrap();
    let chunk = crate::plan::Chunk::part(0);
    let mut plans = vec![Plan::new(1); 3];
    plans[0].copy_send(chunk, 1);
    plans[1].recv_copy_send(0, chunk, 2);
    plans[2].recv_copy(1, chunk);
    let view = RankView::flat(Collective::Broadcast, 0, 3, 0);
    let call = |count| PricedCall {
        plans: &plans,
        places: &[0, 1, 2],
        view: view.clone(),
        count,
        size: 1,
        slice_bytes: 8192,
    };
    let sent_on = |count| {
        let mut spans = Vec::new();
        engine::price_traced(&network, &call(count), &[0; 3], &mut |span| spans.push(span)).unwrap();
        spans.iter().find(|span| span.place == 1 && span.slice == 0).unwrap().start_ps
    };
    assert_eq!(sent_on(8192 + 16), sent_on(8192));
}
