//! A second endpoint beside the first, in its domain, which can be closed alone: nobody can write by it to what was opened to others from
//! then on, nor is anything more sent by it.
//!
//! It is polled with the first, and has the same peers, by names of their own.

use super::abi::*;
use super::discovery::find;
use super::endpoint::{OfiEndpoint, RECEIVES};
use crate::error::Result;
use crate::sys::endpoint::{LentRange, PeerId, Place, RemoteMemory};
use std::ptr::null_mut;

impl OfiEndpoint {
    /// Opens the second endpoint, and returns the name by which others reach it. Call it once.
    pub(super) fn open_second(&mut self) -> Result<Vec<u8>> {
        let (provider, address) = &self.asked_for;
        let offers = find(self.library, provider, *address)?;
        let mut made = null_mut();
        let ended = self.make_endpoint(offers.best(provider), &mut made).and_then(|()| self.name_of(made));
        self.objects.second = made;
        if ended.is_err() {
            self.shut_second();
        }
        ended
    }

    /// Opens a range to others: who knows the answer can write to it, until it is [closed to them](Self::close_to_others).
    pub(super) fn open_to_others(&mut self, range: &dyn LentRange) -> Result<RemoteMemory> {
        let (base, bytes) = (range.base(), range.bytes());
        let mr = self.register_range(base, bytes, FI_REMOTE_WRITE)?;
        // SAFETY: a new registration.
        let key = unsafe { (*mr).key };
        self.opened.push((key, mr));
        Ok(RemoteMemory { address: if self.modes & FI_MR_VIRT_ADDR != 0 { base as u64 } else { 0 }, key })
    }

    /// Closes a range to others. A write to it that has begun goes on, as long as the second endpoint is open.
    pub(super) fn close_to_others(&mut self, key: u64) {
        for (_, mr) in self.opened.extract_if(.., |(opened, _)| *opened == key) {
            // SAFETY: a live registration, closed once: it is not known any more.
            unsafe { ((*(*mr).fid.ops).close)(mr.cast()) };
        }
    }

    /// Writes a lent range by the second endpoint, as [`write`](Self::write) does by the first. The peer's number is that of its second
    /// endpoint's name.
    pub(super) fn write_by_second(
        &mut self,
        to: PeerId,
        range: &dyn LentRange,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool> {
        let source = (range.base(), range.bytes(), null_mut());
        let index = self.write_by(self.objects.second, to, source, trailer, places, data)?;
        if let Some(index) = index {
            self.by_second |= 1 << (index as usize - RECEIVES);
        }
        Ok(index.is_some())
    }

    /// Returns how many writes to a peer by the second endpoint are under way.
    pub(super) fn held_by_second(&self, to: PeerId) -> usize {
        let is_to = |bit: &u32| self.receivers[RECEIVES + *bit as usize] == to;
        (0..u64::BITS).filter(|bit| self.by_second >> bit & 1 == 1).filter(is_to).count()
    }

    /// Closes the second endpoint, and all that was opened to others.
    pub(super) fn shut_second(&mut self) {
        let ep = std::mem::replace(&mut self.objects.second, null_mut());
        let close = |fid: *mut Fid| {
            if !fid.is_null() {
                // SAFETY: a live object, closed once: it is not known any more.
                unsafe { ((*(*fid).ops).close)(fid) };
            }
        };
        if self.modes & FI_MR_ENDPOINT == 0 {
            close(ep.cast());
        }
        self.opened.drain(..).for_each(|(_, mr)| close(mr.cast()));
        if self.modes & FI_MR_ENDPOINT != 0 {
            close(ep.cast());
        }
        self.abandoned |= std::mem::take(&mut self.by_second);
    }
}
