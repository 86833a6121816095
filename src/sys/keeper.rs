//! A thread whose death the kernel announces in shared memory.
//!
//! A keeper registers a robust-futex list and sleeps. When its process ends, by exit, abort, exec or SIGKILL, the
//! kernel walks the list and sets `FUTEX_OWNER_DIED` in the word of every node, in tens of microseconds and with nobody's
//! help. The nodes lie in memory of this process alone: a peer can overwrite words, but nothing that the kernel follows.
//! The list has one offset from its nodes to their words, so the pages of the words are mapped a second time, each at that
//! offset from the page of its node:
//!
//! ```text
//!     private pages    | head | node 1 | node 2 |      | ...        head --> node 2 --> node 1 --> head
//!                         :       |        |
//!                         :       | futex_offset: the same for all
//!                         :       v        v
//!     shared pages     |      | word 1 | word 2 | free | ...        pages of the communicators' segments
//! ```
//!
//! A node lies in its page where its word lies in the other. The kernel follows at most 2048 nodes of a list, so a block has
//! fewer, and a process that watches over more words has several keepers.

use super::{background, last_threads, process};
use crate::error::{Error, Result};
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::mpsc::sync_channel;

/// Set in a word by the kernel when its keeper's process has ended.
pub const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;

/// A rank's node in shared memory, from which others learn of its end.
#[repr(C)]
pub struct LifeNode {
    /// The keeper's TID while the owner lives; `OWNER_DIED` set afterwards; 0 before and after membership. LAYOUT: first.
    word: AtomicU32,
    _pad: [AtomicU32; 3],
}

const _: () = assert!(std::mem::offset_of!(LifeNode, word) == 0 && std::mem::size_of::<LifeNode>() == 16);

impl LifeNode {
    /// Has the owner's process ended without leaving first?
    #[inline]
    pub fn died(&self) -> bool {
        self.word.load(Ordering::Acquire) & OWNER_DIED != 0
    }

    /// Stores what the kernel stores at the end of the owner's process, where another witness tells of that end.
    pub fn mark_dead(&self) {
        self.word.fetch_or(OWNER_DIED, Ordering::AcqRel);
    }
}

/// The kernel's `struct robust_list_head`.
#[repr(C)]
struct Head {
    list: AtomicU64,
    futex_offset: libc::c_long,
    pending: AtomicU64,
}

/// Pages of one half of a block. Below the kernel's `ROBUST_LIST_LIMIT`, which is 2048.
const PAGES: usize = 1024;

/// One keeper thread's list and the memory that it lies in, which stays until the process ends.
struct Block {
    /// The first private page; the first shared one is `PAGES` pages behind it.
    base: usize,
    page: usize,
    /// The thread. Written before the block is used.
    tid: u32,
    /// Pages of nodes that nothing is in.
    free: Vec<usize>,
}

struct Keepers {
    /// The fork generation that started them: a forked child needs its own.
    generation: u32,
    blocks: Vec<Block>,
}

static KEEPERS: Mutex<Keepers> = Mutex::new(Keepers { generation: 0, blocks: Vec::new() });

/// A word's membership in a list of this process. Leaving is dropping.
pub struct Kept {
    generation: u32,
    block: usize,
    /// The index of its pages.
    at: usize,
    /// Where the word lies in its page.
    within: usize,
}

/// Makes sure that this process can watch over a word: starts a keeper if there is none with room.
pub fn prepare() -> Result<()> {
    room().map(drop)
}

/// Returns the threads of this process without the keepers, which wake nobody; none where the kernel does not say.
pub fn other_threads() -> Vec<u32> {
    let keepers = KEEPERS.lock();
    let here = keepers.generation == super::fork::generation();
    let is_keeper = |tid: u32| here && keepers.blocks.iter().any(|block| block.tid == tid);
    process::threads().into_iter().filter(|&tid| !is_keeper(tid)).collect()
}

