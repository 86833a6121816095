//! The same properties for every instruction set, against the oracle, bit for bit.

mod conversions;
mod divided;
mod paths;

use super::{Dest, Fold, FoldSource, Isa, copy, oracle, zero};
use crate::memory::view::Payload;
use crate::types::{DataType, RedOp};
use proptest::prelude::*;

/// Reproducible noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }
    /// An element: any bits, or something that arithmetic treats specially.
    fn element(&mut self, dtype: DataType) -> u64 {
        let bits = 8 * dtype.size() as u32;
        let sign = 1u64 << (bits - 1);
        let mantissa = match dtype {
            DataType::Float64 => 52,
            DataType::Float32 => 23,
            DataType::Float16 => 10,
            DataType::Bfloat16 => 7,
            DataType::Float8e4m3 => 3,
            _ => 2,
        };
        let exponents = (sign - 1) >> mantissa << mantissa;
        let one = (exponents >> 1) >> mantissa << mantissa;
        match self.below(12) {
            0 => 0,
            1 => sign,
            2 => 1,
            3 => sign - 1,
            4 => exponents,
            5 => exponents | sign,
            6 => exponents | 1,
            7 => one,
            8 => one | sign | (self.next() & 3),
            _ => self.next(),
        }
    }
    fn elements(&mut self, dtype: DataType, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.element(dtype).to_le_bytes().into_iter().take(dtype.size())).collect()
    }
}

/// Memory for one view, at a chosen misalignment, with bytes around it that must not change.
struct Room {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Room {
    const MARGIN: usize = 128;
    const GUARD: u8 = 0xa5;

    fn new(contents: &[u8], misaligned: usize) -> Room {
        let mut bytes = vec![Room::GUARD; contents.len() + 2 * Room::MARGIN];
        let start = bytes.as_ptr().align_offset(64) + misaligned;
        bytes[start..start + contents.len()].copy_from_slice(contents);
        Room { bytes, start, len: contents.len() }
    }
    fn view(&mut self) -> Payload<'static> {
        // SAFETY: the test keeps the room while it uses the view; start + len lies within.
        unsafe { Payload::from_raw(self.bytes.as_mut_ptr().add(self.start), self.len) }
    }
    #[track_caller]
    fn assert_holds(&self, expected: &[u8], what: &str) {
        let end = self.start + self.len;
        if let Some(at) = (0..self.len).find(|&i| self.bytes[self.start + i] != expected[i]) {
            panic!(
                "{what}: byte {at} of {} is {:#x}, not {:#x}",
                self.len,
                self.bytes[self.start + at],
                expected[at]
            );
        }
        let non_temporal = self.bytes[..self.start].iter().chain(&self.bytes[end..]);
        assert!(non_temporal.copied().all(|b| b == Room::GUARD), "{what}: wrote outside of the destination");
    }
}

fn pairs() -> impl Iterator<Item = (DataType, RedOp)> {
    let ops = |dtype: DataType| RedOp::ALL.iter().copied().filter(move |op| op.serves(dtype));
    DataType::ALL.iter().flat_map(move |&dtype| ops(dtype).map(move |op| (dtype, op)))
}

/// One fold of `k` sources of noise to `dests` destinations against the oracle, everything else chosen by the noise.
/// `in_place`: the first destination is that source.
fn check(
    isa: Isa,
    (dtype, op): (DataType, RedOp),
    count: usize,
    k: usize,
    dests: usize,
    in_place: Option<usize>,
    noise: &mut Noise,
) {
    let nranks = [1, 2, 3, 5, 7, 8, 100, 300, 70_000][noise.below(9)];
    let finish = noise.flip();
    let inputs: Vec<(Vec<u8>, bool)> = (0..k).map(|_| (noise.elements(dtype, count), noise.flip())).collect();
    let mut misaligned = || if noise.flip() { 0 } else { noise.below(64) };
    let mut sources: Vec<Room> = inputs.iter().map(|(bytes, _)| Room::new(bytes, misaligned())).collect();
    let blank = vec![0x5a; count * dtype.size()];
    let mut apart: Vec<Room> = (0..dests).map(|_| Room::new(&blank, misaligned())).collect();

    let operands: Vec<FoldSource<'_>> = sources
        .iter_mut()
        .zip(&inputs)
        .map(|(room, input)| FoldSource { view: room.view(), raw: input.1 })
        .collect();
    let mut targets: Vec<Dest<'_>> =
        apart.iter_mut().map(|room| Dest { view: room.view(), non_temporal: noise.flip() }).collect();
    if let Some(i) = in_place {
        targets[0].view = operands[i].view;
    }
    let fold = Fold::on(isa, dtype, op, nranks).expect("a served operation on a supported CPU");
    fold.fold(&operands, &targets, count, finish);

    let plain: Vec<(&[u8], bool)> = inputs.iter().map(|(bytes, raw)| (bytes.as_slice(), *raw)).collect();
    let expected = oracle::fold(dtype, op, nranks, &plain, finish);
    let what = format!(
        "{isa:?} {dtype} {op}: {count} elements, {k} sources, {dests} dests, in place {in_place:?}, \
         nranks {nranks}, finish {finish}, around {:?}",
        targets.iter().map(|t| t.non_temporal).collect::<Vec<_>>()
    );
    for (i, room) in apart.iter().enumerate() {
        let untouched = i == 0 && in_place.is_some();
        room.assert_holds(if untouched { &blank } else { &expected }, &what);
    }
    for (i, room) in sources.iter().enumerate() {
        room.assert_holds(if in_place == Some(i) { &expected } else { &inputs[i].0 }, &what);
    }
}

