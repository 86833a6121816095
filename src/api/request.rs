//! A call with its buffers: made at once, kept by a group, or queued on a stream.

use super::communicator::Communicator;
use super::element::{Element, Output, input, output};
use super::names::{self, in_rust};
use crate::comm::{self, Call, Permute, Queued, Transfer};
use crate::error::{Error, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp as Op};

/// A call on a communicator. It holds the borrow of its output until it is dropped.
pub(super) struct Request<'a> {
    what: What<'a>,
    output: Option<Output<'a>>,
}

enum What<'a> {
    Collective(Call<'a>),
    Transfers([Option<Transfer<'a>>; 2]),
    Permute(Permute<'a>),
}

impl<'a> Request<'a> {
    /// Makes the call.
    #[inline]
    pub fn run(self, comm: &Communicator) -> Result<()> {
        let comm = comm.handle();
        match &self.what {
            What::Collective(call) => in_rust(comm::collective_now(comm, call)),
            What::Transfers([Some(one), None]) => in_rust(comm::transfer_now(comm, one)),
            What::Transfers(both) => {
                let both: Vec<Transfer<'_>> = both.iter().flatten().copied().collect();
                in_rust(comm::transfers_now(comm, &both))
            }
            What::Permute(permute) => in_rust(comm::permute_now(comm, permute)),
        }
    }

    /// Takes the call apart, to be made later: the calls, and the output that must be dropped after they are over.
    ///
    /// # Safety
    /// The buffers' borrows must last until the calls are over or dropped, and the output must be dropped between.
    pub unsafe fn later(self, comm: &Communicator) -> Result<(Vec<Queued>, Option<Output<'a>>)> {
        let handle = comm.handle();
        // SAFETY: the promise to `later`, for each.
        let lend = |address: Address<'_>| unsafe { address.outliving() };
        let queued = match self.what {
            What::Collective(call) => {
                let call = Call { send: lend(call.send), recv: lend(call.recv), ..call };
                vec![Queued::Collective(handle, call)]
            }
            What::Transfers(halves) => {
                let half = |x: Transfer<'_>| Transfer { buffer: lend(x.buffer), ..x };
                halves.into_iter().flatten().map(|x| Queued::Transfer(handle, half(x), 0)).collect()
            }
            What::Permute(p) => {
                let permute = Permute { send: lend(p.send), recv: lend(p.recv), ..p };
                vec![Queued::Permute(handle, permute)]
            }
        };
        queued.iter().try_for_each(|call| in_rust(comm::check(call)))?;
        Ok((queued, self.output))
    }
}

/// Makes the request of a collective.
fn collective<'a>(
    collective: Collective,
    (send, recv): (Address<'a>, Address<'a>),
    (count, dtype): (usize, DataType),
    output: Option<Output<'a>>,
) -> Request<'a> {
    let call = Call { collective, send, recv, count, dtype, op: Op::Sum, root: 0, padded: false };
    Request { what: What::Collective(call), output }
}

impl<'a> Request<'a> {
    fn op(mut self, op: Op) -> Self {
        if let What::Collective(call) = &mut self.what {
            call.op = op;
        }
        self
    }
    fn root(mut self, comm: &Communicator, root: Rank) -> Made<'a> {
        let root = names::rank("root", root, comm.size())?;
        if let What::Collective(call) = &mut self.what {
            call.root = root;
        }
        Ok(self)
    }
}

/// An error unless a buffer has as many elements as the call needs.
fn has(name: &str, len: usize, needed: usize, why: &str) -> Result<()> {
    if len == needed {
        return Ok(());
    }
    Err(Error::argument(format!("{name} has {len} elements and must have {needed}: {why}")))
}

/// One block a rank.
fn blocks(comm: &Communicator, name: &str, len: usize) -> Result<usize> {
    let ranks = comm.size() as usize;
    match len % ranks {
        0 => Ok(len / ranks),
        _ => Err(Error::argument(format!(
            "{name} has {len} elements, which {ranks} ranks cannot divide into blocks of one size"
        ))),
    }
}

fn all_blocks(comm: &Communicator, block: usize) -> usize {
    block.saturating_mul(comm.size() as usize)
}

type Made<'a> = Result<Request<'a>>;

pub(super) fn all_reduce<'a, T: Element>(
    _: &Communicator,
    send: &'a [T],
    recv: &'a mut [T],
    op: Op,
) -> Made<'a> {
    has("recv", recv.len(), send.len(), "as many as send")?;
    let (count, out) = (send.len(), output(recv));
    Ok(collective(Collective::AllReduce, (input(send), out.address()), (count, T::DATATYPE), Some(out))
        .op(op))
}

