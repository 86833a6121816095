//! Choosing a provider: what libfabric offers at an address.

use super::abi::*;
use super::library::{Library, OLDEST};
use crate::error::{Error, Result};
use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::ptr::{null, null_mut};

/// A list of what libfabric offers. It ends with this value.
pub struct Offers {
    library: &'static Library,
    first: *mut Info,
}

impl Drop for Offers {
    fn drop(&mut self) {
        // SAFETY: `first` came from this library's `fi_getinfo` or `fi_dupinfo`, and is freed once.
        unsafe { (self.library.free_info)(self.first) };
    }
}

impl Offers {
    /// The offers, one after another.
    fn all(&self) -> impl Iterator<Item = &Info> {
        // SAFETY: each is NULL or an offer of this list, which lives as long as `self`.
        std::iter::successors(unsafe { self.first.as_ref() }, |info| unsafe { info.next.as_ref() })
    }

    /// The offer to take: the provider's own, rather than one that puts another on top of it.
    pub fn best(&self, provider: &str) -> *mut Info {
        let own = self.all().find(|info| provider_of(info) == provider);
        own.map_or(self.first, |info| std::ptr::from_ref(info).cast_mut())
    }
}

/// The name of an offer's provider.
pub fn provider_of(info: &Info) -> String {
    // SAFETY: the attributes of an offer are there, and its provider's name is NULL or a C string.
    unsafe {
        let name = (*info.fabric_attr).prov_name;
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into() }
    }
}

/// Looks for reliable datagrams with messages and writes, of this provider, from this address.
pub fn find(library: &'static Library, provider: &str, address: IpAddr) -> Result<Offers> {
    let name = CString::new(provider).map_err(|_| {
        Error::argument("the provider's name contains a zero byte; set PENNY_NET to one word")
    })?;
    if is_unfit(provider) {
        return Err(Error::usage(format!(
            "libfabric's provider {provider} does not serve ranks of several hosts here; leave PENNY_NET unset, or set it to tcp or to the \
             provider of your network"
        )));
    }
    // SAFETY: NULL asks for an empty description.
    let hints = Offers { library, first: unsafe { (library.dup_info)(null()) } };
    if hints.first.is_null() {
        return Err(Error::system("libfabric has no memory for a description of what is wanted"));
    }
    // SAFETY: the library has allocated the description and its parts, and frees the name with them.
    unsafe {
        let info = &mut *hints.first;
        info.caps = FI_MSG | FI_RMA;
        info.mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
        (*info.ep_attr).kind = FI_EP_RDM;
        (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
        let domain = &mut *info.domain_attr;
        domain.threading = FI_THREAD_DOMAIN;
        domain.control_progress = FI_PROGRESS_MANUAL;
        domain.data_progress = FI_PROGRESS_MANUAL;
        domain.resource_mgmt = FI_RM_ENABLED;
        domain.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    }
    let node = CString::new(address.to_string()).expect("an address without a zero byte");
    match ask(library, Some(&node), Some(&hints)) {
        Ok(offers) => Ok(offers),
        Err(why) => Err(missing(library, provider, address, &why)),
    }
}

fn ask(library: &'static Library, node: Option<&CStr>, hints: Option<&Offers>) -> Result<Offers, String> {
    let mut first = null_mut();
    let flags = if node.is_some() { FI_SOURCE | FI_NUMERICHOST } else { 0 };
    let hints = hints.map_or(null(), |hints| hints.first.cast_const());
    // SAFETY: C strings or NULL, a description of this library's or NULL, and a place for the result.
    let result = unsafe {
        (library.get_info)(OLDEST, node.map_or(null(), CStr::as_ptr), null(), flags, hints, &mut first)
    };
    if result != 0 {
        return Err(library.describe(result as isize));
    }
    Ok(Offers { library, first })
}

/// Providers between processes of one machine, and two over which the link's tests do not end.
const UNFIT: [&str; 4] = ["shm", "sm2", "sockets", "udp"];

fn is_unfit(provider: &str) -> bool {
    provider.split(';').any(|part| UNFIT.contains(&part))
}

/// The sentence where nothing fits: no such provider, or not here.
fn missing(library: &'static Library, provider: &str, address: IpAddr, why: &str) -> Error {
    let mut names: Vec<String> =
        ask(library, None, None).map_or(Vec::new(), |offers| offers.all().map(provider_of).collect());
    names.retain(|name| !is_unfit(name));
    names.sort_unstable();
    names.dedup();
    let is_there = names.iter().any(|name| name.split(';').any(|part| part == provider));
    Error::system(if is_there {
        format!(
            "libfabric's provider {provider} has no reliable endpoint with remote writes at the local address {address}: {why}; choose \
             another interface, or set PENNY_NET to another of {}",
            names.join(", ")
        )
    } else {
        format!(
            "{} has no provider {provider}; it has: {}; set PENNY_NET to one of these",
            library.name,
            names.join(", ")
        )
    })
}
