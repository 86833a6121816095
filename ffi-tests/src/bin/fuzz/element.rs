//! Elements and reductions, computed a second time and in the plainest way: the oracle.
//!
//! Inputs are chosen so that every result is exact or rounded once, whatever the order of the folds: small integers, powers of
//! two, averages of two numbers and zeros.

use crate::api::{DataType, RedOp};
use crate::random::Random;

/// What the bits of a type mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Class {
    Signed,
    Unsigned,
    Float { exponent: u32, mantissa: u32 },
    Bool,
}

/// An element type.
#[derive(Clone, Copy, Debug)]
pub struct Type {
    pub name: &'static str,
    pub number: DataType,
    pub size: usize,
    pub class: Class,
}

const fn row(name: &'static str, number: i32, size: usize, class: Class) -> Type {
    Type { name, number: DataType(number), size, class }
}

const fn float(exponent: u32, mantissa: u32) -> Class {
    Class::Float { exponent, mantissa }
}

/// All types.
pub const TYPES: [Type; 15] = [
    row("pennyInt8", 0, 1, Class::Signed),
    row("pennyUint8", 1, 1, Class::Unsigned),
    row("pennyInt32", 2, 4, Class::Signed),
    row("pennyUint32", 3, 4, Class::Unsigned),
    row("pennyInt64", 4, 8, Class::Signed),
    row("pennyUint64", 5, 8, Class::Unsigned),
    row("pennyFloat16", 6, 2, float(5, 10)),
    row("pennyFloat32", 7, 4, float(8, 23)),
    row("pennyFloat64", 8, 8, float(11, 52)),
    row("pennyBfloat16", 9, 2, float(8, 7)),
    row("pennyFloat8e4m3", 10, 1, float(4, 3)),
    row("pennyFloat8e5m2", 11, 1, float(5, 2)),
    row("pennyBool", 64, 1, Class::Bool),
    row("pennyInt16", 65, 2, Class::Signed),
    row("pennyUint16", 66, 2, Class::Unsigned),
];

pub const SUM: RedOp = RedOp(0);
const PROD: RedOp = RedOp(1);
const MAX: RedOp = RedOp(2);
const MIN: RedOp = RedOp(3);
const AVG: RedOp = RedOp(4);
const SQUARE_ADD: RedOp = RedOp(64);
pub const LOGICAL_AND: RedOp = RedOp(65);
pub const LOGICAL_OR: RedOp = RedOp(66);
const LOGICAL_XOR: RedOp = RedOp(67);
pub const BIT_AND: RedOp = RedOp(68);
const BIT_OR: RedOp = RedOp(69);

/// All operations with their names.
pub const OPS: [(i32, &str); 12] = [
    (0, "pennySum"),
    (1, "pennyProd"),
    (2, "pennyMax"),
    (3, "pennyMin"),
    (4, "pennyAvg"),
    (64, "pennySquareAdd"),
    (65, "pennyLogicalAnd"),
    (66, "pennyLogicalOr"),
    (67, "pennyLogicalXor"),
    (68, "pennyBitAnd"),
    (69, "pennyBitOr"),
    (70, "pennyBitXor"),
];

/// Does the operation serve the type?
pub fn serves(op: RedOp, class: Class) -> bool {
    match class {
        Class::Signed | Class::Unsigned => true,
        Class::Float { .. } => op.0 <= AVG.0 || op == SQUARE_ADD,
        Class::Bool => (LOGICAL_AND.0..=LOGICAL_XOR.0).contains(&op.0),
    }
}