/// Links the [`LifeNode`] at `offset` of a file, so that the end of this process shows in it.
pub fn keep(file: &File, offset: usize) -> Result<Kept> {
    let (mut keepers, block) = room()?;
    let generation = keepers.generation;
    let block_at = &mut keepers.blocks[block];
    let within = offset % block_at.page;
    if !within.is_multiple_of(8) {
        return Err(Error::internal("a life line is misaligned"));
    }
    let Some(at) = block_at.free.pop() else { return Err(Error::internal("a keeper without room")) };
    if let Err(e) = block_at.map(at, file, offset - within) {
        block_at.free.push(at);
        return Err(e);
    }
    block_at.link(at, within);
    Ok(Kept { generation, block, at, within })
}

/// The keepers, and which of them has room for a word.
fn room() -> Result<(MutexGuard<'static, Keepers>, usize)> {
    super::fork::watch();
    let generation = super::fork::generation();
    let mut keepers = KEEPERS.lock();
    if keepers.generation != generation {
        // The parent's lists are none of this process's; their memory is not worth the risk of unmapping it.
        *keepers = Keepers { generation, blocks: Vec::new() };
    }
    let block = match keepers.blocks.iter().position(|block| !block.free.is_empty()) {
        Some(block) => block,
        None => {
            let block = Block::start()?;
            keepers.blocks.push(block);
            keepers.blocks.len() - 1
        }
    };
    Ok((keepers, block))
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut keepers = KEEPERS.lock();
        if self.generation != super::fork::generation() || keepers.generation != self.generation {
            return; // A forked child has no part in its parent's lists.
        }
        if let Some(block) = keepers.blocks.get_mut(self.block) {
            block.unlink(self.at, self.within);
            block.unmap(self.at);
            block.free.push(self.at);
        }
    }
}

impl Block {
    /// Reserves the memory and starts the thread; returns once its list is registered.
    fn start() -> Result<Block> {
        // SAFETY: sysconf takes a constant and returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        let half = PAGES * page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), 2 * half, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(no_memory());
        }
        // SAFETY: the first half of the mapping made above, which nobody uses yet.
        if unsafe { libc::mprotect(base, half, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            let e = no_memory();
            // SAFETY: the mapping made above, which nobody uses.
            unsafe { libc::munmap(base, 2 * half) };
            return Err(e);
        }
        let base = base as usize;
        // SAFETY: the block's first page, zeroed, page-aligned, never unmapped once the thread runs, and used as nothing else.
        let head = unsafe {
            let head = base as *mut Head;
            (*head).futex_offset = half as libc::c_long;
            &*head
        };
        head.list.store(base as u64, Ordering::Relaxed);
        let (tell, told) = sync_channel(1);
        let thread = background::spawn_with_stack("penny-keeper", 64 << 10, move || {
            // SAFETY: the head has the kernel's layout and stays. This thread owns no robust pthread mutex, so replacing the
            // list that the C library registered for it loses nothing.
            let (tid, done) = unsafe {
                let done =
                    libc::syscall(libc::SYS_set_robust_list, &raw const *head, std::mem::size_of::<Head>());
                (libc::syscall(libc::SYS_gettid) as u32, done)
            };
            let refused = done != 0;
            let _ = tell.send(if refused { 0 } else { tid });
            if refused {
                return;
            }
            last_threads::outlive();
        });
        let why = match thread.map(|_| told.recv()) {
            Ok(Ok(tid)) if tid != 0 => {
                return Ok(Block { base, page, tid, free: (1..PAGES).rev().collect() });
            }
            Ok(_) => {
                Error::system("the kernel refuses robust futex lists; Penny cannot watch over its ranks")
            }
            Err(e) => Error::system(format!("cannot start the keeper thread: {e}; check `ulimit -u`")),
        };
        // SAFETY: no thread has registered the list, and nobody else knows of the mapping.
        unsafe { libc::munmap(base as *mut libc::c_void, 2 * half) };
        Err(why)
    }

