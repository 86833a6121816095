//! The arguments of a vector call, and the checks that they must pass.

use crate::comm::calls::collective::{Call, MOST_BYTES};
use crate::comm::calls::point_to_point::Transfer;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::view::{Address, Payload};
use crate::transport::pair::PairTransfer;
use crate::types::{DataType, Rank, RedOp};

/// The collective that a vector call generalizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorKind {
    /// Each rank sends a block to each.
    AlltoAll = 1,
    /// Each rank's block goes to all.
    AllGather,
    /// Each rank's block goes to the root.
    Gather,
    /// The root sends a block to each.
    Scatter,
    /// Each rank gets its block of the reduction.
    ReduceScatter,
}

impl VectorKind {
    /// Returns the name for error sentences.
    pub const fn name(self) -> &'static str {
        match self {
            VectorKind::AlltoAll => "alltoallv",
            VectorKind::AllGather => "all_gatherv",
            VectorKind::Gather => "gatherv",
            VectorKind::Scatter => "scatterv",
            VectorKind::ReduceScatter => "reduce_scatterv",
        }
    }

    const fn is_rooted(self) -> bool {
        matches!(self, VectorKind::Gather | VectorKind::Scatter)
    }

    /// Tells whether the rank's input has a block for each rank, and whether its output has.
    const fn lists(self, at_root: bool) -> [bool; 2] {
        match self {
            VectorKind::AlltoAll => [true, true],
            VectorKind::AllGather => [false, true],
            VectorKind::Gather => [false, at_root],
            VectorKind::Scatter => [at_root, false],
            VectorKind::ReduceScatter => [true, false],
        }
    }
}

/// A block of a buffer, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorBlock {
    /// Its length.
    pub count: usize,
    /// Where it begins.
    pub at: usize,
}

/// A vector call with the caller's arguments.
#[derive(Clone, Debug)]
pub struct Vector<'a> {
    /// The collective.
    pub kind: VectorKind,
    /// The input.
    pub send: Address<'a>,
    /// Its blocks: one for each rank, or this rank's.
    pub send_blocks: Vec<VectorBlock>,
    /// The output.
    pub recv: Address<'a>,
    /// Its blocks: one for each rank, or this rank's.
    pub recv_blocks: Vec<VectorBlock>,
    /// Element type.
    pub dtype: DataType,
    /// Reduction; `Sum` where there is none.
    pub op: RedOp,
    /// Root; 0 where there is none.
    pub root: i32,
}

