//! What arrangement the members of a communicator have, given the places at which they stand.

use super::Network;
use crate::plan::Shape;
use crate::types::Rank;

impl Network {
    /// Members that fill the machine keep its arrangement; members that stand on the same numbers of several nodes are
    /// nodes themselves; all others are flat.
    pub fn shape_of(&self, places: &[Rank]) -> Shape {
        let n = places.len() as u32;
        if n == self.shape.nranks() && (0..n).zip(places).all(|(rank, &place)| rank == place) {
            return self.shape;
        }
        let node = self.shape.per_node();
        let Some(first) = places.first() else { return Shape::flat(0) };
        let g = places.iter().take_while(|&place| place / node == first / node).count();
        let alike = places.len().is_multiple_of(g)
            && places.chunks(g).enumerate().all(|(i, own)| {
                own.iter().zip(places).all(|(a, b)| a % node == b % node)
                    && own.iter().all(|place| place / node == own[0] / node)
                    && places[..i * g].iter().step_by(g).all(|other| other / node != own[0] / node)
            });
        if alike { Shape([g as u32, n / g as u32, 1]) } else { Shape::flat(n) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::open;
    use crate::plan::Shape;

    #[test]
    fn members_on_the_same_numbers_of_several_nodes_are_nodes() {
        let network = open("dgx-h100:nodes=3").unwrap();
        let shape = |places: &[u32]| network.shape_of(places);
        assert_eq!(shape(&(0..24).collect::<Vec<_>>()), Shape([8, 3, 1]));
        assert_eq!(shape(&(0..16).collect::<Vec<_>>()), Shape([8, 2, 1]));
        assert_eq!(shape(&[0, 1, 8, 9, 16, 17]), Shape([2, 3, 1]));
        assert_eq!(shape(&[3, 11, 19]), Shape([1, 3, 1]));
        assert_eq!(shape(&[0, 1, 2, 3]), Shape([4, 1, 1]));
    }

    #[test]
    fn members_that_stand_differently_on_their_nodes_are_flat() {
        let network = open("dgx-h100:nodes=3").unwrap();
        for places in [&[0, 1, 8][..], &[0, 1, 8, 10], &[0, 1, 8, 9, 2, 3], &[1, 0, 8, 9]] {
            assert_eq!(network.shape_of(places), Shape::flat(places.len() as u32), "{places:?}");
        }
    }
}

impl Network {
    /// TEMPORARY
    pub fn hash(&self) -> u64 {
        self.name.bytes().fold(7, |h: u64, b| (h ^ b as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}
