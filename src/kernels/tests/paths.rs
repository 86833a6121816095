//! Ways of different lengths and instruction sets through a fold, held against each other and the oracle.

use super::{Isa, Noise, Room, check, pairs};
use crate::kernels::{Dest, Fold, FoldSource};

/// Messages that fit a few cache lines: two sources in one loop, several through their destination.
fn short_folds(isa: Isa) {
    let mut noise = Noise(5);
    for pair in pairs() {
        for bytes in [8, 16, 24, 32, 48, 64, 72, 128, 200, 256] {
            for k in 2..=4 {
                for in_place in [None, Some(0), Some(k - 1)] {
                    check(isa, pair, bytes / pair.0.size(), k, 1, in_place, &mut noise);
                }
            }
        }
    }
}

#[test]
fn short_folds_agree_with_the_oracle() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_supported()) {
        short_folds(isa);
    }
}

/// More than a batch and less than two, so that every loop and every end of one is passed.
#[test]
fn instruction_sets_give_the_same_bits() {
    const COUNT: usize = 16 * 16 + 5 * 16 + 3;
    let mut noise = Noise(6);
    for (dtype, op) in pairs() {
        let inputs: Vec<Vec<u8>> = (0..3).map(|_| noise.elements(dtype, COUNT)).collect();
        let mut rooms: Vec<Room> = inputs.iter().map(|bytes| Room::new(bytes, 1)).collect();
        let sources: Vec<_> = rooms.iter_mut().map(|r| FoldSource { view: r.view(), raw: true }).collect();
        let mut portable = None;
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_supported()) {
            let mut out = Room::new(&vec![0; COUNT * dtype.size()], 0);
            let fold = Fold::on(isa, dtype, op, 3).expect("a served operation on a supported CPU");
            fold.fold(&sources, &[Dest::cached(out.view())], COUNT, true);
            let bytes = out.bytes[out.start..out.start + out.len].to_vec();
            let expected = portable.get_or_insert_with(|| bytes.clone());
            out.assert_holds(expected, &format!("{isa:?} against {:?}: {dtype} {op}", Isa::Portable));
        }
    }
}
