//! Remote copies: pushed by one rank, awaited by both through semaphores that count bytes.
//!
//! ```text
//!     rank 0: start      src  ==== bytes ====>  dst of rank 1
//!             sendSem of rank 0 += bytes        recvSem of rank 1 += bytes
//!             wait_send  sendSem -= bytes       wait_recv (rank 1)  recvSem -= bytes
//! ```
//!
//! All ranks describe the same copy; which halves each awaits is theirs to say. A copy is made by the caller's own core, so
//! it is over when `start` returns, and a program must still not count on more than its semaphores tell: neither on the
//! source before `wait_send` nor on the destination before `wait_recv`.

use super::mesh::Device;
use super::put::copy_across;
use super::race::Operation;
use super::region::HeapWord;
use super::semaphore::{SemaphoreUnit, Semaphores};
use crate::error::{Error, Result};
use crate::memory::view::Address;
use crate::recorder::{self, Recorded};
use crate::timing::WORD;
use crate::types::Rank;

/// A semaphore that counts bytes.
#[derive(Clone, Copy)]
pub struct ByteSemaphore<'a> {
    /// The semaphores to which it belongs.
    pub of: &'a Semaphores,
    /// Its index.
    pub index: i32,
}

/// A copy to a rank's memory.
#[derive(Clone, Copy)]
pub struct RemoteCopy<'a> {
    /// Any memory of this rank.
    pub src: Address<'a>,
    /// This rank's own address of symmetric memory, which names every rank's; to oneself any memory.
    pub dst: Address<'a>,
    /// The number of bytes.
    pub bytes: usize,
    /// Counts here what has been sent; `None`: a copy to oneself, which `recv` alone counts.
    pub send: Option<ByteSemaphore<'a>>,
    /// Counts there what has come.
    pub recv: ByteSemaphore<'a>,
    /// The destination.
    pub device: Device,
}

impl RemoteCopy<'_> {
    /// Checks that both semaphores count bytes and belong to the same communicator.
    fn check(&self) -> Result<()> {
        self.recv.of.home().symmetric().usable()?;
        self.recv.check("recvSem", "recvIndex")?;
        let Some(send) = self.send else { return Ok(()) };
        send.check("sendSem", "sendIndex")?;
        if !std::sync::Arc::ptr_eq(send.of.home(), self.recv.of.home()) {
            return Err(Error::argument("sendSem and recvSem are of different communicators"));
        }
        Ok(())
    }

    /// Begins it. Nothing is written before all of it is known to be right.
    pub fn start(&self) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_start(d));
        self.check()?;
        let home = self.recv.of.home();
        let symmetric = home.symmetric();
        let rank = home.rank_of(self.device)?;
        let own = rank == symmetric.my_pe();
        if self.send.is_none() && !own {
            return Err(Error::argument(format!(
                "sendSem is NULL for a copy to rank {rank}; only a copy to this rank itself does without"
            )));
        }
        let mut brought = None;
        let t = symmetric.transport();
        if self.bytes > 0 {
            for (what, address) in [("src", self.src), ("dst", self.dst)] {
                if address.is_null() {
                    return Err(Error::argument(format!("{what} is NULL; pass {} bytes", self.bytes)));
                }
            }
            let place = symmetric.place("dst", self.dst.get(), self.bytes);
            if t.is_far(rank) {
                let place = place?;
                {
                    let _carried =
                        symmetric.carry(symmetric.my_pe(), rank, self.bytes.saturating_add(WORD))?;
                    place.put_far(t, rank, self.src.view(self.bytes), true)?;
                }
                return self.count(rank, None);
            }
            let dst = match place {
                Err(_) if own && symmetric.place("dst", self.dst.get(), 1).is_err() => {
                    self.dst.view(self.bytes)
                }
                place => {
                    let place = place?;
                    brought = Some(place.region.place(rank, place.offset));
                    let (me, from) = (symmetric.my_pe(), self.src.get());
                    symmetric.about_to_read(Operation::CopySource, me, from, self.bytes)?;
                    symmetric.about_to_write(Operation::RemoteCopy, rank, place, self.bytes)?;
                    place.region.view(t, rank, place.offset, self.bytes)?
                }
            };
            let _carried = symmetric.carry(symmetric.my_pe(), rank, self.bytes.saturating_add(WORD))?;
            copy_across(dst, self.src.view(self.bytes))?;
        }
        self.count(rank, brought)
    }

    /// Counts what was copied to a rank on both semaphores.
    fn count(&self, rank: Rank, brought: Option<HeapWord>) -> Result<()> {
        let bytes = self.bytes as u64;
        if let Some(send) = self.send {
            send.of.add_at(send.index, bytes, send.of.home().symmetric().my_pe(), None)?;
        }
        self.recv.of.add_at(self.recv.index, bytes, rank, brought)
    }

    /// Waits until the source has been read, and takes the bytes off. A copy without `send` is awaited by its other half.
    pub fn wait_send(&self) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_wait(d, [true, false]));
        self.check()?;
        self.send.map_or(Ok(()), |send| send.of.wait(send.index, self.bytes as u64))
    }

    /// Waits until as many bytes have come to this rank, and takes them off.
    pub fn wait_recv(&self) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_wait(d, [false, true]));
        self.check()?;
        self.recv.of.wait(self.recv.index, self.bytes as u64)
    }

    /// Waits for both.
    pub fn wait(&self) -> Result<()> {
        self.wait_send()?;
        self.wait_recv()
    }

    /// Tells whether both amounts are there. If so they are subtracted, as by [`wait`](Self::wait); else neither
    /// changes.
    pub fn test(&self) -> Result<bool> {
        let recorded = recorder::record(|d| self.describe_wait(d, [true, true]));
        let found = self.test_both();
        if !matches!(found, Ok(true)) {
            recorded.into_iter().for_each(Recorded::forget);
        }
        found
    }

    fn test_both(&self) -> Result<bool> {
        self.check()?;
        self.recv.of.home().symmetric().transport().poll_far();
        let bytes = self.bytes as u64;
        let sent = self.send.map_or(Ok(true), |send| send.of.try_wait(send.index, bytes))?;
        if !sent || self.recv.of.try_wait(self.recv.index, bytes)? {
            return Ok(sent);
        }
        if let Some(send) = self.send {
            send.of.put_back(send.index, bytes)?;
        }
        Ok(false)
    }
}

impl ByteSemaphore<'_> {
    fn check(&self, sem: &str, index: &str) -> Result<()> {
        if self.of.kind() != SemaphoreUnit::Dma {
            return Err(Error::argument(format!(
                "{sem} is `{}`, which counts signals; a remote copy takes one of kind pennySemaphoreDma",
                self.of.name()
            )));
        }
        self.of.at(index, self.index).map(|_| ())
    }
}
