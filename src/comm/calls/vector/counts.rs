//! The counts of a vector call, as the ranks agree on them before anything moves.

use super::arguments::{Vector, VectorBlock, VectorKind};
use crate::comm::agree::{Answers, Proposal, Subject};
use crate::hash::Fnv64;
use crate::types::{DataType, Rank, RedOp};

/// The counts as the ranks agree on them.
pub(super) struct Counts<'v, 'a> {
    pub vector: &'v Vector<'a>,
    pub counts: &'v [VectorBlock],
    pub rank: Rank,
}

impl Proposal for Counts<'_, '_> {
    const SUBJECT: Subject = Subject::Counts;
    const EQUAL: usize = 3;
    type Words = [u64; 4];

    /// The call, digest of the list, type and reduction; and this rank's own entry.
    fn words(&self) -> [u64; 4] {
        let mut digest = Fnv64::new();
        self.counts.iter().for_each(|block| digest.bytes(&(block.count as u64).to_le_bytes()));
        let Vector { kind, dtype, op, .. } = self.vector;
        let own = self.counts[self.rank as usize].count as u64;
        [*kind as u64, *dtype as u64 | (*op as u64) << 8, digest.value(), own]
    }

    fn reads(words: &[u64]) -> String {
        let is_gather = words[0] == VectorKind::AllGather as u64;
        let name = if is_gather { VectorKind::AllGather } else { VectorKind::ReduceScatter }.name();
        let dtype = DataType::from_c((words[1] & 0xff) as i32).map_or("unknown", DataType::name);
        let op = RedOp::from_c((words[1] >> 8) as i32).map_or("unknown", RedOp::name);
        if is_gather { format!("{name}(type {dtype})") } else { format!("{name}(type {dtype}, op {op})") }
    }

    /// Names this rank and the first that differs from it.
    fn disagreement(&self, all: &Answers, [_, other]: [Rank; 2]) -> String {
        let me = self.rank;
        let mine = &all.of(me)[..3];
        let rank = all.ranks().find(|(_, theirs)| theirs[..3] != *mine).map_or(other, |(rank, _)| rank);
        let [own, theirs] = [me, rank].map(|rank| all.reads::<Self>(rank));
        if own != theirs {
            return format!(
                "ranks disagree: rank {me} passed {own}, rank {rank} {theirs}; all must pass the same"
            );
        }
        // An entry that its owner has otherwise than we do; if there is none, they differ about third ranks.
        let counts = self.counts;
        let odd = all.ranks().find(|(r, theirs)| theirs[3] != counts[*r as usize].count as u64);
        let odd = odd.map_or(String::new(), |(r, theirs)| {
            format!(": recvcounts[{r}] is {} here and {} on rank {r}", counts[r as usize].count, theirs[3])
        });
        format!(
            "ranks disagree in {}: recvcounts of rank {me} and of rank {rank} are not the same{odd}; all must pass the same list",
            self.vector.kind.name()
        )
    }
}
