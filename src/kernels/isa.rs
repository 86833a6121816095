//! Instruction sets, and the stages that each compiles from the same loops.

use super::FoldSource;
use super::codec::{Bfloat, E4m3, E5m2, Half};
use super::combine::{self, And, Combine, Max, Min, Or, Prod, Sum, Xor};
use super::small::{self, Codec, ShareOf};
use super::unary::{self, Divide, Map, NonZero, Portion, Same, Shares, Square};
use crate::types::{DataType, RedOp};

/// An instruction set to compile for. In ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The instructions that every CPU of the architecture has.
    Portable,
    /// AVX2 and F16C (x86-64-v3).
    Avx2,
    /// AVX-512 F, BW, DQ and VL (x86-64-v4).
    Avx512,
}

impl Isa {
    /// Every member.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// Tells whether this CPU has the instruction set. The standard library asks the CPU once.
    pub fn is_supported(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => false,
        }
    }

    /// The fastest that this CPU has.
    pub fn best() -> Isa {
        Isa::ALL.into_iter().rev().find(|isa| isa.is_supported()).unwrap_or(Isa::Portable)
    }

    /// The stages for a type and an operation; `None` if the type does not have it or the CPU not the instructions.
    pub(super) fn stages(self, dtype: DataType, op: RedOp) -> Option<Stages> {
        match self {
            _ if !op.serves(dtype) || !self.is_supported() => None,
            Isa::Portable => portable::stages(dtype, op),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::stages(dtype, op),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::stages(dtype, op),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
        }
    }
}

/// In place, on n values, in a reduction among a number of ranks.
type OnValues = unsafe fn(*mut u8, usize, u32);
/// out = a op b, over n values.
type Pair = unsafe fn(*mut u8, *const u8, *const u8, usize);
/// out = out op b, over n values.
type Onto = unsafe fn(*mut u8, *const u8, usize);

/// How two operands become one. `pair` writes to a third place, `onto` to the first operand's.
#[derive(Clone, Copy)]
pub(super) enum Join {
    /// As they are.
    Plain { pair: Pair, onto: Onto },
    /// Each times its factor, which is 1/n for raw operands: the map is a part of it.
    Shares {
        pair: unsafe fn(*mut u8, *const u8, *const u8, usize, [bool; 2], u32),
        onto: unsafe fn(*mut u8, *const u8, usize, [bool; 2], u32),
    },
}

impl Join {
    /// Tells whether the operands are combined as they are.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Join::Plain { .. })
    }
}

