//! The transfers or collectives by which a rank takes its part in a vector call.

use super::arguments::{Moves, Vector, VectorBlock, VectorKind};
use crate::comm::calls::collective::Call;
use crate::comm::calls::point_to_point::Transfer;
use crate::memory::view::Address;
use crate::types::{Collective, Rank};

impl<'a> Vector<'a> {
    pub(super) fn moves(&self, rank: Rank, nranks: u32, at_root: bool, in_place: bool) -> Moves<'a> {
        let size = self.dtype.size();
        let half = |send: bool, peer: Rank, block: VectorBlock| Transfer {
            send,
            buffer: if send { self.send } else { self.recv }.at(if block.count == 0 {
                0
            } else {
                block.at * size
            }),
            count: block.count,
            dtype: self.dtype,
            peer: peer as i32,
            of_collective: true,
        };
        // The halves of blocks with their ranks, without the rank's own where it lies in place.
        let halves = |send: bool, blocks: &[VectorBlock], but_own: bool, and: Option<Transfer<'a>>| {
            let others = each(blocks, rank, but_own).map(|(peer, block)| half(send, peer, block));
            let mut all = Vec::with_capacity(2 * blocks.len());
            all.extend(others.chain(and));
            all
        };
        let call = |collective, send, recv, count, root: Rank| Call {
            collective,
            send,
            recv,
            count,
            dtype: self.dtype,
            op: self.op,
            root: root as i32,
            padded: false,
        };
        let root = self.root as Rank;
        match self.kind {
            VectorKind::AlltoAll if in_place => Moves::Copied(
                each(&self.send_blocks, rank, true).collect(),
                halves(false, &self.recv_blocks, true, None),
            ),
            VectorKind::AlltoAll => {
                let mut all = halves(true, &self.send_blocks, false, None);
                all.extend(
                    each(&self.recv_blocks, rank, false).map(|(peer, block)| half(false, peer, block)),
                );
                Moves::Transfers(all)
            }
            VectorKind::Gather if at_root => {
                let own = (!in_place).then(|| half(true, root, self.send_blocks[0]));
                Moves::Transfers(halves(false, &self.recv_blocks, in_place, own))
            }
            VectorKind::Gather => Moves::Transfers(vec![half(true, root, self.send_blocks[0])]),
            VectorKind::Scatter if at_root => {
                let own = (!in_place).then(|| half(false, root, self.recv_blocks[0]));
                Moves::Transfers(halves(true, &self.send_blocks, in_place, own))
            }
            VectorKind::Scatter => Moves::Transfers(vec![half(false, root, self.recv_blocks[0])]),
            VectorKind::AllGather => {
                let calls = (0..nranks).zip(&self.recv_blocks).filter(|(_, block)| block.count > 0);
                let broadcast = |(from, block): (Rank, &VectorBlock)| {
                    let recv = self.recv.at(block.at * size);
                    let send = if from != rank {
                        Address::NULL
                    } else {
                        self.send.at(self.send_blocks[0].at * size)
                    };
                    call(Collective::Broadcast, send, recv, block.count, from)
                };
                Moves::Calls(calls.map(broadcast).collect())
            }
            VectorKind::ReduceScatter => {
                let calls = (0..nranks).zip(&self.send_blocks).filter(|(_, block)| block.count > 0);
                let reduce = |(to, block): (Rank, &VectorBlock)| {
                    let recv = if to == rank { self.recv } else { Address::NULL };
                    call(Collective::Reduce, self.send.at(block.at * size), recv, block.count, to)
                };
                Moves::Calls(calls.map(reduce).collect())
            }
        }
    }
}

/// Returns blocks with their ranks, all or those of the other ranks.
fn each(blocks: &[VectorBlock], rank: Rank, but_own: bool) -> impl Iterator<Item = (Rank, VectorBlock)> {
    (0..).zip(blocks.iter().copied()).filter(move |&(peer, _)| !(but_own && peer == rank))
}
