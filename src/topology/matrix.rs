//! The ways between places as a table, in the manner of `nvidia-smi topo -m`.

use super::Network;
use crate::types::Rank;

/// Most places that have a row and a column: the table grows with their square.
const MOST: u32 = 128;

/// A row and a column a place, of the first places where there are many; a cell names the kinds of ports on the way of lane 0, and how many hops are of a kind.
///
/// ```text
///           0       1       8       9
///     0     X    NV18    LEAF  LEAF+SPINE
/// ```
pub fn matrix(network: &Network) -> String {
    let all = network.shape.nranks();
    let places = all.min(MOST);
    let cells: Vec<Vec<String>> =
        (0..places).map(|a| (0..places).map(|b| cell(network, a, b)).collect()).collect();
    let width = |column: usize| {
        cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(column.to_string().len())
    };
    let widths: Vec<usize> = (0..places as usize).map(width).collect();
    let first = places.to_string().len();
    let mut text = " ".repeat(first);
    for (column, &width) in widths.iter().enumerate() {
        text += &format!("  {column:>width$}");
    }
    for (row, cells) in cells.iter().enumerate() {
        text += &format!("\n{row:>first$}");
        for (cell, &width) in cells.iter().zip(&widths) {
            text += &format!("  {cell:>width$}");
        }
    }
    text += "\n";
    if places < all {
        text += &format!("the ways between the first {places} of {all} places\n");
    }
    text
}

fn cell(network: &Network, from: Rank, to: Rank) -> String {
    if from == to {
        return "X".into();
    }
    let mut ports = Vec::new();
    if network.routes.route(from, to, 0, &mut ports).is_err() {
        return "-".into();
    }
    // A receiving port is the other end of a hop that was counted.
    ports.retain(|&p| !network.ports[p as usize].name.ends_with(".rx"));
    let mut kinds: Vec<(String, u32)> = Vec::new();
    for port in ports {
        let name = network.class(port).name.split(',').next().unwrap_or_default().to_uppercase();
        match kinds.iter_mut().find(|(kind, _)| *kind == name) {
            Some((_, hops)) => *hops += 1,
            None => kinds.push((name, 1)),
        }
    }
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(name, hops)| if hops == 1 { name } else { format!("{name}x{hops}") })
        .collect();
    kinds.join("+")
}