/// A type's bits nearest to a value within its range, ties to even.
fn encode(class: Class, size: usize, value: f64) -> u64 {
    let Class::Float { exponent, mantissa } = class else { unreachable!("only floats are encoded") };
    let sign = u64::from(value < 0.0) << (size * 8 - 1);
    if value == 0.0 {
        return 0;
    }
    let bias = (1 << (exponent - 1)) - 1;
    let power = (((value.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(1 - bias);
    let digits = (value.abs() / 2f64.powi(power - mantissa as i32)).round_ties_even() as u64;
    // The digits have the leading one, which adds 1 to the exponent's field.
    sign | ((((power + bias - 1) as u64) << mantissa) + digits)
}

/// The value of finite bits.
fn decode(class: Class, size: usize, bits: u64) -> f64 {
    let Class::Float { exponent, mantissa } = class else { unreachable!("only floats are decoded") };
    let bias = (1 << (exponent - 1)) - 1;
    let biased = (bits >> mantissa & ((1 << exponent) - 1)) as i32;
    let digits = bits & ((1 << mantissa) - 1) | u64::from(biased != 0) << mantissa;
    let value = digits as f64 * 2f64.powi(biased.max(1) - bias - mantissa as i32);
    if bits >> (size * 8 - 1) != 0 { -value } else { value }
}

fn nan(class: Class) -> u64 {
    let Class::Float { exponent, mantissa } = class else { unreachable!("only floats have it") };
    let ones = (1u64 << exponent) - 1;
    // E4M3 has one only, all ones; the quiet ones of the others have the first digit set.
    if mantissa == 3 { 0x7f } else { ones << mantissa | 1 << (mantissa - 1) }
}

fn is_nan(class: Class, bits: u64) -> bool {
    let Class::Float { exponent, mantissa } = class else { return false };
    let (ones, digits) = (bits >> mantissa & ((1 << exponent) - 1), bits & ((1 << mantissa) - 1));
    ones == (1 << exponent) - 1 && if mantissa == 3 { digits == 7 } else { digits != 0 }
}

impl Type {
    /// Element `i` of what member `m` of `n` puts into a reduction.
    fn input(&self, op: RedOp, i: usize, m: usize, n: usize, random: &mut Random) -> u64 {
        let mask = u64::MAX >> (64 - 8 * self.size);
        let Class::Float { mantissa, .. } = self.class else {
            let zero = random.chance(30) && (LOGICAL_AND.0..=LOGICAL_XOR.0).contains(&op.0);
            return if zero { 0 } else { random.next() & mask };
        };
        let small =
            |random: &mut Random, limit: i64| random.below(2 * limit as usize + 1) as f64 - limit as f64;
        let value = match op {
            PROD => {
                let sign = if random.chance(50) { -1.0 } else { 1.0 };
                sign * random.one(&[0.5, 1.0, 2.0])
            }
            MAX | MIN if random.chance(6) && i % n != m => return nan(self.class),
            MAX | MIN => small(random, 1 << mantissa.min(10)),
            // At most two members have one that is not 0, so that the sum of their shares is rounded once in every order.
            AVG if i % n != m && i * 7 % n != m => 0.0,
            AVG => small(random, if mantissa <= 3 { 4 } else { 100 }),
            SQUARE_ADD => small(random, if mantissa <= 3 { 1 } else { 2 }),
            _ => small(
                random,
                match mantissa {
                    2 => 1,
                    3 => 2,
                    7 => 16,
                    _ => 100,
                },
            ),
        };
        encode(self.class, self.size, value)
    }

    /// A number that the inputs of [`Patterns::scaled`] are multiplied by: every product and sum is exact. `common` is a power of
    /// two that all members have in common.
    pub fn factor(&self, common: f64, random: &mut Random) -> u64 {
        let Class::Float { mantissa, .. } = self.class else {
            return random.next() & u64::MAX >> (64 - 8 * self.size);
        };
        let sign = if random.chance(50) { -1.0 } else { 1.0 };
        let power = match mantissa {
            2 => 1.0,
            3 | 7 => random.one(&[1.0, 2.0]),
            _ => random.one(&[0.5, 1.0, 2.0]),
        };
        encode(self.class, self.size, sign * power * common)
    }

    /// Element of what a member puts into a sum of scaled inputs. It is not 0, whose product may be -0.
    fn scaled_input(&self, random: &mut Random) -> u64 {
        let Class::Float { mantissa, .. } = self.class else {
            return random.next() & u64::MAX >> (64 - 8 * self.size);
        };
        let sign = if random.chance(50) { -1.0 } else { 1.0 };
        let most = match mantissa {
            2 | 3 => 1,
            7 => 16,
            _ => 50,
        };
        encode(self.class, self.size, sign * (1 + random.below(most)) as f64)
    }

    /// The product, rounded to the type.
    fn product(&self, a: u64, b: u64) -> u64 {
        match self.class {
            Class::Float { .. } => {
                let [a, b] = [a, b].map(|bits| decode(self.class, self.size, bits));
                encode(self.class, self.size, a * b)
            }
            _ => a.wrapping_mul(b) & u64::MAX >> (64 - 8 * self.size),
        }
    }

    /// What a member's input is in an average of `n`: its product with 1/n, both rounded to the type.
    fn share(&self, x: f64, n: usize) -> f64 {
        let rounded = |x| decode(self.class, self.size, encode(self.class, self.size, x));
        let factor = 1.0 / n as f64;
        rounded(x * rounded(if self.size < 8 { f64::from(factor as f32) } else { factor }))
    }

    fn fold(&self, op: RedOp, inputs: &[u64]) -> u64 {
        let n = inputs.len();
        if let Class::Float { .. } = self.class {
            let values: Vec<f64> = inputs
                .iter()
                .filter(|&&bits| !is_nan(self.class, bits))
                .map(|&bits| decode(self.class, self.size, bits))
                .collect();
            let value = match op {
                PROD => values.iter().product(),
                MAX => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                MIN => values.iter().copied().fold(f64::INFINITY, f64::min),
                AVG => values.iter().map(|x| self.share(*x, n)).sum(),
                SQUARE_ADD => values.iter().map(|x| x * x).sum(),
                _ => values.iter().sum(),
            };
            return encode(self.class, self.size, value);
        }
        let width = 8 * self.size as u32;
        let mask = u64::MAX >> (64 - width);
        let signed = |bits: u64| ((bits << (64 - width)) as i64) >> (64 - width);
        let is_signed = self.class == Class::Signed;
        let sum = inputs.iter().fold(0u64, |a, &b| a.wrapping_add(b)) & mask;
        let truths = inputs.iter().filter(|&&x| x != 0).count();
        let value = match op {
            PROD => inputs.iter().fold(1u64, |a, &b| a.wrapping_mul(b)),
            MAX if is_signed => inputs.iter().copied().max_by_key(|&x| signed(x)).unwrap_or(0),
            MIN if is_signed => inputs.iter().copied().min_by_key(|&x| signed(x)).unwrap_or(0),
            MAX => inputs.iter().copied().max().unwrap_or(0),
            MIN => inputs.iter().copied().min().unwrap_or(0),
            AVG if is_signed => (signed(sum) / n as i64) as u64,
            AVG => sum / n as u64,
            SQUARE_ADD => inputs.iter().fold(0u64, |a, &b| a.wrapping_add(b.wrapping_mul(b))),
            LOGICAL_AND => u64::from(truths == n),
            LOGICAL_OR => u64::from(truths > 0),
            LOGICAL_XOR => (truths % 2) as u64,
            BIT_AND => inputs.iter().fold(u64::MAX, |a, &b| a & b),
            BIT_OR => inputs.iter().fold(0, |a, &b| a | b),
            SUM => sum,
            _ => inputs.iter().fold(0, |a, &b| a ^ b),
        };
        value & mask
    }
}

/// What all members put into a call, and what comes of it: element `i` is number `i % period` of a pattern.
pub struct Patterns {
    pub size: usize,
    /// Of each member.
    pub inputs: Vec<Vec<u8>>,
    /// The reduction of all of them; empty where nothing is reduced.
    pub folded: Vec<u8>,
}

/// Lengths of patterns: primes, so that nothing that is shifted by a slice looks right.
const PERIODS: [usize; 4] = [127, 251, 509, 1021];

impl Patterns {
    /// The patterns of a call among `n` members; `op` is `None` where elements are only moved.
    pub fn new(kind: Type, op: Option<RedOp>, n: usize, salt: u64) -> Patterns {
        let mut random = Random::of(&[salt, 1]);
        let period = random.one(&PERIODS);
        let mut inputs: Vec<Vec<u64>> = Vec::with_capacity(n);
        for m in 0..n {
            let mut random = Random::of(&[salt, 2, m as u64]);
            inputs.push(
                (0..period)
                    .map(|i| match op {
                        Some(op) => kind.input(op, i, m, n, &mut random),
                        None => random.next(),
                    })
                    .collect(),
            );
        }
        let folded = op.map(|op| {
            let fold = |i: usize| kind.fold(op, &inputs.iter().map(|input| input[i]).collect::<Vec<_>>());
            (0..period).map(fold).collect::<Vec<_>>()
        });
        Patterns::of(kind, &inputs, &folded.unwrap_or_default())
    }

    /// The patterns of a sum whose inputs are multiplied by a number of each member.
    pub fn scaled(kind: Type, factors: &[u64], salt: u64) -> Patterns {
        let period = Random::of(&[salt, 1]).one(&PERIODS);
        let input = |m: usize| -> Vec<u64> {
            let mut random = Random::of(&[salt, 2, m as u64]);
            (0..period).map(|_| kind.scaled_input(&mut random)).collect()
        };
        let inputs: Vec<Vec<u64>> = (0..factors.len()).map(input).collect();
        let sum = |i: usize| {
            let products = inputs.iter().zip(factors).map(|(input, &factor)| kind.product(input[i], factor));
            kind.fold(SUM, &products.collect::<Vec<_>>())
        };
        let folded: Vec<u64> = (0..period).map(sum).collect();
        Patterns::of(kind, &inputs, &folded)
    }

    fn of(kind: Type, inputs: &[Vec<u64>], folded: &[u64]) -> Patterns {
        let bytes = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(kind.size)).collect()
        };
        Patterns {
            size: kind.size,
            inputs: inputs.iter().map(|words| bytes(words)).collect(),
            folded: bytes(folded),
        }
    }

    /// Writes elements `start` and on of a pattern.
    pub fn write(&self, pattern: &[u8], start: usize, to: &mut [u8]) {
        let mut at = start * self.size % pattern.len();
        let mut rest = to;
        while !rest.is_empty() {
            let part = rest.len().min(pattern.len() - at);
            let (now, later) = rest.split_at_mut(part);
            now.copy_from_slice(&pattern[at..at + part]);
            rest = later;
            at = 0;
        }
    }
}
