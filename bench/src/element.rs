//! Numbers as the bytes of each element type, written from the formats' definitions.
//!
//! ```text
//!     sign | exponent | fraction        half 1|5|10   bfloat16 1|8|7   fp8_e4m3 1|4|3   fp8_e5m2 1|5|2
//! ```
//!
//! Penny's own conversions are not used, so that the expected values do not depend on them.

use penny::internals::types::DataType;

/// Field widths of a binary floating point format narrower than binary64.
#[derive(Clone, Copy)]
struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
}

impl Format {
    const fn of(dtype: DataType) -> Option<Format> {
        let (exponent_bits, fraction_bits) = match dtype {
            DataType::Float16 => (5, 10),
            DataType::Float32 => (8, 23),
            DataType::Bfloat16 => (8, 7),
            DataType::Float8e4m3 => (4, 3),
            DataType::Float8e5m2 => (5, 2),
            _ => return None,
        };
        Some(Format { exponent_bits, fraction_bits })
    }

    /// The value, finite and within the format's range, rounded once to nearest, ties to even.
    fn encode(self, value: f64) -> u64 {
        let sign = u64::from(value.is_sign_negative()) << (self.exponent_bits + self.fraction_bits);
        if value == 0.0 {
            return sign;
        }
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        // f64 inputs here are normal: the exponent field is the exponent. Below the format's least normal exponent the
        // unit in the last place stays fixed: subnormals.
        let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let held = exponent.max(1 - bias);
        let units = (value.abs() * 2f64.powi(self.fraction_bits as i32 - held)).round_ties_even() as u64;
        // `units` includes the hidden bit for normals, so it adds 1 to the exponent field; a subnormal adds 0, and a
        // carry out of the fraction lands where it belongs.
        let field = (held + bias - 1) as u64;
        sign | ((field << self.fraction_bits) + units)
    }

    /// The value of finite bits.
    fn decode(self, bits: u64) -> f64 {
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        let field = (bits >> self.fraction_bits & ((1 << self.exponent_bits) - 1)) as i32;
        let hidden = u64::from(field > 0) << self.fraction_bits;
        let digits = bits & ((1 << self.fraction_bits) - 1) | hidden;
        let value = digits as f64 * 2f64.powi(field.max(1) - bias - self.fraction_bits as i32);
        if bits >> (self.exponent_bits + self.fraction_bits) & 1 == 1 { -value } else { value }
    }
}

/// The low `dtype.size()` bytes of the result are the element nearest to `value`; integers must be given exactly.
pub fn encode(dtype: DataType, value: f64) -> u64 {
    match (dtype, Format::of(dtype)) {
        (_, Some(format)) => format.encode(value),
        (DataType::Float64, _) => value.to_bits(),
        _ => value as i64 as u64,
    }
}

/// Returns the value of an element; floats must be finite, integers below 2^53 in magnitude.
pub fn decode(dtype: DataType, bits: u64) -> f64 {
    let unused = 64 - 8 * dtype.size() as u32;
    match (dtype, Format::of(dtype)) {
        (_, Some(format)) => format.decode(bits),
        (DataType::Float64, _) => f64::from_bits(bits),
        _ if is_signed(dtype) => ((bits << unused) as i64 >> unused) as f64,
        _ => (bits << unused >> unused) as f64,
    }
}

/// The largest M such that every whole number of magnitude up to M is an element (at most 2^53, what f64 holds).
pub fn exact_up_to(dtype: DataType) -> u64 {
    match (dtype, Format::of(dtype)) {
        (_, Some(format)) => 1 << (format.fraction_bits + 1),
        (DataType::Bool, _) => 1,
        (DataType::Float64 | DataType::Int64 | DataType::Uint64, _) => 1 << 53,
        _ if is_signed(dtype) => (1 << (8 * dtype.size() - 1)) - 1,
        _ => (1 << (8 * dtype.size())) - 1,
    }
}

/// The largest E such that 2^E (and for floating point 2^-E) is a normal element; at most 60.
pub fn exact_exponent(dtype: DataType) -> u32 {
    match (dtype, Format::of(dtype)) {
        (_, Some(format)) => ((1 << (format.exponent_bits - 1)) - 2).min(60),
        (DataType::Float64, _) => 60,
        _ => (8 * dtype.size() as u32 - u32::from(is_signed(dtype)) - 1).min(60),
    }
}

/// Has negative values.
pub fn is_signed(dtype: DataType) -> bool {
    use DataType::*;
    dtype.is_float() || matches!(dtype, Int8 | Int16 | Int32 | Int64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that land on, between and around the representable ones, subnormals included.
    fn probes() -> impl Iterator<Item = f64> {
        (-400..400)
            .flat_map(|i| [1.0, 1.0 / 3.0, 1.0 / 7.0, 1.0 / 64.0, 1.0 / 4096.0].map(|s| f64::from(i) * s))
    }

    #[test]
    fn narrow_formats_agree_with_the_half_and_float8_crates() {
        for value in probes() {
            let bits = |dtype| encode(dtype, value);
            assert_eq!(
                bits(DataType::Float16),
                u64::from(half::f16::from_f64(value).to_bits()),
                "half {value}"
            );
            assert_eq!(
                bits(DataType::Bfloat16),
                u64::from(half::bf16::from_f64(value).to_bits()),
                "bf16 {value}"
            );
            assert_eq!(bits(DataType::Float32), u64::from((value as f32).to_bits()), "float {value}");
            let e4m3 = float8::F8E4M3::from_f64(value).to_bits();
            assert_eq!(bits(DataType::Float8e4m3), u64::from(e4m3), "e4m3 {value}");
            let e5m2 = float8::F8E5M2::from_f64(value).to_bits();
            assert_eq!(bits(DataType::Float8e5m2), u64::from(e5m2), "e5m2 {value}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for &dtype in DataType::ALL {
            let whole = exact_up_to(dtype).min(1 << 20) as i64;
            let low = if is_signed(dtype) { -whole } else { 0 };
            for value in (low..=whole).step_by(if whole > 1000 { 997 } else { 1 }) {
                assert_eq!(decode(dtype, encode(dtype, value as f64)), value as f64, "{dtype}");
            }
        }
        for value in probes() {
            let half = half::f16::from_f64(value);
            assert_eq!(decode(DataType::Float16, half.to_bits().into()), half.to_f64(), "half {value}");
        }
    }

    #[test]
    fn the_exact_range_of_each_type_ends_where_it_says() {
        assert_eq!(exact_up_to(DataType::Float8e5m2), 8);
        assert_eq!(exact_up_to(DataType::Float8e4m3), 16);
        assert_eq!(exact_up_to(DataType::Bfloat16), 256);
        assert_eq!(exact_up_to(DataType::Float32), 1 << 24);
        assert_eq!(exact_up_to(DataType::Int8), 127);
        assert_eq!(exact_up_to(DataType::Uint32), u64::from(u32::MAX));
        assert_eq!(exact_exponent(DataType::Float8e4m3), 6);
        assert_eq!(exact_exponent(DataType::Int8), 6);
        assert_eq!(exact_exponent(DataType::Uint8), 7);
    }
}
