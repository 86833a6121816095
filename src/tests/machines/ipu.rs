//! Graphcore's algorithms cross where their closed forms do. n ranks, S bytes, B bandwidth one way, a latency of a message:
//!
//! ```text
//!     ring              2(n-1) (a + S/nB)           ring_pair    2(n-1) (a + S/2nB)
//!     meet_in_middle    2h (a + S/nB)               one_shot     a + (n-1) S/B        h = floor(n/2)
//! ```

use super::*;

/// An IPU-Link: 64 GB/s, 1 us.
const RATE: f64 = 64e9;
const LATENCY: f64 = 1e-6;

fn ring(n: u32) -> Network {
    reshaped("ipu-pod16", &format!("[ring]\nshape = \"{n}\"\nlink = \"ipu_link\"\n"))
}

fn switch(n: u32) -> Network {
    reshaped("ipu-pod16", &format!("[switch]\nplaces = {n}\nport = \"ipu_link\"\n"))
}

fn seconds(network: &Network, algorithm: &str, bytes: f64) -> f64 {
    priced(network, Collective::AllReduce, algorithm, bytes as u64 / 4 * 4).1 as f64 * 1e-12
}

/// The size from which on `large` is faster than `small`, by halving; `None`: it is not up to 1 GiB.
fn crossover(network: &Network, small: &str, large: &str) -> Option<f64> {
    let faster = |bytes: f64| seconds(network, large, bytes) < seconds(network, small, bytes);
    let (mut below, mut above) = (64.0, f64::from(1 << 30));
    assert!(!faster(below), "{large} is faster than {small} from the start");
    if !faster(above) {
        return None;
    }
    while above / below > 1.001 {
        let middle = f64::sqrt(below * above);
        *(if faster(middle) { &mut above } else { &mut below }) = middle;
    }
    Some(above)
}

#[test]
fn on_a_ring_each_method_takes_what_its_closed_form_says() {
    for n in [4, 7, 16] {
        let network = ring(n);
        let (n, h) = (f64::from(n), f64::from(n / 2));
        for bytes in [65536.0, 1048576.0, 67108864.0] {
            let part = bytes / n / RATE;
            let both = 2.0 * (n - 1.0);
            assert_near(seconds(&network, "ring", bytes), both * (LATENCY + part), 0.01);
            assert_near(seconds(&network, "ring_pair", bytes), both * (LATENCY + part / 2.0), 0.01);
            let meet = 2.0 * h * (LATENCY + part);
            assert_near(seconds(&network, "meet_in_middle", bytes), meet, 0.03);
        }
    }
}

/// 2h(a + S/nB) = 2(n-1)(a + S/2nB), with h = n/2 for even n: S = n(n-2) aB. For odd n, h = (n-1)/2 and they never meet.
#[test]
fn a_pair_of_rings_overtakes_meeting_in_the_middle_at_n_times_n_less_2() {
    for n in [4, 6, 8, 16] {
        let expected = f64::from(n * (n - 2)) * LATENCY * RATE;
        let found = crossover(&ring(n), "meet_in_middle", "ring_pair").expect("they cross");
        assert_near(found, expected, 0.03);
    }
    for n in [5, 15] {
        assert_eq!(crossover(&ring(n), "meet_in_middle", "ring_pair"), None);
    }
}

/// Behind a switch all of a rank's messages share its port, and a message passes two: a = 2 us.
const SWITCHED: f64 = 2.0 * LATENCY;

/// a + kS/B with k = n-1: every rank begins with another reader. If all began with rank 0, k would be 2n-3: the last
/// reader's port would be idle for n-2 messages, and then take n-1.
#[test]
fn one_shot_takes_its_closed_form_since_no_reader_is_everybodys_first() {
    for n in [4, 8, 16] {
        let (network, bytes) = (switch(n), 1048576.0);
        let expected = SWITCHED + f64::from(n - 1) * bytes / RATE;
        assert_near(seconds(&network, "one_shot", bytes), expected, 0.01);
    }
}

#[test]
fn one_shot_gives_way_where_the_closed_forms_cross() {
    for n in [4, 8, 16] {
        let network = switch(n);
        let (n, h) = (f64::from(n), f64::from(n / 2));
        let k = n - 1.0;
        // a + kS/B = 2(n-1)(a + S/nB)
        let to_ring = (2.0 * n - 3.0) * SWITCHED * RATE / (k - 2.0 * (n - 1.0) / n);
        assert_near(crossover(&network, "one_shot", "ring").expect("they cross"), to_ring, 0.03);
        // a + kS/B = 2h(a + S/nB): as long as chunks are short, latency hides that the directions share a port.
        let to_middle = (2.0 * h - 1.0) * SWITCHED * RATE / (k - 2.0 * h / n);
        assert_near(crossover(&network, "one_shot", "meet_in_middle").expect("they cross"), to_middle, 0.03);
    }
}

/// GCL takes its broadcast algorithm while group size x bytes <= 2048.
#[test]
fn where_gcl_broadcasts_one_shot_is_the_fastest() {
    for n in [2, 4, 8, 16] {
        for network in [ring(n), switch(n)] {
            let bytes = f64::from(2048 / n);
            let one_shot = seconds(&network, "one_shot", bytes);
            for algorithm in ["ring", "ring_reverse", "ring_pair", "meet_in_middle", "quad_ring"] {
                assert!(
                    one_shot <= seconds(&network, algorithm, bytes),
                    "{algorithm} over {n} of {}",
                    network.name
                );
            }
        }
    }
}
