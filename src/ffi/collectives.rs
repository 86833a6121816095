//! The collectives: every rank calls, each with its own buffers.

use std::ffi::{c_int, c_void};

use super::handle::{pennyComm_t, pennyStream_t};
use super::types::{OpArgument, pennyDataType_t, pennyRedOp_t, pennyScalarDevice, pennyScalarResidence_t};
use crate::comm::{self, Call, CommHandle, Factor, Permute, StreamHandle};
use crate::error::{Error, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, RedOp};

/// A call without arguments, for a body to fill in.
const fn of(collective: Collective) -> Call<'static> {
    Call {
        collective,
        send: Address::NULL,
        recv: Address::NULL,
        count: 0,
        dtype: DataType::Int8,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    }
}

/// Runs a reduction with the operation that the program names.
#[inline(always)]
fn reduce(
    comm: CommHandle,
    mut call: Call<'static>,
    op: OpArgument,
    stream: Option<StreamHandle>,
) -> Result<()> {
    match op {
        OpArgument::Known(op) => {
            call.op = op;
            comm::collective(comm, &call, stream)
        }
        OpArgument::Made(number) => comm::sum_scaled(comm, comm::scaled(comm, number, call)?, stream),
    }
}

c_api! {
    /// Makes a reduction that multiplies this rank's input by a number and adds the products of all ranks (NCCL's PreMulSum). Each
    /// rank has its own number. The product is rounded to datatype before it is added. Collective calls do not write sendbuff.
    ///
    /// ```text
    ///     result[i] = scalar of rank 0 * sendbuff[i] of rank 0  +  scalar of rank 1 * sendbuff[i] of rank 1  +  ...
    /// ```
    ///
    /// op: written on success: for pennyAllReduce, pennyReduce, pennyReduceScatter and pennyReduceScatterPadded on comm with
    /// datatype. The caller owns it until pennyRedOpDestroy, or until comm is destroyed. Other ranks may pass pennySum.
    /// scalar: one element of datatype. residence: when it is read.
    fn pennyRedOpCreatePreMulSum(
        #[out] op: *mut pennyRedOp_t,
        scalar: *const c_void,
        datatype: pennyDataType_t,
        residence: pennyScalarResidence_t,
        comm: pennyComm_t,
    ) {
        if scalar.is_null() {
            return Err(Error::argument("scalar is NULL; pass the address of one element"));
        }
        let factor = match residence {
            pennyScalarDevice => Factor::At(scalar),
            _ => Factor::read(scalar, datatype),
        };
        op.set(pennyRedOp_t(comm::premul_sum_create(comm, datatype, factor)?))
    }

    /// Frees a reduction of pennyRedOpCreatePreMulSum. Calls that are queued with it are made; where its residence is
    /// pennyScalarDevice, its number must stay valid until they are over.
    fn pennyRedOpDestroy(op: pennyRedOp_t, comm: pennyComm_t) {
        match op {
            OpArgument::Made(number) => comm::premul_sum_destroy(comm, number),
            OpArgument::Known(op) => Err(Error::argument(format!("op is {op}, which pennyRedOpCreatePreMulSum has not made"))),
        }
    }

    /// Reduces count elements over all ranks and gives every rank the result, the same bits on each:
    ///
    /// ```text
    ///     recvbuff[i] = sendbuff[i] of rank 0  op  sendbuff[i] of rank 1  op ...
    /// ```
    ///
    /// sendbuff, recvbuff: count elements each. In place if they are equal; any other overlap is pennyInvalidArgument.
    /// On pennyInvalidUsage because ranks disagree, recvbuff is untouched; on any later failure it is undefined.
    fn pennyAllReduce(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        op: pennyRedOp_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call = Call { send: sendbuff, recv: recvbuff, count, dtype: datatype, ..of(Collective::AllReduce) };
        reduce(comm, call, op, stream)
    }

    /// Reduces count elements over all ranks and gives root the result.
    ///
    /// sendbuff: count elements. recvbuff: count elements at root; not used elsewhere and may be NULL there.
    /// In place if they are equal at root.
    fn pennyReduce(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        op: pennyRedOp_t,
        root: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call = Call { send: sendbuff, recv: recvbuff, count, dtype: datatype, root, ..of(Collective::Reduce) };
        reduce(comm, call, op, stream)
    }

    /// Copies count elements of root's sendbuff to every rank's recvbuff.
    ///
    /// sendbuff: count elements at root; not used elsewhere and may be NULL there. recvbuff: count elements.
    /// In place if they are equal at root.
    fn pennyBroadcast(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        root: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call = Call { send: sendbuff, recv: recvbuff, count, dtype: datatype, root, ..of(Collective::Broadcast) };
        comm::collective(comm, &call, stream)
    }

    /// Broadcasts in place, as pennyBroadcast: buff is the input at root and the output on all other ranks.
    fn pennyBcast(
        buff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        root: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call = Call { send: buff, recv: buff, count, dtype: datatype, root, ..of(Collective::Broadcast) };
        comm::collective(comm, &call, stream)
    }

    /// Collects sendcount elements of each rank on every rank, in rank order.
    ///
    /// ```text
    ///     recvbuff[r * sendcount + i] = sendbuff[i] of rank r
    /// ```
    ///
    /// sendbuff: sendcount elements. recvbuff: ranks * sendcount elements.
    /// In place if sendbuff == recvbuff + rank * sendcount.
    fn pennyAllGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        sendcount: usize,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call =
            Call { send: sendbuff, recv: recvbuff, count: sendcount, dtype: datatype, ..of(Collective::AllGather) };
        comm::collective(comm, &call, stream)
    }

    /// Reduces ranks * recvcount elements over all ranks and gives each rank one block of the result.
    ///
    /// ```text
    ///     recvbuff[i] of rank r = sendbuff[r * recvcount + i] of rank 0  op  ... of rank 1  op ...
    /// ```
    ///
    /// sendbuff: ranks * recvcount elements. recvbuff: recvcount elements.
    /// In place if recvbuff == sendbuff + rank * recvcount; the other blocks of sendbuff are then undefined afterwards.
    fn pennyReduceScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        recvcount: usize,
        datatype: pennyDataType_t,
        op: pennyRedOp_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let (send, recv, count) = (sendbuff, recvbuff, recvcount);
        let call = Call { send, recv, count, dtype: datatype, ..of(Collective::ReduceScatter) };
        reduce(comm, call, op, stream)
    }

    /// Reduces and scatters an input of any length, as pennyReduceScatter: each rank gets b = ceil(count / ranks) elements.
    ///
    /// ```text
    ///     recvbuff[i] of rank r = the reduction of element r * b + i, or 0 where r * b + i >= count
    /// ```
    ///
    /// sendbuff: count elements, the same number on every rank. recvbuff: b elements. They must not overlap.
    fn pennyReduceScatterPadded(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        op: pennyRedOp_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let (send, recv, dtype, padded) = (sendbuff, recvbuff, datatype, true);
        reduce(comm, Call { send, recv, count, dtype, padded, ..of(Collective::ReduceScatter) }, op, stream)
    }

    /// Sends block j of each rank's sendbuff to rank j.
    ///
    /// ```text
    ///     recvbuff[j * count + i] of rank r = sendbuff[r * count + i] of rank j
    /// ```
    ///
    /// sendbuff, recvbuff: ranks * count elements each. In place if they are equal.
    fn pennyAlltoAll(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call = Call { send: sendbuff, recv: recvbuff, count, dtype: datatype, ..of(Collective::AlltoAll) };
        comm::collective(comm, &call, stream)
    }

    /// Collects count elements of each rank at root, in rank order.
    ///
    /// sendbuff: count elements. recvbuff: ranks * count elements at root; not used elsewhere and may be NULL there.
    /// In place if sendbuff == recvbuff + root * count at root.
    fn pennyGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        root: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call = Call { send: sendbuff, recv: recvbuff, count, dtype: datatype, root, ..of(Collective::Gather) };
        comm::collective(comm, &call, stream)
    }

    /// Copies block r of root's sendbuff to rank r.
    ///
    /// sendbuff: ranks * count elements at root; not used elsewhere and may be NULL there. recvbuff: count elements.
    /// In place if recvbuff == sendbuff + root * count at root.
    fn pennyScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        root: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let call = Call { send: sendbuff, recv: recvbuff, count, dtype: datatype, root, ..of(Collective::Scatter) };
        comm::collective(comm, &call, stream)
    }

    /// Sends count elements from each rank to the rank that perm names, as JAX's lax.ppermute does.
    ///
    /// ```text
    ///     recvbuff[i] of rank perm[r] = sendbuff[i] of rank r        e.g. perm = {1, 2, 3, 0}: to the right, round the ring
    /// ```
    ///
    /// perm: one entry for each rank: the rank that it sends to, or -1 for none; read during the call only. No rank may
    /// appear in it twice. It must be the same on all ranks: if perm, count or datatype differ, every rank gets
    /// pennyInvalidUsage before any data moves.
    /// sendbuff: count elements; not used on a rank that sends to none, and may be NULL there.
    /// recvbuff: count elements on every rank. A rank to which no rank sends gets zeros. It must not overlap sendbuff,
    /// except that a rank that sends to itself may pass the same address.
    ///
    /// In a group it counts as a collective: it runs after the group's transfers, in the order of the collectives. A pennySend
    /// that its peer has not received yet must not be pending between the same two ranks.
    fn pennyPermute(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        perm: *const c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let ranks = comm::count(comm)? as usize;
        if perm.is_null() {
            return Err(Error::argument("perm is NULL; pass one entry for each rank of comm"));
        }
        // SAFETY: the caller's promise: one entry for each rank. C may have aligned them badly.
        let perm = (0..ranks).map(|rank| unsafe { perm.add(rank).read_unaligned() }).collect();
        comm::permute(comm, Permute { send: sendbuff, recv: recvbuff, count, dtype: datatype, perm }, stream)
    }

    /// Waits until every rank has called it.
    fn pennyBarrier(comm: pennyComm_t, stream: pennyStream_t) {
        comm::collective(comm, &of(Collective::Barrier), stream)
    }
}
