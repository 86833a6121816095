//! Ranks that are threads of this process, with links of libfabric over loopback between their hosts.

use super::OfiLink;
use crate::sys::ofi;
use crate::transport::Transport;
use crate::transport::in_process::{connected, controls};
use crate::types::Rank;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// How links are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// As the provider can.
    WithTrailers,
    /// As if it could fill one range only.
    Alone,
}

/// Tells whether there is a libfabric. If not, a line says that the test is left out.
pub fn is_there() -> bool {
    ofi::is_there().inspect_err(|why| println!("SKIPPED: {why}")).is_ok()
}

/// The transports of ranks on hosts as `hosts` says by rank.
pub fn transports(hosts: &[u32], writes: Writes, timeout_ms: u64) -> Vec<Arc<Transport>> {
    let controls = controls(hosts);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let prepare = |(rank, near): (Rank, _)| {
        let mut prepared = OfiLink::prepare(near, rank, hosts.len() as u32, loopback, None).unwrap();
        prepared.own.with_trailers &= writes == Writes::WithTrailers;
        Some(prepared)
    };
    let mut prepared: Vec<_> = (0..).zip(&controls).map(prepare).collect();
    let blobs: Vec<_> = prepared.iter().flatten().map(|prepared| prepared.blob()).collect();
    connected(hosts, &controls, timeout_ms, |rank, far| {
        let blobs: Vec<_> = far.iter().zip(&blobs).map(|(&far, blob)| far.then(|| blob.clone())).collect();
        prepared[rank as usize].take().unwrap().connect(&blobs).unwrap()
    })
}
