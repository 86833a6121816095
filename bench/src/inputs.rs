//! Which values the ranks contribute, and what their reduction must be, bit for bit.
//!
//! ```text
//!     M = the largest whole number up to which the type holds all (8 for fp8_e5m2, 2^24 for float ...)
//!     sum, avg     whole numbers, sum over ranks of |x| <= M: every partial sum in every order is exact
//!     avg, floats  whole numbers of at most two ranks: the sum of their products with 1/n is rounded once in every order
//!     square_add   the same with x*x
//!     prod         +-2^k, sum over ranks of |k| <= the exponent range
//!     max, min     whole numbers within M; for half of the elements the extreme is one rank's alone
//!     logical, bitwise   half of the elements hang on one rank alone; xor: on all
//! ```
//!
//! Where there are more ranks than M, some contribute the neutral element; which ones changes from element to
//! element, so that the loss of any rank's contribution shows.

use penny::internals::types::{DataType, RedOp};

use crate::element::{decode, encode, exact_exponent, exact_up_to, is_signed};
use crate::pattern::Pattern;

/// The inputs of one call. Every rank can compute the inputs of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// Element type.
    pub dtype: DataType,
    /// The reduction; `None` if the inputs are only copied, so that any bits are valid.
    pub op: Option<RedOp>,
    /// Ranks.
    pub nranks: u32,
    /// The seed of the values. It differs from call to call, so that an earlier result is not mistaken for this call's.
    pub seed: u64,
}

impl Inputs {
    /// Returns the contribution of `rank`.
    pub fn of_rank(&self, rank: u32) -> Pattern {
        Pattern::new(self.dtype.size(), |index| self.bits(rank, index))
    }

    /// The reduction over all ranks.
    pub fn reduced(&self) -> Pattern {
        Pattern::new(self.dtype.size(), |index| self.expected(index))
    }

    fn bits(&self, rank: u32, index: u64) -> u64 {
        match self.op {
            None if self.dtype == DataType::Bool => self.hash(rank, index) & 1,
            None => self.hash(rank, index),
            Some(op) if is_arithmetic(op) => encode(self.dtype, self.number(op, rank, index)),
            Some(op) => self.word(op, rank, index),
        }
    }

    fn expected(&self, index: u64) -> u64 {
        let op = self.op.expect("only what is reduced has an expected reduction");
        let ranks = 0..self.nranks;
        if is_arithmetic(op) {
            let numbers = ranks.map(|rank| self.number(op, rank, index));
            let n = f64::from(self.nranks);
            let value = match op {
                RedOp::Prod => numbers.product(),
                RedOp::Max => numbers.fold(f64::NEG_INFINITY, f64::max),
                RedOp::Min => numbers.fold(f64::INFINITY, f64::min),
                RedOp::SquareAdd => numbers.map(|x| x * x).sum(),
                RedOp::Avg if self.dtype.is_integer() => (numbers.sum::<f64>() / n).trunc(),
                RedOp::Avg => {
                    let share =
                        |x: f64| decode(self.dtype, encode(self.dtype, x * reciprocal(self.dtype, n)));
                    numbers.map(share).sum()
                }
                _ => numbers.sum(),
            };
            return encode(self.dtype, value);
        }
        let words = ranks.map(|rank| self.word(op, rank, index));
        match op {
            RedOp::BitAnd => words.fold(u64::MAX, |a, b| a & b),
            RedOp::BitOr => words.fold(0, |a, b| a | b),
            RedOp::BitXor => words.fold(0, |a, b| a ^ b),
            RedOp::LogicalAnd => words.fold(1, |a, b| a & u64::from(b != 0)),
            RedOp::LogicalOr => words.fold(0, |a, b| a | u64::from(b != 0)),
            _ => words.fold(0, |a, b| a ^ u64::from(b != 0)),
        }
    }

