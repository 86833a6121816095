//! The run of a grid: all threads of a block, block after block, on the thread of the stream.
//!
//! ```text
//!     this stack        a fiber: threads 0, 1, 2 ... one after another       none waits: it returns, the block is over
//!         |                    thread 3 waits (__syncthreads, a warp's function)
//!         |  <-----------------'
//!     another fiber: threads 4, 5 ...                                        each that waits leaves its fiber behind
//!     no thread is left that has not begun: those that wait for nothing more go on, in the order of their numbers
//! ```
//!
//! So a block whose threads do not wait for each other needs one fiber. If all wait and none may go on, the kernel ends with a sentence.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::codes;
use crate::fibers::{Stack, Top, switch};
use crate::guard::{Result, fault};
use crate::kernels::Call;
use crate::shared::Shared;
use crate::warp::{self, Ask};

/// The threads of a warp.
pub const WARP: usize = 32;

/// How large a launch is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    /// The bytes of `extern __shared__` variables.
    pub shared: usize,
}

/// The block that runs, as `include/penny_kernel.h` has it.
#[repr(C)]
pub struct Block {
    threads: c_uint,
    next: c_uint,
    over: c_uint,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    index: [c_uint; 3],
    /// A bit for each thread that has ended.
    ended: [c_uint; 32],
}

impl Block {
    /// Returns a bit for each thread of a warp that has not ended.
    pub fn living(&self, warp: usize) -> c_uint {
        let threads = (self.threads as usize).saturating_sub(warp * WARP).min(WARP);
        let all = if threads == WARP { c_uint::MAX } else { (1 << threads) - 1 };
        all & !self.ended[warp]
    }
}

/// What a thread waits for.
#[derive(Clone, Copy)]
pub enum Wait {
    /// All threads of the block, which are counted if their value is not 0.
    Block { value: c_int },
    /// Some threads of its warp.
    Warp(Ask),
    /// The turn of others.
    Turn,
}

/// A thread that waits, on a fiber.
pub struct Waiter {
    pub thread: usize,
    pub wait: Wait,
    /// What it is told when it goes on.
    pub answer: *mut u64,
    stack: Stack,
    top: Top,
}

/// A grid that runs.
pub struct Grid<'a> {
    call: &'a Call,
    pub block: Block,
    /// The stack that chooses which fiber goes on.
    chooser: Top,
    /// The fiber that runs.
    running: Option<Stack>,
    ready: VecDeque<Waiter>,
    pub waiting: Vec<Waiter>,
    shared: Shared,
}

thread_local! {
    /// The grid that this thread runs.
    static RUNNING: Cell<*mut c_void> = const { Cell::new(null_mut()) };
}

/// Does this thread run a kernel?
pub fn is_in_kernel() -> bool {
    !RUNNING.get().is_null()
}