/// Around every vector's and unrolled loop's end.
const COUNTS: [usize; 25] =
    [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 255, 257, 300];

fn agrees_with_the_oracle(isa: Isa) {
    let mut noise = Noise(1);
    for pair in pairs() {
        for count in COUNTS {
            for k in 1..=5 {
                let dests = 1 + noise.below(3);
                check(isa, pair, count, k, dests, None, &mut noise);
            }
        }
    }
}

fn folds_in_place(isa: Isa) {
    let mut noise = Noise(2);
    for pair in pairs() {
        for k in 1..=4 {
            for i in 0..k {
                for dests in 1..=3 {
                    let count = COUNTS[noise.below(COUNTS.len())];
                    check(isa, pair, count, k, dests, Some(i), &mut noise);
                }
            }
        }
    }
}

fn folds_across_blocks(isa: Isa) {
    let mut noise = Noise(3);
    for pair in pairs() {
        let block = super::BLOCK / pair.0.size();
        for (count, k) in [(block - 1, 3), (block, 2), (block + 1, 3), (2 * block + 37, 4)] {
            let in_place = noise.flip().then_some(noise.below(k));
            check(isa, pair, count, k, 1 + noise.below(2), in_place, &mut noise);
        }
    }
}

/// Every value of the small formats comes back from a fold with itself; NaNs become the one NaN, and float8 saturates.
fn keeps_every_small_value(isa: Isa) {
    for (dtype, nan) in [
        (DataType::Float16, 0x7e00),
        (DataType::Bfloat16, 0x7fc0),
        (DataType::Float8e4m3, 0x7f),
        (DataType::Float8e5m2, 0x7e),
    ] {
        let size = dtype.size();
        let codes = 0..1u64 << (8 * size);
        let all: Vec<u8> = codes.clone().flat_map(|x| x.to_le_bytes().into_iter().take(size)).collect();
        let plain = |x: u64| match oracle::widen(dtype, x) {
            value if value.is_nan() => nan,
            value if dtype == DataType::Float8e5m2 && value.is_infinite() => x & 0x80 | 0x7b,
            _ => x,
        };
        let expected: Vec<u8> = codes.flat_map(|x| plain(x).to_le_bytes().into_iter().take(size)).collect();
        let (mut a, mut b, mut out) =
            (Room::new(&all, 0), Room::new(&all, 1), Room::new(&vec![0; all.len()], 3));
        let sources = [a.view(), b.view()].map(|view| FoldSource { view, raw: true });
        let fold = Fold::on(isa, dtype, RedOp::Max, 2).expect("a served operation");
        fold.fold(&sources, &[Dest::cached(out.view())], all.len() / size, true);
        out.assert_holds(&expected, dtype.name());
    }
}

macro_rules! for_every_isa {
    ($($module:ident $isa:expr;)*) => {$(
        mod $module {
            use super::*;
            #[test]
            fn every_type_and_operation_agrees_with_the_oracle() {
                when_supported($isa, agrees_with_the_oracle);
            }
            #[test]
            fn a_destination_may_be_a_source() {
                when_supported($isa, folds_in_place);
            }
            #[test]
            fn long_folds_agree_with_the_oracle() {
                when_supported($isa, folds_across_blocks);
            }
            #[test]
            fn every_small_float_survives_a_fold() {
                when_supported($isa, keeps_every_small_value);
            }
        }
    )*};
}
for_every_isa! {
    portable Isa::Portable;
    avx2 Isa::Avx2;
    avx512 Isa::Avx512;
}

fn when_supported(isa: Isa, property: fn(Isa)) {
    if isa.is_supported() {
        property(isa);
    } else {
        assert!(
            Fold::on(isa, DataType::Float32, RedOp::Sum, 2).is_none(),
            "{isa:?} is offered without the CPU's support"
        );
        eprintln!("this CPU lacks {isa:?}");
    }
}

