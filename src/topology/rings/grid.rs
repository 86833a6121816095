//! The cycles of whole grids, which are known.
//!
//! ```text
//!     mesh    0 - 1 - 2 - 3      an even number of rows: back and forth through all columns but the first, and home through
//!             |   .       |      it. A corner has two edges, so there is no second cycle. With an odd number of places there is
//!             4   5 - 6 - 7      none: each hop changes the colour of the chessboard.
//!             |   |              Three axes: the first two, back and forth, are one.
//!             8   9 - 10- 11
//!             |           |      torus   `torus.rs`
//!             12- 13- 14- 15
//! ```

use super::super::Network;
use super::{Wiring, torus};
use crate::plan::Shape;
use crate::types::Rank;

/// Returns the cycles of ranks that fill a whole grid, one for each link that they take side by side. `None`: nothing is known, so a search
/// has to tell.
pub(super) fn of_whole(network: &Network, wiring: &Wiring, places: &[Rank]) -> Option<Vec<Vec<Rank>>> {
    let Wiring::Grid { wraps, links } = *wiring else { return None };
    let shape = network.shape;
    if shape.nranks() as usize != places.len() {
        return None;
    }
    let mut axes: Vec<usize> = (0..3).filter(|&axis| shape.0[axis] > 1).collect();
    let cycles = match axes.len() {
        // Two places are there and back.
        1 if places.len() == 2 => return None,
        1 if wraps => vec![(0..shape.nranks()).collect()],
        1 => Vec::new(),
        _ if wraps => torus::cycles(shape)?,
        _ => {
            // The last axis of an even extent goes last: so the number of rows is even.
            axes.sort_by_key(|&axis| shape.0[axis].is_multiple_of(2));
            mesh(shape, &axes).into_iter().collect()
        }
    };
    let mut ranks = vec![0; places.len()];
    for (rank, &place) in (0..).zip(places) {
        ranks[place as usize] = rank;
    }
    let cycles = cycles.iter().map(|cycle| cycle.iter().map(|&place| ranks[place as usize]).collect());
    Some(cycles.flat_map(|cycle: Vec<Rank>| vec![cycle; links as usize]).collect())
}

/// Returns the cycle of a mesh, whose last axis has an even extent if one has.
fn mesh(shape: Shape, axes: &[usize]) -> Option<Vec<Rank>> {
    let (&up, across) = axes.split_last()?;
    let rows = shape.0[up];
    if !rows.is_multiple_of(2) {
        return None;
    }
    let columns = across.iter().map(|&axis| shape.0[axis]).product();
    let place = |row: u32, column: u32| {
        let mut at = [0; 3];
        at[up] = row;
        let mut index = column;
        for &axis in across {
            let (along, extent) = (index % shape.0[axis], shape.0[axis]);
            index /= extent;
            // Back and forth, so that columns beside each other are neighbours.
            at[axis] = if index.is_multiple_of(2) { along } else { extent - 1 - along };
        }
        shape.rank(at)
    };
    let there = (0..rows).flat_map(|row| {
        (1..columns).map(move |step| (row, if row.is_multiple_of(2) { step } else { columns - step }))
    });
    let home = (0..rows).rev().map(|row| (row, 0));
    Some(there.chain(home).map(|(row, column)| place(row, column)).collect())
}
