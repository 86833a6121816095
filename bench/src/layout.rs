//! The layout of a case: its sizes, the buffers of each rank, and their expected contents after the call.
//!
//! ```text
//!     all_gather, rank 1 of 3      out of place: send |  b1 |    recv | b0 | b1 | b2 |
//!                                  in place:                     recv | b0 | b1 | b2 |
//!                                                                send ------^
//! ```

use penny::internals::types::Collective;

use crate::subject::Subject;

/// Where a rank's input and output lie in units of one block of `count` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Elements of one block: NCCL's count, sendcount or recvcount.
    pub count: usize,
    /// Blocks of input; 0: none is read.
    pub blocks_in: usize,
    /// Blocks of output; 0: none is written.
    pub blocks_out: usize,
    /// In place: the input begins at this block of the common buffer.
    pub in_at: usize,
    /// In place: the output begins at this block of the common buffer.
    pub out_at: usize,
}

/// The data that a range of the output must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The reduction of all ranks' inputs.
    Reduction,
    /// A copy of this rank's input.
    Rank(u32),
}

/// One block of the output, as a part of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The sequence.
    pub source: Source,
    /// Its first element here.
    pub start: usize,
}

/// Elements of one block for a case of `bytes` bytes: the whole, or one of `nranks` shares of it.
pub fn count(subject: Subject, nranks: u32, bytes: usize, element: usize) -> usize {
    match () {
        () if subject.is_barrier() => 0,
        () if subject.is_sharded() => bytes / element / nranks as usize,
        () => bytes / element,
    }
}

/// The size that the table shows, and that bandwidths divide: the larger of the two sides' buffers.
pub fn shown_bytes(subject: Subject, nranks: u32, count: usize, element: usize) -> usize {
    count * element * if subject.is_sharded() { nranks as usize } else { 1 }
}

impl Layout {
    /// The buffers of `rank`.
    pub fn new(subject: Subject, nranks: u32, rank: u32, root: u32, count: usize) -> Layout {
        let Subject::Collective(collective) = subject else {
            return Layout { count, blocks_in: 1, blocks_out: 1, in_at: 0, out_at: 0 };
        };
        let at_root = |block: u32| if rank == root { block as usize } else { 0 };
        let (in_at, out_at) = match collective {
            Collective::ReduceScatter => (0, rank as usize),
            Collective::AllGather => (rank as usize, 0),
            Collective::Gather => (at_root(root), 0),
            Collective::Scatter => (0, at_root(root)),
            _ => (0, 0),
        };
        let blocks_in = collective.blocks_in(rank, nranks, root) as usize;
        let blocks_out = collective.blocks_out(rank, nranks, root) as usize;
        Layout { count, blocks_in, blocks_out, in_at, out_at }
    }

    /// What the output's blocks must hold, in order.
    pub fn expected(&self, subject: Subject, nranks: u32, rank: u32, root: u32) -> Vec<Expected> {
        let mine = rank as usize * self.count;
        let whole = |source| Expected { source, start: 0 };
        let shard = |source| Expected { source, start: mine };
        let everyone = (0..nranks).map(Source::Rank);
        let Subject::Collective(collective) = subject else {
            return vec![whole(Source::Rank((rank + nranks - 1) % nranks))];
        };
        match collective {
            _ if self.blocks_out == 0 => Vec::new(),
            Collective::AllReduce | Collective::Reduce => vec![whole(Source::Reduction)],
            Collective::ReduceScatter => vec![shard(Source::Reduction)],
            Collective::Broadcast => vec![whole(Source::Rank(root))],
            Collective::Scatter => vec![shard(Source::Rank(root))],
            Collective::AllGather | Collective::Gather => everyone.map(whole).collect(),
            Collective::AlltoAll => everyone.map(shard).collect(),
            Collective::Barrier => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str) -> Subject {
        name.parse().unwrap()
    }

    #[test]
    fn a_block_of_a_sharded_collective_is_one_share_of_the_size() {
        assert_eq!(count(subject("all_gather"), 4, 1 << 10, 4), 64);
        assert_eq!(shown_bytes(subject("all_gather"), 4, 64, 4), 1 << 10);
        assert_eq!(count(subject("all_reduce"), 4, 1 << 10, 4), 256);
        assert_eq!(count(subject("all_gather"), 3, 8, 4), 0);
    }

    #[test]
    fn in_place_buffers_follow_nccl() {
        let at = |name, rank| {
            let l = Layout::new(subject(name), 4, rank, 2, 10);
            (l.in_at, l.out_at)
        };
        assert_eq!(at("all_reduce", 3), (0, 0));
        assert_eq!(at("reduce_scatter", 3), (0, 3));
        assert_eq!(at("all_gather", 3), (3, 0));
        assert_eq!(at("gather", 2), (2, 0));
        assert_eq!(at("gather", 3), (0, 0));
        assert_eq!(at("scatter", 2), (0, 2));
    }

    #[test]
    fn outputs_are_made_of_the_right_ranks_data() {
        let expected =
            |name, rank| Layout::new(subject(name), 3, rank, 1, 10).expected(subject(name), 3, rank, 1);
        let block = |r, start| Expected { source: Source::Rank(r), start };
        assert_eq!(expected("alltoall", 2), [block(0, 20), block(1, 20), block(2, 20)]);
        assert_eq!(expected("all_gather", 2), [block(0, 0), block(1, 0), block(2, 0)]);
        assert_eq!(expected("scatter", 2), [block(1, 20)]);
        assert_eq!(expected("sendrecv", 0), [block(2, 0)]);
        assert_eq!(expected("gather", 0), []);
        assert_eq!(expected("reduce_scatter", 1), [Expected { source: Source::Reduction, start: 10 }]);
    }
}
