//! Sizes in classes: powers of two, each divided evenly by 32.
//!
//! ```text
//!     level 0    one class for each size:   64  128  192 ...  1984              bytes
//!     level 1    2048 ...  4032,  64 apart      (still one size a class)
//!     level 2    4096 ...  8064, 128 apart
//!     level l    from 1024 * 2^l, 32 * 2^l apart: a class is at most 1/32 wider than its smallest size
//! ```
//!
//! One bit for each class says whether it has a block and one for each level whether it has such a class, so the next
//! class with a block is found by two looks at two words, however many blocks and sizes there are.

/// Everything is a multiple of this.
pub const GRAIN: u64 = 64;

const WIDTH_BITS: u32 = 5;
const WIDTH: usize = 1 << WIDTH_BITS;
/// Enough for 2^58 grains, which is every `u64`, and a gap before it for the largest alignment.
const LEVELS: usize = 55;
/// The number of classes.
pub const CLASSES: usize = LEVELS * WIDTH;

/// The class of a block of `bytes`.
pub fn class_of(bytes: u64) -> usize {
    class_of_grains(bytes / GRAIN)
}

/// The lowest class in which every block has `bytes` or more.
pub fn class_that_holds(bytes: u64) -> usize {
    let grains = bytes / GRAIN;
    match grains.checked_ilog2() {
        Some(top) if top > WIDTH_BITS => class_of_grains(grains + (1 << (top - WIDTH_BITS)) - 1),
        _ => class_of_grains(grains),
    }
}

fn class_of_grains(grains: u64) -> usize {
    match grains.checked_ilog2() {
        // The highest bit says the level, the five below it the class.
        Some(top) if top >= WIDTH_BITS => {
            let shift = top - WIDTH_BITS;
            shift as usize * WIDTH + (grains >> shift) as usize
        }
        _ => grains as usize,
    }
}

/// Which classes have a block.
pub struct Occupied {
    levels: u64,
    classes: [u32; LEVELS],
}

impl Occupied {
    /// None has.
    pub fn new() -> Occupied {
        Occupied { levels: 0, classes: [0; LEVELS] }
    }

    /// `class` has a block now.
    pub fn insert(&mut self, class: usize) {
        let level = class / WIDTH;
        self.levels |= 1 << level;
        self.classes[level] |= 1 << (class % WIDTH);
    }

    /// `class` has none any more.
    pub fn remove(&mut self, class: usize) {
        let level = class / WIDTH;
        self.classes[level] &= !(1 << (class % WIDTH));
        if self.classes[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// The lowest class that has a block, from `class` on.
    pub fn at_least(&self, class: usize) -> Option<usize> {
        let level = class / WIDTH;
        let here = self.classes.get(level)? & (u32::MAX << (class % WIDTH));
        if here != 0 {
            return Some(level * WIDTH + here.trailing_zeros() as usize);
        }
        let above = self.levels & (u64::MAX << (level + 1));
        (above != 0).then(|| {
            let level = above.trailing_zeros() as usize;
            level * WIDTH + self.classes[level].trailing_zeros() as usize
        })
    }

    /// The highest class that has a block.
    pub fn highest(&self) -> Option<usize> {
        let level = self.levels.checked_ilog2()? as usize;
        Some(level * WIDTH + self.classes[level].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest size of a class.
    fn floor(class: usize) -> u64 {
        let (level, within) = ((class / WIDTH) as u32, (class % WIDTH) as u64);
        GRAIN * if level == 0 { within } else { (WIDTH as u64 + within) << (level - 1) }
    }

    #[test]
    fn classes_follow_each_other_and_none_is_wider_than_a_thirty_second() {
        for class in 1..CLASSES - WIDTH - 1 {
            let (from, to) = (floor(class), floor(class + 1));
            assert_eq!((class_of(from), class_of(to - GRAIN), class_of(to)), (class, class, class + 1));
            assert!(to - from == GRAIN || (to - from) * 32 <= from, "{from}..{to}");
        }
    }

    #[test]
    fn every_block_of_the_class_that_holds_a_size_holds_it_and_the_class_below_has_one_that_does_not() {
        for class in 1..CLASSES - WIDTH - 1 {
            for bytes in [floor(class), floor(class) + GRAIN, floor(class + 1) - GRAIN] {
                let holds = class_that_holds(bytes);
                assert!(floor(holds) >= bytes && floor(holds - 1) < bytes, "{bytes}");
            }
        }
    }

    #[test]
    fn the_largest_request_of_all_has_a_class() {
        let grains = u64::MAX.div_ceil(GRAIN) + ((1 << 30) / GRAIN);
        let shift = grains.ilog2() - WIDTH_BITS;
        assert!(class_of_grains(grains + (1 << shift)) < CLASSES);
    }

    #[test]
    fn the_next_class_with_a_block_is_found_across_levels() {
        let mut occupied = Occupied::new();
        assert_eq!((occupied.at_least(0), occupied.highest()), (None, None));
        for class in [3, 31, 32, 700, CLASSES - 1] {
            occupied.insert(class);
        }
        let found: Vec<_> = [0, 4, 32, 33, 701].map(|class| occupied.at_least(class).unwrap()).into();
        assert_eq!(found, [3, 31, 32, 700, CLASSES - 1]);
        assert_eq!(occupied.highest(), Some(CLASSES - 1));
        occupied.remove(CLASSES - 1);
        assert_eq!((occupied.at_least(701), occupied.highest()), (None, Some(700)));
        assert_eq!(occupied.at_least(CLASSES), None);
    }
}
