//! Which rank stands at which place: `placement` in a machine's file, or as an argument.
//!
//! ```text
//!     placement = "packed"            rank r at place r; the same as to say nothing
//!     placement = [0, 8, 1, 9]        rank 0 at place 0, rank 1 at place 8, ...: at most four ranks
//!     dgx-h100:nodes=2,placement=[0,8,1,9]
//! ```

use super::Network;
use super::source::Section;
use crate::error::{Error, Result};
use crate::plan::Shape;
use crate::types::Rank;

/// The list, which an argument gives before the file does; empty: packed.
pub(super) fn read(root: &Section, argument: Option<&str>, places: u32) -> Result<Vec<Rank>> {
    let (text, error): (String, Box<dyn Fn(String) -> Error>) = match (argument, root.table.get("placement"))
    {
        (None, None) => return Ok(Vec::new()),
        (Some(text), _) => {
            let file = root.source.file.to_owned();
            let error = move |what| Error::argument(format!("{file}: the argument placement: {what}"));
            (text.to_owned(), Box::new(error))
        }
        (None, Some(value)) => {
            let text = root.source.text.get(value.span()).unwrap_or_default().trim_matches(['"', '\'']);
            let (source, at) = (root.source, value.span().start);
            (text.to_owned(), Box::new(move |what| source.error(at, format_args!("placement: {what}"))))
        }
    };
    if text == "packed" {
        return Ok(Vec::new());
    }
    let form = || error(format!("`{text}` is no placement; write packed, or places like [0, 8, 1, 9]"));
    let inner = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(form)?;
    let numbers = inner.trim().trim_end_matches(',').split(',').map(|n| n.trim().parse().map_err(|_| form()));
    let list: Vec<Rank> = numbers.collect::<Result<_>>()?;
    let mut taken = vec![false; places as usize];
    for &place in &list {
        match taken.get_mut(place as usize) {
            None => return Err(error(format!("there is no place {place}; write places of 0..{places}"))),
            Some(true) => return Err(error(format!("place {place} is there twice; write each place once"))),
            Some(free) => *free = true,
        }
    }
    Ok(list)
}

impl Network {
    /// Returns the number of places for ranks.
    pub fn place_count(&self) -> u32 {
        if self.placement.is_empty() { self.shape.nranks() } else { self.placement.len() as u32 }
    }

    /// Returns the place of each rank. `Err` if there are not enough places.
    pub fn places(&self, nranks: u32) -> Result<Vec<Rank>> {
        let most = self.place_count();
        if nranks > most {
            let remedy = if self.placement.is_empty() { "give it more nodes" } else { "list more places" };
            return Err(Error::argument(format!(
                "{} has {most} places for {nranks} ranks; {remedy}, or take fewer ranks",
                self.name
            )));
        }
        let packed = || (0..nranks).collect();
        Ok(self.placement.get(..nranks as usize).map_or_else(packed, <[Rank]>::to_vec))
    }

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
