//! Folds done the obvious way: one element at a time, in exact integers or by the definition.

use crate::types::{DataType, RedOp};
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

/// Folds `sources` (bytes, and whether they are raw), as [`Fold::fold`](super::Fold::fold) does, to bytes.
pub(crate) fn fold(
    dtype: DataType,
    op: RedOp,
    nranks: u32,
    sources: &[(&[u8], bool)],
    finish: bool,
) -> Vec<u8> {
    let size = dtype.size();
    let count = sources[0].0.len() / size;
    let mut out = Vec::with_capacity(count * size);
    for i in 0..count {
        let operands: Vec<(u64, bool)> =
            sources.iter().map(|(bytes, raw)| (load(&bytes[i * size..][..size]), *raw)).collect();
        let value = element(dtype, op, nranks, &operands, finish);
        out.extend_from_slice(&value.to_le_bytes()[..size]);
    }
    out
}

/// Up to eight bytes, little endian.
pub(crate) fn load(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn element(dtype: DataType, op: RedOp, nranks: u32, operands: &[(u64, bool)], finish: bool) -> u64 {
    let shares = op == RedOp::Avg && dtype.is_float();
    let maps =
        matches!(op, RedOp::SquareAdd | RedOp::LogicalAnd | RedOp::LogicalOr | RedOp::LogicalXor) || shares;
    let divide = op == RedOp::Avg && !shares && finish;
    if let &[(bits, raw)] = operands
        && !(raw && maps)
        && !divide
    {
        return bits;
    }
    match dtype {
        DataType::Float64 => {
            let share = |x: f64, raw| if raw && shares { x * (1.0 / f64::from(nranks)) } else { x };
            let value = |&(x, raw): &(u64, bool)| share(square(f64::from_bits(x), raw, op), raw);
            let xs: Vec<f64> = operands.iter().map(value).collect();
            let result = float(op, &xs, |a, b| a + b, |a, b| a * b, f64::total_cmp, |x| x.is_nan());
            if result.is_nan() { f64::NAN.to_bits() } else { result.to_bits() }
        }
        _ if dtype.is_float() => {
            let rounded = |x: f32| widen(dtype, narrow(dtype, x));
            let factor = rounded((1.0 / f64::from(nranks)) as f32);
            let share = |x: f32, raw| if raw && shares { rounded(x * factor) } else { x };
            let value = |&(x, raw): &(u64, bool)| share(square(widen(dtype, x), raw, op), raw);
            let xs: Vec<f32> = operands.iter().map(value).collect();
            let result = float(op, &xs, |a, b| a + b, |a, b| a * b, f32::total_cmp, |x| x.is_nan());
            narrow(dtype, if result.is_nan() { f32::NAN } else { result })
        }
        _ => {
            let xs: Vec<i128> =
                operands.iter().map(|&(x, raw)| mapped(wrap(dtype, x as i128), raw, op)).collect();
            let sum = xs.into_iter().reduce(|a, b| wrap(dtype, integer(op, a, b))).expect("a source");
            (if divide { wrap(dtype, sum) / i128::from(nranks) } else { sum }) as u64
        }
    }
}

/// The value of the low bits as this integer type reads them.
fn wrap(dtype: DataType, x: i128) -> i128 {
    match dtype {
        DataType::Int8 => (x as i8).into(),
        DataType::Int16 => (x as i16).into(),
        DataType::Int32 => (x as i32).into(),
        DataType::Int64 => (x as i64).into(),
        DataType::Uint8 | DataType::Bool => (x as u8).into(),
        DataType::Uint16 => (x as u16).into(),
        DataType::Uint32 => (x as u32).into(),
        DataType::Uint64 => (x as u64).into(),
        _ => unreachable!("{dtype} is no integer"),
    }
}

fn mapped(x: i128, raw: bool, op: RedOp) -> i128 {
    match op {
        RedOp::SquareAdd if raw => x.wrapping_mul(x),
        RedOp::LogicalAnd | RedOp::LogicalOr | RedOp::LogicalXor if raw => (x != 0).into(),
        _ => x,
    }
}

fn integer(op: RedOp, a: i128, b: i128) -> i128 {
    match op {
        RedOp::Sum | RedOp::Avg | RedOp::SquareAdd => a.wrapping_add(b),
        RedOp::Prod => a.wrapping_mul(b),
        RedOp::Max => a.max(b),
        RedOp::Min => a.min(b),
        RedOp::LogicalAnd | RedOp::BitAnd => a & b,
        RedOp::LogicalOr | RedOp::BitOr => a | b,
        RedOp::LogicalXor | RedOp::BitXor => a ^ b,
    }
}

fn square<T: Copy + std::ops::Mul<Output = T>>(x: T, raw: bool, op: RedOp) -> T {
    if raw && op == RedOp::SquareAdd { x * x } else { x }
}

/// Left to right; extremes by the total order of what is a number, in which -0 < +0.
fn float<T: Copy>(
    op: RedOp,
    xs: &[T],
    add: impl Fn(T, T) -> T,
    multiply: impl Fn(T, T) -> T,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
    is_nan: impl Fn(T) -> bool,
) -> T {
    let numbers = xs.iter().copied().filter(|&x| !is_nan(x));
    match op {
        RedOp::Max => numbers.max_by(order).unwrap_or(xs[0]),
        RedOp::Min => numbers.min_by(order).unwrap_or(xs[0]),
        RedOp::Prod => xs.iter().copied().reduce(multiply).expect("a source"),
        _ => xs.iter().copied().reduce(add).expect("a source"),
    }
}

/// The float32 of an element up to 32 bits.
pub(crate) fn widen(dtype: DataType, bits: u64) -> f32 {
    match dtype {
        DataType::Float32 => f32::from_bits(bits as u32),
        DataType::Float16 => f16::from_bits(bits as u16).to_f32(),
        DataType::Bfloat16 => bf16::from_bits(bits as u16).to_f32(),
        DataType::Float8e4m3 => F8E4M3::from_bits(bits as u8).to_f32(),
        DataType::Float8e5m2 => F8E5M2::from_bits(bits as u8).to_f32(),
        _ => unreachable!("{dtype} is no float of up to 32 bits"),
    }
}

/// The element nearest to a float32, ties to even.
pub(crate) fn narrow(dtype: DataType, x: f32) -> u64 {
    match dtype {
        DataType::Float32 => x.to_bits().into(),
        DataType::Float16 => f16::from_f32(x).to_bits().into(),
        DataType::Bfloat16 => bf16::from_f32(x).to_bits().into(),
        DataType::Float8e4m3 => nearest(dtype, x, 0x7e, 0x7e, 0x7f),
        DataType::Float8e5m2 => nearest(dtype, x, 0x7b, 0x7b, 0x7e),
        _ => unreachable!("{dtype} is no float of up to 32 bits"),
    }
}

/// Looks at every finite magnitude and takes the nearest; what lies half a step or more beyond the largest overflows.
fn nearest(dtype: DataType, x: f32, largest: u64, overflow: u64, nan: u64) -> u64 {
    if x.is_nan() {
        return nan;
    }
    let value = |code: u64| f64::from(widen(dtype, code));
    let magnitude = f64::from(x.abs());
    let beyond = value(largest) + (value(largest) - value(largest - 1)) / 2.0;
    let code = if magnitude >= beyond {
        overflow
    } else {
        (0..=largest)
            .min_by(|&a, &b| {
                let (to_a, to_b) = ((value(a) - magnitude).abs(), (value(b) - magnitude).abs());
                to_a.total_cmp(&to_b).then((a & 1).cmp(&(b & 1)))
            })
            .expect("there are magnitudes")
    };
    code | if x.is_sign_negative() { 0x80 } else { 0 }
}
