//! The collectives whose blocks have sizes of their own.

use std::ffi::{c_int, c_void};

use super::handle::{pennyComm_t, pennyStream_t};
use super::types::{OpArgument, pennyDataType_t, pennyRedOp_t};
use crate::comm::{self, CommHandle, Vector, VectorBlock, VectorKind};
use crate::error::{Error, Result};
use crate::memory::view::Address;
use crate::types::RedOp;

/// Reads a caller's list of one entry for each rank.
///
/// # Safety
/// The list has `ranks` entries, until all are read.
unsafe fn list(name: &str, first: *const usize, ranks: usize) -> Result<impl Iterator<Item = usize>> {
    if first.is_null() {
        return Err(Error::argument(format!(
            "{name} is NULL; pass one entry for each of the {ranks} ranks of comm"
        )));
    }
    // SAFETY: the caller's promise. C may have aligned them badly.
    Ok((0..ranks).map(move |rank| unsafe { first.add(rank).read_unaligned() }))
}

/// Reads the blocks of a buffer; without displacements they lie one behind the other.
///
/// # Safety
/// Each list that is not NULL has an entry for each rank of comm.
unsafe fn blocks(
    comm: CommHandle,
    [counts_name, displs_name]: [&str; 2],
    counts: *const usize,
    displs: *const usize,
) -> Result<Vec<VectorBlock>> {
    let ranks = comm::count(comm)? as usize;
    // SAFETY: the caller's promise.
    let counts = unsafe { list(counts_name, counts, ranks) }?;
    if displs.is_null() {
        let behind_the_other = counts.scan(0usize, |end, count| {
            let at = *end;
            *end = end.saturating_add(count);
            Some(VectorBlock { count, at })
        });
        return Ok(behind_the_other.collect());
    }
    // SAFETY: the caller's promise.
    let displs = unsafe { list(displs_name, displs, ranks) }?;
    Ok(counts.zip(displs).map(|(count, at)| VectorBlock { count, at }).collect())
}

/// Tells whether this rank is the root. A root that is no rank is refused later, by name.
fn is_root(comm: CommHandle, root: c_int) -> Result<bool> {
    Ok(comm::user_rank(comm)? as c_int == root)
}

/// A call of a kind without buffers, for a body to fill in.
fn of(kind: VectorKind, datatype: crate::types::DataType) -> Vector<'static> {
    Vector {
        kind,
        send: Address::NULL,
        send_blocks: Vec::new(),
        recv: Address::NULL,
        recv_blocks: Vec::new(),
        dtype: datatype,
        op: RedOp::Sum,
        root: 0,
    }
}

/// The only block of a buffer.
fn one(count: usize) -> Vec<VectorBlock> {
    vec![VectorBlock { count, at: 0 }]
}

const SEND: [&str; 2] = ["sendcounts", "senddispls"];
const RECV: [&str; 2] = ["recvcounts", "recvdispls"];

