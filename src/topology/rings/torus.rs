//! The cycles of a torus: one for each axis, which together use every link.
//!
//! ```text
//!     at first each colour has the rings of one axis      a - b        a   b       a square whose sides alternate: when they are
//!     A: rows  B: columns                                 .   .   ->   |   |       swapped, two cycles of A become one, and two
//!     - is A, | is B                                      | - |        . - .       of B, if the sides lay in different ones
//! ```
//!
//! Swaps never leave a rank with other than two edges of each colour, so what they lead to are cycles. A swap is made where there are fewer
//! cycles after it, or as many, for then the next square may be another one. That a torus is two cycles or three is known (Kotzig;
//! Foregger); where the swaps do not lead there, the colours that are one cycle are taken.

use crate::plan::Shape;
use crate::types::Rank;

/// Times that all squares are gone over.
const TURNS: usize = 6;
/// The axes in other orders: the squares are then met in another order.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Edges by place and axis: the one that goes up.
struct Colouring {
    axes: usize,
    /// By place, then axis: the next place up, and the one down.
    up: Vec<[Rank; 3]>,
    down: Vec<[Rank; 3]>,
    /// By place, then axis: the colour of the edge that goes up.
    colour: Vec<[u8; 3]>,
    /// By colour, then place: the cycle in which the place lies.
    cycle: Vec<Vec<u32>>,
    /// Cycles of each colour.
    cycles: Vec<u32>,
    /// Numbers that cycles have had.
    names: u32,
}

/// Returns the cycles of a torus. `None` for one with an axis of two, where two places are joined twice.
pub(super) fn cycles(shape: Shape) -> Option<Vec<Vec<Rank>>> {
    let mut axes: Vec<usize> = (0..3).filter(|&axis| shape.0[axis] > 1).collect();
    if axes.iter().any(|&axis| shape.0[axis] == 2) {
        return None;
    }
    // The shortest axis first, because most tori come out at once then.
    axes.sort_by_key(|&axis| shape.0[axis]);
    let orders = ORDERS.iter().filter(|order| order[axes.len()..].iter().all(|&axis| axis >= axes.len()));
    let mut best = Vec::new();
    for order in orders {
        let turned: Vec<usize> = order[..axes.len()].iter().map(|&i| axes[i]).collect();
        let found = of_axes(shape, &turned);
        if found.len() > best.len() {
            best = found;
        }
        if best.len() == axes.len() {
            break;
        }
    }
    Some(best)
}

/// Returns the cycles that the squares over these axes lead to.
fn of_axes(shape: Shape, axes: &[usize]) -> Vec<Vec<Rank>> {
    // The places are numbered along these axes.
    let extents = std::array::from_fn(|i| axes.get(i).map_or(1, |&axis| shape.0[axis]));
    let own = Shape(extents);
    let mut colouring = Colouring::new(own, axes.len());
    colouring.merge();
    let place = |rank: Rank| {
        let (from, mut at) = (own.coordinates(rank), [0; 3]);
        axes.iter().zip(from).for_each(|(&axis, along)| at[axis] = along);
        shape.rank(at)
    };
    let whole = (0..axes.len()).filter(|&colour| colouring.cycles[colour] == 1);
    whole.map(|colour| colouring.walk(0, colour as u8).into_iter().map(place).collect()).collect()
}

impl Colouring {
    /// Gives each axis a colour of its own.
    fn new(shape: Shape, axes: usize) -> Colouring {
        let n = shape.nranks();
        let step = |place: Rank, by: fn(u32) -> u32| {
            std::array::from_fn(|axis| {
                let (mut at, extent) = (shape.coordinates(place), shape.0[axis]);
                at[axis] = (at[axis] + by(extent)) % extent;
                shape.rank(at)
            })
        };
        let mut colouring = Colouring {
            axes,
            up: (0..n).map(|place| step(place, |_| 1)).collect(),
            down: (0..n).map(|place| step(place, |extent| extent - 1)).collect(),
            colour: vec![[0, 1, 2]; n as usize],
            cycle: vec![vec![0; n as usize]; axes],
            cycles: vec![0; axes],
            names: 0,
        };
        (0..axes).for_each(|colour| colouring.number(colour as u8));
        colouring
    }

