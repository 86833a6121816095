//! Blocks of a buffer, of sizes of their own.

use std::ops::Range;

use crate::random::Random;

/// The blocks of a buffer, in elements.
#[derive(Clone)]
pub struct Blocks {
    pub counts: Vec<usize>,
    pub at: Vec<usize>,
    /// The call gets a list of displacements, not NULL.
    pub listed: bool,
}

impl Blocks {
    /// One block behind the other.
    pub fn packed(counts: Vec<usize>) -> Blocks {
        let before = |end: &mut usize, count: &usize| Some(std::mem::replace(end, *end + count));
        let at = counts.iter().scan(0, before).collect();
        Blocks { counts, at, listed: false }
    }

    pub fn draw(counts: Vec<usize>, piled: bool, random: &mut Random) -> Blocks {
        let mut blocks = Blocks::packed(counts);
        blocks.listed = piled || random.chance(70);
        if piled {
            blocks.at.fill(0);
        } else if blocks.listed {
            let mut end = 0;
            for i in random.order(blocks.at.len()) {
                let gap = if random.chance(50) { random.below(20) } else { 0 };
                let nowhere = blocks.counts[i] == 0 && random.chance(30);
                blocks.at[i] = if nowhere { usize::MAX / 2 } else { end + gap };
                end += gap + blocks.counts[i];
            }
        }
        blocks
    }

    /// The elements of block `i`.
    pub fn range(&self, i: usize) -> Range<usize> {
        let start = if self.counts[i] == 0 { 0 } else { self.at[i] };
        start..start + self.counts[i]
    }

    /// Elements to the end of the last block.
    pub fn extent(&self) -> usize {
        (0..self.counts.len()).map(|i| self.range(i).end).max().unwrap_or(0)
    }

    /// An element before the end that no block has.
    pub fn gap(&self) -> Option<usize> {
        (0..self.extent()).find(|at| !(0..self.counts.len()).any(|i| self.range(i).contains(at)))
    }
}
