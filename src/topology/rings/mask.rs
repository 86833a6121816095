//! Sets of ranks, a bit each.

/// A set of up to 64 W ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mask<const W: usize>([u64; W]);

impl<const W: usize> Mask<W> {
    pub(super) const EMPTY: Mask<W> = Mask([0; W]);

    /// Returns the set of the first n ranks.
    pub(super) fn first(n: usize) -> Mask<W> {
        let mut mask = Mask::EMPTY;
        (0..n).for_each(|rank| mask.add(rank));
        mask
    }
    pub(super) fn add(&mut self, rank: usize) {
        self.0[rank / 64] |= 1 << (rank % 64);
    }
    pub(super) fn remove(&mut self, rank: usize) {
        self.0[rank / 64] &= !(1 << (rank % 64));
    }
    pub(super) fn has(&self, rank: usize) -> bool {
        self.0[rank / 64] >> (rank % 64) & 1 == 1
    }
    pub(super) fn and(&self, other: &Mask<W>) -> Mask<W> {
        Mask(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
    /// Takes the lowest rank out.
    pub(super) fn pop(&mut self) -> Option<usize> {
        let word = self.0.iter().position(|&word| word != 0)?;
        let bit = self.0[word].trailing_zeros() as usize;
        self.0[word] &= self.0[word] - 1;
        Some(word * 64 + bit)
    }
}

impl<const W: usize> Iterator for Mask<W> {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        self.pop()
    }
}
