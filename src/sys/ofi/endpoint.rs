//! One endpoint: a queue of messages and writes to others, and of those that come.

use super::abi::*;
use super::discovery::{find, provider_of};
use super::library::{self, Library};
use super::memory::Memory;
use super::wakeup::Wakeup;
use crate::error::{Error, Result};
use crate::sys::endpoint::PeerId;
use crate::sys::fork;
use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::ptr::null_mut;

/// Buffers for messages that come.
pub(super) const RECEIVES: usize = 64;
/// Messages and writes under way.
pub(super) const SENDS: usize = 64;
const _: () = assert!(SENDS <= u64::BITS as usize);
/// Bytes of the immediate data of a write.
const IMMEDIATE: usize = 4;
/// The longest name of an endpoint.
const LONGEST_NAME: usize = 128;

/// libfabric's objects, closed in the opposite order.
pub(super) struct FabricObjects {
    pub fabric: *mut Fabric,
    pub domain: *mut Domain,
    pub av: *mut Av,
    pub cq: *mut Cq,
    /// See [`wakeup`](super::wakeup); NULL: it is not open.
    pub beside: *mut Cq,
    pub ep: *mut Ep,
    /// See [`second`](super::second); NULL: there is none.
    pub second: *mut Ep,
}

/// Memory of an operation under way that belongs to the provider.
#[repr(C, align(64))]
pub(super) struct Context([usize; 8]);

/// An endpoint of a provider, with its own buffers. Dropping it ends what is under way.
pub struct OfiEndpoint {
    pub(super) library: &'static Library,
    /// Provider and address, for sentences.
    pub(super) who: String,
    pub(super) objects: FabricObjects,
    pub(super) wakeup: Wakeup,
    /// What the provider asks for registered memory.
    pub(super) modes: c_int,
    pub(super) key_bytes: usize,
    pub(super) most_injected: usize,
    /// Ranges of the target in one write.
    pub(super) most_ranges: usize,
    pub(super) memories: Vec<Memory>,
    /// One for each buffer: first those of messages that come.
    pub(super) contexts: *mut Context,
    /// `RECEIVES + SENDS` buffers of `words` words.
    pub(super) buffers: *mut u64,
    pub(super) words: usize,
    pub(super) buffers_mr: *mut Mr,
    /// Buffers that could not be given to the provider yet.
    pub(super) idle: Vec<u32>,
    /// Buffers of sends that are not under way.
    pub(super) free: Vec<u32>,
    /// The receiver of each send under way.
    pub(super) receivers: Box<[PeerId]>,
    /// A bit for each send under way whose bytes are lent.
    pub(super) lent: u64,
    /// A bit for each send under way by the second endpoint, and for each that was under way when this was closed.
    pub(super) by_second: u64,
    pub(super) abandoned: u64,
    /// What others may write to by the second endpoint: keys and registrations.
    pub(super) opened: Vec<(u64, *mut Mr)>,
    /// The provider and the local address.
    pub(super) asked_for: (String, IpAddr),
    peers: Vec<u64>,
    pub(super) name: Vec<u8>,
    /// The process that has opened it.
    generation: u32,
}

// SAFETY: libfabric's objects may be used by any thread, one at a time (FI_THREAD_DOMAIN); `&mut self` sees to that.
unsafe impl Send for OfiEndpoint {}

