//! Records of blocks: the neighbours of each block, and the free blocks in lists by class.
//!
//! ```text
//!     memory     | live 3 | free 0 |      live 5      | free 2 ...      |      records 3 <-> 0 <-> 5 <-> 2
//!     class 7    -> 0
//!     class 90   -> 2
//!     spare      -> 4 -> 1                                                      records that stand for nothing
//! ```

use super::classes::{self, CLASSES, Occupied};

/// Names a record.
pub type Id = u32;
/// No record.
pub const NONE: Id = Id::MAX;

/// One block, live or free.
#[derive(Clone, Debug)]
pub struct BlockRecord {
    pub offset: u64,
    pub bytes: u64,
    pub segment: u32,
    pub live: bool,
    /// Neighbours in memory, within the segment.
    pub before: Id,
    pub after: Id,
    /// Neighbours in the class's list, if it is free; `next` alone also links spare records.
    previous: Id,
    next: Id,
}

impl BlockRecord {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Returns the offset of `bytes` bytes with alignment `align` in this block, if they fit.
    fn place(&self, bytes: u64, align: u64) -> Option<u64> {
        let start = self.offset.checked_next_multiple_of(align)?;
        (start <= self.end() && bytes <= self.end() - start).then_some(start)
    }
}

/// All blocks.
pub struct Blocks {
    records: Vec<BlockRecord>,
    spare: Id,
    heads: Vec<Id>,
    occupied: Occupied,
}

impl Blocks {
    pub fn new() -> Blocks {
        Blocks { records: Vec::new(), spare: NONE, heads: vec![NONE; CLASSES], occupied: Occupied::new() }
    }

    pub fn get(&self, id: Id) -> &BlockRecord {
        &self.records[id as usize]
    }

    fn at(&mut self, id: Id) -> &mut BlockRecord {
        &mut self.records[id as usize]
    }

    /// A free block without neighbours.
    pub fn add(&mut self, offset: u64, bytes: u64, segment: u32) {
        let (before, after) = (NONE, NONE);
        let id = self.record(BlockRecord {
            offset,
            bytes,
            segment,
            live: false,
            before,
            after,
            previous: NONE,
            next: NONE,
        });
        self.list(id);
    }

    /// A free block for a request, and where in it the request begins: found by a few looks, or after a search.
    pub fn find(&self, bytes: u64, align: u64) -> Option<(Id, u64)> {
        self.look(bytes, align).or_else(|| self.search(bytes, align))
    }

    /// The few looks: at what was last freed in the request's own class, which often is what the same request had
    /// before; at the first class of which every block has the size; at the first that also has the widest gap.
    pub fn look(&self, bytes: u64, align: u64) -> Option<(Id, u64)> {
        let first_of = |class: usize| self.occupied.at_least(class).map(|class| self.heads[class]);
        let own = Some(self.heads[classes::class_of(bytes)]).filter(|&id| id != NONE);
        own.and_then(|id| self.place(id, bytes, align))
            .or_else(|| self.place(first_of(classes::class_that_holds(bytes))?, bytes, align))
            .or_else(|| {
                let with_gap = bytes.saturating_add(align - classes::GRAIN);
                self.place(first_of(classes::class_that_holds(with_gap))?, bytes, align)
            })
    }

    /// All blocks that may have room, from the request's own class up. It comes after `look`, so the classes that surely
    /// have room are empty: without an alignment only the own class is left.
    fn search(&self, bytes: u64, align: u64) -> Option<(Id, u64)> {
        let mut class = self.occupied.at_least(classes::class_of(bytes))?;
        loop {
            let mut id = self.heads[class];
            while id != NONE {
                if let Some(found) = self.place(id, bytes, align) {
                    return Some(found);
                }
                id = self.get(id).next;
            }
            class = self.occupied.at_least(class + 1)?;
        }
    }

    fn place(&self, id: Id, bytes: u64, align: u64) -> Option<(Id, u64)> {
        Some((id, self.get(id).place(bytes, align)?))
    }

    /// Makes `offset..offset + bytes` of the free block `id` a live block; what is left on either side stays free.
    pub fn take(&mut self, id: Id, offset: u64, bytes: u64) -> Id {
        self.unlist(id);
        let gap = offset - self.get(id).offset;
        let mut taken = id;
        if gap > 0 {
            taken = self.split(id, gap);
            self.list(id);
        }
        if self.get(taken).bytes > bytes {
            let rest = self.split(taken, bytes);
            self.list(rest);
        }
        self.at(taken).live = true;
        taken
    }