c_api! {
    /// Sends a block of its own size to each rank, and receives one from each (MPI's MPI_Alltoallv). What rank r sends to rank q
    /// has as many elements as q receives from r; otherwise q gets pennyInvalidUsage, and so does r if the block has not left it.
    ///
    /// ```text
    ///     recvbuff[recvdispls[r] + i] of rank q = sendbuff[senddispls[q] + i] of rank r        i < sendcounts[q] of r
    /// ```
    ///
    /// sendcounts, recvcounts: elements for and from each rank; 0 is allowed. senddispls, recvdispls: where each block begins, in
    /// elements; NULL: one behind the other. All four are read during the call only.
    /// In place if sendbuff == recvbuff and both have equal counts and displacements; the input is then copied first.
    /// Blocks of recvbuff must not overlap.
    fn pennyAlltoAllv(
        sendbuff: *const c_void,
        sendcounts: *const usize,
        senddispls: *const usize,
        recvbuff: *mut c_void,
        recvcounts: *const usize,
        recvdispls: *const usize,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        // SAFETY: the caller's promise.
        let (send_blocks, recv_blocks) = unsafe {
            (blocks(comm, SEND, sendcounts, senddispls)?, blocks(comm, RECV, recvcounts, recvdispls)?)
        };
        let vector = Vector { send: sendbuff, send_blocks, recv: recvbuff, recv_blocks, ..of(VectorKind::AlltoAll, datatype) };
        comm::vector(comm, vector, stream)
    }

    /// Collects a block of its own size from each rank on every rank (MPI's MPI_Allgatherv).
    ///
    /// ```text
    ///     recvbuff[recvdispls[r] + i] = sendbuff[i] of rank r        i < recvcounts[r]
    /// ```
    ///
    /// recvcounts: elements from each rank; 0 is allowed. The same on all ranks: if it differs, or datatype does, every rank gets
    /// pennyInvalidUsage before any data moves. sendcount: this rank's entry. recvdispls: where each block begins, in elements,
    /// which may differ between ranks; NULL: the blocks follow each other. Both lists are read during the call only.
    /// In place if sendbuff is this rank's block of recvbuff. Blocks of recvbuff must not overlap.
    fn pennyAllGatherv(
        sendbuff: *const c_void,
        sendcount: usize,
        recvbuff: *mut c_void,
        recvcounts: *const usize,
        recvdispls: *const usize,
        datatype: pennyDataType_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        // SAFETY: the caller's promise.
        let recv_blocks = unsafe { blocks(comm, RECV, recvcounts, recvdispls)? };
        let (send, recv, send_blocks) = (sendbuff, recvbuff, one(sendcount));
        comm::vector(comm, Vector { send, send_blocks, recv, recv_blocks, ..of(VectorKind::AllGather, datatype) }, stream)
    }

    /// Collects a block of its own size from each rank at root (MPI's MPI_Gatherv). What a rank sends has as many elements as root
    /// receives from it; otherwise root gets pennyInvalidUsage, and so does the rank if the block has not left it.
    ///
    /// recvbuff, recvcounts, recvdispls: at root as for pennyAllGatherv; not used elsewhere and may be NULL there.
    /// In place at root if sendbuff is root's block of recvbuff.
    fn pennyGatherv(
        sendbuff: *const c_void,
        sendcount: usize,
        recvbuff: *mut c_void,
        recvcounts: *const usize,
        recvdispls: *const usize,
        datatype: pennyDataType_t,
        root: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let (recv, recv_blocks) = match is_root(comm, root)? {
            // SAFETY: the caller's promise.
            true => (recvbuff, unsafe { blocks(comm, RECV, recvcounts, recvdispls)? }),
            false => (Address::NULL, one(0)),
        };
        let (send, send_blocks) = (sendbuff, one(sendcount));
        comm::vector(comm, Vector { send, send_blocks, recv, recv_blocks, root, ..of(VectorKind::Gather, datatype) }, stream)
    }

    /// Gives each rank a block of its own size of root's sendbuff (MPI's MPI_Scatterv). What root sends to a rank has as many
    /// elements as the rank receives; otherwise the rank gets pennyInvalidUsage, and so does root if the block has not left it.
    ///
    /// sendbuff, sendcounts, senddispls: at root as for pennyAlltoAllv; not used elsewhere and may be NULL there.
    /// recvbuff: recvcount elements. In place at root if recvbuff is root's block of sendbuff.
    fn pennyScatterv(
        sendbuff: *const c_void,
        sendcounts: *const usize,
        senddispls: *const usize,
        recvbuff: *mut c_void,
        recvcount: usize,
        datatype: pennyDataType_t,
        root: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        let (send, send_blocks) = match is_root(comm, root)? {
            // SAFETY: the caller's promise.
            true => (sendbuff, unsafe { blocks(comm, SEND, sendcounts, senddispls)? }),
            false => (Address::NULL, one(0)),
        };
        let (recv, recv_blocks) = (recvbuff, one(recvcount));
        comm::vector(comm, Vector { send, send_blocks, recv, recv_blocks, root, ..of(VectorKind::Scatter, datatype) }, stream)
    }

    /// Reduces over all ranks and gives each rank a block of its own size of the result (MPI's MPI_Reduce_scatter).
    ///
    /// ```text
    ///     recvbuff[i] of rank r = sendbuff[recvcounts[0] + ... + recvcounts[r-1] + i] of rank 0  op  ... of rank 1  op ...
    /// ```
    ///
    /// recvcounts: elements of each rank's block; 0 is allowed. The same on all ranks: if it differs, or datatype or op do, every
    /// rank gets pennyInvalidUsage before any data moves. Read during the call only.
    /// sendbuff: the sum of recvcounts. recvbuff: as many as this rank's entry. In place if recvbuff is this rank's block of sendbuff.
    fn pennyReduceScatterv(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        recvcounts: *const usize,
        datatype: pennyDataType_t,
        op: pennyRedOp_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        // SAFETY: the caller's promise.
        let send_blocks = unsafe { blocks(comm, RECV, recvcounts, std::ptr::null())? };
        let recv_blocks = one(send_blocks[comm::user_rank(comm)? as usize].count);
        let OpArgument::Known(op) = op else {
            return Err(Error::argument("op was made by pennyRedOpCreatePreMulSum; pennyReduceScatterv takes the other reductions"));
        };
        let (send, recv) = (sendbuff, recvbuff);
        let vector = Vector { send, send_blocks, recv, recv_blocks, op, ..of(VectorKind::ReduceScatter, datatype) };
        comm::vector(comm, vector, stream)
    }
}
