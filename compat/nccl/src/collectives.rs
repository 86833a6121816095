//! Collectives and transfers: each is Penny's function of the same name, after the checks that are NCCL's.

use crate::boundary::{Failure, Outcome, argument, done, own, usage};
use crate::cuda::DeviceStream;
use crate::debug::{self, About};
use crate::types::*;
use crate::{capture, cuda, group, records};
use penny_sys as penny;
use std::ffi::{c_int, c_void};

/// Refuses types that NCCL does not have; Penny has more.
pub fn datatype_is_known(datatype: ncclDataType_t) -> Outcome {
    match (0..ncclNumTypes).contains(&datatype) {
        true => Ok(()),
        false => Err(argument(format!("datatype is {datatype}; NCCL's are 0 to {}", ncclNumTypes - 1))),
    }
}

/// The least number of a reduction that a program has made is above this. Penny's own reductions lie below it.
const MADE: ncclRedOp_t = 4096;

fn op_is_known(op: ncclRedOp_t) -> Outcome {
    match (0..ncclNumOps).contains(&op) || op > MADE {
        true => Ok(()),
        false => Err(argument(format!(
            "op is {op}; NCCL's are 0 to {}, and those of ncclRedOpCreatePreMulSum",
            ncclNumOps - 1
        ))),
    }
}

/// A call as the program made it: what is checked and printed of it.
struct Call {
    name: &'static str,
    sendbuff: *const c_void,
    recvbuff: *const c_void,
    count: usize,
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
    /// The root or the peer.
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
}

impl Call {
    /// Checks the call, prints it, and makes it on Penny's stream.
    fn make(&self, call: impl FnOnce(penny::pennyStream_t) -> penny::pennyResult_t) -> Outcome {
        group::queued(|| {
            if debug::tells(About::Coll) {
                self.tell();
            }
            datatype_is_known(self.datatype)?;
            op_is_known(self.op)?;
            cuda::on_host(self.sendbuff, "sendbuff")?;
            cuda::on_host(self.recvbuff, "recvbuff")?;
            on_stream(self.comm, self.stream, call)
        })
        .inspect_err(|_| records::on_its_device(self.comm))
    }

    #[cold]
    fn tell(&self) {
        let Call { name, sendbuff, recvbuff, count, datatype, op, root, comm, stream } = self;
        let (calls, ranks) = (records::next_call(*comm), records::ranks(*comm));
        debug::info(
            About::Coll,
            &format!(
                "{name}: opCount {calls:x} sendbuff {sendbuff:?} recvbuff {recvbuff:?} count {count} datatype {datatype} op {op} \
                 root {root} comm {comm:?} [nranks={ranks}] stream {stream:?}"
            ),
        );
    }
}

/// Makes a call on the stream that stands for one of the program, or records it if that is captured.
pub fn on_stream(
    comm: ncclComm_t,
    stream: cudaStream_t,
    call: impl FnOnce(penny::pennyStream_t) -> penny::pennyResult_t,
) -> Outcome {
    if records::is_revoked(comm) {
        return Err(usage(
            "this rank has revoked the communicator; make another of its ranks with ncclCommShrink or ncclCommSplit",
        ));
    }
    let stream = DeviceStream::new(stream, comm);
    if cuda::has_streams() {
        let captured = cuda::captured_in(stream);
        group::check_capture(comm, captured)?;
        if let Some(number) = captured {
            return capture::record(number, stream, call);
        }
    }
    let translated = cuda::stream(stream)?;
    done(call(translated)).map_err(|failure| match failure {
        Failure::Penny(penny::pennyInvalidArgument) if !translated.is_null() && !cuda::has_streams() => {
            foreign_stream(own(failure))
        }
        failure => failure,
    })
}

/// Says what to do about a stream that is not Penny's.
#[cold]
fn foreign_stream((result, text): (ncclResult_t, String)) -> Failure {
    match text.contains("stream") {
        true => {
            Failure::Own(result, format!("{text}; streams of CUDA need Penny's libcudart.so in the process"))
        }
        false => Failure::Own(result, text),
    }
}

