//! Calls that differ from one to the next, of which each kind is remembered.

use super::*;
use crate::comm::{self, registry};
use crate::memory::control::call_counters::Amount;
use crate::types::{DataType, RedOp};

/// A call of `count` words from one buffer to another.
#[allow(unsafe_code)]
fn call(collective: Collective, buffers: &mut [[u32; 64]; 2], count: usize) -> Call<'static> {
    // SAFETY: the test waits for its calls before it lets go of the buffers.
    let [send, recv] =
        buffers.each_mut().map(|words| unsafe { Address::from_raw(words.as_mut_ptr().cast()) });
    Call { collective, send, recv, count, dtype: DataType::Uint32, op: RedOp::Sum, root: 0, padded: false }
}

#[test]
fn calls_by_turns_are_counted_each_as_what_it_is() {
    let comm = comm::init_all(1).unwrap()[0];
    let stream = comm::stream_create().unwrap();
    let mut buffers = [[7; 64]; 2];
    let kinds = [(Collective::AllReduce, 3), (Collective::AllGather, 50), (Collective::AllReduce, 50)];
    for way in 0..3 {
        for turn in 0..20 {
            let (collective, count) = kinds[turn % 3];
            let call = call(collective, &mut buffers, count);
            match way {
                0 => comm::collective(comm, &call, None).unwrap(),
                1 => comm::collective(comm, &call, Some(stream)).unwrap(),
                _ => {
                    comm::group_start().unwrap();
                    comm::collective(comm, &call, Some(stream)).unwrap();
                    comm::group_end().unwrap();
                }
            }
            comm::stream_synchronize(Some(stream)).unwrap();
        }
    }
    let counted = registry::shared(comm).unwrap().transport.control().counted(0).unwrap();
    // Of 20 calls by turns the first two kinds have seven each.
    let [reduced, gathered] =
        [Collective::AllReduce, Collective::AllGather].map(|c| counted.collectives[c as usize]);
    assert_eq!(gathered, Amount { number: 3 * 7, bytes: 3 * 7 * 200 });
    assert_eq!(reduced, Amount { number: 3 * 13, bytes: 3 * (7 * 12 + 6 * 200) });
    comm::stream_destroy(stream).unwrap();
    comm::destroy(comm).unwrap();
}
