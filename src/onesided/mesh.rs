//! How a rank is named to signals and copies: by its number, or by its coordinates in a declared mesh.
//!
//! ```text
//!     mesh 2 x 3      0 (0,0)   1 (0,1)   2 (0,2)       row-major, as JAX lays devices out: the last coordinate runs fastest
//!                     3 (1,0)   4 (1,1)   5 (1,2)
//! ```

use crate::error::{Error, Result};
use crate::sync::prim::{AtomicU64, Ordering};
use crate::types::Rank;
use std::fmt;

/// Dimensions that a mesh may have.
pub const MESH_DIMS: usize = 4;

/// A rank, as a caller names it. Coordinates that a mesh does not have are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Coordinates if a mesh is declared, else the number in the first entry.
    Default([i32; MESH_DIMS]),
    /// The number in the communicator.
    Logical(i32),
    /// The coordinates in the mesh.
    Mesh([i32; MESH_DIMS]),
}

/// A mesh of ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mesh {
    /// 16 bits a dimension, the first in the lowest; 0 behind the last.
    word: u64,
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides: Vec<String> = self.sides().map(|side| side.to_string()).collect();
        match sides.is_empty() {
            true => f.write_str("no mesh"),
            false => f.write_str(&sides.join(" x ")),
        }
    }
}

impl Mesh {
    /// Makes a mesh with these sides, the slowest first, whose product is the number of ranks; no sides: no mesh.
    pub fn new(dims: &[i32], nranks: u32) -> Result<Mesh> {
        if dims.len() > MESH_DIMS {
            return Err(Error::argument(format!(
                "ndims is {}; a mesh has at most {MESH_DIMS} dimensions",
                dims.len()
            )));
        }
        let mut word = 0;
        for (k, &side) in dims.iter().enumerate() {
            let side = u16::try_from(side).ok().filter(|&side| side > 0);
            let side = side.ok_or_else(|| {
                Error::argument(format!(
                    "dims[{k}] is {}; each side of a mesh has at least one rank",
                    dims[k]
                ))
            })?;
            word |= u64::from(side) << (16 * k);
        }
        let mesh = Mesh { word };
        let places: u64 = mesh.sides().map(u64::from).product();
        if !dims.is_empty() && places != u64::from(nranks) {
            return Err(Error::argument(format!(
                "dims is {mesh}, which is {places} places for {nranks} ranks; their product must be the number of ranks"
            )));
        }
        Ok(mesh)
    }

    /// Encodes the mesh for the exchange between ranks.
    pub fn word(self) -> u64 {
        self.word
    }
    /// Decodes the mesh of another rank.
    pub fn of_word(word: u64) -> Mesh {
        Mesh { word }
    }

    fn sides(self) -> impl Iterator<Item = u16> {
        (0..MESH_DIMS).map(move |k| (self.word >> (16 * k)) as u16).take_while(|&side| side != 0)
    }

    /// Returns the rank at these coordinates.
    fn rank_at(self, at: [i32; MESH_DIMS]) -> Result<Rank> {
        let mut rank = 0;
        let mut sides = self.sides();
        for (k, at) in at.into_iter().enumerate() {
            let side = sides.next();
            if !(0..i32::from(side.unwrap_or(1))).contains(&at) {
                let sentence = match side {
                    Some(side) => {
                        format!("device.coord[{k}] is {at}, not in 0 to {} of the mesh {self}", side - 1)
                    }
                    None => format!(
                        "device.coord[{k}] is {at}, and the mesh {self} has no such dimension; pass 0"
                    ),
                };
                return Err(Error::argument(sentence));
            }
            rank = rank * u32::from(side.unwrap_or(1)) + at as u32;
        }
        Ok(rank)
    }
}

/// The mesh that a communicator's ranks have declared, if they have. Any thread may look.
#[derive(Default)]
pub(super) struct Declared(AtomicU64);

impl Declared {
    /// Sets the mesh that is used from now on.
    pub fn set(&self, mesh: Mesh) {
        // A word that means itself: nothing else is published by it.
        self.0.store(mesh.word(), Ordering::Relaxed);
    }

