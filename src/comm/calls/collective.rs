//! One collective call as the caller made it, and the checks it must pass before anything moves.

use crate::error::{Error, Result};
use crate::memory::view::{Address, Payload};
use crate::types::{Collective, DataType, Rank, RedOp};

/// The largest size of a buffer: no processor addresses more.
pub(in crate::comm) const MOST_BYTES: usize = 1 << 56;

/// A collective call with the caller's arguments, before they are checked.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The collective.
    pub collective: Collective,
    /// The input.
    pub send: Address<'a>,
    /// The output.
    pub recv: Address<'a>,
    /// Elements a block: what NCCL calls count, sendcount or recvcount. For `padded`: elements of the whole input.
    pub count: usize,
    /// Element type.
    pub dtype: DataType,
    /// Reduction; `Sum` where the collective has none.
    pub op: RedOp,
    /// Root; 0 where the collective has none.
    pub root: i32,
    /// ReduceScatter only: `count` is the whole input's; each rank gets `ceil(count / nranks)`, the tail zero.
    pub padded: bool,
}

/// A call whose arguments are right by themselves.
#[derive(Clone, Copy)]
pub(in crate::comm) struct Checked<'a> {
    pub input: Payload<'a>,
    pub output: Payload<'a>,
    /// Elements a block.
    pub count: usize,
    /// Elements of the whole input where it may end within a block, else `usize::MAX`.
    pub limit: usize,
    pub root: Rank,
    pub in_place: bool,
    /// Where the output begins behind the input's begin in a call in place.
    pub in_place_at: isize,
    /// Bytes of the whole vector, by which algorithms are chosen.
    pub bytes: u64,
}

impl<'a> Call<'a> {
    /// Returns the bytes of a block.
    pub(in crate::comm) fn bytes(&self) -> usize {
        self.count.saturating_mul(self.dtype.size())
    }

    /// Checks the arguments for a rank of a communicator. `None`: right, and nothing to do.
    pub(in crate::comm) fn check(&self, rank: Rank, nranks: u32) -> Result<Option<Checked<'a>>> {
        let (c, n) = (self.collective, nranks as usize);
        if c.reduces() && !self.op.serves(self.dtype) {
            return Err(Error::argument(format!(
                "op {} does not exist for datatype {}; include/README.md has the table of operations and types",
                self.op, self.dtype
            )));
        }
        if c.rooted() && !(0..nranks as i32).contains(&self.root) {
            return Err(Error::no_rank("root", self.root, nranks));
        }
        let root = if c.rooted() { self.root as Rank } else { 0 };
        let count = if self.padded { self.count.div_ceil(n) } else { self.count };
        let size = self.dtype.size();
        let block = count.checked_mul(size).filter(|b| b.checked_mul(n).is_some_and(|all| all <= MOST_BYTES));
        let Some(block) = block else {
            return Err(Error::argument(format!(
                "count {} of {} is more than memory can hold; is it a negative number?",
                self.count, self.dtype
            )));
        };
        if c == Collective::Barrier {
            let (input, output) = (Payload::EMPTY, Payload::EMPTY);
            return Ok(Some(Checked {
                input,
                output,
                count: 0,
                limit: usize::MAX,
                root,
                in_place: false,
                in_place_at: 0,
                bytes: 0,
            }));
        }
        if self.count == 0 {
            return Ok(None);
        }
        let limit = if self.padded { self.count } else { usize::MAX };
        let in_bytes = match c.blocks_in(rank, nranks, root) as usize {
            _ if self.padded => self.count * size,
            blocks => blocks * block,
        };
        let out_bytes = c.blocks_out(rank, nranks, root) as usize * block;
        let input = buffer("sendbuff", self.send, in_bytes, rank)?;
        let output = buffer("recvbuff", self.recv, out_bytes, rank)?;
        let in_place_at = self.in_place_at(block, rank, root);
        let (input, output, in_place) = self.in_place(input, output, in_place_at, rank)?;
        let blocks = if matches!(c, Collective::AllReduce | Collective::Reduce | Collective::Broadcast) {
            1
        } else {
            n
        };
        let bytes = (blocks * block) as u64;
        Ok(Some(Checked { input, output, count, limit, root, in_place, in_place_at, bytes }))
    }

    /// Returns where the output begins behind the input's begin in a call in place; below 0: before it.
    fn in_place_at(&self, block: usize, rank: Rank, root: Rank) -> isize {
        let block_of = |rank: Rank| (rank as usize * block) as isize;
        match self.collective {
            Collective::ReduceScatter => block_of(rank),
            Collective::AllGather => -block_of(rank),
            Collective::Gather => -block_of(root),
            Collective::Scatter => block_of(root),
            _ => 0,
        }
    }

    /// The two buffers, and is the call in place? An error if they overlap in any other way. From here on buffers that
    /// share memory have their addresses in common, so that what follows may compare those.
    fn in_place(
        &self,
        input: Payload<'a>,
        output: Payload<'a>,
        in_place_at: isize,
        rank: Rank,
    ) -> Result<(Payload<'a>, Payload<'a>, bool)> {
        if !input.overlaps(output) {
            return Ok((input, output, false));
        }
        let (input, output) = input.in_one_mapping(output);
        if (output.addr() as isize).wrapping_sub(input.addr() as isize) == in_place_at {
            return Ok((input, output, true));
        }
        let rule = match self.collective {
            Collective::ReduceScatter => "recvbuff == sendbuff + rank*recvcount",
            Collective::AllGather => "sendbuff == recvbuff + rank*sendcount",
            Collective::Gather => "sendbuff == recvbuff + root*count",
            Collective::Scatter => "recvbuff == sendbuff + root*count",
            _ => "sendbuff == recvbuff",
        };
        Err(Error::argument(format!(
            "sendbuff {:#x} ({} bytes) and recvbuff {:#x} ({} bytes) overlap on rank {rank}; they must be apart, or in \
             place: {rule}",
            self.send.get(),
            input.bytes(),
            self.recv.get(),
            output.bytes()
        )))
    }
}

/// Returns the buffer, if the rank needs one.
fn buffer<'a>(name: &str, address: Address<'a>, bytes: usize, rank: Rank) -> Result<Payload<'a>> {
    if bytes == 0 {
        return Ok(Payload::EMPTY);
    }
    if address.is_null() {
        return Err(Error::argument(format!(
            "{name} is NULL on rank {rank}, which needs {bytes} bytes there"
        )));
    }
    if address.get().checked_add(bytes).is_none() {
        return Err(Error::argument(format!(
            "{name} and its {bytes} bytes reach past the end of memory on rank {rank}"
        )));
    }
    Ok(address.view(bytes))
}