/// Acts on the grid that this thread runs.
fn with<T>(act: impl FnOnce(*mut Grid<'static>) -> T) -> T {
    let grid = RUNNING.get().cast::<Grid<'static>>();
    assert!(!grid.is_null(), "only threads of a kernel come here");
    act(grid)
}

/// Runs a launch.
pub fn run(call: &Call, shape: &Shape) -> Result<()> {
    crate::division::prepare();
    let mut grid = Grid {
        call,
        block: Block {
            threads: shape.block.iter().product(),
            next: 0,
            over: 0,
            grid: shape.grid,
            block: shape.block,
            index: [0; 3],
            ended: [0; 32],
        },
        chooser: 0,
        running: None,
        ready: VecDeque::new(),
        waiting: Vec::new(),
        shared: Shared::new(shape.shared),
    };
    let outer = RUNNING.replace((&raw mut grid).cast());
    let outcome = blocks(&raw mut grid, shape.grid);
    RUNNING.set(outer);
    for left in grid.waiting.drain(..).chain(grid.ready.drain(..)) {
        left.stack.give_back();
    }
    outcome
}

fn blocks(grid: *mut Grid, counts: [c_uint; 3]) -> Result<()> {
    for z in 0..counts[2] {
        for y in 0..counts[1] {
            for x in 0..counts[0] {
                {
                    // SAFETY: the grid of `run`; no fiber runs.
                    let grid = unsafe { &mut *grid };
                    let block = &mut grid.block;
                    (block.index, block.next, block.over, block.ended) = ([x, y, z], 0, 0, [0; 32]);
                }
                block(grid)?;
            }
        }
    }
    Ok(())
}

/// Runs the threads of the block until all are over.
fn block(grid: *mut Grid) -> Result<()> {
    loop {
        // SAFETY: the grid of `run`; no fiber runs, and this borrow ends before one does.
        let this = unsafe { &mut *grid };
        let top = if this.block.next < this.block.threads {
            let Some(stack) = Stack::take() else {
                return fault(
                    codes::cudaErrorLaunchOutOfResources,
                    format!(
                        "the kernel {} cannot run: there is no memory for the stacks of its threads",
                        this.call.name()
                    ),
                );
            };
            let top = stack.begin(begin, grid.cast());
            this.running = Some(stack);
            top
        } else if let Some(next) = this.ready.pop_front() {
            this.running = Some(next.stack);
            next.top
        } else if this.waiting.is_empty() {
            return Ok(());
        } else {
            if this.release() == 0 {
                return this.stuck();
            }
            continue;
        };
        // SAFETY: a new stack, or one that waits; it switches back to the chooser.
        unsafe { switch(&raw mut (*grid).chooser, top) };
        // SAFETY: as above. A fiber that waits has taken its stack; one that is over has not.
        if let Some(stack) = unsafe { (*grid).running.take() } {
            stack.give_back();
        }
    }
}

/// Where a new fiber begins: it runs threads that have not begun, and is over.
extern "C" fn begin(grid: *mut c_void) {
    let grid = grid.cast::<Grid>();
    // SAFETY: the grid of `run`. Its block is shared with the kernel's code while that runs, so it is not borrowed.
    unsafe { (*grid).call.run(&raw mut (*grid).block) };
    let mut never = 0;
    // SAFETY: the chooser waits, and gives this stack back.
    unsafe { switch(&raw mut never, (*grid).chooser) };
}

/// Lets a thread of the kernel wait; what it is told then.
pub fn wait(thread: c_uint, wait: Wait) -> u64 {
    with(|grid| {
        let mut answer = 0;
        let chooser;
        let top: *mut Top;
        {
            // SAFETY: the grid of `run` on this thread; the borrow ends before the switch.
            let this = unsafe { &mut *grid };
            let Some(stack) = this.running.take() else {
                unreachable!("a thread of a kernel runs on a fiber")
            };
            chooser = this.chooser;
            this.waiting.push(Waiter {
                thread: thread as usize,
                wait,
                answer: &raw mut answer,
                stack,
                top: 0,
            });
            let Some(me) = this.waiting.last_mut() else { unreachable!("it was put there") };
            top = &raw mut me.top;
        }
        // SAFETY: the chooser waits, and lets this stack go on once. `top` stays in place: only the chooser moves waiters.
        unsafe { switch(top, chooser) };
        answer
    })
}

impl Grid<'_> {
    /// Lets those go on that wait for nothing more; how many.
    fn release(&mut self) -> usize {
        let all = std::mem::take(&mut self.waiting);
        let at_barrier = all.iter().filter(|one| matches!(one.wait, Wait::Block { .. }));
        let (mut arrived, mut counted) = (0, 0);
        for one in at_barrier {
            arrived += 1;
            counted += u64::from(matches!(one.wait, Wait::Block { value } if value != 0));
        }
        let is_complete = arrived > 0 && arrived + self.block.over == self.block.threads;
        let groups = warp::complete(&all, &self.block);
        let mut free = Vec::new();
        for (one, group) in all.into_iter().zip(groups) {
            let answer = match one.wait {
                Wait::Block { .. } => is_complete.then_some(counted),
                Wait::Warp(_) => group,
                Wait::Turn => Some(0),
            };
            match answer {
                Some(answer) => {
                    // SAFETY: it stands on the waiter's stack until it goes on.
                    unsafe { one.answer.write(answer) };
                    free.push(one);
                }
                None => self.waiting.push(one),
            }
        }
        free.sort_by_key(|one| one.thread);
        let count = free.len();
        self.ready.extend(free);
        count
    }

    fn stuck(&self) -> Result<()> {
        let in_warps = self.waiting.iter().filter(|one| matches!(one.wait, Wait::Warp(_))).count();
        let [x, y, z] = self.block.index;
        fault(
            codes::cudaErrorLaunchFailure,
            format!(
                "the kernel {} does not go on: in block ({x}, {y}, {z}) {} threads wait in __syncthreads and {in_warps} for threads of their \
                 warps, and {} of {} have ended; let all threads of a block reach the same barrier, and all of a mask the same function",
                self.call.name(),
                self.waiting.len() - in_warps,
                self.block.over,
                self.block.threads
            ),
        )
    }
}

/// Waits for all threads of the block. Returns how many of them passed a value that is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaBarrier(thread: c_uint, value: c_int) -> c_uint {
    wait(thread, Wait::Block { value }) as c_uint
}

/// Lets other threads of the block go on.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaYield(thread: c_uint) {
    wait(thread, Wait::Turn);
}

/// Returns the block's memory of a variable, which is the same for all threads of the block.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaShared(variable: *const c_void, size: usize, alignment: usize) -> *mut c_void {
    // SAFETY: the grid of `run` on this thread; its fiber is here, so nothing else borrows it.
    with(|grid| unsafe { (*grid).shared.find(variable.addr(), size, alignment) })
}

/// Returns the block's memory of the variables whose size the launch has given.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaDynamicShared() -> *mut c_void {
    // SAFETY: as above.
    with(|grid| unsafe { (*grid).shared.dynamic() })
}

/// Returns how many bytes those have.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaDynamicSharedSize() -> usize {
    // SAFETY: as above.
    with(|grid| unsafe { (*grid).shared.dynamic_bytes() })
}