    /// Returns the rank that is meant.
    #[inline]
    pub fn rank_of(&self, device: Device, nranks: u32) -> Result<Rank> {
        let declared = || Mesh::of_word(self.0.load(Ordering::Relaxed));
        let number = match device {
            Device::Logical(number) => number,
            Device::Mesh(at) => {
                let mesh = declared();
                if mesh.word() == 0 {
                    return Err(Error::usage(
                        "device is named by coordinates, and no mesh is declared; call pennyMesh on all ranks first, or \
                         name the rank by its number",
                    ));
                }
                return mesh.rank_at(at);
            }
            Device::Default(at) => {
                let mesh = declared();
                if mesh.word() != 0 {
                    return mesh.rank_at(at);
                }
                if let Some(k) = (1..MESH_DIMS).find(|&k| at[k] != 0) {
                    return Err(Error::usage(format!(
                        "device.coord[{k}] is {}, and no mesh is declared; call pennyMesh on all ranks first, or name the \
                         rank by its number alone",
                        at[k]
                    )));
                }
                at[0]
            }
        };
        if number < 0 || number as u32 >= nranks {
            return Err(Error::no_rank("device: rank", number, nranks));
        }
        Ok(number as Rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(dims: &[i32], nranks: u32) -> Declared {
        let declared = Declared::default();
        declared.set(Mesh::new(dims, nranks).unwrap());
        declared
    }

    #[test]
    fn every_place_of_a_mesh_is_one_rank_in_row_major_order() {
        let mesh = declared(&[2, 3, 4], 24);
        let mut next = 0;
        for x in 0..2 {
            for y in 0..3 {
                for z in 0..4 {
                    assert_eq!(mesh.rank_of(Device::Mesh([x, y, z, 0]), 24), Ok(next));
                    assert_eq!(mesh.rank_of(Device::Default([x, y, z, 0]), 24), Ok(next));
                    next += 1;
                }
            }
        }
        assert_eq!(mesh.rank_of(Device::Logical(23), 24), Ok(23));
    }

    #[test]
    fn the_default_means_numbers_until_a_mesh_is_declared_and_after_it_is_taken_back() {
        let mesh = declared(&[], 6);
        assert_eq!(mesh.rank_of(Device::Default([5, 0, 0, 0]), 6), Ok(5));
        assert!(mesh.rank_of(Device::Default([0, 1, 0, 0]), 6).unwrap_err().message.contains("no mesh"));
        assert!(mesh.rank_of(Device::Mesh([0; 4]), 6).unwrap_err().message.contains("pennyMesh"));
        mesh.set(Mesh::new(&[2, 3], 6).unwrap());
        assert_eq!(mesh.rank_of(Device::Default([1, 2, 0, 0]), 6), Ok(5));
        mesh.set(Mesh::new(&[], 6).unwrap());
        assert_eq!(mesh.rank_of(Device::Default([1, 0, 0, 0]), 6), Ok(1));
    }

    #[test]
    fn places_outside_of_the_mesh_are_refused_by_their_coordinate() {
        let mesh = declared(&[2, 3], 6);
        let said = |at| mesh.rank_of(Device::Mesh(at), 6).unwrap_err().message.clone();
        assert!(said([0, 3, 0, 0]).contains("coord[1] is 3, not in 0 to 2 of the mesh 2 x 3"));
        assert!(said([-1, 0, 0, 0]).contains("coord[0] is -1"));
        assert!(said([0, 0, 1, 0]).contains("no such dimension"));
        assert!(mesh.rank_of(Device::Logical(6), 6).unwrap_err().message.contains("rank 6"));
        assert!(mesh.rank_of(Device::Logical(-1), 6).is_err());
    }

    #[test]
    fn sides_that_do_not_make_the_number_of_ranks_are_refused() {
        for (dims, part) in [
            (&[2, 2][..], "4 places for 6 ranks"),
            (&[0, 6], "dims[0] is 0"),
            (&[-6, -1], "dims[0] is -6"),
            (&[70000], "dims[0] is 70000"),
            (&[1, 1, 1, 1, 6], "ndims is 5"),
        ] {
            let said = Mesh::new(dims, 6).map(|_| ()).unwrap_err().message.clone();
            assert!(said.contains(part), "{said}");
        }
    }
}