pub(super) fn all_reduce_in_place<'a, T: Element>(_: &Communicator, data: &'a mut [T], op: Op) -> Made<'a> {
    let (count, out) = (data.len(), output(data));
    let at = out.address();
    Ok(collective(Collective::AllReduce, (at, at), (count, T::DATATYPE), Some(out)).op(op))
}

pub(super) fn reduce<'a, T: Element>(
    comm: &Communicator,
    send: &'a [T],
    recv: &'a mut [T],
    op: Op,
    root: Rank,
) -> Made<'a> {
    if comm.rank() == root {
        has("recv", recv.len(), send.len(), "as many as send, on the root")?;
    }
    let (count, out) = (send.len(), output(recv));
    let request =
        collective(Collective::Reduce, (input(send), out.address()), (count, T::DATATYPE), Some(out));
    request.op(op).root(comm, root)
}

pub(super) fn reduce_in_place<'a, T: Element>(
    comm: &Communicator,
    data: &'a mut [T],
    op: Op,
    root: Rank,
) -> Made<'a> {
    let (count, out) = (data.len(), output(data));
    let at = out.address();
    collective(Collective::Reduce, (at, at), (count, T::DATATYPE), Some(out)).op(op).root(comm, root)
}

pub(super) fn broadcast<'a, T: Element>(comm: &Communicator, data: &'a mut [T], root: Rank) -> Made<'a> {
    let (count, out) = (data.len(), output(data));
    let at = out.address();
    collective(Collective::Broadcast, (at, at), (count, T::DATATYPE), Some(out)).root(comm, root)
}

pub(super) fn gather<'a, T: Element>(
    comm: &Communicator,
    send: &'a [T],
    recv: &'a mut [T],
    root: Rank,
) -> Made<'a> {
    if comm.rank() == root {
        has("recv", recv.len(), all_blocks(comm, send.len()), "a block of every rank, on the root")?;
    }
    let (count, out) = (send.len(), output(recv));
    let request =
        collective(Collective::Gather, (input(send), out.address()), (count, T::DATATYPE), Some(out));
    request.root(comm, root)
}

pub(super) fn scatter<'a, T: Element>(
    comm: &Communicator,
    send: &'a [T],
    recv: &'a mut [T],
    root: Rank,
) -> Made<'a> {
    if comm.rank() == root {
        has("send", send.len(), all_blocks(comm, recv.len()), "a block for every rank, on the root")?;
    }
    let (count, out) = (recv.len(), output(recv));
    let request =
        collective(Collective::Scatter, (input(send), out.address()), (count, T::DATATYPE), Some(out));
    request.root(comm, root)
}

pub(super) fn all_gather<'a, T: Element>(comm: &Communicator, send: &'a [T], recv: &'a mut [T]) -> Made<'a> {
    has("recv", recv.len(), all_blocks(comm, send.len()), "a block of every rank")?;
    let (count, out) = (send.len(), output(recv));
    Ok(collective(Collective::AllGather, (input(send), out.address()), (count, T::DATATYPE), Some(out)))
}

pub(super) fn all_gather_in_place<'a, T: Element>(comm: &Communicator, data: &'a mut [T]) -> Made<'a> {
    let (count, out) = (blocks(comm, "data", data.len())?, output(data));
    let at = out.address();
    let own = at.at(comm.rank() as usize * count * size_of::<T>());
    Ok(collective(Collective::AllGather, (own, at), (count, T::DATATYPE), Some(out)))
}

pub(super) fn reduce_scatter<'a, T: Element>(
    comm: &Communicator,
    send: &'a [T],
    recv: &'a mut [T],
    op: Op,
) -> Made<'a> {
    has("send", send.len(), all_blocks(comm, recv.len()), "a block for every rank")?;
    let (count, out) = (recv.len(), output(recv));
    let request =
        collective(Collective::ReduceScatter, (input(send), out.address()), (count, T::DATATYPE), Some(out));
    Ok(request.op(op))
}

pub(super) fn reduce_scatter_in_place<'a, T: Element>(
    comm: &Communicator,
    data: &'a mut [T],
    op: Op,
) -> Made<'a> {
    let (count, out) = (blocks(comm, "data", data.len())?, output(data));
    let at = out.address();
    let own = at.at(comm.rank() as usize * count * size_of::<T>());
    Ok(collective(Collective::ReduceScatter, (at, own), (count, T::DATATYPE), Some(out)).op(op))
}

