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