    /// Makes a live block free, one with its free neighbours.
    pub fn give(&mut self, mut id: Id) {
        self.at(id).live = false;
        let BlockRecord { before, after, .. } = *self.get(id);
        if after != NONE && !self.get(after).live {
            self.unlist(after);
            self.join(id, after);
        }
        if before != NONE && !self.get(before).live {
            self.unlist(before);
            self.join(before, id);
            id = before;
        }
        self.list(id);
    }

    /// The largest free block's size.
    pub fn largest(&self) -> u64 {
        let mut largest = 0;
        let mut id = self.occupied.highest().map_or(NONE, |class| self.heads[class]);
        while id != NONE {
            largest = largest.max(self.get(id).bytes);
            id = self.get(id).next;
        }
        largest
    }

    /// Cuts `id` after `bytes` bytes; the bytes behind become a block of their own.
    fn split(&mut self, id: Id, bytes: u64) -> Id {
        let whole = self.get(id).clone();
        let rest = self.record(BlockRecord {
            offset: whole.offset + bytes,
            bytes: whole.bytes - bytes,
            before: id,
            ..whole
        });
        let left = self.at(id);
        left.bytes = bytes;
        left.after = rest;
        if whole.after != NONE {
            self.at(whole.after).before = rest;
        }
        rest
    }

    /// Makes `right` a part of its neighbour `left`.
    fn join(&mut self, left: Id, right: Id) {
        let BlockRecord { bytes, after, .. } = *self.get(right);
        self.at(left).bytes += bytes;
        self.at(left).after = after;
        if after != NONE {
            self.at(after).before = left;
        }
        self.at(right).next = self.spare;
        self.spare = right;
    }

    /// Puts a free block at the head of its class.
    fn list(&mut self, id: Id) {
        let class = classes::class_of(self.get(id).bytes);
        let next = std::mem::replace(&mut self.heads[class], id);
        match next {
            NONE => self.occupied.insert(class),
            next => self.at(next).previous = id,
        }
        let record = self.at(id);
        (record.previous, record.next) = (NONE, next);
    }

    /// Takes a free block out of its class.
    fn unlist(&mut self, id: Id) {
        let BlockRecord { bytes, previous, next, .. } = *self.get(id);
        if next != NONE {
            self.at(next).previous = previous;
        }
        if previous != NONE {
            self.at(previous).next = next;
            return;
        }
        let class = classes::class_of(bytes);
        self.heads[class] = next;
        if next == NONE {
            self.occupied.remove(class);
        }
    }

    /// Keeps `record`, in a place that is spare if there is one.
    fn record(&mut self, record: BlockRecord) -> Id {
        if self.spare != NONE {
            let id = self.spare;
            self.spare = self.get(id).next;
            *self.at(id) = record;
            return id;
        }
        let id = Id::try_from(self.records.len()).ok().filter(|&id| id != NONE);
        self.records.push(record);
        id.expect("an arena has fewer than 2^32 - 1 blocks")
    }
}

#[cfg(test)]
impl Blocks {
    /// Returns the number of records, spare ones included.
    pub fn kept(&self) -> usize {
        self.records.len()
    }

    /// All blocks in the order of their offsets, once every link that leads to them has been seen to be right.
    pub fn audit(&self) -> Vec<&BlockRecord> {
        let mut spare = vec![false; self.records.len()];
        let mut id = self.spare;
        while id != NONE {
            assert!(!std::mem::replace(&mut spare[id as usize], true), "a record is spare twice");
            id = self.get(id).next;
        }
        let mut listed = 0;
        for (class, &head) in self.heads.iter().enumerate() {
            assert_eq!(self.occupied.at_least(class) == Some(class), head != NONE, "class {class}");
            let (mut previous, mut id) = (NONE, head);
            while id != NONE {
                let block = self.get(id);
                assert!(
                    !block.live && !spare[id as usize] && block.previous == previous,
                    "{block:?} in {class}"
                );
                assert_eq!(classes::class_of(block.bytes), class, "{block:?}");
                listed += 1;
                (previous, id) = (id, block.next);
            }
        }
        let ids = (0..self.records.len() as Id).filter(|&id| !spare[id as usize]);
        for id in ids.clone() {
            let block = self.get(id);
            if block.after != NONE {
                let after = self.get(block.after);
                assert!(after.before == id && after.offset == block.end(), "{block:?} before {after:?}");
                assert!(after.segment == block.segment && (after.live || block.live), "{block:?}, {after:?}");
            }
            assert!(block.before == NONE || self.get(block.before).after == id, "{block:?}");
        }
        let mut blocks: Vec<_> = ids.map(|id| self.get(id)).collect();
        blocks.sort_by_key(|block| block.offset);
        assert_eq!(blocks.iter().filter(|block| !block.live).count(), listed, "a free block is in no list");
        blocks
    }
}
