//! The arena against a list of live ranges that looks at everything.

use super::blocks::BlockRecord;
use super::*;
use proptest::prelude::*;

/// An arena, and what it should be.
struct Model {
    arena: Arena,
    segments: Vec<Range<u64>>,
    /// In order.
    live: Vec<Range<u64>>,
    /// By segment.
    reached: Vec<u64>,
    expected: ArenaStats,
}

/// Where a request fits in a gap, looked at alone.
fn fits(gap: &Range<u64>, bytes: u64, align: u64) -> bool {
    gap.start.next_multiple_of(align) + bytes <= gap.end
}

impl Model {
    fn new(segments: &[(u64, u64)]) -> Model {
        let mut arena = Arena::new();
        for (at, &(base, bytes)) in segments.iter().enumerate() {
            assert_eq!(arena.add_segment(base, bytes), SegmentId(at as u32));
        }
        let bytes = segments.iter().map(|&(_, bytes)| bytes).sum();
        Model {
            arena,
            segments: segments.iter().map(|&(base, bytes)| base..base + bytes).collect(),
            live: Vec::new(),
            reached: segments.iter().map(|&(base, _)| base).collect(),
            expected: ArenaStats { bytes, ..ArenaStats::default() },
        }
    }

    /// What lies between live ranges, as long as it goes on: free blocks that have been joined.
    fn gaps(&self) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        for segment in &self.segments {
            let mut from = segment.start;
            for block in self.live.iter().filter(|b| segment.contains(&b.start)) {
                gaps.push(from..block.start);
                from = block.end;
            }
            gaps.push(from..segment.end);
        }
        gaps.retain(|gap| !gap.is_empty());
        gaps.sort_by_key(|gap| gap.start);
        gaps
    }

    fn largest(gaps: &[Range<u64>]) -> u64 {
        gaps.iter().map(|gap| gap.end - gap.start).max().unwrap_or(0)
    }

    fn alloc(&mut self, bytes: u64, align: u64) {
        let (size, align) = (bytes.max(1).next_multiple_of(GRAIN), align.max(GRAIN));
        let gaps = self.gaps();
        // The size and the widest gap before it, rounded up by a thirty-second of the power of two below.
        let with_gap = size + align - GRAIN;
        let step = (1u64 << with_gap.ilog2()) / 32;
        if Model::largest(&gaps) >= with_gap.next_multiple_of(step.max(GRAIN)) {
            assert!(
                self.arena.blocks.look(size, align).is_some(),
                "{bytes} at {align} took a search: {gaps:x?}"
            );
        }
        match self.arena.alloc(bytes, align) {
            Ok(block) => {
                assert_eq!((block.bytes, block.offset % align), (size, 0));
                let range = block.offset..block.offset + size;
                assert!(
                    gaps.iter().any(|gap| gap.start <= range.start && range.end <= gap.end),
                    "{range:x?}"
                );
                let segment = self.segments.iter().position(|s| s.contains(&range.start)).unwrap();
                self.reached[segment] = self.reached[segment].max(range.end);
                self.live.insert(self.live.partition_point(|other| other.start < range.start), range);
                self.expected.allocations += 1;
                self.expected.used += size;
                self.expected.peak_used = self.expected.peak_used.max(self.expected.used);
            }
            Err(e) => {
                assert!(
                    !gaps.iter().any(|gap| fits(gap, size, align)),
                    "{bytes} at {align} fits in {gaps:x?}"
                );
                let (free, largest) = (self.expected.bytes - self.expected.used, Model::largest(&gaps));
                assert_eq!(e, Exhausted { requested: bytes, free, largest });
            }
        }
    }

    fn free(&mut self, offset: u64) {
        let expected = match self.live.iter().position(|block| block.contains(&offset)) {
            Some(at) if self.live[at].start == offset => {
                let block = self.live.remove(at);
                self.expected.frees += 1;
                self.expected.used -= block.end - block.start;
                Ok(block.end - block.start)
            }
            Some(at) => Err(Refused::Inside(self.live[at].clone())),
            None => {
                let mut reached = self.segments.iter().zip(&self.reached);
                let freed =
                    reached.any(|(s, &end)| (s.start..end).contains(&offset)) && offset.is_multiple_of(GRAIN);
                Err(if freed { Refused::Freed } else { Refused::Never })
            }
        };
        assert_eq!(self.arena.free(offset), expected, "{offset:x}");
    }

    /// Everything that can be seen.
    fn check(&mut self) {
        let gaps = self.gaps();
        let ranges = |live: bool| -> Vec<Range<u64>> {
            let of = |b: &&BlockRecord| b.offset..b.end();
            self.arena.blocks.audit().iter().filter(|b| b.live == live).map(of).collect()
        };
        assert_eq!(ranges(true), self.live);
        assert_eq!(ranges(false), gaps);
        let blocks: Vec<_> = self.arena.live_blocks().map(|b| b.offset..b.offset + b.bytes).collect();
        assert_eq!(blocks, self.live);
        for block in &self.live {
            for inside in [block.start, block.start + 1, block.end - 1] {
                assert_eq!(self.arena.live(inside).as_ref(), Some(block));
            }
        }
        for gap in &gaps {
            assert!(self.arena.live(gap.start).is_none() && self.arena.live(gap.end - 1).is_none());
        }
        let free = self.expected.bytes - self.expected.used;
        let largest_free = Model::largest(&gaps);
        let live_blocks = self.live.len() as u64;
        let fragmentation = if free == 0 { 0.0 } else { 1.0 - largest_free as f64 / free as f64 };
        self.expected = ArenaStats { free, largest_free, live_blocks, fragmentation, ..self.expected };
        assert_eq!(self.arena.stats(), self.expected);
    }

    /// One call of a random kind, size and target, told by a number.
    fn call(&mut self, number: u64, crowded: usize) {
        let pick = |from: u32, below: u64| (number >> from) % below;
        if self.live.len() > crowded && pick(0, 8) < 5 || pick(0, 8) < 3 {
            if !self.live.is_empty() {
                self.free(self.live[pick(8, self.live.len() as u64) as usize].start);
            }
            return;
        }
        // All powers of two up to the whole arena are as likely, and so is every size between two of them.
        let top = pick(8, u64::from(self.expected.bytes.ilog2()));
        let bytes = (1 << top) + pick(16, 1 << top);
        let align = if pick(4, 4) == 0 { 1 << pick(40, 16) } else { 1 };
        self.alloc(bytes, align);
    }
}