    /// A contribution to an arithmetic reduction.
    fn number(&self, op: RedOp, rank: u32, index: u64) -> f64 {
        let hash = self.hash(rank, index);
        let signed = is_signed(self.dtype);
        match op {
            RedOp::Max | RedOp::Min => {
                let high = exact_up_to(self.dtype);
                let low = if signed { -(high as f64) } else { 0.0 };
                let value = whole(hash, high, signed);
                // The rank in charge has the extreme, the others come close.
                match (op, self.is_alone(rank, index)) {
                    (RedOp::Max, true) => high as f64,
                    (RedOp::Max, false) => value.min(high as f64 - 1.0),
                    (_, true) => low,
                    (_, false) => value.max(low + 1.0),
                }
            }
            RedOp::Prod => {
                let range = u64::from(exact_exponent(self.dtype));
                let active = range.min(u64::from(self.nranks));
                let exponent = match self.is_active(rank, index, active) {
                    true => whole(hash >> 1, range / active, self.dtype.is_float()),
                    false => 0.0,
                };
                let sign = if signed && hash & 1 == 1 { -1.0 } else { 1.0 };
                sign * exponent.exp2()
            }
            _ => {
                let range = exact_up_to(self.dtype);
                let most = if op == RedOp::Avg && self.dtype.is_float() { 2 } else { range };
                let active = most.min(u64::from(self.nranks));
                let share = range / active;
                match self.is_active(rank, index, active) {
                    false => 0.0,
                    true if op == RedOp::SquareAdd => whole(hash, share.isqrt(), signed),
                    true => whole(hash, share, signed),
                }
            }
        }
    }

    /// A contribution to a logical or bitwise reduction.
    fn word(&self, op: RedOp, rank: u32, index: u64) -> u64 {
        let mask = match self.dtype {
            DataType::Bool => 1,
            _ => u64::MAX >> (64 - 8 * self.dtype.size()),
        };
        let alone = self.is_alone(rank, index);
        let bits = self.hash(rank, index) & mask;
        match op {
            RedOp::BitXor => bits,
            RedOp::BitAnd => mask ^ if alone { bits } else { 0 },
            RedOp::BitOr => {
                if alone {
                    bits
                } else {
                    0
                }
            }
            RedOp::LogicalXor => bits * (bits & 1),
            RedOp::LogicalAnd => {
                if alone {
                    0
                } else {
                    bits | 1
                }
            }
            _ => {
                if alone {
                    bits | 1
                } else {
                    0
                }
            }
        }
    }

    /// Tells whether the result of this element depends on `rank` alone. For half of the elements it depends on no single rank.
    fn is_alone(&self, rank: u32, index: u64) -> bool {
        mix(self.seed ^ index) % (2 * u64::from(self.nranks)) == u64::from(rank)
    }

    /// Tells whether `rank` is one of the `active` ranks that contribute a value other than the neutral element here.
    fn is_active(&self, rank: u32, index: u64, active: u64) -> bool {
        let n = u64::from(self.nranks);
        active == n || (u64::from(rank) + mix(self.seed ^ index)) % n < active
    }

    fn hash(&self, rank: u32, index: u64) -> u64 {
        mix(mix(self.seed << 32 | u64::from(rank)) ^ index)
    }
}

/// Returns 1/n as an element of a float type, which averages multiply by.
fn reciprocal(dtype: DataType, n: f64) -> f64 {
    let narrow = dtype != DataType::Float64;
    decode(dtype, encode(dtype, if narrow { f64::from((1.0 / n) as f32) } else { 1.0 / n }))
}

/// Combines numbers rather than bits.
fn is_arithmetic(op: RedOp) -> bool {
    use RedOp::*;
    matches!(op, Sum | Prod | Max | Min | Avg | SquareAdd)
}

/// A whole number within `-most ..= most`, or `0 ..= most`.
fn whole(hash: u64, most: u64, signed: bool) -> f64 {
    match signed {
        true => (hash % (2 * most + 1)) as f64 - most as f64,
        false => (hash % (most + 1)) as f64,
    }
}

