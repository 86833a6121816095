//! Meetings between hosts, over TCP.
//!
//! A rank reaches the server of a meeting by a local socket or by a `session`: a TCP connection on which both ends have proved that
//! they know the meeting's secret (`handshake`). Everything above is the same for both, but that no descriptors pass between hosts.
//! `door` is where a meeting is served, and `place` what this process serves at which of its `interfaces`. After the meeting the ranks keep their connections: by these the server passes on
//! what a rank tells the others (`packets`), and learns of deaths, which it tells all.

pub mod door;
pub mod handshake;
pub mod interfaces;
pub mod packets;
pub mod place;
pub mod session;

pub use super::who::Who;
