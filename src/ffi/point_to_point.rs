//! Transfers between two ranks.

use std::ffi::{c_int, c_void};

use super::handle::{pennyComm_t, pennyStream_t};
use super::types::pennyDataType_t;
use crate::comm::{self, Transfer};

c_api! {
    /// Sends count elements to peer, which must call pennyRecv with the same count and type. Sends to one peer are received
    /// in the order of the calls. Returns when sendbuff may be written again; that may be before peer has received.
    ///
    /// Two ranks that each send to the other, or a rank that sends to itself, must put both calls in one group. A send to
    /// oneself outside of a group is pennyInvalidUsage.
    ///
    /// sendbuff: count elements; may be NULL if count is 0. A transfer of 0 elements still needs its other half.
    fn pennySend(
        sendbuff: *const c_void,
        count: usize,
        datatype: pennyDataType_t,
        peer: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        comm::transfer(comm, &Transfer { send: true, buffer: sendbuff, count, dtype: datatype, peer, of_collective: false }, stream)
    }

    /// Receives count elements from peer. See pennySend.
    ///
    /// recvbuff: count elements; undefined on failure; may be NULL if count is 0.
    fn pennyRecv(
        recvbuff: *mut c_void,
        count: usize,
        datatype: pennyDataType_t,
        peer: c_int,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        comm::transfer(comm, &Transfer { send: false, buffer: recvbuff, count, dtype: datatype, peer, of_collective: false }, stream)
    }

    /// Tests whether a message of peer has arrived that the next pennyRecv from it would take (MPI's MPI_Iprobe). Waits for
    /// nothing but calls that are queued on comm. A program that receives from any rank asks for each peer in turn,
    /// beginning with another each time.
    ///
    /// flag: 1 or 0, written on success. count, datatype: of the message, written if flag becomes 1.
    /// Fails where no message can come any more, because peer died or left. On a simulated cluster it is pennyInvalidUsage:
    /// its clock stands while a program polls.
    fn pennyProbe(
        peer: c_int,
        comm: pennyComm_t,
        #[out] flag: *mut c_int,
        #[out] count: *mut usize,
        #[out] datatype: *mut pennyDataType_t,
    ) {
        let arrived = comm::probe(comm, peer)?;
        if let Some((elements, dtype)) = arrived {
            count.set(elements as usize)?;
            datatype.set(dtype.into())?;
        }
        flag.set(arrived.is_some() as c_int)
    }
}
