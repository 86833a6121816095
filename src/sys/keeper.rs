//! A thread whose death the kernel announces in shared memory.
//!
//! The keeper registers a robust-futex list and sleeps. When its process ends, by exit, abort, exec or SIGKILL, the
//! kernel walks the list and sets `FUTEX_OWNER_DIED` in every word on it, in tens of microseconds and with nobody's
//! help. One keeper a process serves all communicators; their words are linked into its list.
//!
//! ```text
//!     head --> node 0 --> node 1 --> head          a node is one pointer; its futex word lies right behind it
//!                |8          |8
//!              word        word  = keeper's TID
//! ```

use crate::error::{Error, Result};
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

/// Set in a word by the kernel when its keeper's process has ended.
pub const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;

/// What a rank keeps in shared memory so that others learn of its end.
#[repr(C)]
pub struct LifeNode {
    /// The kernel's list pointer; meaningful only in the owner's address space. LAYOUT: the word follows at +8.
    next: AtomicU64,
    /// The keeper's TID while the owner lives; `OWNER_DIED` set afterwards; 0 before and after membership.
    word: AtomicU32,
    _pad: u32,
}

const _: () = assert!(std::mem::offset_of!(LifeNode, word) == 8 && std::mem::size_of::<LifeNode>() == 16);

impl LifeNode {
    /// Has the owner's process ended without leaving first?
    #[inline]
    pub fn died(&self) -> bool {
        self.word.load(Ordering::Acquire) & OWNER_DIED != 0
    }
}

/// The kernel's `struct robust_list_head`.
#[repr(C)]
struct Head {
    list: AtomicU64,
    futex_offset: libc::c_long,
    pending: AtomicU64,
}

static HEAD: Head = Head { list: AtomicU64::new(0), futex_offset: 8, pending: AtomicU64::new(0) };

struct Keeper {
    /// The fork generation that started it: a forked child needs its own.
    generation: u32,
    tid: u32,
}

static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);

/// A node's membership in this process's list. Leaving is dropping.
pub struct Kept {
    node: *const LifeNode,
    generation: u32,
}

// SAFETY: the pointer is only dereferenced under KEEPER's lock, while the mapping behind it is alive (see `keep`).
unsafe impl Send for Kept {}

/// Link a node, so that the end of this process shows in it.
///
/// # Safety
/// The node must stay mapped until the returned value is dropped.
pub unsafe fn keep(node: &LifeNode) -> Result<Kept> {
    super::fork::watch();
    let generation = super::fork::generation();
    let mut keeper = KEEPER.lock().unwrap_or_else(|e| e.into_inner());
    if keeper.as_ref().is_none_or(|k| k.generation != generation) {
        *keeper = Some(Keeper { generation, tid: start()? });
    }
    let tid = keeper.as_ref().map_or(0, |k| k.tid);
    // The kernel may walk the list at any instant from here on, so a node is complete before it becomes reachable.
    node.word.store(tid, Ordering::Relaxed);
    node.next.store(HEAD.list.load(Ordering::Relaxed), Ordering::Relaxed);
    HEAD.list.store(node as *const LifeNode as u64, Ordering::Release);
    Ok(Kept { node, generation })
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _lock = KEEPER.lock().unwrap_or_else(|e| e.into_inner());
        if self.generation != super::fork::generation() {
            return; // A forked child has no part in its parent's list.
        }
        // SAFETY: the node is still mapped (`keep`'s contract), and so is every node before it in the list.
        unsafe {
            let mut link = &HEAD.list;
            loop {
                let at = link.load(Ordering::Relaxed);
                if at == head_address() || at == 0 {
                    return;
                }
                let node = &*(at as *const LifeNode);
                if std::ptr::eq(node, self.node) {
                    link.store(node.next.load(Ordering::Relaxed), Ordering::Release);
                    node.word.store(0, Ordering::Release);
                    return;
                }
                link = &node.next;
            }
        }
    }
}

fn head_address() -> u64 {
    &raw const HEAD as u64
}

/// Start the keeper thread; returns its TID once its list is registered.
fn start() -> Result<u32> {
    HEAD.list.store(head_address(), Ordering::Relaxed);
    let (tell, told) = sync_channel(1);
    super::background::spawn_with_stack("penny-keeper", 64 << 10, move || {
        // SAFETY: HEAD is static and has the kernel's layout. This thread owns no robust pthread mutex, so
        // replacing the list that the C library registered for it loses nothing.
        let (tid, done) = unsafe {
            let done = libc::syscall(libc::SYS_set_robust_list, &raw const HEAD, std::mem::size_of::<Head>());
            (libc::syscall(libc::SYS_gettid) as u32, done)
        };
        let _ = tell.send(if done == 0 { tid } else { 0 });
        loop {
            std::thread::park();
        }
    })
    .map_err(|e| Error::system(format!("cannot start the keeper thread: {e}; check `ulimit -u`")))?;
    match told.recv() {
        Ok(tid) if tid != 0 => Ok(tid),
        _ => Err(Error::system("the kernel refuses robust futex lists; Penny cannot watch over its ranks")),
    }
}
