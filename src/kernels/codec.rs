//! Floats of 16 and 8 bits: how they become float32, and how float32 becomes them, rounded to nearest even.
//!
//! ```text
//!                 sign exponent mantissa   bias   largest   beyond it
//!     binary16      1      5       10       15     65504    infinity
//!     bfloat16      1      8        7      127    3.4e38    infinity
//!     float8e5m2    1      5        2       15     57344    57344, also where it is infinite
//!     float8e4m3    1      4        3        7       448    448; all exponent and mantissa bits set is NaN
//! ```
//!
//! The arithmetic has no branches and no tables, so the compiler makes vectors of it. Subnormals are moved by adding and
//! subtracting a normal number, which is exact or rounds as wanted, and never meets float32 subnormals (slow on some
//! machines).

/// A small float, by its numbers.
pub trait Format {
    /// An unsigned integer of its size.
    type Code: FloatBits;
    /// Mantissa bits.
    const MANTISSA: u32;
    /// Exponent bias.
    const BIAS: u32;
    /// The magnitude that stands for everything too large.
    const OVERFLOW: u32;
    /// The first magnitude that is no finite number.
    const SPECIAL: u32;
    /// The one NaN that we write.
    const NAN: u32;
}

/// IEEE binary16.
pub struct Half;
/// The upper half of binary32.
pub struct Bfloat;
/// OCP FP8 E4M3.
pub struct E4m3;
/// OCP FP8 E5M2.
pub struct E5m2;

macro_rules! format {
    ($name:ident, $code:ty, $mantissa:literal, $bias:literal, $overflow:literal, $special:literal, $nan:literal) => {
        impl Format for $name {
            type Code = $code;
            const MANTISSA: u32 = $mantissa;
            const BIAS: u32 = $bias;
            const OVERFLOW: u32 = $overflow;
            const SPECIAL: u32 = $special;
            const NAN: u32 = $nan;
        }
    };
}
format!(Half, u16, 10, 15, 0x7c00, 0x7c00, 0x7e00);
format!(Bfloat, u16, 7, 127, 0x7f80, 0x7f80, 0x7fc0);
format!(E4m3, u8, 3, 7, 0x7e, 0x7f, 0x7f);
format!(E5m2, u8, 2, 15, 0x7b, 0x7c, 0x7e);

/// The unsigned integers that hold small floats.
pub trait FloatBits: Copy {
    /// Bits.
    const BITS: u32;
    /// Zero-extended.
    fn to_u32(self) -> u32;
    /// The low bits.
    fn from_u32(x: u32) -> Self;
}

macro_rules! code {
    ($($t:ty)*) => {$(
        impl FloatBits for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn to_u32(self) -> u32 {
                self as u32
            }
            #[inline(always)]
            fn from_u32(x: u32) -> $t {
                x as $t
            }
        }
    )*};
}
code! { u8 u16 }

/// The float32 of the same value.
#[inline(always)]
pub fn widen<F: Format>(code: F::Code) -> f32 {
    let code = code.to_u32();
    let sign_bit = 1 << (F::Code::BITS - 1);
    let magnitude = code & (sign_bit - 1);
    let sign = (code & sign_bit) << (32 - F::Code::BITS);
    let shifted = magnitude << (23 - F::MANTISSA);
    if F::BIAS == 127 {
        return f32::from_bits(shifted | sign);
    }
    let normal = shifted + ((127 - F::BIAS) << 23);
    // 2^(1-bias) has the subnormals' unit in its last place of F's mantissa.
    let least = (128 - F::BIAS) << 23;
    let subnormal = (f32::from_bits(shifted + least) - f32::from_bits(least)).to_bits();
    let special = shifted | 0x7f80_0000;
    let finite = if magnitude < 1 << F::MANTISSA { subnormal } else { normal };
    f32::from_bits(if magnitude < F::SPECIAL { finite } else { special } | sign)
}

/// The nearest value of the small format; ties go to the even mantissa.
#[inline(always)]
pub fn narrow<F: Format>(x: f32) -> F::Code {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 31) << (F::Code::BITS - 1);
    let drop = 23 - F::MANTISSA;
    let rounded = magnitude + ((magnitude >> drop) & 1) + (1 << (drop - 1)) - 1;
    let normal = (rounded >> drop).wrapping_sub((127 - F::BIAS) << F::MANTISSA);
    let finite = if F::BIAS == 127 {
        normal
    } else {
        // This sum's last place is F's subnormal unit: the addition itself rounds.
        let unit = (128 - F::BIAS + drop) << 23;
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(unit)).to_bits().wrapping_sub(unit);
        if magnitude < (128 - F::BIAS) << 23 { subnormal } else { normal }
    };
    let number = if finite < F::OVERFLOW { finite } else { F::OVERFLOW };
    F::Code::from_u32(if magnitude > 0x7f80_0000 { F::NAN } else { number | sign })
}
