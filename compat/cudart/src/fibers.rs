//! Fibers: stacks on which a thread runs functions that stop in the middle and go on later. The threads of a block are fibers
//! where they wait for each other.

use std::arch::global_asm;
use std::cell::RefCell;
use std::ffi::c_void;

/// The bytes of a stack. Pages that nothing touches take no memory.
const STACK: usize = 256 << 10;
/// Below each stack: an access there ends the process instead of changing other memory.
const GUARD: usize = 64 << 10;
/// Stacks that a thread keeps for its next block.
const KEPT: usize = 1024;

// penny_fiber_switch(from, to): saves what a function must keep on the running stack, its top at `from`, and goes on with the stack
// whose top is `to`. penny_fiber_begin is where a new stack goes on: it calls the function with its argument.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".hidden penny_fiber_switch",
    ".global penny_fiber_switch",
    "penny_fiber_switch:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".hidden penny_fiber_begin",
    ".global penny_fiber_begin",
    "penny_fiber_begin:",
    "mov rdi, r12",
    "call r13",
    "ud2",
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".hidden penny_fiber_switch",
    ".global penny_fiber_switch",
    "penny_fiber_switch:",
    "sub sp, sp, #160",
    "stp x19, x20, [sp]",
    "stp x21, x22, [sp, #16]",
    "stp x23, x24, [sp, #32]",
    "stp x25, x26, [sp, #48]",
    "stp x27, x28, [sp, #64]",
    "stp x29, x30, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "mov x9, sp",
    "str x9, [x0]",
    "mov sp, x1",
    "ldp x19, x20, [sp]",
    "ldp x21, x22, [sp, #16]",
    "ldp x23, x24, [sp, #32]",
    "ldp x25, x26, [sp, #48]",
    "ldp x27, x28, [sp, #64]",
    "ldp x29, x30, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "add sp, sp, #160",
    "ret",
    ".hidden penny_fiber_begin",
    ".global penny_fiber_begin",
    "penny_fiber_begin:",
    "mov x0, x19",
    "blr x20",
    "brk #1",
);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "penny-cudart runs kernels on x86-64 and AArch64; add the switch of stacks for this processor"
);

unsafe extern "C" {
    fn penny_fiber_switch(from: *mut usize, to: usize);
    fn penny_fiber_begin();
}

/// The top of a stack that does not run: where it goes on.
pub type Top = usize;

/// Goes on with another stack until something switches back to this one, whose top is kept in `from`.
///
/// # Safety
/// `to` must be the top of a stack that was left by this function, or a new one's, and is used once.
pub unsafe fn switch(from: *mut Top, to: Top) {
    // SAFETY: the caller's promise.
    unsafe { penny_fiber_switch(from, to) };
}

/// A stack.
pub struct Stack(*mut c_void);

thread_local! {
    static SPARE: RefCell<Vec<Stack>> = const { RefCell::new(Vec::new()) };
}

impl Stack {
    /// Takes a stack that the thread has kept, or makes one. `None`: there is no memory.
    pub fn take() -> Option<Stack> {
        SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().or_else(Stack::make)
    }

    fn make() -> Option<Stack> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), GUARD + STACK, libc::PROT_NONE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let stack = Stack(at);
        // SAFETY: the part above the guard is within the mapping.
        let made =
            unsafe { libc::mprotect(at.wrapping_byte_add(GUARD), STACK, libc::PROT_READ | libc::PROT_WRITE) };
        (made == 0).then_some(stack)
    }

    /// Keeps the stack for the thread's next fiber.
    pub fn give_back(self) {
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                spare.push(self);
            }
        });
    }

    /// Lets the stack begin with a function, which must switch away and not return.
    pub fn begin(&self, function: extern "C" fn(*mut c_void), argument: *mut c_void) -> Top {
        let end = self.0.wrapping_byte_add(GUARD + STACK);
        let words = new_top(function as *const () as usize, argument.expose_provenance());
        let top = end.wrapping_byte_sub(size_of_val(&words)).cast();
        // SAFETY: the words lie within the stack, which nothing uses yet.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), top, words.len()) };
        top.expose_provenance()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping of `make`, on which no fiber runs any more.
        unsafe { libc::munmap(self.0, GUARD + STACK) };
    }
}

/// Returns what `penny_fiber_switch` finds on a new stack: r15 r14 r13 r12 rbx rbp, where to go on, and two words: the stack is
/// aligned to 16 bytes where it goes on.
#[cfg(target_arch = "x86_64")]
fn new_top(function: usize, argument: usize) -> [usize; 9] {
    [0, 0, function, argument, 0, 0, penny_fiber_begin as *const () as usize, 0, 0]
}

/// Returns what `penny_fiber_switch` finds on a new stack: x19 to x30, d8 to d15.
#[cfg(target_arch = "aarch64")]
fn new_top(function: usize, argument: usize) -> [usize; 20] {
    let mut words = [0; 20];
    (words[0], words[1], words[11]) = (argument, function, penny_fiber_begin as *const () as usize);
    words
}
