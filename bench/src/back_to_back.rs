//! Calls of the Rust interface, one right after the other. Parts of that interface are compiled with the crate that calls it: this crate
//! is optimised, the command is not, and calls that are timed must be.

use penny::{Collective, Communicator, Op, Result};

/// Makes `calls` calls of the collective: a sum, or with rank 0 as the root. A broadcast is of `recv`.
pub fn back_to_back(
    comm: &Communicator,
    collective: Collective,
    send: &[f32],
    recv: &mut [f32],
    calls: u32,
) -> Result<()> {
    for _ in 0..calls {
        match collective {
            Collective::AllReduce => comm.all_reduce(send, recv, Op::Sum),
            Collective::Reduce => comm.reduce(send, recv, Op::Sum, 0),
            Collective::Broadcast => comm.broadcast(recv, 0),
            Collective::AllGather => comm.all_gather(send, recv),
            Collective::ReduceScatter => comm.reduce_scatter(send, recv, Op::Sum),
            Collective::AlltoAll => comm.all_to_all(send, recv),
            Collective::Gather => comm.gather(send, recv, 0),
            Collective::Scatter => comm.scatter(send, recv, 0),
            Collective::Barrier => comm.barrier(),
        }?;
    }
    Ok(())
}
