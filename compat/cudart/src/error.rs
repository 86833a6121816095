//! The last error of each thread, and what results are called.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::catch_unwind;
use std::sync::OnceLock;

use crate::codes;
use crate::guard::Fault;

thread_local! {
    /// The code that [`cudaGetLastError`] returns, and the sentence of the newest fault.
    static LAST: RefCell<(c_int, CString)> = RefCell::default();
}

/// Records a fault as the thread's last error and returns its code.
pub fn record(function: &str, fault: Fault) -> c_int {
    let sentence = format!("{function}: {}", fault.sentence);
    if fault.code != codes::cudaErrorNotReady && is_loud() {
        eprintln!("penny-cudart: {sentence}");
    }
    let text = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
    let _ = LAST.try_with(|last| *last.borrow_mut() = (fault.code, text));
    fault.code
}

/// Does the user want messages on stderr?
fn is_loud() -> bool {
    static LOUD: OnceLock<bool> = OnceLock::new();
    *LOUD.get_or_init(|| matches!(std::env::var("PENNY_DEBUG").as_deref(), Ok("warn" | "info")))
}

fn last(erase: bool) -> c_int {
    let code = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        let code = last.0;
        if erase {
            last.0 = codes::cudaSuccess;
        }
        code
    });
    code.unwrap_or(codes::cudaSuccess)
}

/// Returns the newest error of this thread and forgets it. No error outlives this: nothing here destroys a device.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> c_int {
    catch_unwind(|| last(true)).unwrap_or(codes::cudaErrorUnknown)
}

/// Returns the newest error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> c_int {
    catch_unwind(|| last(false)).unwrap_or(codes::cudaErrorUnknown)
}

/// Returns the name of a result.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(error: c_int) -> *const c_char {
    catch_unwind(|| codes::name(error).as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the sentence of a result.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: c_int) -> *const c_char {
    catch_unwind(|| codes::text(error).as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the sentence of this thread's newest error: the function, the argument, the remedy. It is valid until the thread's next
/// error, and empty if there was none. CUDA has no such function.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaGetLastMessage() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}
