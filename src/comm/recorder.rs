//! How the calls of communicators describe themselves in a record (`src/recorder.rs`).
//!
//! Collectives, transfers, permutations, collectives with blocks of any sizes, groups, launched recordings, signals, streams and events are
//! recorded. Vector calls are the messages that they consist of.

use super::calls::collective::Call;
use super::calls::permute::Permute;
use super::calls::point_to_point::Transfer;
use super::calls::vector::{Vector, VectorBlock, VectorKind};
use super::onesided::signals::{AwaitedSignals, Counter, Signal};
use super::registry::{self, CommHandle};
use crate::recorder::{self, PutText};
pub(super) use crate::recorder::{Description, Recorded, record};
use crate::timing::WORD;
use crate::transport::Transport;
use crate::types::{Collective, Rank};
use std::sync::Arc;

impl Description {
    /// One half of a message of a communicator; `stream` as it is in all of these: 0: none.
    fn message(&mut self, transport: &Arc<Transport>, is_send: bool, peer: Rank, bytes: usize, stream: u64) {
        let kind = if is_send { "send" } else { "recv" };
        let comm = self.comm(transport);
        self.part(format_args!("\"{kind}\":{peer},\"comm\":{comm},\"bytes\":{bytes},\"stream\":{stream}"));
    }

    /// A collective call of a communicator. `block`: the bytes of a rank's block.
    fn call(&mut self, name: &str, transport: &Arc<Transport>, block: usize, root: i32, stream: u64) {
        let comm = self.comm(transport);
        self.part(format_args!(
            "\"call\":\"{name}\",\"comm\":{comm},\"block\":{block},\"root\":{root},\"stream\":{stream}"
        ));
    }

    pub fn collective(&mut self, comm: CommHandle, call: &Call<'_>, stream: u64) {
        let Ok(shared) = registry::shared(comm) else { return };
        let transport = &shared.transport;
        let nranks = transport.nranks() as usize;
        let count = if call.padded { call.count.div_ceil(nranks) } else { call.count };
        let block =
            if call.collective == Collective::Barrier { 0 } else { count.saturating_mul(call.dtype.size()) };
        let root = if call.collective.rooted() { call.root } else { 0 };
        self.call(call.collective.name(), transport, block, root, stream);
    }

    pub fn barrier(&mut self, comm: CommHandle) {
        if let Ok(shared) = registry::shared(comm) {
            self.call("barrier", &shared.transport, 0, 0, 0);
        }
    }

    pub fn transfer(&mut self, comm: CommHandle, transfer: &Transfer<'_>, stream: u64) {
        let Ok(shared) = registry::shared(comm) else { return };
        let transport = &shared.transport;
        let Ok(peer) = Rank::try_from(transfer.peer) else { return };
        if transport.rank() == peer {
            // A copy within the rank.
            return;
        }
        self.message(
            transport,
            transfer.send,
            peer,
            transfer.count.saturating_mul(transfer.dtype.size()),
            stream,
        );
    }

    pub fn permute(&mut self, comm: CommHandle, permute: &Permute<'_>, stream: u64) {
        let Ok(shared) = registry::shared(comm) else { return };
        let transport = &shared.transport;
        let (rank, bytes) = (transport.rank(), permute.count.saturating_mul(permute.dtype.size()));
        let to = permute.perm.get(rank as usize).and_then(|&to| Rank::try_from(to).ok());
        let from =
            (0..).zip(&permute.perm).find(|&(_, &to)| Rank::try_from(to) == Ok(rank)).map(|(from, _)| from);
        for (is_send, peer) in [(true, to), (false, from)] {
            if let Some(peer) = peer.filter(|&peer| peer != rank) {
                self.message(transport, is_send, peer, bytes, stream);
            }
        }
    }

    pub fn vector(&mut self, comm: CommHandle, vector: &Vector<'_>, stream: u64) {
        let Ok(shared) = registry::shared(comm) else { return };
        let transport = &shared.transport;
        let (rank, nranks) = (transport.rank(), transport.nranks());
        let size = vector.dtype.size();
        if vector.kind == VectorKind::ReduceScatter {
            let all: usize = vector.send_blocks.iter().map(|block| block.count).sum();
            let block = all.div_ceil(nranks as usize).saturating_mul(size);
            self.call("reduce_scatter", transport, block, 0, stream);
            return;
        }
        let of = |blocks: &[VectorBlock], peer: Rank| {
            let block = if blocks.len() > 1 { blocks.get(peer as usize) } else { blocks.first() };
            block.map_or(0, |block| block.count)
        };
        let root = Rank::try_from(vector.root).unwrap_or(0);
        for peer in (0..nranks).filter(|&peer| peer != rank) {
            let (sends, receives) = match vector.kind {
                VectorKind::Gather => (peer == root, rank == root),
                VectorKind::Scatter => (rank == root, peer == root),
                _ => (true, true),
            };
            for (is_send, takes_part, blocks) in
                [(true, sends, &vector.send_blocks), (false, receives, &vector.recv_blocks)]
            {
                let count = of(blocks, peer);
                if takes_part && count > 0 {
                    self.message(transport, is_send, peer, count.saturating_mul(size), stream);
                }
            }
        }
    }

    /// Signals, and the bytes that come before them.
    pub fn signal(&mut self, comm: CommHandle, signal: &Signal, stream: u64) {
        let Ok(shared) = registry::shared(comm) else { return };
        let Ok(peer) = Rank::try_from(signal.counter.peer) else { return };
        let data = signal.put.map_or(0, |put| put.count.saturating_mul(put.dtype.size()));
        let counter = counter(shared.transport.rank(), &signal.counter);
        let given = recorder::signal(peer, &counter, 1);
        let bytes = data.saturating_add(WORD);
        self.put(&shared.transport, &PutText { bytes, signals: &given, stream, ..PutText::to(&[(peer, 0)]) });
    }

    /// A wait for signals.
    pub fn awaited(&mut self, comm: CommHandle, awaited: &[AwaitedSignals], stream: u64) {
        let Ok(shared) = registry::shared(comm) else { return };
        for AwaitedSignals { count, counter: of } in awaited {
            let (Ok(peer), Ok(count)) = (Rank::try_from(of.peer), u64::try_from(*count)) else { return };
            self.wait(&shared.transport, &counter(peer, of), count, stream);
        }
    }

    /// The thread waits for all that is queued on a stream.
    pub fn synchronize(&mut self, stream: u64) {
        self.part(format_args!("\"synchronize\":{stream}"));
    }
    /// An event is recorded on a stream.
    pub fn event(&mut self, event: u64, stream: u64) {
        self.part(format_args!("\"event\":{event},\"stream\":{stream}"));
    }
    /// A stream, or the thread where it is 0, waits for an event.
    pub fn await_event(&mut self, event: u64, stream: u64) {
        self.part(format_args!("\"await\":{event},\"stream\":{stream}"));
    }
}

/// Returns the name of the counter of a rank's signals.
fn counter(from: Rank, of: &Counter) -> String {
    let Counter { index, context, .. } = of;
    format!("signals of rank {from}, sigIdx {index}, ctx {context}")
}
