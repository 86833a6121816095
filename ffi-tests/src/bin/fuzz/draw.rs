//! What is drawn for calls of many kinds: counts, types, operations, memory.

use crate::api::RedOp;
use crate::buffer::Kind;
use crate::element::{OPS, TYPES, Type, serves};
use crate::random::Random;

/// Bytes about which the library changes its ways.
const THRESHOLDS: [usize; 9] = [40, 64, 4096, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20];

/// How many elements of `size` bytes among `n` members.
pub fn draw_count(random: &mut Random, size: usize, n: usize) -> usize {
    match random.below(20) {
        0 => 0,
        1 => 1,
        2 => n - 1,
        3 => n,
        4 => n + 1,
        5..=9 => 2 * random.below(500) + 1,
        10..=12 => random.below(20_000),
        13..=18 => {
            let at = random.one(&THRESHOLDS[..8]) / size / if random.chance(40) { n } else { 1 };
            (at + random.below(3)).saturating_sub(1)
        }
        _ => THRESHOLDS[8] / size + random.below(3) - 1,
    }
}

/// A type, and an operation that serves it.
pub fn draw_operation(random: &mut Random) -> (Type, RedOp) {
    loop {
        let (kind, op) = (random.one(&TYPES), RedOp(random.one(&OPS).0));
        if serves(op, kind.class) {
            return (kind, op);
        }
    }
}

/// The kind of a buffer's memory.
pub fn draw_kind(random: &mut Random) -> Kind {
    random.one(&[Kind::Private, Kind::Heap, Kind::Registered])
}