    /// Maps the page at `offset` of a file as the shared page of an index.
    fn map(&self, at: usize, file: &File, offset: usize) -> Result<()> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        let (page, fd) = (self.shared(at) as *mut libc::c_void, file.as_raw_fd());
        // SAFETY: replaces a page of the block's own that no node refers to.
        let mapped = unsafe { libc::mmap(page, self.page, access, flags, fd, offset as libc::off_t) };
        if mapped == libc::MAP_FAILED { Err(no_memory()) } else { Ok(()) }
    }

    /// Takes that page away; its addresses stay the block's.
    fn unmap(&self, at: usize) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let page = self.shared(at) as *mut libc::c_void;
        // SAFETY: replaces a page of the block's own that no node refers to any more. If it fails, the old one stays.
        unsafe { libc::mmap(page, self.page, libc::PROT_NONE, flags, -1, 0) };
    }

    fn shared(&self, at: usize) -> usize {
        self.base + (PAGES + at) * self.page
    }

    /// The word of an index whose shared page is mapped.
    fn word(&self, at: usize, within: usize) -> &AtomicU32 {
        // SAFETY: within the mapped page and aligned to 8 (`keep`); peers change it through atomics only.
        unsafe { &*((self.shared(at) + within) as *const AtomicU32) }
    }

    /// The kernel's list pointer at an address.
    fn pointer(&self, addr: usize) -> &AtomicU64 {
        debug_assert!(addr - self.base < PAGES * self.page && addr.is_multiple_of(8));
        // SAFETY: within the private half, which is mapped for as long as the process lives, and aligned.
        unsafe { &*(addr as *const AtomicU64) }
    }

    fn node(&self, at: usize, within: usize) -> usize {
        self.base + at * self.page + within
    }

    fn link(&self, at: usize, within: usize) {
        let (node, list) = (self.node(at, within), self.pointer(self.base));
        // The kernel may walk the list at any instant from here on, so a node is complete before it becomes reachable.
        self.word(at, within).store(self.tid, Ordering::Relaxed);
        die_point!(82 "keeper_word");
        self.pointer(node).store(list.load(Ordering::Relaxed), Ordering::Relaxed);
        list.store(node as u64, Ordering::Release);
        die_point!(83 "keeper_linked");
    }

    fn unlink(&self, at: usize, within: usize) {
        let (node, mut link) = (self.node(at, within), self.base);
        // BOUND: the nodes of the list, which only this process writes.
        loop {
            let next = self.pointer(link).load(Ordering::Relaxed) as usize;
            if next == self.base {
                break;
            }
            if next == node {
                let after = self.pointer(node).load(Ordering::Relaxed);
                self.pointer(link).store(after, Ordering::Release);
                break;
            }
            link = next;
        }
        die_point!(63 "keeper_unlinked");
        self.word(at, within).store(0, Ordering::Release);
    }
}

fn no_memory() -> Error {
    let e = std::io::Error::last_os_error();
    Error::system(format!("cannot map memory for the keeper of this rank's life: {e}; check `ulimit -v`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::shm;

    fn words(file: &File, bytes: usize) -> Vec<u32> {
        use std::os::unix::fs::FileExt;
        let mut all = vec![0; bytes];
        file.read_exact_at(&mut all, 0).unwrap();
        all.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn words_of_many_files_are_kept_by_more_than_one_thread_and_cleared_in_any_order() {
        let file = shm::create(1 << 16, 1 << 16, 1 << 16).unwrap();
        let mut all: Vec<Kept> = (0..PAGES + 50).map(|i| keep(&file, i * 64 % (1 << 16)).unwrap()).collect();
        let held = words(&file, 1 << 16);
        let tids: std::collections::BTreeSet<u32> = held.iter().copied().filter(|&word| word != 0).collect();
        assert!(tids.len() >= 2, "{tids:?}");
        assert!((0..1 << 16).step_by(64).all(|at| held[at / 4] & OWNER_DIED == 0 && held[at / 4] != 0));
        // Not the order in which they were linked.
        while !all.is_empty() {
            let middle = all.len() / 2;
            drop(all.swap_remove(middle));
        }
        assert!(words(&file, 1 << 16).iter().all(|&word| word == 0));
    }

    #[test]
    fn threads_that_keep_and_let_go_at_once_do_not_lose_a_word() {
        let file = shm::create(1 << 16, 1 << 16, 1 << 16).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..200 {
                        let at = (thread * 4096 + round % 4 * 64) as u64;
                        let kept = keep(file, at as usize).unwrap();
                        assert_ne!(words(file, 1 << 16)[at as usize / 4], 0);
                        drop(kept);
                        assert_eq!(words(file, 1 << 16)[at as usize / 4], 0);
                    }
                });
            }
        });
    }
}
