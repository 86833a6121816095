//! Mailboxes: one message to any set of threads of any rank.

use std::ffi::{c_int, c_uint, c_void};

use super::fabric::fill;
use super::guard::Parameter;
use super::handle::{pennyComm_t, to_c};
use super::types::{PENNY_CONFIG_UNDEF_INT, PENNY_VERSION_CODE};
use crate::comm::{self, MailboxConfig, MailboxHandle};
use crate::error::{Error, Result};
use crate::mailbox::{KeyEntry, KeyId, Message, Want};

/// The incomplete type to which a pennyMailbox_t points.
pub struct pennyMailbox {
    _opaque: [u8; 0],
}

/// A handle of a communicator's mailboxes on one rank. It may be copied to all threads of the rank. It is valid until
/// pennyMailboxDestroy or the end of the communicator, then refused with pennyInvalidArgument.
pub type pennyMailbox_t = *mut pennyMailbox;

/// The magic of a pennyMailboxConfig_t: "PEMB".
pub const PENNY_MAILBOX_CONFIG_MAGIC: c_uint = 0x5045_4d42;
/// The magic of a pennyMailboxStats_t: "PEMS".
pub const PENNY_MAILBOX_STATS_MAGIC: c_uint = 0x5045_4d53;

/// Bytes of a flit, the unit of a message's length.
pub const PENNY_MAILBOX_FLIT_BYTES: c_int = 16;

/// A flag of pennyMailboxWaitUntil: wait until a message to dest could be sent.
pub const PENNY_MAILBOX_CAN_SEND: c_int = 1;
/// A flag of pennyMailboxWaitUntil: wait until a message has arrived.
pub const PENNY_MAILBOX_CAN_RECV: c_int = 2;

/// A state of pennyMailboxIdle: a message has arrived.
pub const PENNY_MAILBOX_MESSAGE: c_int = 0;
/// A state of pennyMailboxIdle: all threads are idle and no message is left.
pub const PENNY_MAILBOX_ALL_IDLE: c_int = 1;
/// A state of pennyMailboxIdle: as PENNY_MAILBOX_ALL_IDLE, and all threads have voted true.
pub const PENNY_MAILBOX_ALL_VOTED: c_int = 2;

/// Settings of a mailbox. Begin with `pennyMailboxConfig_t config = PENNY_MAILBOX_CONFIG_INITIALIZER;`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyMailboxConfig_t {
    /// Set by the initializer: sizeof(pennyMailboxConfig_t) where the program was compiled.
    pub size: usize,
    /// Set by the initializer.
    pub magic: c_uint,
    /// Set by the initializer: PENNY_VERSION_CODE where the program was compiled.
    pub version: c_uint,
    /// Number of threads of this rank, 1 to 64; default 1. They are numbered from 0.
    pub threads: c_int,
    /// Number of messages that this rank's mailbox holds, 1 to 65536; default 512.
    pub slots: c_int,
    /// Largest size of a message in bytes: a multiple of 16, up to 65536; default 64. The same on all ranks.
    pub slotBytes: c_int,
}

/// A message that was received. It lies in the mailbox, and all its receivers read the same bytes: do not write to it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyMailboxMessage_t {
    /// Bytes of the message, valid until this thread passes the address to pennyMailboxFree.
    pub data: *const c_void,
    /// Length of the message in flits of 16 bytes.
    pub flits: c_int,
    /// Rank of the sender.
    pub sourceRank: c_int,
    /// Thread number of the sender.
    pub sourceThread: c_int,
    /// Local key of the entry by which the message was sent here; 0 for a message that was sent without a key.
    pub localKey: c_uint,
}

/// One mailbox that a key stands for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyMailboxKeyEntry_t {
    /// The mailbox's rank.
    pub dest: c_int,
    /// Bit mask of threads 32 to 63.
    pub maskHigh: c_uint,
    /// Bit mask of threads 0 to 31.
    pub maskLow: c_uint,
    /// Value that the receivers find in pennyMailboxMessage_t::localKey.
    pub localKey: c_uint,
}