#[test]
fn what_a_type_does_not_have_is_none() {
    for &dtype in DataType::ALL {
        for &op in RedOp::ALL {
            assert_eq!(Fold::new(dtype, op, 2).is_some(), op.serves(dtype), "{dtype} {op}");
        }
    }
}

#[test]
fn one_source_without_work_keeps_its_nan() {
    let signalling = 0xffa0_0001_u32.to_le_bytes();
    let (mut from, mut to) = (Room::new(&signalling, 0), Room::new(&[0; 4], 0));
    let fold = Fold::new(DataType::Float32, RedOp::Sum, 2).expect("float32 has sums");
    fold.fold(&[FoldSource { view: from.view(), raw: true }], &[Dest::cached(to.view())], 1, true);
    to.assert_holds(&signalling, "copy");
}

#[test]
fn copies_around_the_limits_of_registers_reach_every_byte_and_no_other() {
    for len in [2047, 2048, 2049, 2111, 2175, 2176, 2177, 5000, (256 << 10) - 1, 256 << 10] {
        for (from_at, to_at) in [(0, 0), (16, 0), (1, 63), (33, 7)] {
            let contents = Noise(len as u64).elements(DataType::Uint8, len);
            let (mut from, mut to) = (Room::new(&contents, from_at), Room::new(&vec![0; len], to_at));
            copy(to.view(), from.view(), false);
            to.assert_holds(&contents, "copy");
        }
    }
}

#[test]
#[should_panic(expected = "a source of a fold is too short")]
fn a_short_source_is_refused() {
    let (mut from, mut to) = (Room::new(&[0; 7], 0), Room::new(&[0; 8], 0));
    let fold = Fold::new(DataType::Float32, RedOp::Sum, 2).expect("float32 has sums");
    fold.fold(&[FoldSource { view: from.view(), raw: true }], &[Dest::cached(to.view())], 2, true);
}

#[test]
#[should_panic(expected = "a destination of a fold is too short")]
fn a_short_destination_is_refused() {
    let (mut from, mut to) = (Room::new(&[0; 8], 0), Room::new(&[0; 7], 0));
    let fold = Fold::new(DataType::Float32, RedOp::Sum, 2).expect("float32 has sums");
    fold.fold(&[FoldSource { view: from.view(), raw: true }], &[Dest::cached(to.view())], 2, true);
}

proptest! {
    #[test]
    fn copies_and_zeros_reach_every_byte_and_no_other(
        len in 0usize..700, from_at in 0usize..64, to_at in 0usize..64, stream: bool, seed: u64
    ) {
        let contents = Noise(seed).elements(DataType::Uint8, len);
        let (mut from, mut to) = (Room::new(&contents, from_at), Room::new(&vec![0; len], to_at));
        copy(to.view(), from.view(), stream);
        to.assert_holds(&contents, "copy");
        from.assert_holds(&contents, "copy's source");
        copy(to.view(), to.view(), stream);
        to.assert_holds(&contents, "copy to itself");
        zero(to.view());
        to.assert_holds(&vec![0; len], "zero");
    }

    #[test]
    fn slicing_does_not_change_a_bit(cut in 0usize..=200, which in 0usize..1000, k in 1usize..5, seed: u64) {
        let all: Vec<_> = pairs().collect();
        let (dtype, op) = all[which % all.len()];
        let mut noise = Noise(seed);
        let mut rooms: Vec<Room> = (0..k).map(|_| Room::new(&noise.elements(dtype, 200), noise.below(64))).collect();
        let blank = vec![0; 200 * dtype.size()];
        let (mut whole, mut sliced) = (Room::new(&blank, 0), Room::new(&blank, 5));
        let views: Vec<Payload<'_>> = rooms.iter_mut().map(Room::view).collect();
        let fold = Fold::new(dtype, op, k as u32).expect("a served operation");
        let run = |dest: Payload<'_>, from: usize, to: usize| {
            let (offset, bytes) = (from * dtype.size(), (to - from) * dtype.size());
            let sources: Vec<_> = views.iter().map(|v| FoldSource { view: v.part(offset, bytes), raw: true }).collect();
            fold.fold(&sources, &[Dest::cached(dest.part(offset, bytes))], to - from, true);
        };
        run(whole.view(), 0, 200);
        run(sliced.view(), 0, cut);
        run(sliced.view(), cut, 200);
        let expected = whole.bytes[whole.start..whole.start + whole.len].to_vec();
        sliced.assert_holds(&expected, &format!("{dtype} {op} cut at {cut}"));
    }
}
