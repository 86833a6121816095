//! Conversions to the small floats, against the oracle and against another crate.

#[cfg(target_arch = "x86_64")]
use super::super::Isa;
use super::super::codec::{self, Bfloat, E4m3, E5m2, Format, Half};
use super::super::oracle;
use super::Noise;
use crate::types::DataType;

/// Returns float32 values for which rounding matters: around every value of `dtype` and every midpoint of two, and noise.
fn telling_floats(dtype: DataType) -> Vec<f32> {
    let top = 1u64 << (8 * dtype.size() - 1);
    let mut floats =
        vec![0.0, f32::MAX, f32::INFINITY, f32::MIN_POSITIVE, f32::from_bits(1), 1e-30, 1e30, f32::NAN];
    for code in 0..top - 1 {
        let (a, b) = (oracle::widen(dtype, code), oracle::widen(dtype, code + 1));
        let middle = ((f64::from(a) + f64::from(b)) / 2.0) as f32;
        for x in [a, middle, a + (middle - a) / 2.0].into_iter().filter(|x| !x.is_nan()) {
            let bits = x.to_bits();
            floats.extend(
                [bits.saturating_sub(1), bits, bits + 1]
                    .map(f32::from_bits)
                    .into_iter()
                    .filter(|x| !x.is_nan()),
            );
        }
    }
    let mut noise = Noise(4);
    floats.extend((0..20_000).map(|_| f32::from_bits(noise.next() as u32)).filter(|x| !x.is_nan()));
    let negative: Vec<f32> = floats.iter().filter(|x| !x.is_nan()).map(|x| -x).collect();
    floats.extend(negative);
    floats
}

fn portable_conversion_agrees<F: Format<Code: Into<u64>>>(dtype: DataType) {
    for x in telling_floats(dtype) {
        let (ours, theirs): (u64, u64) = (codec::narrow::<F>(x).into(), oracle::narrow(dtype, x));
        assert_eq!(ours, theirs, "{dtype} of {x:e} ({:#x})", x.to_bits());
    }
}

#[test]
fn portable_conversions_round_to_nearest_even() {
    portable_conversion_agrees::<Half>(DataType::Float16);
    portable_conversion_agrees::<Bfloat>(DataType::Bfloat16);
    portable_conversion_agrees::<E4m3>(DataType::Float8e4m3);
    portable_conversion_agrees::<E5m2>(DataType::Float8e5m2);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx_conversions_round_to_nearest_even() {
    use crate::kernels::small::{Codec, Splat, WIDTH};
    use crate::kernels::x86::Avx;

    #[target_feature(enable = "avx2,f16c")]
    fn convert<C: Codec<Avx>>(x: f32) -> [C::Code; WIDTH] {
        let mut codes = [C::Code::default(); WIDTH];
        // SAFETY: the array has WIDTH elements.
        unsafe { C::store(codes.as_mut_ptr(), Avx::splat(x)) };
        codes
    }
    fn agrees<C: Codec<Avx, Code: Into<u64>>>(dtype: DataType) {
        for x in telling_floats(dtype) {
            // SAFETY: the CPU was asked.
            let codes = unsafe { convert::<C>(x) }.map(Into::into);
            assert_eq!(codes, [oracle::narrow(dtype, x); WIDTH], "{dtype} of {x:e} ({:#x})", x.to_bits());
        }
    }
    if Isa::Avx2.is_supported() {
        agrees::<Half>(DataType::Float16);
        agrees::<Bfloat>(DataType::Bfloat16);
        agrees::<E4m3>(DataType::Float8e4m3);
        agrees::<E5m2>(DataType::Float8e5m2);
    }
}

/// The crate float8 has other NaNs and keeps infinities; all other values agree.
#[test]
fn float8_conversions_are_those_of_the_float8_crate() {
    for x in telling_floats(DataType::Float8e4m3).into_iter().filter(|x| !x.is_nan()) {
        let crates = u64::from(float8::F8E4M3::from_f32(x).to_bits());
        assert_eq!(oracle::narrow(DataType::Float8e4m3, x), crates, "e4m3 of {x:e}");
    }
    for x in telling_floats(DataType::Float8e5m2).into_iter().filter(|x| x.is_finite()) {
        let crates = u64::from(float8::F8E5M2::from_f32(x).to_bits());
        assert_eq!(oracle::narrow(DataType::Float8e5m2, x), crates, "e5m2 of {x:e}");
    }
}
