//! Instruction sets, and the stages that each compiles from the same loops.

use super::codec::{self, Codec, Plain};
use super::combine::{self, And, Combine, Max, Min, Or, Prod, Sum, Xor};
use super::unary::{self, Divide, Map, NonZero, Square};
use crate::types::{DataType, RedOp};

/// An instruction set to compile for. In ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every CPU of the architecture has.
    Portable,
    /// AVX2 and F16C (x86-64-v3).
    Avx2,
    /// AVX-512 F, BW, DQ and VL (x86-64-v4).
    Avx512,
}

impl Isa {
    /// Every member.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// Does this CPU have it? The standard library asks the CPU once.
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

/// out = a op b, over n values.
pub(super) type Pair = unsafe fn(*mut u8, *const u8, *const u8, usize);
/// out = out op b, over n values.
pub(super) type Onto = unsafe fn(*mut u8, *const u8, usize);
/// To out from another format, n values.
pub(super) type Convert = unsafe fn(*mut u8, *const u8, usize);

/// What a fold is made of. Unsafe to call where the CPU lacks the instruction set they are of.
#[derive(Clone, Copy)]
pub(super) struct Stages {
    pub codec: Option<Conversion>,
    pub map: Option<unsafe fn(*mut u8, usize)>,
    pub combine: Combiner,
    pub divide: Option<unsafe fn(*mut u8, usize, u32)>,
}

/// Between an element's format and float32.
#[derive(Clone, Copy)]
pub(super) struct Conversion {
    pub widen: Convert,
    pub narrow: Convert,
}

/// The two shapes of one operation.
#[derive(Clone, Copy)]
pub(super) struct Combiner {
    pub pair: Pair,
    pub onto: Onto,
}

/// One instruction set: the generic loops compiled with its features, and the choice among them.
macro_rules! instruction_set {
    ($name:ident, $(#[$feature:meta])? half = $half:ty, e4m3 = $e4m3:ty, e5m2 = $e5m2:ty) => {
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
            unsafe fn map<T: Copy, M: Map<T>>(x: *mut u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { unary::map::<T, M>(x, n) }
            }
            $(#[$feature])?
            unsafe fn divide<T: Copy + Divide>(x: *mut u8, n: usize, ranks: u32) {
                // SAFETY: the caller's promise.
                unsafe { unary::divide::<T>(x, n, ranks) }
            }
            $(#[$feature])?
            unsafe fn widen<C: Codec>(out: *mut u8, codes: *const u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { codec::widen_all::<C>(out, codes, n) }
            }
            $(#[$feature])?
            unsafe fn narrow<C: Codec>(out: *mut u8, floats: *const u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { codec::narrow_all::<C>(out, floats, n) }
            }

            fn combiner<T: Copy, O: Combine<T>>() -> Combiner {
                Combiner { pair: pair::<T, O>, onto: onto::<T, O> }
            }
            fn conversion<C: Codec>() -> Conversion {
                Conversion { widen: widen::<C>, narrow: narrow::<C> }
            }

            /// Operations that depend on the sign or on an order.
            fn ordered<T: Copy>(op: RedOp) -> Option<Combiner>
            where
                Max: Combine<T>,
                Min: Combine<T>,
            {
                match op {
                    RedOp::Max => Some(combiner::<T, Max>()),
                    RedOp::Min => Some(combiner::<T, Min>()),
                    _ => None,
                }
            }
            /// Operations of all numbers.
            fn number<T: Copy>(op: RedOp) -> Option<Combiner>
            where
                Sum: Combine<T>,
                Prod: Combine<T>,
                Max: Combine<T>,
                Min: Combine<T>,
            {
                match op {
                    RedOp::Sum | RedOp::Avg | RedOp::SquareAdd => Some(combiner::<T, Sum>()),
                    RedOp::Prod => Some(combiner::<T, Prod>()),
                    _ => ordered::<T>(op),
                }
            }
            /// Operations of unsigned integers.
            fn bits<T: Copy>(op: RedOp) -> Option<Combiner>
            where
                Sum: Combine<T>,
                Prod: Combine<T>,
                Max: Combine<T>,
                Min: Combine<T>,
                And: Combine<T>,
                Or: Combine<T>,
                Xor: Combine<T>,
            {
                match op {
                    RedOp::BitAnd | RedOp::LogicalAnd => Some(combiner::<T, And>()),
                    RedOp::BitOr | RedOp::LogicalOr => Some(combiner::<T, Or>()),
                    RedOp::BitXor | RedOp::LogicalXor => Some(combiner::<T, Xor>()),
                    _ => number::<T>(op),
                }
            }
            fn square_or_nonzero<T: Copy>(op: RedOp) -> Option<unsafe fn(*mut u8, usize)>
            where
                Square: Map<T>,
                NonZero: Map<T>,
            {
                match op {
                    RedOp::LogicalAnd | RedOp::LogicalOr | RedOp::LogicalXor => Some(map::<T, NonZero>),
                    _ => square::<T>(op),
                }
            }
            fn square<T: Copy>(op: RedOp) -> Option<unsafe fn(*mut u8, usize)>
            where
                Square: Map<T>,
            {
                (op == RedOp::SquareAdd).then_some(map::<T, Square>)
            }

            pub fn stages(dtype: DataType, op: RedOp) -> Option<Stages> {
                use DataType::*;
                let codec = match dtype {
                    Float16 => Some(conversion::<$half>()),
                    Bfloat16 => Some(conversion::<Plain<codec::Bfloat>>()),
                    Float8e4m3 => Some(conversion::<$e4m3>()),
                    Float8e5m2 => Some(conversion::<$e5m2>()),
                    _ => None,
                };
                let signed = match dtype {
                    Int8 => ordered::<i8>(op),
                    Int16 => ordered::<i16>(op),
                    Int32 => ordered::<i32>(op),
                    Int64 => ordered::<i64>(op),
                    _ => None,
                };
                let (unsigned, map) = match dtype {
                    Int8 | Uint8 | Bool => (bits::<u8>(op), square_or_nonzero::<u8>(op)),
                    Int16 | Uint16 => (bits::<u16>(op), square_or_nonzero::<u16>(op)),
                    Int32 | Uint32 => (bits::<u32>(op), square_or_nonzero::<u32>(op)),
                    Int64 | Uint64 => (bits::<u64>(op), square_or_nonzero::<u64>(op)),
                    Float16 | Bfloat16 | Float8e4m3 | Float8e5m2 | Float32 => (number::<f32>(op), square::<f32>(op)),
                    Float64 => (number::<f64>(op), square::<f64>(op)),
                };
                let divide: unsafe fn(*mut u8, usize, u32) = match dtype {
                    Int8 => divide::<i8>,
                    Uint8 | Bool => divide::<u8>,
                    Int16 => divide::<i16>,
                    Uint16 => divide::<u16>,
                    Int32 => divide::<i32>,
                    Uint32 => divide::<u32>,
                    Int64 => divide::<i64>,
                    Uint64 => divide::<u64>,
                    Float16 | Bfloat16 | Float8e4m3 | Float8e5m2 | Float32 => divide::<f32>,
                    Float64 => divide::<f64>,
                };
                let divide = (op == RedOp::Avg).then_some(divide);
                Some(Stages { codec, map, combine: signed.or(unsigned)?, divide })
            }
        }
    };
}

instruction_set!(portable, half = Plain<codec::Half>, e4m3 = Plain<codec::E4m3>, e5m2 = Plain<codec::E5m2>);
#[cfg(target_arch = "x86_64")]
instruction_set!(
    avx2,
    #[target_feature(enable = "avx2,f16c")]
    half = super::super::x86::Half, e4m3 = super::super::x86::E4m3, e5m2 = super::super::x86::E5m2
);
#[cfg(target_arch = "x86_64")]
instruction_set!(
    avx512,
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")]
    half = super::super::x86::Half, e4m3 = super::super::x86::E4m3, e5m2 = super::super::x86::E5m2
);