/// Statistics of this rank's mailbox. Initialize it with PENNY_MAILBOX_STATS_INITIALIZER.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyMailboxStats_t {
    /// Set by the initializer.
    pub size: usize,
    /// Set by the initializer.
    pub magic: c_uint,
    /// Set by the initializer.
    pub version: c_uint,
    /// Slots of this rank's mailbox.
    pub slots: u64,
    /// Slots without a message.
    pub slotsFree: u64,
    /// Sends of this rank's threads, to any mailbox; one by a key counts once.
    pub sent: u64,
    /// Messages that this rank's threads have received: a multicast counts once for each of them.
    pub received: u64,
    /// Copies written to this rank's mailbox by any rank: a multicast counts once.
    pub written: u64,
    /// Number of receivers of these copies, summed over the copies.
    pub delivered: u64,
    /// Bytes of these copies.
    pub bytesWritten: u64,
}

impl pennyMailboxConfig_t {
    /// # Safety
    /// `theirs` must be readable for the size that it states.
    unsafe fn read(theirs: *const pennyMailboxConfig_t, name: &str) -> Result<MailboxConfig> {
        macro_rules! field {
            ($field:ident) => {
                // SAFETY: the promise to `read`; every version has all fields of this one, which is the first.
                unsafe { (&raw const (*theirs).$field).read_unaligned() }
            };
        }
        let (size, magic) = (field!(size), field!(magic));
        let end = std::mem::offset_of!(pennyMailboxConfig_t, slotBytes) + size_of::<c_int>();
        if magic != PENNY_MAILBOX_CONFIG_MAGIC || size < end {
            return Err(Error::argument(format!(
                "{name} is no pennyMailboxConfig_t (size {size}, magic {magic:#x}); begin with \
                 PENNY_MAILBOX_CONFIG_INITIALIZER"
            )));
        }
        // A negative number becomes one that is too large: all ranks are told, and refuse it together.
        let or =
            |value: c_int, default: u32| if value == PENNY_CONFIG_UNDEF_INT { default } else { value as u32 };
        let (threads, slots, bytes) = (field!(threads), field!(slots), field!(slotBytes));
        Ok(MailboxConfig { threads: or(threads, 1), slots: or(slots, 512), slot_bytes: or(bytes, 64) })
    }
}

impl Parameter for *const pennyMailboxConfig_t {
    type Admitted = MailboxConfig;
    unsafe fn admit(self, name: &'static str) -> Result<MailboxConfig> {
        if self.is_null() {
            return Err(Error::argument(format!(
                "{name} is NULL; pass a pennyMailboxConfig_t, which says how many threads there are"
            )));
        }
        // SAFETY: the promise to `admit`.
        unsafe { pennyMailboxConfig_t::read(self, name) }
    }
}

impl Parameter for pennyMailbox_t {
    type Admitted = MailboxHandle;
    unsafe fn admit(self, name: &'static str) -> Result<MailboxHandle> {
        match self.is_null() {
            true => Err(Error::argument(format!("{name} is NULL; pass a mailbox"))),
            false => Ok(MailboxHandle::from_bits(self.addr() as u64)),
        }
    }
}

impl Parameter for *const pennyMailboxKeyEntry_t {
    /// Entries that are still to be read, once their number is known.
    type Admitted = *const pennyMailboxKeyEntry_t;
    unsafe fn admit(self, _name: &'static str) -> Result<*const pennyMailboxKeyEntry_t> {
        Ok(self)
    }
}

/// The most entries of a key: a copy for every slot there can be would not be sent in one call.
const MOST_ENTRIES: usize = 1 << 16;