    /// Returns the two places to which edges of a colour lead.
    fn beside(&self, place: Rank, colour: u8) -> [Rank; 2] {
        let (mut found, mut count) = ([place; 2], 0);
        let (up, down) = (&self.up[place as usize], &self.down[place as usize]);
        for axis in 0..self.axes {
            for (to, edge) in [(up[axis], place), (down[axis], down[axis])] {
                if self.colour[edge as usize][axis] == colour && count < 2 {
                    found[count] = to;
                    count += 1;
                }
            }
        }
        debug_assert_eq!(count, 2, "two edges of each colour");
        found
    }

    /// Returns the cycle of a colour that begins at a place.
    fn walk(&self, first: Rank, colour: u8) -> Vec<Rank> {
        let mut cycle = vec![first];
        let (mut before, mut at) = (first, self.beside(first, colour)[0]);
        // BOUND: a cycle has as many places as the torus, at most.
        while at != first {
            cycle.push(at);
            let [one, other] = self.beside(at, colour);
            (before, at) = (at, if one == before { other } else { one });
        }
        cycle
    }

    /// Numbers the cycles of a colour.
    fn number(&mut self, colour: u8) {
        const NONE: u32 = u32::MAX;
        self.cycle[colour as usize].fill(NONE);
        for place in 0..self.up.len() as Rank {
            if self.cycle[colour as usize][place as usize] == NONE {
                self.name(place, colour);
                self.cycles[colour as usize] += 1;
            }
        }
    }

    /// Gives the cycle of a colour through a place a number of its own.
    fn name(&mut self, place: Rank, colour: u8) {
        self.names += 1;
        for on in self.walk(place, colour) {
            self.cycle[colour as usize][on as usize] = self.names;
        }
    }

    /// Swaps the sides of squares until each colour is one cycle, but goes over all of them only so often.
    fn merge(&mut self) {
        for turn in 0..TURNS {
            for place in 0..self.up.len() as Rank {
                for (x, y) in [(0, 1), (0, 2), (1, 2)] {
                    if y < self.axes {
                        self.swap_if_fewer(place, x, y, turn > 0);
                    }
                    if self.cycles.iter().all(|&cycles| cycles == 1) {
                        return;
                    }
                }
            }
        }
    }

    /// Swaps the sides of a square if there are fewer cycles afterwards, or also if there are as many.
    fn swap_if_fewer(&mut self, place: Rank, x: usize, y: usize, or_as_many: bool) {
        let (right, above) = (self.up[place as usize][x], self.up[place as usize][y]);
        let sides = [(place, x), (above, x), (place, y), (right, y)];
        let [a, a2, b, b2] = sides.map(|(place, axis)| self.colour[place as usize][axis]);
        if a != a2 || b != b2 || a == b {
            return;
        }
        let across = [place, right, above, self.up[above as usize][x]];
        let upwards = [place, above, right, self.up[right as usize][y]];
        let changes = [(a, across), (b, upwards)].map(|(colour, ends)| (colour, self.change(colour, ends)));
        let change: i32 = changes.iter().map(|(_, change)| change).sum();
        if change > 0 || (change == 0 && !or_as_many) {
            return;
        }
        for ((place, axis), colour) in sides.into_iter().zip([b, b, a, a]) {
            self.colour[place as usize][axis] = colour;
        }
        for (colour, change) in changes {
            if change != 0 {
                self.name(place, colour);
                self.cycles[colour as usize] = self.cycles[colour as usize].wrapping_add_signed(change);
            }
        }
    }

    /// Returns how many more cycles of a colour there are when its sides p - q and r - s become p - r and q - s.
    fn change(&self, colour: u8, [p, q, r, s]: [Rank; 4]) -> i32 {
        let cycle = &self.cycle[colour as usize];
        if cycle[p as usize] != cycle[r as usize] {
            return -1;
        }
        // From p away from q: where r comes first, p ... r close, and so do q ... s.
        let [one, other] = self.beside(p, colour);
        let (mut before, mut at) = (p, if one == q { other } else { one });
        // BOUND: the cycle comes to r or s before it is at p again.
        while at != r && at != s && at != p {
            let [one, other] = self.beside(at, colour);
            (before, at) = (at, if one == before { other } else { one });
        }
        i32::from(at == r)
    }
}