impl OfiEndpoint {
    /// Opens an endpoint of a provider at a local address, for messages of up to `words` words of 8 bytes.
    pub fn open(provider: &str, address: IpAddr, words: usize) -> Result<OfiEndpoint> {
        let library = library::load()?;
        let offers = find(library, provider, address)?;
        let offer = offers.best(provider);
        // SAFETY: `find` returns at least one offer, whose attributes are there.
        let (info, domain, tx, ep) = unsafe {
            let info = &*offer;
            (info, &*info.domain_attr, &*info.tx_attr, &*info.ep_attr)
        };
        let who = format!("libfabric's provider {} at the local address {address}", provider_of(info));
        if domain.cq_data_size < IMMEDIATE || ep.max_msg_size < words * 8 {
            return Err(Error::system(format!(
                "{who} carries messages of {} bytes and {} bytes of immediate data, where {} and {IMMEDIATE} are needed; set \
                 PENNY_NET to another provider",
                ep.max_msg_size,
                domain.cq_data_size,
                words * 8
            )));
        }
        let count = RECEIVES + SENDS;
        let contexts: Box<[Context]> = (0..count).map(|_| Context([0; 8])).collect();
        let buffers = vec![0u64; count * words].into_boxed_slice();
        let mut endpoint = OfiEndpoint {
            library,
            who,
            objects: FabricObjects {
                fabric: null_mut(),
                domain: null_mut(),
                av: null_mut(),
                cq: null_mut(),
                beside: null_mut(),
                ep: null_mut(),
                second: null_mut(),
            },
            wakeup: Wakeup::Nothing,
            modes: domain.mr_mode,
            key_bytes: domain.mr_key_size,
            most_injected: tx.inject_size,
            most_ranges: tx.rma_iov_limit.min(tx.iov_limit),
            memories: Vec::new(),
            contexts: Box::into_raw(contexts).cast(),
            buffers: Box::into_raw(buffers).cast(),
            words,
            buffers_mr: null_mut(),
            idle: (0..RECEIVES as u32).collect(),
            free: (RECEIVES as u32..count as u32).rev().collect(),
            receivers: vec![PeerId(u32::MAX); count].into_boxed_slice(),
            lent: 0,
            by_second: 0,
            abandoned: 0,
            opened: Vec::new(),
            asked_for: (provider.into(), address),
            peers: Vec::new(),
            name: Vec::new(),
            generation: fork::generation(),
        };
        endpoint.make(offer)?;
        if endpoint.modes & FI_MR_LOCAL != 0 {
            let bytes = count * words * 8;
            endpoint.buffers_mr =
                endpoint.register_range(endpoint.buffers as usize, bytes, FI_SEND | FI_RECV | FI_WRITE)?;
        }
        endpoint.name = endpoint.name_of(endpoint.objects.ep)?;
        endpoint.post_receives()?;
        Ok(endpoint)
    }

    /// Makes the objects. What was made before a failure is closed by `drop`.
    fn make(&mut self, info: *mut Info) -> Result<()> {
        // SAFETY: here and below, objects are made in libfabric's order, each from live ones, by functions of tables that any provider
        // of a reliable endpoint has; attributes are whole structures of this version of the interface, zero where nothing is asked.
        let result = unsafe {
            let attributes = (*info).fabric_attr;
            (self.library.open_fabric)(attributes, &mut self.objects.fabric, null_mut())
        };
        self.check(result as isize, || "cannot open its fabric".into())?;
        let fabric = self.objects.fabric;
        // SAFETY: see above.
        let result = unsafe { ((*(*fabric).ops).domain)(fabric, info, &mut self.objects.domain, null_mut()) };
        self.check(result as isize, || "cannot open its domain".into())?;
        let domain = self.objects.domain;
        // SAFETY: see above.
        let result = unsafe {
            let mut attr: AvAttr = std::mem::zeroed();
            ((*(*domain).ops).av_open)(domain, &mut attr, &mut self.objects.av, null_mut())
        };
        self.check(result as isize, || "cannot open a table of addresses".into())?;
        // SAFETY: the attributes of an offer are there.
        self.make_queue(&provider_of(unsafe { &*info }))?;
        let mut ep = null_mut();
        let made = self.make_endpoint(info, &mut ep);
        self.objects.ep = ep;
        made
    }

    /// Makes an endpoint of the domain, and enables it. Where that fails, what was made is to be closed.
    pub(super) fn make_endpoint(&self, info: *mut Info, made: &mut *mut Ep) -> Result<()> {
        let FabricObjects { domain, av, cq, .. } = self.objects;
        // SAFETY: as in `make`.
        let result = unsafe { ((*(*domain).ops).endpoint)(domain, info, made, null_mut()) };
        self.check(result as isize, || "cannot open an endpoint".into())?;
        let ep = *made;
        // SAFETY: see above.
        let result = unsafe {
            let (fid, ops) = (&raw mut (*ep).fid, &*(*ep).fid.ops);
            match (
                (ops.bind)(fid, &raw mut (*av).fid, 0),
                (ops.bind)(fid, &raw mut (*cq).fid, FI_SEND | FI_RECV),
            ) {
                (0, 0) => (ops.control)(fid, FI_ENABLE, null_mut()),
                (0, failed) | (failed, _) => failed,
            }
        };
        self.check(result as isize, || "cannot enable the endpoint".into())
    }