nccl_api! {
    /// Reduces over all ranks; root gets the result.
    fn ncclReduce, pncclReduce(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, root: c_int,
        comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let call = Call { name: "Reduce", sendbuff, recvbuff, count, datatype, op, root, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyReduce(sendbuff, recvbuff, count, datatype, op, root, comm, on) })
    }

    /// Copies root's buffer to all ranks, in place.
    fn ncclBcast, pncclBcast(
        buff: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let call = Call { name: "Bcast", sendbuff: buff, recvbuff: buff, count, datatype, op: 0, root, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyBcast(buff, count, datatype, root, comm, on) })
    }

    /// Copies root's buffer to all ranks.
    fn ncclBroadcast, pncclBroadcast(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let call = Call { name: "Broadcast", sendbuff, recvbuff, count, datatype, op: 0, root, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyBroadcast(sendbuff, recvbuff, count, datatype, root, comm, on) })
    }

    /// Reduces over all ranks; every rank gets the result.
    fn ncclAllReduce, pncclAllReduce(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t,
        comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let call = Call { name: "AllReduce", sendbuff, recvbuff, count, datatype, op, root: 0, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyAllReduce(sendbuff, recvbuff, count, datatype, op, comm, on) })
    }

    /// Reduces over all ranks; each gets a block of the result.
    fn ncclReduceScatter, pncclReduceScatter(
        sendbuff: *const c_void, recvbuff: *mut c_void, recvcount: usize, datatype: ncclDataType_t, op: ncclRedOp_t,
        comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let call =
            Call { name: "ReduceScatter", sendbuff, recvbuff, count: recvcount, datatype, op, root: 0, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, on) })
    }

    /// Collects a block of each rank on every rank.
    fn ncclAllGather, pncclAllGather(
        sendbuff: *const c_void, recvbuff: *mut c_void, sendcount: usize, datatype: ncclDataType_t, comm: ncclComm_t,
        stream: cudaStream_t,
    ) {
        let call =
            Call { name: "AllGather", sendbuff, recvbuff, count: sendcount, datatype, op: 0, root: 0, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyAllGather(sendbuff, recvbuff, sendcount, datatype, comm, on) })
    }

    /// Sends a block of each rank to each rank.
    fn ncclAlltoAll, pncclAlltoAll(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, comm: ncclComm_t,
        stream: cudaStream_t,
    ) {
        let call = Call { name: "AlltoAll", sendbuff, recvbuff, count, datatype, op: 0, root: 0, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyAlltoAll(sendbuff, recvbuff, count, datatype, comm, on) })
    }

    /// Collects a block of each rank at root.
    fn ncclGather, pncclGather(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let call = Call { name: "Gather", sendbuff, recvbuff, count, datatype, op: 0, root, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyGather(sendbuff, recvbuff, count, datatype, root, comm, on) })
    }

    /// Gives each rank a block of root's buffer.
    fn ncclScatter, pncclScatter(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let call = Call { name: "Scatter", sendbuff, recvbuff, count, datatype, op: 0, root, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyScatter(sendbuff, recvbuff, count, datatype, root, comm, on) })
    }

    /// Sends to a rank.
    fn ncclSend, pncclSend(
        sendbuff: *const c_void, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let recvbuff = std::ptr::null();
        let call = Call { name: "Send", sendbuff, recvbuff, count, datatype, op: 0, root: peer, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennySend(sendbuff, count, datatype, peer, comm, on) })
    }

    /// Receives from a rank.
    fn ncclRecv, pncclRecv(
        recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) {
        let sendbuff = std::ptr::null();
        let call = Call { name: "Recv", sendbuff, recvbuff, count, datatype, op: 0, root: peer, comm, stream };
        // SAFETY: the caller's promise.
        call.make(|on| unsafe { penny::pennyRecv(recvbuff, count, datatype, peer, comm, on) })
    }
}