/// Numbers without a pattern that are the same everywhere.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Two that touch and one apart, none of a round size.
const SEGMENTS: [(u64, u64); 3] = [(64, 1000 * 64), (1001 * 64, 300 * 64), (1 << 20, 777 * 64)];

#[test]
fn a_million_random_calls_agree_with_a_naive_list() {
    let mut model = Model::new(&SEGMENTS);
    let (mut next, mut most) = (numbers(4), 0);
    for call in 0..1_000_000 {
        model.call(next(), 40);
        most = most.max(2 * model.live.len() + SEGMENTS.len());
        if call % 1000 == 0 {
            model.check();
        }
    }
    assert!(model.expected.allocations > 100_000, "{:?}", model.expected);
    while let Some(block) = model.live.last().cloned() {
        model.free(block.start);
    }
    model.check();
    assert!(model.arena.blocks.kept() <= most, "records of blocks that are gone are used again");
    assert_eq!(model.gaps(), model.segments, "one free block a segment");
}

/// What one may be told: any call, and a free of anything.
#[derive(Clone, Debug)]
enum Told {
    Alloc { grains: u64, less: u64, align: u32 },
    FreeLive { which: usize },
    FreeAny { grains: u64, beside: u64 },
}

fn told() -> impl Strategy<Value = Told> {
    let sizes = prop_oneof![0u64..40, 60u64..200, 200u64..1100];
    prop_oneof![
        4 => (sizes, 0u64..64, prop_oneof![3 => Just(0), 1 => 0u32..17])
            .prop_map(|(grains, less, align)| Told::Alloc { grains, less, align }),
        4 => (0usize..64).prop_map(|which| Told::FreeLive { which }),
        1 => (0u64..2200, prop_oneof![Just(0), 0u64..64]).prop_map(|(grains, beside)| Told::FreeAny { grains, beside }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn short_sequences_agree_with_a_naive_list_after_every_call(calls in prop::collection::vec(told(), 1..60)) {
        let mut model = Model::new(&SEGMENTS);
        for call in calls {
            match call {
                Told::Alloc { grains, less, align } => model.alloc((grains * GRAIN).saturating_sub(less), 1 << align),
                Told::FreeLive { which } => {
                    let live = model.live.len();
                    if live > 0 {
                        model.free(model.live[which % live].start);
                    }
                }
                Told::FreeAny { grains, beside } => model.free(grains * GRAIN + beside),
            }
            model.check();
        }
    }
}

#[test]
fn arenas_that_are_told_the_same_give_the_same_here_and_everywhere() {
    let (mut one, mut other) = (Model::new(&SEGMENTS), Model::new(&SEGMENTS));
    let mut next = numbers(12);
    let mut digest = 0u64;
    for _ in 0..10_000 {
        let number = next();
        one.call(number, 60);
        other.call(number, 60);
        assert_eq!(one.live, other.live);
        digest = one
            .live
            .iter()
            .fold(digest, |sum, b| (sum ^ b.start).rotate_left(9).wrapping_mul(0x100_0000_01b3));
    }
    assert_eq!(
        digest, 8_553_958_256_365_113_789,
        "offsets are not what they were; peers built before and after will disagree"
    );
}

fn arena(bytes: u64) -> Arena {
    let mut arena = Arena::new();
    arena.add_segment(0, bytes);
    arena
}

#[test]
fn a_request_is_served_by_a_block_that_only_a_search_finds() {
    let mut arena = arena(8384 + 64 + 8192 + 64);
    let blocks = [8384, 64, 8192, 64].map(|bytes| arena.alloc(bytes, 1).unwrap().offset);
    arena.free(blocks[0]).unwrap();
    arena.free(blocks[2]).unwrap();
    assert!(arena.blocks.look(8320, GRAIN).is_none(), "both lie in one class, the shorter first");
    assert_eq!(arena.alloc(8320, 1), Ok(Block { offset: blocks[0], bytes: 8320 }));
    assert_eq!(arena.alloc(8256, 1), Err(Exhausted { requested: 8256, free: 8256, largest: 8192 }));
}

#[test]
fn what_comes_back_serves_the_next_request_of_its_size() {
    let mut arena = arena(1 << 30);
    let (a, _) = (arena.alloc(100_000_000, 1).unwrap(), arena.alloc(64, 1).unwrap());
    arena.free(a.offset).unwrap();
    assert_eq!(arena.alloc(100_000_000, 1), Ok(a));
}

#[test]
fn the_gap_before_an_aligned_block_is_free() {
    let mut arena = Arena::new();
    arena.add_segment(64, (3 << 30) - 64);
    assert_eq!(arena.alloc(1, MAX_ALIGN), Ok(Block { offset: MAX_ALIGN, bytes: 64 }));
    assert_eq!(arena.alloc(MAX_ALIGN - 64, 1).map(|b| b.offset), Ok(64));
    let e = arena.alloc(1 << 30, MAX_ALIGN).and_then(|_| arena.alloc(64, MAX_ALIGN)).unwrap_err();
    assert_eq!(e.largest, MAX_ALIGN - 64, "large enough, and nowhere aligned");
}

#[test]
fn a_request_beyond_all_numbers_is_refused() {
    let mut arena = Arena::new();
    assert_eq!(arena.alloc(1, 1), Err(Exhausted { requested: 1, free: 0, largest: 0 }));
    arena.add_segment(0, !63);
    for bytes in [u64::MAX, u64::MAX - 62] {
        assert_eq!(arena.alloc(bytes, MAX_ALIGN).unwrap_err().requested, bytes);
    }
    let all = arena.alloc(u64::MAX - 64, MAX_ALIGN).unwrap();
    assert_eq!((all.offset, arena.stats().free), (0, 0));
    assert_eq!(arena.stats().fragmentation, 0.0);
}

#[test]
fn refusals_tell_the_middle_from_what_was_freed_and_what_never_was() {
    let mut arena = arena(1 << 20);
    let (a, b) = (arena.alloc(128, 1).unwrap().offset, arena.alloc(64, 1).unwrap().offset);
    assert_eq!(arena.free(a + 64), Err(Refused::Inside(a..a + 128)));
    assert_eq!(arena.free(a), Ok(128));
    assert_eq!(arena.free(a), Err(Refused::Freed));
    assert_eq!(arena.free(a + 1), Err(Refused::Never));
    assert_eq!(arena.free(b), Ok(64));
    assert_eq!(arena.free(b), Err(Refused::Freed));
    assert_eq!(arena.free(b + 64), Err(Refused::Never));
    assert_eq!(arena.free(1 << 20), Err(Refused::Never));
}

#[test]
#[should_panic(expected = "overlap")]
fn segments_do_not_overlap() {
    arena(128).add_segment(64, 128);
}
