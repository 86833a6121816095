//! What an endpoint sends: messages, and writes to the memory of others.

use super::abi::*;
use super::endpoint::{Context, OfiEndpoint, RECEIVES};
use crate::error::Result;
use crate::sys::endpoint::{PeerId, Place, SourceRange};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Whether the provider has taken something. `false`: it has no room now; poll and try again.
fn taken(endpoint: &OfiEndpoint, result: isize, what: &str) -> Result<bool> {
    if result == AGAIN {
        return Ok(false);
    }
    endpoint.check(result, || format!("cannot {what}"))?;
    Ok(true)
}

impl OfiEndpoint {
    /// The first word of a buffer.
    pub(super) fn buffer(&self, index: u32) -> *mut u64 {
        // SAFETY: indices are those of buffers.
        unsafe { self.buffers.add(index as usize * self.words) }
    }

    pub(super) fn context(&self, index: u32) -> *mut Context {
        // SAFETY: as above.
        unsafe { self.contexts.add(index as usize) }
    }

    pub(super) fn buffers_descriptor(&self) -> *mut c_void {
        // SAFETY: NULL, or a registration that is closed only with the endpoint.
        unsafe { self.buffers_mr.as_ref() }.map_or(null_mut(), |mr| mr.mem_desc)
    }

    /// Gives the provider all buffers for messages that it does not have.
    pub(super) fn post_receives(&mut self) -> Result<()> {
        let (ep, descriptor) = (self.objects.ep, self.buffers_descriptor());
        if ep.is_null() {
            return Ok(());
        }
        while let Some(&index) = self.idle.last() {
            // SAFETY: a live endpoint; the buffer and its context belong to the provider until the completion.
            let result = unsafe {
                ((*(*ep).msg).recv)(
                    ep,
                    self.buffer(index).cast(),
                    self.words * 8,
                    descriptor,
                    FI_ADDR_UNSPEC,
                    self.context(index).cast(),
                )
            };
            if !taken(self, result, "post a buffer for messages")? {
                break;
            }
            self.idle.pop();
        }
        Ok(())
    }

    /// Sends a message, which is copied. `false`: not now.
    pub(super) fn send(&mut self, to: PeerId, message: &[u64]) -> Result<bool> {
        assert!(message.len() <= self.words, "a message larger than its buffer");
        let (ep, address, bytes) = (self.objects.ep, self.address_of(to), size_of_val(message));
        if ep.is_null() {
            return Ok(false);
        }
        if bytes <= self.most_injected {
            // SAFETY: a live endpoint; the provider has copied the bytes when the function returns.
            let result = unsafe { ((*(*ep).msg).inject)(ep, message.as_ptr().cast(), bytes, address) };
            return taken(self, result, "send a message");
        }
        let Some(&index) = self.free.last() else { return Ok(false) };
        let (buffer, descriptor) = (self.buffer(index), self.buffers_descriptor());
        // SAFETY: a free buffer of at least as many words; it and its context belong to the provider until the completion.
        let result = unsafe {
            std::ptr::copy_nonoverlapping(message.as_ptr(), buffer, message.len());
            ((*(*ep).msg).send)(ep, buffer.cast(), bytes, descriptor, address, self.context(index).cast())
        };
        self.under_way(index, to, result, "send a message")
    }

    /// Writes a range of a memory of this endpoint, then `trailer`, which is copied, to two places of a peer's memory, and tells the peer
    /// `data` when both are there. Without a trailer there is one place. The range must stay as it is until the peer has been told.
    /// `false`: not now.
    pub(super) fn write(
        &mut self,
        to: PeerId,
        source: SourceRange<'_>,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool> {
        let (base, bytes, descriptor, is_lent) = match source {
            SourceRange::Memory { memory, at, bytes } => {
                let memory = &self.memories[memory.0];
                let is_within = at <= memory.bytes && bytes <= memory.bytes - at;
                assert!(is_within, "a write from outside of its memory");
                (memory.base + at, bytes, memory.descriptor(), false)
            }
            SourceRange::Lent(range) => {
                assert!(self.takes_lent(), "a write from memory that was not registered");
                (range.base(), range.bytes(), null_mut(), true)
            }
        };
        let ep = self.objects.ep;
        let index = self.write_by(ep, to, (base, bytes, descriptor), trailer, places, data)?;
        if let Some(index) = index.filter(|_| is_lent) {
            self.lent |= 1 << (index as usize - RECEIVES);
        }
        Ok(index.is_some())
    }