    /// Turns a failure into a sentence.
    pub(super) fn check(&self, result: isize, what: impl FnOnce() -> String) -> Result<()> {
        if result >= 0 {
            return Ok(());
        }
        Err(Error::system(format!(
            "{}: {}: {}; choose another interface or provider (PENNY_NET), or raise the limits of open files and locked memory",
            self.who,
            what(),
            self.library.describe(result)
        )))
    }

    pub(super) fn name_of(&self, ep: *mut Ep) -> Result<Vec<u8>> {
        let mut name = vec![0u8; LONGEST_NAME];
        let mut bytes = name.len();
        // SAFETY: a live endpoint, and a place of `bytes` bytes.
        let result =
            unsafe { ((*(*ep).cm).getname)(&raw mut (*ep).fid, name.as_mut_ptr().cast(), &mut bytes) };
        self.check(result as isize, || "cannot tell the endpoint's name".into())?;
        name.truncate(bytes);
        Ok(name)
    }

    /// Makes a peer of the endpoint with this name, which was made on another host by the same provider.
    pub(super) fn insert(&mut self, name: &[u8]) -> Result<PeerId> {
        if name.len() != self.name.len() {
            return Err(Error::remote(format!(
                "a peer's address has {} bytes where those of {} have {}; set PENNY_NET to the same provider on all ranks, and use IPv4 \
                 or IPv6 addresses everywhere",
                name.len(),
                self.who,
                self.name.len()
            )));
        }
        let av = self.objects.av;
        let mut address = FI_ADDR_UNSPEC;
        // SAFETY: a live table, a name of the length that this provider's names have, and a place for one address.
        let done = unsafe {
            ((*(*av).ops).insert)(av, name.as_ptr().cast(), 1, &mut address, 0, null_mut::<c_void>())
        };
        if done != 1 {
            return Err(Error::remote(format!(
                "{} refuses the address of a peer; the peer is faulty",
                self.who
            )));
        }
        self.peers.push(address);
        Ok(PeerId(self.peers.len() as u32 - 1))
    }

    pub(super) fn address_of(&self, peer: PeerId) -> u64 {
        self.peers[peer.0 as usize]
    }

    /// Ends all that is under way, and takes in nothing any more. Of the other functions `poll`, `may_sleep` and those of the descriptor go on, and have nothing to
    /// tell; nothing can be sent.
    pub(super) fn shut(&mut self) {
        self.shut_second();
        let ep = std::mem::replace(&mut self.objects.ep, null_mut());
        if ep.is_null() {
            return;
        }
        let close = |fid: *mut Fid| {
            if !fid.is_null() {
                // SAFETY: a live object, closed once: it is not known any more.
                unsafe { ((*(*fid).ops).close)(fid) };
            }
        };
        // Where memory is bound to the endpoint it is closed first.
        if self.modes & FI_MR_ENDPOINT != 0 {
            let buffers = std::mem::replace(&mut self.buffers_mr, null_mut());
            let memories =
                self.memories.iter_mut().map(|memory| std::mem::replace(&mut memory.mr, null_mut()));
            memories.chain([buffers]).for_each(|mr| close(mr.cast()));
        }
        close(ep.cast());
        self.lent = 0;
    }
}

impl Drop for OfiEndpoint {
    fn drop(&mut self) {
        // To close the connections is the parent's business.
        if self.generation != fork::generation() {
            return;
        }
        let close = |fid: *mut Fid| {
            if !fid.is_null() {
                // SAFETY: a live object, closed once, after all that was made from it.
                unsafe { ((*(*fid).ops).close)(fid) };
            }
        };
        self.shut_second();
        self.close_descriptor();
        let FabricObjects { fabric, domain, av, cq, ep, .. } = self.objects;
        let registered = self.memories.iter().map(|memory| memory.mr).chain([self.buffers_mr]);
        if self.modes & FI_MR_ENDPOINT != 0 {
            registered.clone().for_each(|mr| close(mr.cast()));
        }
        close(ep.cast());
        if self.modes & FI_MR_ENDPOINT == 0 {
            registered.for_each(|mr| close(mr.cast()));
        }
        [cq.cast(), av.cast(), domain.cast(), fabric.cast()].into_iter().for_each(close);
        let count = RECEIVES + SENDS;
        // SAFETY: both came from boxes of these lengths, and nothing is under way any more.
        unsafe {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.contexts, count)));
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.buffers, count * self.words)));
        }
    }
}
