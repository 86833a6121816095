//! Ranks that one thread makes and drives: every call in a group.

use crate::actor::{Actor, Failure, NULL, Outcome, call};
use crate::api::{Comm, DataType, In, Out};
use crate::buffer::difference;
use crate::element::SUM;
use crate::program::Step;
use crate::random::Random;

const INT64: DataType = DataType(4);

pub fn solo(actor: &mut Actor<'_>, step: &Step) -> Outcome {
    let mut random = Random::of(&[step.salt, 11, actor.rank as u64]);
    let n = 1 + random.below(4);
    let mut comms = [Comm(NULL); 4];
    let (to, number, none): (*mut Comm, _, *const i32) = (comms.as_mut_ptr(), n as i32, std::ptr::null());
    call!(actor, pennyCommInitAll(to, number, none))?;
    for _ in 0..1 + random.below(3) {
        let count = random.below(3000);
        let inputs: Vec<Vec<i64>> =
            (0..n).map(|r| (0..count).map(|i| (r * 10_000 + i) as i64).collect()).collect();
        let mut outputs = vec![vec![-1i64; count]; n];
        call!(actor, pennyGroupStart())?;
        for r in 0..n {
            let (send, recv, comm): (In, Out, _) =
                (inputs[r].as_ptr().cast(), outputs[r].as_mut_ptr().cast(), comms[r]);
            call!(actor, pennyAllReduce(send, recv, count, INT64, SUM, comm, NULL))?;
        }
        call!(actor, pennyGroupEnd())?;
        let expected: Vec<u8> =
            (0..count).flat_map(|i| ((n * (n - 1) / 2 * 10_000 + n * i) as i64).to_le_bytes()).collect();
        for output in &outputs {
            let is: Vec<u8> = output.iter().flat_map(|word| word.to_le_bytes()).collect();
            difference("a sum of ranks of one thread", 8, &is, &expected)?;
        }
    }
    for comm in comms.into_iter().take(n) {
        let mut state = -1;
        let to: *mut i32 = &mut state;
        call!(actor, pennyCommGetAsyncError(comm, to))?;
        if state != 0 {
            return Err(Failure::wrong(format!("the communicator's state is {state}")));
        }
        call!(actor, pennyCommDestroy(comm))?;
    }
    Ok(())
}