    /// Writes a range by one of the two endpoints. `source`: its address, length and descriptor. Returns the index of the send.
    pub(super) fn write_by(
        &mut self,
        ep: *mut Ep,
        to: PeerId,
        (base, bytes, descriptor): (usize, usize, *mut c_void),
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<Option<u32>> {
        assert!(trailer.len() <= self.words, "a trailer larger than its buffer");
        let Some(&index) = self.free.last().filter(|_| !ep.is_null()) else { return Ok(None) };
        let buffer = self.buffer(index);
        // SAFETY: a free buffer of at least as many words.
        unsafe { std::ptr::copy_nonoverlapping(trailer.as_ptr(), buffer, trailer.len()) };
        let trailing = size_of_val(trailer);
        let local = [
            libc::iovec { iov_base: base as *mut c_void, iov_len: bytes },
            libc::iovec { iov_base: buffer.cast(), iov_len: trailing },
        ];
        let mut descriptors = [descriptor, self.buffers_descriptor()];
        let range = |place: Place, len| RmaIov { addr: place.address, len, key: place.key };
        let remote = [range(places[0], bytes), range(places[1], trailing)];
        let ranges = if trailing == 0 { 1 } else { 2 };
        let message = RmaMessage {
            msg_iov: local.as_ptr(),
            desc: descriptors.as_mut_ptr(),
            iov_count: ranges,
            addr: self.address_of(to),
            rma_iov: remote.as_ptr(),
            rma_iov_count: ranges,
            context: self.context(index).cast(),
            data: data.into(),
        };
        // SAFETY: a live endpoint; the provider copies the lists. The ranges stay mapped as long as the endpoint lives: one in a memory
        // that it keeps or that is lent until the completion, one in a buffer that belongs to the provider until then.
        let result = unsafe { ((*(*ep).rma).writemsg)(ep, &message, FI_REMOTE_CQ_DATA) };
        let taken = self.under_way(index, to, result, "write to a peer's memory")?;
        Ok(taken.then_some(index))
    }

    /// Tells whether the provider sends from memory that it was not told of before.
    pub(super) fn takes_lent(&self) -> bool {
        self.modes & FI_MR_LOCAL == 0
    }

    /// Forgets which writes to some peers are from lent memory, whose bytes the provider may send as they will be then. `withdraw` may change the
    /// trailer of each, which has not gone as a whole.
    pub(super) fn give_back_lent(&mut self, to: &dyn Fn(PeerId) -> bool, withdraw: &dyn Fn(&mut [u64])) {
        let lent = self.lent;
        for bit in (0..u64::BITS).filter(|bit| lent >> bit & 1 == 1) {
            if !to(self.receivers[RECEIVES + bit as usize]) {
                continue;
            }
            self.lent &= !(1 << bit);
            let buffer = self.buffer(RECEIVES as u32 + bit);
            // SAFETY: a buffer of that many words. The provider only reads it, and only when the endpoint is used.
            withdraw(unsafe { std::slice::from_raw_parts_mut(buffer, self.words) });
        }
    }

    /// Keeps a send buffer aside until its completion.
    fn under_way(&mut self, index: u32, to: PeerId, result: isize, what: &str) -> Result<bool> {
        let taken = taken(self, result, what)?;
        if taken {
            self.free.pop();
            self.receivers[index as usize] = to;
        }
        Ok(taken)
    }

    /// Messages and writes under way that the provider has not reported yet. Small messages are not counted.
    pub(super) fn pending(&self) -> usize {
        super::endpoint::SENDS - self.free.len()
    }
}