/// # Safety
/// Unless NULL, `n` entries must be readable.
unsafe fn read_entries(entries: *const pennyMailboxKeyEntry_t, n: usize) -> Result<Vec<KeyEntry>> {
    if n > MOST_ENTRIES || (entries.is_null() && n > 0) {
        return Err(Error::argument(format!("entries is NULL, or n, which is {n}, is above {MOST_ENTRIES}")));
    }
    let entry = |i: usize| {
        // SAFETY: the promise to `read_entries`.
        let theirs = unsafe { entries.add(i).read_unaligned() };
        let mask = mask(theirs.maskHigh, theirs.maskLow);
        KeyEntry { dest: theirs.dest, mask, local_key: theirs.localKey }
    };
    Ok((0..n).map(entry).collect())
}

fn mask(high: c_uint, low: c_uint) -> u64 {
    (high as u64) << 32 | low as u64
}

fn message(m: &Message) -> pennyMailboxMessage_t {
    pennyMailboxMessage_t {
        data: std::ptr::with_exposed_provenance(m.data),
        flits: m.flits as c_int,
        sourceRank: m.source_rank as c_int,
        sourceThread: m.source_thread as c_int,
        localKey: m.local_key,
    }
}

c_api! {
    /// Makes a mailbox on every rank. All ranks call it; threads and slots may differ between ranks, slotBytes must not. If
    /// one rank cannot make its mailbox, the call fails on all ranks.
    ///
    /// A mailbox serves up to 64 threads of its rank. The other functions may be called by all of them at once; each passes
    /// its own number, and two calls with one number at once are pennyInvalidUsage. Every wait ends at the latest at the
    /// communicator's deadline, or when a rank has died.
    ///
    /// config: from PENNY_MAILBOX_CONFIG_INITIALIZER. mb: written on success.
    fn pennyMailboxCreate(comm: pennyComm_t, config: *const pennyMailboxConfig_t, #[out] mb: *mut pennyMailbox_t) {
        let handle = comm::mailbox_create(comm, &config)?;
        mb.set(to_c(handle))
    }

    /// Destroys the mailboxes of all ranks with the messages in them. All ranks call it. Calls of this rank's other threads
    /// that wait are ended with pennyInvalidUsage. The end of the communicator does the same. NULL does nothing and succeeds.
    fn pennyMailboxDestroy(#[or_null] mb: pennyMailbox_t) {
        mb.map_or(Ok(()), comm::mailbox_destroy)
    }

    /// Returns the send slot in which a thread writes its next message: slotBytes bytes, always at the same address.
    ///
    /// slot: written on success.
    fn pennyMailboxSendSlot(mb: pennyMailbox_t, thread: c_int, #[out] slot: *mut *mut c_void) {
        slot.set(std::ptr::with_exposed_provenance_mut(comm::mailbox(mb, |m| m.send_slot(thread))?))
    }

    /// Sets the length of a thread's messages, from the next one on. Initially it is the length of a slot.
    ///
    /// flits: of 16 bytes, at least 1.
    fn pennyMailboxSetLen(mb: pennyMailbox_t, thread: c_int, flits: c_int) {
        comm::mailbox(mb, |m| m.set_len(thread, flits))
    }

    /// Tests whether a message to rank dest could be sent without waiting. Another sender may take the slot first;
    /// pennyMailboxTryMulticast tests and sends in one call.
    ///
    /// can: 1 or 0, written on success.
    fn pennyMailboxCanSend(mb: pennyMailbox_t, thread: c_int, dest: c_int, #[out] can: *mut c_int) {
        can.set(comm::mailbox(mb, |m| m.can_send(thread, dest))? as c_int)
    }

    /// Tests whether there is a message for the thread.
    ///
    /// can: 1 or 0, written on success.
    fn pennyMailboxCanRecv(mb: pennyMailbox_t, thread: c_int, #[out] can: *mut c_int) {
        can.set(comm::mailbox(mb, |m| m.can_recv(thread))? as c_int)
    }

    /// Sends what a thread has written to its send slot to every thread of rank dest's mailbox whose bit is set: one copy,
    /// which all of them read. At any moment it is delivered to all of them or to none. Messages of a thread come to each
    /// receiver in the order in which they were sent, and two receivers see the messages that both get in the same order.
    ///
    /// Waits while dest's mailbox is full. The slot may be written again when the call returns.
    ///
    /// maskHigh: threads 32 to 63; maskLow: threads 0 to 31. slot: the sending thread's slot, from pennyMailboxSendSlot.
    fn pennyMailboxMulticast(mb: pennyMailbox_t, dest: c_int, maskHigh: c_uint, maskLow: c_uint, slot: *const c_void) {
        comm::mailbox(mb, |m| m.multicast(dest, mask(maskHigh, maskLow), slot.get()))
    }

    /// Sends as pennyMailboxMulticast does, but does nothing where that would wait for a slot. Use it in a thread that must
    /// receive for other threads to make progress: while it cannot send, it receives.
    ///
    /// sent: 1 or 0, written on success.
    fn pennyMailboxTryMulticast(
        mb: pennyMailbox_t,
        dest: c_int,
        maskHigh: c_uint,
        maskLow: c_uint,
        slot: *const c_void,
        #[out] sent: *mut c_int,
    ) {
        sent.set(comm::mailbox(mb, |m| m.try_multicast(dest, mask(maskHigh, maskLow), slot.get()))? as c_int)
    }

    /// Sends to one thread, as a multicast with one bit.
    fn pennyMailboxSend(mb: pennyMailbox_t, dest: c_int, destThread: c_int, slot: *const c_void) {
        let bit = u32::try_from(destThread).ok().and_then(|thread| 1u64.checked_shl(thread)).ok_or_else(|| {
            Error::argument(format!("destThread is {destThread}; a mailbox has threads 0..64 at most"))
        })?;
        comm::mailbox(mb, |m| m.multicast(dest, bit, slot.get()))
    }

    /// Receives the oldest message for a thread. Waits until there is one.
    ///
    /// message: written on success. Pass its data to pennyMailboxFree when done with it.
    fn pennyMailboxRecv(mb: pennyMailbox_t, thread: c_int, #[out] message: *mut pennyMailboxMessage_t) {
        message.set(self::message(&comm::mailbox(mb, |m| m.recv(thread))?))
    }

    /// Receives the oldest message for a thread, if there is one.
    ///
    /// message: written if there is. received: 1 or 0, written on success.
    fn pennyMailboxTryRecv(
        mb: pennyMailbox_t,
        thread: c_int,
        #[out] message: *mut pennyMailboxMessage_t,
        #[out] received: *mut c_int,
    ) {
        let got = comm::mailbox(mb, |m| m.try_recv(thread))?;
        if let Some(got) = &got {
            message.set(self::message(got))?;
        }
        received.set(got.is_some() as c_int)
    }

    /// Frees a message that the thread received. Its slot is free for another message when all receivers have freed it.
    ///
    /// data: of the message. A second free, or one by a thread that did not receive it, is pennyInvalidUsage; an address that
    /// is no message's is pennyInvalidArgument.
    fn pennyMailboxFree(mb: pennyMailbox_t, thread: c_int, data: *const c_void) {
        comm::mailbox(mb, |m| m.free(thread, data.get()))
    }

    /// Waits until a message to dest could be sent (PENNY_MAILBOX_CAN_SEND), a message has arrived
    /// (PENNY_MAILBOX_CAN_RECV), or either.
    ///
    /// flags: one or both. dest: for PENNY_MAILBOX_CAN_SEND only. ready: the flags that hold, written on success.
    fn pennyMailboxWaitUntil(
        mb: pennyMailbox_t,
        thread: c_int,
        flags: c_int,
        dest: c_int,
        #[out] ready: *mut c_int,
    ) {
        if flags & !(PENNY_MAILBOX_CAN_SEND | PENNY_MAILBOX_CAN_RECV) != 0 {
            return Err(Error::argument(format!(
                "flags is {flags:#x}; it is PENNY_MAILBOX_CAN_SEND, PENNY_MAILBOX_CAN_RECV or both"
            )));
        }
        let send = (flags & PENNY_MAILBOX_CAN_SEND != 0).then_some(dest);
        let want = Want { send, recv: flags & PENNY_MAILBOX_CAN_RECV != 0 };
        let (send, recv) = comm::mailbox(mb, |m| m.wait_until(thread, want))?;
        ready.set((send as c_int * PENNY_MAILBOX_CAN_SEND) | (recv as c_int * PENNY_MAILBOX_CAN_RECV))
    }

    /// Declares that the thread has nothing to do. Waits until there is a message for it, or until all threads of all
    /// ranks' mailboxes are in this call and no message is left: none undelivered, none unfreed. The detection is exact: no
    /// thread returns with that state before all threads are in the call.
    ///
    /// vote: 0 or not. state: written on success: PENNY_MAILBOX_MESSAGE, PENNY_MAILBOX_ALL_IDLE, or PENNY_MAILBOX_ALL_VOTED
    /// if in addition all threads have voted other than 0. A thread that still holds a message is refused with
    /// pennyInvalidUsage.
    fn pennyMailboxIdle(mb: pennyMailbox_t, thread: c_int, vote: c_int, #[out] state: *mut c_int) {
        state.set(comm::mailbox(mb, |m| m.idle(thread, vote != 0))? as c_int)
    }

    /// Creates a key: a list of mailboxes with their threads and local keys, to which pennyMailboxKeySend sends by one
    /// number. The key belongs to this rank's mailbox; all its threads may use it.
    ///
    /// entries: n of them, copied by the call. key: written on success.
    fn pennyMailboxKeyCreate(
        mb: pennyMailbox_t,
        entries: *const pennyMailboxKeyEntry_t,
        n: usize,
        #[out] key: *mut u64,
    ) {
        // SAFETY: the caller's promise, which is the documentation of this function.
        let entries = unsafe { read_entries(entries, n)? };
        key.set(comm::mailbox(mb, |m| m.key_create(&entries))?.bits())
    }

    /// Sends the contents of a thread's send slot to all receivers of a key: one copy for each entry. Waits while one of
    /// the mailboxes is full; no receiver gets the message until all mailboxes have room.
    fn pennyMailboxKeySend(mb: pennyMailbox_t, key: u64, slot: *const c_void) {
        comm::mailbox(mb, |m| m.key_send(KeyId::from_bits(key), slot.get()))
    }

    /// Deletes a key. Messages that were sent by it still arrive.
    fn pennyMailboxKeyDestroy(mb: pennyMailbox_t, key: u64) {
        comm::mailbox(mb, |m| m.key_destroy(KeyId::from_bits(key)))
    }

    /// Reads the statistics of this rank's mailbox.
    ///
    /// stats: from PENNY_MAILBOX_STATS_INITIALIZER; written on success.
    fn pennyMailboxStats(mb: pennyMailbox_t, #[out] stats: *mut pennyMailboxStats_t) {
        let now = comm::mailbox(mb, |m| m.stats())?;
        let ours = pennyMailboxStats_t {
            size: 0,
            magic: 0,
            version: PENNY_VERSION_CODE,
            slots: now.slots as u64,
            slotsFree: now.slots_free as u64,
            sent: now.sent,
            received: now.received,
            written: now.written,
            delivered: now.delivered,
            bytesWritten: now.bytes_written,
        };
        // SAFETY: the caller's promise: `stats` is a pennyMailboxStats_t of some version, as its size says.
        unsafe {
            fill(stats, &ours, PENNY_MAILBOX_STATS_MAGIC, "pennyMailboxStats_t", "PENNY_MAILBOX_STATS_INITIALIZER")
        }
    }
}