/// The functions that fold one type with one operation. Calling them is unsafe on a CPU that lacks their instruction set.
#[derive(Clone, Copy)]
pub(super) enum Stages {
    /// Types that are combined as they are.
    Plain {
        /// The operation's function for raw sources, if it has one.
        map: Option<OnValues>,
        join: Join,
        /// Divides by the number of ranks.
        divide: Option<OnValues>,
    },
    /// 16- and 8-bit floats: everything at once.
    Small {
        /// Does the operation map raw sources?
        maps: bool,
        /// Sees [`small::fold`].
        fold: unsafe fn(*mut u8, &[FoldSource<'_>], usize, usize, u32),
    },
}

/// One instruction set: the generic loops compiled with its features, and the choice among them.
macro_rules! instruction_set {
    ($name:ident, $(#[$feature:meta],)? $lanes:ty) => {
        mod $name {
            use super::*;

            $(#[$feature])?
            unsafe fn pair<T: Copy, O: Combine<T>>(out: *mut u8, a: *const u8, b: *const u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { combine::pair::<T, O>(out, a, b, n) }
            }
            $(#[$feature])?
            unsafe fn onto<T: Copy, O: Combine<T>>(out: *mut u8, b: *const u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { combine::onto::<T, O>(out, b, n) }
            }
            $(#[$feature])?
            unsafe fn map<T: Copy, M: Map<T>>(x: *mut u8, n: usize, ranks: u32) {
                // SAFETY: the caller's promise.
                unsafe { unary::map::<T, M>(x, n, ranks) }
            }
            $(#[$feature])?
            unsafe fn pair_shares<T: Shares>(
                out: *mut u8,
                a: *const u8,
                b: *const u8,
                n: usize,
                raw: [bool; 2],
                ranks: u32,
            ) {
                // SAFETY: the caller's promise.
                unsafe { combine::pair_shares::<T>(out, a, b, n, raw, ranks) }
            }
            $(#[$feature])?
            unsafe fn onto_shares<T: Shares>(
                out: *mut u8,
                b: *const u8,
                n: usize,
                raw: [bool; 2],
                ranks: u32,
            ) {
                // SAFETY: the caller's promise.
                unsafe { combine::onto_shares::<T>(out, b, n, raw, ranks) }
            }
            $(#[$feature])?
            unsafe fn divide<T: Copy + Divide>(x: *mut u8, n: usize, ranks: u32) {
                // SAFETY: the caller's promise.
                unsafe { unary::divide::<T>(x, n, ranks) }
            }
            $(#[$feature])?
            unsafe fn fold<C: Codec<$lanes>, O: Combine<$lanes>, M: Map<$lanes>>(
                out: *mut u8,
                sources: &[FoldSource<'_>],
                offset: usize,
                n: usize,
                ranks: u32,
            ) {
                // SAFETY: the caller's promise.
                unsafe { small::fold::<$lanes, C, O, M>(out, sources, offset, n, ranks) }
            }

            fn both<T: Copy, O: Combine<T>>() -> Option<Join> {
                Some(Join::Plain { pair: pair::<T, O>, onto: onto::<T, O> })
            }
            /// Returns the functions for operations in which signed and unsigned integers differ.
            fn order<T: Copy>(op: RedOp) -> Option<Join>
            where
                Max: Combine<T>,
                Min: Combine<T>,
            {
                match op {
                    RedOp::Max => both::<T, Max>(),
                    RedOp::Min => both::<T, Min>(),
                    _ => None,
                }
            }
            fn arithmetic<T: Copy>(op: RedOp) -> Option<Join>
            where
                Sum: Combine<T>,
                Prod: Combine<T>,
            {
                match op {
                    RedOp::Sum | RedOp::Avg | RedOp::SquareAdd => both::<T, Sum>(),
                    RedOp::Prod => both::<T, Prod>(),
                    _ => None,
                }
            }
            fn bits<T: Copy>(op: RedOp) -> Option<Join>
            where
                And: Combine<T>,
                Or: Combine<T>,
                Xor: Combine<T>,
            {
                match op {
                    RedOp::BitAnd | RedOp::LogicalAnd => both::<T, And>(),
                    RedOp::BitOr | RedOp::LogicalOr => both::<T, Or>(),
                    RedOp::BitXor | RedOp::LogicalXor => both::<T, Xor>(),
                    _ => None,
                }
            }
            fn square<T: Copy>(op: RedOp) -> Option<OnValues>
            where
                Square: Map<T>,
            {
                (op == RedOp::SquareAdd).then_some(map::<T, Square>)
            }
            fn nonzero<T: Copy>(op: RedOp) -> Option<OnValues>
            where
                NonZero: Map<T>,
            {
                use RedOp::{LogicalAnd, LogicalOr, LogicalXor};
                matches!(op, LogicalAnd | LogicalOr | LogicalXor).then_some(map::<T, NonZero>)
            }

            /// An integer `T`; `U` is the unsigned one of its width, which serves wherever the sign makes no difference.
            fn integer<T: Copy + Divide, U: Copy>(op: RedOp) -> Option<Stages>
            where
                Sum: Combine<U>,
                Prod: Combine<U>,
                And: Combine<U>,
                Or: Combine<U>,
                Xor: Combine<U>,
                Max: Combine<T>,
                Min: Combine<T>,
                Square: Map<U>,
                NonZero: Map<U>,
            {
                let join = order::<T>(op).or_else(|| arithmetic::<U>(op)).or_else(|| bits::<U>(op))?;
                let map = square::<U>(op).or_else(|| nonzero::<U>(op));
                let divide = (op == RedOp::Avg).then_some(divide::<T> as _);
                Some(Stages::Plain { map, join, divide })
            }
            fn float<T: Shares>(op: RedOp) -> Option<Stages>
            where
                Sum: Combine<T>,
                Prod: Combine<T>,
                Max: Combine<T>,
                Min: Combine<T>,
                Square: Map<T>,
                Portion<T>: Map<T>,
            {
                if op == RedOp::Avg {
                    let join = Join::Shares { pair: pair_shares::<T>, onto: onto_shares::<T> };
                    return Some(Stages::Plain { map: Some(map::<T, Portion<T>>), join, divide: None });
                }
                let join = order::<T>(op).or_else(|| arithmetic::<T>(op))?;
                Some(Stages::Plain { map: square::<T>(op), join, divide: None })
            }
            fn small<C: Codec<$lanes>>(op: RedOp) -> Option<Stages> {
                let fold = match op {
                    RedOp::Sum => fold::<C, Sum, Same>,
                    RedOp::Avg => fold::<C, Sum, ShareOf<$lanes, C>>,
                    RedOp::SquareAdd => fold::<C, Sum, Square>,
                    RedOp::Prod => fold::<C, Prod, Same>,
                    RedOp::Max => fold::<C, Max, Same>,
                    RedOp::Min => fold::<C, Min, Same>,
                    _ => return None,
                };
                Some(Stages::Small { maps: matches!(op, RedOp::SquareAdd | RedOp::Avg), fold })
            }

            pub fn stages(dtype: DataType, op: RedOp) -> Option<Stages> {
                match dtype {
                    DataType::Int8 => integer::<i8, u8>(op),
                    DataType::Uint8 | DataType::Bool => integer::<u8, u8>(op),
                    DataType::Int16 => integer::<i16, u16>(op),
                    DataType::Uint16 => integer::<u16, u16>(op),
                    DataType::Int32 => integer::<i32, u32>(op),
                    DataType::Uint32 => integer::<u32, u32>(op),
                    DataType::Int64 => integer::<i64, u64>(op),
                    DataType::Uint64 => integer::<u64, u64>(op),
                    DataType::Float32 => float::<f32>(op),
                    DataType::Float64 => float::<f64>(op),
                    DataType::Float16 => small::<Half>(op),
                    DataType::Bfloat16 => small::<Bfloat>(op),
                    DataType::Float8e4m3 => small::<E4m3>(op),
                    DataType::Float8e5m2 => small::<E5m2>(op),
                }
            }
        }
    };
}

instruction_set!(portable, small::Floats);
#[cfg(target_arch = "x86_64")]
instruction_set!(avx2, #[target_feature(enable = "avx2,f16c")], crate::kernels::x86::Avx);
#[cfg(target_arch = "x86_64")]
instruction_set!(
    avx512,
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")],
    crate::kernels::x86::Avx
);
