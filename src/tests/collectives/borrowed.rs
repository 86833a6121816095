//! Ranks whose inputs are read where they lie, beside ranks whose inputs are copied (docs/decisions/0090).

use super::swapped::Random;
use super::{Case, on_ranks, run};
use crate::exec::borrowed;
use crate::types::Collective;

/// A call of as many bytes that inputs are lent, or of somewhat less. Each rank's buffers lie where its own numbers say.
fn drawn(shared: &mut Random, own: &mut Random, n: u32) -> Case {
    use Collective::*;
    let all = [ReduceScatter, AllGather, AlltoAll, Broadcast, Gather, Scatter, Reduce];
    let collective = all[shared.below(all.len() as u64) as usize];
    let most = [2_000, 6_000, 12_000][shared.below(3) as usize];
    let (count, root) = (1 + shared.below(most) as usize, shared.below(u64::from(n)) as u32);
    Case { collective, root, count, heap: own.below(3) > 0, in_place: own.below(3) == 0 }
}

#[test]
fn inputs_that_are_lent_and_inputs_that_are_copied_meet_in_one_call() {
    for n in [2, 3, 5] {
        on_ranks(n, |me, comm| {
            let (mut shared, mut own) = (Random(4_711), Random(99 + u64::from(me)));
            for _ in 0..300 {
                let case = drawn(&mut shared, &mut own, n);
                if own.below(8) == 0 {
                    std::thread::sleep(std::time::Duration::from_micros(own.below(300)));
                }
                run(&case, n, me, comm);
            }
        });
    }
}

#[test]
fn an_input_is_lent_where_it_is_large_and_ranks_have_cores_of_their_own_the_earlier() {
    const K: usize = 1 << 10;
    for (collective, nranks, block, lent) in [
        (Collective::Broadcast, 2, 4 * K, [true, false]),
        (Collective::Broadcast, 2, 4 * K - 1, [false, false]),
        (Collective::Gather, 9, 32 * K, [true, true]),
        (Collective::AllGather, 4, 8 * K, [true, false]),
        (Collective::AllGather, 4, 4 * K, [false, false]),
        // What the others read of the input counts.
        (Collective::AlltoAll, 3, 4 * K, [true, false]),
        (Collective::AlltoAll, 2, 4 * K, [false, false]),
        (Collective::Scatter, 2, 4 * K, [true, false]),
        (Collective::ReduceScatter, 5, 8 * K, [true, true]),
        (Collective::AllReduce, 2, 1 << 20, [false, false]),
        (Collective::Broadcast, 1, 1 << 20, [false, false]),
    ] {
        let both = [true, false].map(|own_cores| borrowed::lends(collective, nranks, block, own_cores));
        assert_eq!(both, lent, "{collective} of blocks of {block} bytes, {nranks} ranks");
    }
}
