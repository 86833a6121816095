//! Which ranks share a host, and the order in which plans visit them.
//!
//! ```text
//!     by slot        a: 0 1    b: 2 3    order 0 1 2 3    shape [2, 2, 1]
//!     round robin    a: 0 2    b: 1 3    order 0 2 1 3    shape [2, 2, 1]
//!     uneven         a: 0 1 3  b: 2      order 0 1 3 2    shape [4, 1, 1]
//! ```
//!
//! Programs are written for positions in this order, and name the ranks there. So a ring leaves each host once and enters it once,
//! whatever rank a launcher puts where.

use super::Shape;
use crate::types::Rank;
use std::sync::Arc;

/// The hosts of a communicator's ranks: at least two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostGroups {
    /// The ranks, host by host, each host's in ascending order.
    order: Box<[Rank]>,
    /// The number of ranks of each host, in the order of their first ranks.
    sizes: Box<[u32]>,
}

impl HostGroups {
    /// Groups ranks by what `host_of` says of each: ranks of one host have the same number. `None`: there is one host.
    pub fn new(host_of: &[u32]) -> Option<Arc<HostGroups>> {
        let mut hosts: Vec<(u32, Vec<Rank>)> = Vec::new();
        for (rank, &host) in (0..).zip(host_of) {
            match hosts.iter_mut().find(|(known, _)| *known == host) {
                Some((_, ranks)) => ranks.push(rank),
                None => hosts.push((host, vec![rank])),
            }
        }
        let sizes = hosts.iter().map(|(_, ranks)| ranks.len() as u32).collect();
        let order = hosts.iter().flat_map(|(_, ranks)| ranks).copied().collect();
        (hosts.len() > 1).then(|| Arc::new(HostGroups { order, sizes }))
    }

    /// Returns the ranks, host by host.
    pub fn order(&self) -> &[Rank] {
        &self.order
    }

    /// Tells whether the ranks' own order goes host by host.
    pub fn are_in_order(&self) -> bool {
        self.order.is_sorted()
    }

    /// Tells whether all hosts have as many ranks.
    pub fn are_even(&self) -> bool {
        self.sizes.iter().all(|size| *size == self.sizes[0])
    }

    /// Tells whether each host has one rank.
    pub fn are_single(&self) -> bool {
        self.sizes.len() == self.order.len()
    }

    /// Returns the arrangement of the ranks in their order.
    pub fn shape(&self) -> Shape {
        let (ranks, hosts) = (self.order.len() as u32, self.sizes.len() as u32);
        if self.are_even() { Shape([ranks / hosts, hosts, 1]) } else { Shape::flat(ranks) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_grouped_by_host_in_the_order_of_the_hosts_first_ranks() {
        for (host_of, order, shape, even) in [
            (&[5, 5, 3, 3][..], &[0, 1, 2, 3][..], [2, 2, 1], true),
            (&[0, 1, 0, 1], &[0, 2, 1, 3], [2, 2, 1], true),
            (&[0, 0, 1, 0], &[0, 1, 3, 2], [4, 1, 1], false),
            (&[2, 1, 0], &[0, 1, 2], [1, 3, 1], true),
        ] {
            let hosts = HostGroups::new(host_of).unwrap();
            assert_eq!((hosts.order(), hosts.shape()), (order, Shape(shape)), "{host_of:?}");
            assert_eq!((hosts.are_even(), hosts.are_in_order()), (even, order.is_sorted()), "{host_of:?}");
        }
        assert_eq!(HostGroups::new(&[7, 7]), None);
        assert_eq!(HostGroups::new(&[7]), None);
    }
}
