//! The data mover of Ethernet links: what the software at both ends does so that no byte is lost, and what it costs.
//!
//! ```text
//!     sender's end                                                      receiver's end
//!     worker --fill--> buffer --payload, bytes_sent---------------->  buffer --read--> worker
//!                      free   <--receiver_ack----------------------   seen
//!                      credit <--receiver done (bytes_sent = 0)----   read
//! ```
//!
//! A chip writes into the memory of the core at the other end of its link and is told nothing about it. So the two
//! ends keep words about each buffer: `bytes_sent` says that a payload is there, `receiver_ack` that it was seen and
//! its source may be written to, and a cleared `bytes_sent` that the buffer is free, which is the sender's credit.
//! Before the first payload the ends shake hands, since a payload would fall into whatever ran there before; at the
//! end each sender waits until its credits are back, since a late word would fall into whatever runs next.
//!
//! - [`link`] is the protocol: a state machine without time, whose every next event may be chosen. Tests choose them
//!   in all orders.
//! - [`clockwork`] runs it in time: cores that do one thing after the other, wires that carry packet after packet.
//! - [`cost`] is the same for one message in closed form, which the engine takes: collectives go through the mover.
//! - [`program`] runs channels between several places: which worker sends what, and who relays it.
//! - [`measure`] is the benchmarks: latency, ring, utilisation.
//!
//! Terms and figures are those of Tenstorrent's CCL developer guide. Workers take no time: as in its benchmarks,
//! payloads are there, and no time is spent on computation.

mod act;
pub mod channel;
pub mod clockwork;
pub mod cost;
pub mod end;
pub mod fault;
pub mod link;
pub mod measure;
pub mod parameters;
pub mod program;
#[cfg(test)]
mod tests;
