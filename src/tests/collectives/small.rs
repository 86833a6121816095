//! Calls of a few bytes like the one before, in which each rank waits for all others (docs/decisions/0103).

use super::swapped::Random;
use super::{Buffer, Case, on_ranks, run};
use crate::comm::{self, Call};
use crate::error::Code;
use crate::types::{Collective, DataType, RedOp};
use std::time::Duration;

#[test]
fn small_calls_again_are_right_however_late_a_rank_comes() {
    for n in [1, 2, 3, 5] {
        on_ranks(n, |me, comm| {
            let mut own = Random(77 + u64::from(me));
            for collective in Collective::ALL.iter().copied().filter(|collective| collective.everybody()) {
                // Words: within the line, behind it, and more than has place there.
                for count in [1, 2, 7, 8, 9, 25, 100, 140] {
                    for in_place in [false, true, true, false] {
                        if own.below(4) == 0 {
                            std::thread::sleep(Duration::from_micros(own.below(300)));
                        }
                        let case = Case { collective, root: 0, count, heap: false, in_place };
                        (0..3).for_each(|_| run(&case, n, me, comm));
                    }
                }
            }
        });
    }
}

#[test]
fn a_rank_whose_arguments_differ_from_those_of_the_call_before_is_named_to_all() {
    on_ranks(3, |me, comm| {
        let mut data = Buffer::new(false, 2);
        data.slice().fill(me);
        let at = data.at(0);
        let call = |op| Call {
            collective: Collective::AllReduce,
            send: at,
            recv: at,
            count: 2,
            dtype: DataType::Uint32,
            op,
            root: 0,
            padded: false,
        };
        (0..80).for_each(|_| comm::collective(comm, &call(RedOp::Max), None).unwrap());
        data.slice().fill(10 + me);
        let op = if me == 1 { RedOp::Min } else { RedOp::Max };
        let told = comm::collective(comm, &call(op), None).unwrap_err();
        assert_eq!(told.code, Code::InvalidUsage);
        assert!(told.message.contains("min") && told.message.contains("max"), "{told}");
        assert_eq!(data.slice(), [10 + me; 2], "a call that is refused writes nothing");
    });
}