/// SplitMix64's finaliser: every bit of the result depends on every bit of `x`.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: &[DataType] = DataType::ALL;

    /// Every type and operation that go together, for rank counts around the narrow types' ranges.
    fn cases() -> impl Iterator<Item = (Inputs, RedOp)> {
        let ranks = [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 64];
        ranks.into_iter().flat_map(|nranks| {
            let pairs = TYPES.iter().flat_map(|&t| RedOp::ALL.iter().map(move |&op| (t, op)));
            pairs
                .filter(|&(t, op)| op.serves(t))
                .map(move |(dtype, op)| (Inputs { dtype, op: Some(op), nranks, seed: 5 }, op))
        })
    }

    fn low(dtype: DataType) -> u64 {
        u64::MAX >> (64 - 8 * dtype.size())
    }

    /// Returns what an input becomes before it is combined.
    fn mapped(inputs: Inputs, op: RedOp, x: f64) -> f64 {
        match op {
            RedOp::SquareAdd => x * x,
            RedOp::Avg if inputs.dtype.is_float() => x * reciprocal(inputs.dtype, f64::from(inputs.nranks)),
            _ => x,
        }
    }

    /// Returns one step of an arithmetic reduction, rounded to the element type after it, as the least exact library does.
    fn hop(dtype: DataType, op: RedOp, a: u64, b: u64) -> u64 {
        let (x, y) = (decode(dtype, a), decode(dtype, b));
        let value = match op {
            RedOp::Prod => x * y,
            RedOp::Max => x.max(y),
            RedOp::Min => x.min(y),
            _ => x + y,
        };
        encode(dtype, value)
    }

    #[test]
    fn rounding_at_every_hop_in_any_order_gives_the_expected_bits() {
        for (inputs, op) in cases().filter(|(_, op)| is_arithmetic(*op)) {
            let Inputs { dtype, nranks, .. } = inputs;
            for index in 0..200 {
                let term = |rank| encode(dtype, mapped(inputs, op, decode(dtype, inputs.bits(rank, index))));
                let combine = |a, b| hop(dtype, op, a, b);
                let forward = (0..nranks).map(term).reduce(combine).unwrap();
                let backward = (0..nranks).rev().map(term).reduce(combine).unwrap();
                let odd_first = (1..nranks).step_by(2).chain((0..nranks).step_by(2));
                let shuffled = odd_first.map(term).reduce(combine).unwrap();
                let finish = |bits| match op {
                    RedOp::Avg if dtype.is_integer() => {
                        encode(dtype, (decode(dtype, bits) / f64::from(nranks)).trunc())
                    }
                    _ => bits,
                };
                for got in [forward, backward, shuffled] {
                    let expected = inputs.expected(index);
                    assert_eq!(
                        (finish(got) ^ expected) & low(dtype),
                        0,
                        "{dtype} {op} {nranks} ranks, {index}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_lost_contribution_of_any_rank_shows() {
        for (inputs, op) in cases().filter(|(i, _)| i.nranks > 1) {
            let Inputs { dtype, nranks, .. } = inputs;
            let fold = |mut words: std::vec::IntoIter<u64>| match op {
                RedOp::BitAnd => words.fold(u64::MAX, |a, b| a & b),
                RedOp::BitOr => words.fold(0, |a, b| a | b),
                RedOp::BitXor => words.fold(0, |a, b| a ^ b),
                RedOp::LogicalAnd => u64::from(words.all(|w| w != 0)),
                RedOp::LogicalOr => u64::from(words.any(|w| w != 0)),
                RedOp::LogicalXor => words.filter(|&w| w != 0).count() as u64 % 2,
                _ => {
                    let term = |w| encode(dtype, mapped(inputs, op, decode(dtype, w)));
                    words.map(term).reduce(|a, b| hop(dtype, op, a, b)).unwrap()
                }
            };
            let terms = |index, but: Option<u32>| {
                let ranks = (0..nranks).filter(|&r| Some(r) != but);
                ranks.map(|r| inputs.bits(r, index)).collect::<Vec<_>>().into_iter()
            };
            for missing in 0..nranks {
                let differs = |i| (fold(terms(i, None)) ^ fold(terms(i, Some(missing)))) & low(dtype) != 0;
                let shows = (0..4000).any(differs);
                assert!(shows, "{dtype} {op} {nranks} ranks without {missing}");
            }
        }
    }

    #[test]
    fn ranks_and_seeds_differ_in_what_they_contribute() {
        for &dtype in TYPES {
            let inputs = Inputs { dtype, op: None, nranks: 4, seed: 0 };
            assert_ne!(inputs.of_rank(0), inputs.of_rank(1), "{dtype}");
            assert_ne!(inputs.of_rank(0), Inputs { seed: 1, ..inputs }.of_rank(0), "{dtype}");
        }
    }
}