pub(super) fn reduce_scatter_padded<'a, T: Element>(
    comm: &Communicator,
    send: &'a [T],
    recv: &'a mut [T],
    op: Op,
) -> Made<'a> {
    let block = send.len().div_ceil(comm.size() as usize);
    has("recv", recv.len(), block, "send divided by the ranks, rounded up")?;
    let out = output(recv);
    let (buffers, of) = ((input(send), out.address()), (send.len(), T::DATATYPE));
    let mut request = collective(Collective::ReduceScatter, buffers, of, Some(out)).op(op);
    if let What::Collective(call) = &mut request.what {
        call.padded = true;
    }
    Ok(request)
}

pub(super) fn all_to_all<'a, T: Element>(comm: &Communicator, send: &'a [T], recv: &'a mut [T]) -> Made<'a> {
    has("recv", recv.len(), send.len(), "as many as send")?;
    let (count, out) = (blocks(comm, "send", send.len())?, output(recv));
    Ok(collective(Collective::AlltoAll, (input(send), out.address()), (count, T::DATATYPE), Some(out)))
}

pub(super) fn all_to_all_in_place<'a, T: Element>(comm: &Communicator, data: &'a mut [T]) -> Made<'a> {
    let (count, out) = (blocks(comm, "data", data.len())?, output(data));
    let at = out.address();
    Ok(collective(Collective::AlltoAll, (at, at), (count, T::DATATYPE), Some(out)))
}

pub(super) fn barrier<'a>(_: &Communicator) -> Made<'a> {
    Ok(collective(Collective::Barrier, (Address::NULL, Address::NULL), (0, DataType::Uint8), None))
}

/// The half of a transfer that sends.
fn outgoing<'a, T: Element>(comm: &Communicator, data: &'a [T], to: Rank) -> Result<Transfer<'a>> {
    let (buffer, count, peer) = (input(data), data.len(), names::rank("to", to, comm.size())?);
    Ok(Transfer { send: true, buffer, count, dtype: T::DATATYPE, peer, of_collective: false })
}

/// The half of a transfer that receives, and the output that it writes.
fn incoming<'a, T: Element>(
    comm: &Communicator,
    data: &'a mut [T],
    from: Rank,
) -> Result<(Transfer<'a>, Output<'a>)> {
    let (count, peer) = (data.len(), names::rank("from", from, comm.size())?);
    let out = output(data);
    let buffer = out.address();
    Ok((Transfer { send: false, buffer, count, dtype: T::DATATYPE, peer, of_collective: false }, out))
}

pub(super) fn send<'a, T: Element>(comm: &Communicator, data: &'a [T], to: Rank) -> Made<'a> {
    Ok(Request { what: What::Transfers([Some(outgoing(comm, data, to)?), None]), output: None })
}

pub(super) fn recv<'a, T: Element>(comm: &Communicator, data: &'a mut [T], from: Rank) -> Made<'a> {
    let (half, out) = incoming(comm, data, from)?;
    Ok(Request { what: What::Transfers([Some(half), None]), output: Some(out) })
}

pub(super) fn send_recv<'a, T: Element>(
    comm: &Communicator,
    send: &'a [T],
    to: Rank,
    recv: &'a mut [T],
    from: Rank,
) -> Made<'a> {
    let sent = outgoing(comm, send, to)?;
    let (received, out) = incoming(comm, recv, from)?;
    Ok(Request { what: What::Transfers([Some(sent), Some(received)]), output: Some(out) })
}

pub(super) fn permute<'a, T: Element>(
    comm: &Communicator,
    send: &'a [T],
    recv: &'a mut [T],
    perm: &[Option<Rank>],
) -> Made<'a> {
    has("recv", recv.len(), send.len(), "as many as send")?;
    let number = |(from, &to): (usize, &Option<Rank>)| match to {
        Some(to) => names::rank(&format!("perm[{from}]"), to, comm.size()),
        None => Ok(-1),
    };
    let perm = perm.iter().enumerate().map(number).collect::<Result<Vec<i32>>>()?;
    let (count, out) = (send.len(), output(recv));
    let permute = Permute { send: input(send), recv: out.address(), count, dtype: T::DATATYPE, perm };
    Ok(Request { what: What::Permute(permute), output: Some(out) })
}
