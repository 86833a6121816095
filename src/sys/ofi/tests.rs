//! What libfabric alone does.

use super::*;
use crate::sys::endpoint::tests::is_readable;
use std::net::{IpAddr, Ipv4Addr};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const WORDS: usize = 1100;

/// True where there is no libfabric, which is said once a test.
fn is_skipped() -> bool {
    is_there().inspect_err(|why| println!("SKIPPED: {why}")).is_err()
}

#[test]
fn the_descriptor_is_open_only_as_long_as_it_is_wanted() {
    if is_skipped() {
        return;
    }
    let mut a = OfiEndpoint::open("tcp", V4, WORDS).unwrap();
    let descriptor = a.open_descriptor();
    assert!(!is_readable(descriptor) && a.open_descriptor() == descriptor);
    a.close_descriptor();
    let is_kept = super::wakeup::descriptor_of(a.objects.cq).is_some();
    // The provider of 1.17 stands above tcp and has another name.
    let may_keep = a.wakeup == super::wakeup::Wakeup::OfQueue;
    assert_eq!((a.is_slept_on(), is_kept), (may_keep, may_keep), "the first queue has none with tcp");
}

#[test]
fn what_cannot_be_opened_is_told_in_a_sentence() {
    if is_skipped() {
        return;
    }
    let told = |provider, address| OfiEndpoint::open(provider, address, WORDS).err().unwrap().message.clone();
    let none = told("nosuch", V4);
    assert!(none.contains("has no provider nosuch; it has: ") && none.contains("tcp"), "{none}");
    assert!(!none.contains("sockets"), "{none}");
    let unfit = told("udp;ofi_rxd", V4);
    assert!(unfit.contains("does not serve ranks of several hosts"), "{unfit}");
    let elsewhere = told("tcp", IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)));
    assert!(elsewhere.contains("at the local address 192.0.2.7"), "{elsewhere}");
    let mut a = OfiEndpoint::open("tcp", V4, WORDS).unwrap();
    assert!(a.insert(&[1, 2, 3]).unwrap_err().message.contains("has 3 bytes"));
}
