//! The protocol in all orders, and its figures against the published ones.

mod cost;
mod orders;
mod program;
mod published;
mod timed;

use super::channel::{Setup, SignalMode, Termination};
use super::end::Side;
use super::parameters::Parameters;
use crate::topology::{self, EthernetCore};

/// Of a preset whose links are Ethernet.
fn parameters(machine: &str) -> Parameters {
    let network = topology::open(machine).expect("a preset");
    Parameters::wormhole(network.classes[0].clone())
}

/// The parameters with another number of queues, and of commands that each holds.
fn with_queues(parameters: Parameters, queues: u32, queue_commands: u32) -> Parameters {
    Parameters { core: EthernetCore { queues, queue_commands, ..parameters.core }, ..parameters }
}

const SIGNALS: [SignalMode; 2] = [SignalMode::Merged, SignalMode::Separate];
const TERMINATIONS: [Termination; 2] = [Termination::MessageCount, Termination::WorkerInitiated];

fn setup(sender: Side, messages: u64, buffers: u32) -> Setup {
    Setup { sender, messages, bytes: 32, last_bytes: 32, buffers }
}
