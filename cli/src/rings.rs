//! What is told about rings on machines whose devices are joined by direct links.

use penny::Rank;
use penny::sim::plan::RingOrders;
use penny::sim::topology::{Network, Wiring};

/// Ranks of which an order is printed.
const MOST_PRINTED: usize = 64;

/// Returns a sentence about the rings of ranks at these places; nothing for a machine with switches, or for one rank.
pub fn sentence(network: &Network, places: &[Rank]) -> String {
    if network.routes.wiring() == Wiring::Switches || places.len() < 2 {
        return String::new();
    }
    match network.ring_orders(places) {
        Some(orders) if orders.is_direct() => direct(&orders),
        Some(orders) => format!(
            "rings: no cycle over the links was found that visits every rank once; the longest hop of ring and ring_pair passes {} links{}",
            orders.longest_hop(),
            order(&orders)
        ),
        // Ranks on several nodes, which NICs join.
        None if matches!(network.routes.wiring(), Wiring::Nodes(..)) => String::new(),
        None => format!(
            "rings: {} ranks are too many to look for cycles over the links; ring and ring_pair visit them by their numbers",
            places.len()
        ),
    }
}

fn direct(orders: &RingOrders) -> String {
    let (cycles, links) =
        (orders.cycles().len(), orders.cycles().iter().map(|cycle| cycle.width).sum::<u32>());
    let cycles = match cycles {
        1 => "1 cycle over the links visits".to_owned(),
        cycles => format!("{cycles} cycles over the links visit"),
    };
    let links = if links == 1 { "1 link".to_owned() } else { format!("{links} links side by side") };
    format!(
        "rings: {cycles} every rank once, {links}: {} neighbour_rings{}",
        orders.lanes().len(),
        order(orders)
    )
}

/// The order of the first ring.
fn order(orders: &RingOrders) -> String {
    let first = orders.first();
    if first.len() > MOST_PRINTED {
        return String::new();
    }
    let ranks: Vec<String> = first.iter().map(u32::to_string).collect();
    format!("; ring goes {}", ranks.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penny::sim::topology;

    fn told(machine: &str) -> String {
        let network = topology::open(machine).expect("a machine");
        sentence(&network, &network.places(network.shape.nranks()).expect("its places"))
    }

    #[test]
    fn a_machine_says_how_many_rings_its_links_carry_or_how_far_the_longest_hop_is() {
        assert_eq!(
            told("t3000"),
            "rings: 1 cycle over the links visits every rank once, 2 links side by side: 4 neighbour_rings; ring goes 0 1 3 5 7 6 4 2"
        );
        assert!(
            told("dgx-1v")
                .contains("2 cycles over the links visit every rank once, 3 links side by side: 6 ")
        );
        assert_eq!(
            told("n300:shape=5"),
            "rings: no cycle over the links was found that visits every rank once; the longest hop of ring and ring_pair passes 2 \
             links; ring goes 0 2 4 3 1"
        );
        assert!(told("tpu-v4:shape=16x16x16").contains("4096 ranks are too many"));
        assert_eq!(told("dgx-h100"), "");
    }
}