/// The work of a rank in a vector call.
pub(super) enum Moves<'a> {
    /// Transfers side by side.
    Transfers(Vec<Transfer<'a>>),
    /// All to all in place: the sends' peers and blocks of the buffer that is copied first; and the receives.
    Copied(Vec<(Rank, VectorBlock)>, Vec<Transfer<'a>>),
    /// Collectives one after the other.
    Calls(Vec<Call<'a>>),
}

impl<'a> Vector<'a> {
    /// Returns the elements from the buffer's beginning to the end of its last block.
    pub(super) fn extent(blocks: &[VectorBlock]) -> usize {
        blocks.iter().filter(|block| block.count > 0).map(|block| block.at + block.count).max().unwrap_or(0)
    }

    /// Returns the elements of its longest block.
    pub(in crate::comm) fn longest(&self) -> usize {
        self.send_blocks.iter().chain(&self.recv_blocks).map(|block| block.count).max().unwrap_or(0)
    }

    pub(super) fn part(&self, of: Address<'a>, block: VectorBlock) -> Payload<'a> {
        let size = self.dtype.size();
        if block.count == 0 { Payload::EMPTY } else { of.at(block.at * size).view(block.count * size) }
    }

    /// Checks one buffer and its blocks.
    fn check_buffer(
        &self,
        [name, list]: [&str; 2],
        of: Address<'a>,
        blocks: &[VectorBlock],
        rank: Rank,
    ) -> Result<()> {
        let size = self.dtype.size();
        for (at, block) in blocks.iter().enumerate() {
            let end = block.at.checked_add(block.count).and_then(|end| end.checked_mul(size));
            if block.count > 0 && end.is_none_or(|end| end > MOST_BYTES) {
                return Err(Error::argument(format!(
                    "{list}{}: {} elements of {} behind the first {} are more than memory can hold; is one a negative number?",
                    if list.ends_with('s') { format!("[{at}]") } else { String::new() },
                    block.count,
                    self.dtype,
                    block.at
                )));
            }
        }
        let bytes = Self::extent(blocks) * size;
        if bytes > 0 && of.get().checked_add(bytes).is_none_or(|_| of.is_null()) {
            return Err(Error::argument(format!(
                "{name} is {} on rank {rank}, which needs {bytes} bytes there",
                if of.is_null() { "NULL" } else { "at the end of memory" }
            )));
        }
        Ok(())
    }

    /// Checks that no two blocks of the output share an element.
    fn check_apart(&self, blocks: &[VectorBlock], rank: Rank) -> Result<()> {
        let mut end = 0;
        let are_in_order = blocks.iter().filter(|block| block.count > 0).all(|block| {
            let is_behind = block.at >= end;
            end = block.at + block.count;
            is_behind
        });
        if are_in_order {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..blocks.len()).filter(|&at| blocks[at].count > 0).collect();
        order.sort_unstable_by_key(|&at| blocks[at].at);
        match order.windows(2).find(|pair| blocks[pair[0]].at + blocks[pair[0]].count > blocks[pair[1]].at) {
            None => Ok(()),
            Some(pair) => Err(Error::argument(format!(
                "blocks {} and {} of recvbuff overlap on rank {rank}; each element can be received from one rank only",
                pair[0], pair[1]
            ))),
        }
    }

    /// Tells whether the call is in place. An error if input and output overlap in any other way.
    fn is_in_place(&self, rank: Rank) -> Result<bool> {
        let all =
            |of, blocks: &[VectorBlock]| self.part(of, VectorBlock { count: Self::extent(blocks), at: 0 });
        let (input, output) = (all(self.send, &self.send_blocks), all(self.recv, &self.recv_blocks));
        if !input.overlaps(output) {
            return Ok(false);
        }
        let own = rank as usize;
        let same = |mine: Payload<'_>, theirs: Payload<'_>| {
            let (mine, theirs) = mine.in_one_mapping(theirs);
            mine.addr() == theirs.addr() && mine.bytes() == theirs.bytes()
        };
        let block = |of, blocks: &[VectorBlock], at: usize| {
            blocks.get(at).map_or(Payload::EMPTY, |&b| self.part(of, b))
        };
        let rule = match self.kind {
            VectorKind::AlltoAll => {
                if self.send_blocks == self.recv_blocks && same(input, output) {
                    return Ok(true);
                }
                "sendbuff == recvbuff with equal counts and displacements"
            }
            VectorKind::AllGather | VectorKind::Gather => {
                if same(input, block(self.recv, &self.recv_blocks, own)) {
                    return Ok(true);
                }
                "sendbuff == recvbuff + recvdispls[rank]"
            }
            VectorKind::Scatter => {
                if same(block(self.send, &self.send_blocks, own), output) {
                    return Ok(true);
                }
                "recvbuff == sendbuff + senddispls[root]"
            }
            VectorKind::ReduceScatter => {
                if same(block(self.send, &self.send_blocks, own), output) {
                    return Ok(true);
                }
                "recvbuff == sendbuff + the sum of recvcounts before rank's"
            }
        };
        // Blocks may have gaps between them, in which the other buffer may lie.
        let parts = |of, blocks: &[VectorBlock]| blocks.iter().map(|&b| self.part(of, b)).collect::<Vec<_>>();
        let (inputs, outputs) = (parts(self.send, &self.send_blocks), parts(self.recv, &self.recv_blocks));
        if !inputs.iter().any(|input| outputs.iter().any(|output| input.overlaps(*output))) {
            return Ok(false);
        }
        Err(Error::argument(format!(
            "sendbuff {:#x} and recvbuff {:#x} overlap on rank {rank}; they must be apart, or in place: {rule}",
            self.send.get(),
            self.recv.get()
        )))
    }

    /// Checks the arguments for a rank of a communicator, and returns what it does.
    pub(super) fn checked(&self, rank: Rank, nranks: u32) -> Result<Moves<'a>> {
        let [at_root, in_place] = self.check_all(rank, nranks)?;
        Ok(self.moves(rank, nranks, at_root, in_place))
    }

    /// Checks the arguments. Returns whether the rank is the root, and whether the call is in place.
    fn check_all(&self, rank: Rank, nranks: u32) -> Result<[bool; 2]> {
        let (kind, n) = (self.kind, nranks as usize);
        if kind == VectorKind::ReduceScatter && !self.op.serves(self.dtype) {
            return Err(Error::argument(format!(
                "op {} does not exist for datatype {}; include/README.md has the table of operations and types",
                self.op, self.dtype
            )));
        }
        if kind.is_rooted() && !(0..nranks as i32).contains(&self.root) {
            return Err(Error::no_rank("root", self.root, nranks));
        }
        let at_root = kind.is_rooted() && self.root as Rank == rank;
        let of_all = kind.lists(at_root);
        for (blocks, of_all) in [(&self.send_blocks, of_all[0]), (&self.recv_blocks, of_all[1])] {
            if blocks.len() != if of_all { n } else { 1 } {
                return Err(Error::argument(format!(
                    "{} blocks were passed, and comm has {nranks} ranks; pass one for each",
                    blocks.len()
                )));
            }
        }
        let send_list = match kind {
            VectorKind::ReduceScatter => "recvcounts",
            _ if of_all[0] => "sendcounts",
            _ => "sendcount",
        };
        let recv_list = if of_all[1] { "recvcounts" } else { "recvcount" };
        self.check_buffer(["sendbuff", send_list], self.send, &self.send_blocks, rank)?;
        self.check_buffer(["recvbuff", recv_list], self.recv, &self.recv_blocks, rank)?;
        self.check_apart(&self.recv_blocks, rank)?;
        let own = rank as usize;
        let (sends, receives) = match kind {
            VectorKind::AllGather => (self.send_blocks[0].count, self.recv_blocks[own].count),
            VectorKind::AlltoAll => (self.send_blocks[own].count, self.recv_blocks[own].count),
            VectorKind::Gather if at_root => (self.send_blocks[0].count, self.recv_blocks[own].count),
            VectorKind::Scatter if at_root => (self.send_blocks[own].count, self.recv_blocks[0].count),
            _ => (0, 0),
        };
        if sends != receives {
            return Err(Error::argument(format!(
                "rank {rank} sends itself {sends} elements and receives {receives}; both counts of a rank's own block must be equal"
            )));
        }
        Ok([at_root, self.is_in_place(rank)?])
    }

    /// Checks the arguments for a rank of a communicator.
    pub(in crate::comm) fn check(&self, rank: Rank, nranks: u32) -> Result<()> {
        self.check_all(rank, nranks).map(drop)
    }

    /// Returns the calls and transfers of a rank, to price them.
    pub(in crate::comm) fn parts(
        &self,
        rank: Rank,
        nranks: u32,
    ) -> Result<(Vec<Transfer<'a>>, Vec<Call<'a>>)> {
        Ok(match self.checked(rank, nranks)? {
            Moves::Transfers(transfers) => (transfers, Vec::new()),
            Moves::Copied(sends, mut all) => {
                let size = self.dtype.size();
                all.extend(sends.into_iter().map(|(peer, block)| Transfer {
                    send: true,
                    buffer: self.send.at(block.at * size),
                    count: block.count,
                    dtype: self.dtype,
                    peer: peer as i32,
                    of_collective: true,
                }));
                (all, Vec::new())
            }
            Moves::Calls(calls) => (Vec::new(), calls),
        })
    }

    /// Returns the list of counts that all ranks pass, where they do.
    pub(super) fn common(&self) -> Option<&[VectorBlock]> {
        match self.kind {
            VectorKind::AllGather => Some(&self.recv_blocks),
            VectorKind::ReduceScatter => Some(&self.send_blocks),
            _ => None,
        }
    }

    /// Returns words that hold the input, which is about to be overwritten.
    pub(super) fn copy_of_input(&self) -> Vec<u64> {
        let bytes = Self::extent(&self.send_blocks) * self.dtype.size();
        let mut words = vec![0u64; bytes.div_ceil(8)];
        if bytes > 0 {
            kernels::copy(Payload::from(&mut words[..]).part(0, bytes), self.send.view(bytes), false);
        }
        words
    }

    /// Returns the sends of a copied input.
    pub(super) fn sends_of<'x>(
        &self,
        sends: &[(Rank, VectorBlock)],
        input: Payload<'x>,
    ) -> Vec<PairTransfer<'x>> {
        let size = self.dtype.size();
        let send = |&(peer, block): &(Rank, VectorBlock)| {
            let data = if block.count == 0 {
                Payload::EMPTY
            } else {
                input.part(block.at * size, block.count * size)
            };
            PairTransfer::new(true, peer, data, self.dtype, block.count, None).of_collective()
        };
        sends.iter().map(send).collect()
    }
}
