//! Folds and copies in pieces, held against the same in one.

use super::{Noise, Room, pairs};
use crate::kernels::divided::{self, piece};
use crate::kernels::{Dest, Fold, FoldSource};
use crate::sync::parallel_for::ParallelFor;
use crate::types::{DataType, RedOp};

/// How a fold is made.
#[derive(Clone, Copy, Debug)]
struct How {
    sources: usize,
    /// Bytes behind a line's begin at which all but the first source and the last destination begin.
    misaligned: usize,
    finish: bool,
    in_place: bool,
    around: bool,
}

/// The results in two destinations of a fold of these inputs, by the threads.
fn folded(
    threads: Option<&ParallelFor>,
    (dtype, op): (DataType, RedOp),
    inputs: &[Vec<u8>],
    how: How,
) -> [Vec<u8>; 2] {
    let place = |i: usize| if i == 0 { 0 } else { how.misaligned };
    let inputs = inputs[..how.sources].iter().enumerate();
    let mut sources: Vec<Room> = inputs.map(|(i, bytes)| Room::new(bytes, place(i))).collect();
    let (bytes, blank) = (sources[0].len, vec![0x5a; sources[0].len]);
    let mut dests = [Room::new(&blank, how.misaligned), Room::new(&blank, 0)];
    let operand = |(i, room): (usize, &mut Room)| FoldSource { view: room.view(), raw: i % 2 == 0 };
    let operands: Vec<FoldSource<'_>> = sources.iter_mut().enumerate().map(operand).collect();
    let mut targets = dests.each_mut().map(|room| Dest { view: room.view(), non_temporal: how.around });
    if how.in_place {
        targets[0].view = operands[0].view;
    }
    let fold = Fold::new(dtype, op, 3).expect("a served operation");
    divided::fold(threads, &fold, &operands, &targets, bytes / dtype.size(), how.finish).unwrap();
    for room in dests.iter().chain(&sources) {
        room.assert_holds(&room.bytes[room.start..][..room.len], "a fold in pieces");
    }
    let first = if how.in_place { &sources[0] } else { &dests[0] };
    [first, &dests[1]].map(|room| room.bytes[room.start..][..room.len].to_vec())
}

#[test]
fn a_fold_in_pieces_has_the_bits_of_a_fold_in_one() {
    let threads = ParallelFor::with_helpers(3);
    let mut noise = Noise(8);
    for &dtype in DataType::ALL {
        let count = (100 << 10) / dtype.size() + 13;
        assert_eq!(threads.pieces(count * dtype.size()), 3);
        let inputs: Vec<Vec<u8>> = (0..3).map(|_| noise.elements(dtype, count)).collect();
        for pair in pairs().filter(|pair| pair.0 == dtype) {
            for how in [
                How { sources: 1, misaligned: 3, finish: true, in_place: false, around: false },
                How { sources: 2, misaligned: 5, finish: true, in_place: false, around: true },
                How { sources: 2, misaligned: 0, finish: false, in_place: true, around: false },
                How { sources: 3, misaligned: 1, finish: true, in_place: true, around: true },
            ] {
                let in_one = folded(None, pair, &inputs, how);
                let in_pieces = folded(Some(&threads), pair, &inputs, how);
                assert!(in_pieces == in_one, "{} {} in pieces, {how:?}", pair.0, pair.1);
            }
        }
    }
}

#[test]
fn a_copy_in_pieces_has_all_bytes_and_none_beside_them() {
    let threads = ParallelFor::with_helpers(3);
    let mut noise = Noise(9);
    for (bytes, to_at, from_at) in [(64 << 10, 0, 0), ((200 << 10) + 7, 1, 0), ((1 << 20) - 1, 63, 17)] {
        for around in [false, true] {
            let contents = noise.elements(DataType::Uint8, bytes);
            let (mut from, mut to) = (Room::new(&contents, from_at), Room::new(&vec![0; bytes], to_at));
            divided::copy(Some(&threads), to.view(), from.view(), around).unwrap();
            to.assert_holds(&contents, "a copy in pieces");
        }
    }
}

#[test]
fn pieces_follow_each_other_and_end_where_lines_end() {
    for (address, count, size) in
        [(0, 9000, 4), (64 * 7 + 4, 9000, 4), (3, 9001, 8), (60, 40_000, 1), (0, 3, 8)]
    {
        for pieces in 1..9 {
            let all: Vec<_> = (0..pieces).map(|index| piece(address, count, size, pieces, index)).collect();
            assert_eq!((all[0].start, all[pieces as usize - 1].end), (0, count));
            assert!(all.windows(2).all(|two| two[0].end == two[1].start && two[0].start <= two[0].end));
            for end in all[..pieces as usize - 1].iter().map(|piece| piece.end).filter(|&end| end > 0) {
                // Where no element begins at a line, the piece ends with the last element that begins before it.
                let past = (address + end * size) % 64;
                assert!(past == 0 || past > 64 - size, "{address} {count} {size} {pieces}: {end}");
            }
        }
    }
}
