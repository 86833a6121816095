//! Random numbers that follow from a seed: the same on every rank and in every repetition.

/// A stream of numbers (splitmix64).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// The stream that belongs to some numbers.
    pub fn of(numbers: &[u64]) -> Random {
        let mut random = Random(0x5eed);
        for &number in numbers {
            random.0 = random.0.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            random.next();
        }
        random
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several values.
    pub fn one<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Numbers 0 to n - 1 in random order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}
