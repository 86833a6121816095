//! Divisions of whole numbers in kernels: by zero they have a device's result, where the host's processor would end the program.
//!
//! ```text
//!     x / 0 = all bits set      x % 0 = x      least / -1 = least      least % -1 = 0
//! ```
//!
//! x86-64 raises SIGFPE for these. The handler finishes the instruction of a thread that runs a kernel; every other SIGFPE goes where it
//! went before. AArch64 does not trap: `x / 0` is 0 there.

/// Lets divisions of kernels have a device's results. Called before a kernel runs.
#[cfg(target_arch = "x86_64")]
pub fn prepare() {
    trap::install();
}

/// Lets divisions of kernels have a device's results: nothing traps here.
#[cfg(not(target_arch = "x86_64"))]
pub fn prepare() {}

#[cfg(target_arch = "x86_64")]
mod trap {
    use std::ffi::{c_int, c_void};
    use std::mem::{MaybeUninit, transmute};
    use std::sync::OnceLock;

    use libc::{SIG_DFL, SIG_IGN, SIGFPE, siginfo_t, ucontext_t};

    /// What handled SIGFPE before.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    pub fn install() {
        BEFORE.get_or_init(|| {
            let mut before = MaybeUninit::uninit();
            // SAFETY: all-zero bytes are a value of this structure; the handler has the form that SA_SIGINFO asks for, and `before` takes
            // the result.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
                libc::sigaction(SIGFPE, &action, before.as_mut_ptr());
                before.assume_init()
            }
        });
    }

    extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes the state of the interrupted thread.
        let state = unsafe { &mut *context.cast::<ucontext_t>() };
        if crate::grid::is_in_kernel() && finish(&mut state.uc_mcontext.gregs).is_some() {
            return;
        }
        let Some(before) = BEFORE.get() else { return };
        match before.sa_sigaction {
            // The instruction is repeated and ends the process.
            SIG_DFL | SIG_IGN => {
                // SAFETY: restores what was there.
                unsafe { libc::sigaction(SIGFPE, before, std::ptr::null_mut()) };
            }
            function if before.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: SA_SIGINFO says that it has this form.
                let function: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { transmute(function) };
                function(signal, info, context);
            }
            function => {
                // SAFETY: without SA_SIGINFO it has this form.
                let function: extern "C" fn(c_int) = unsafe { transmute(function) };
                function(signal);
            }
        }
    }

    /// Where the registers of an instruction's numbers stand in the state: rax rcx rdx rbx rsp rbp rsi rdi r8 ... r15.
    const REGISTERS: [c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];

    /// Gives the `div` or `idiv` at the instruction pointer a device's result, and goes on behind it. `None`: it is another instruction.
    fn finish(registers: &mut [i64]) -> Option<()> {
        let get = |registers: &[i64], number: usize| registers[REGISTERS[number] as usize];
        let start = registers[libc::REG_RIP as usize] as usize;
        // SAFETY: the processor has read the instruction there. One that divides is followed by others of its function.
        let byte = |at: usize| unsafe { std::ptr::with_exposed_provenance::<u8>(start + at).read() };
        let (mut at, mut is_short, mut rex) = (0, false, 0);
        while matches!(byte(at), 0x66 | 0x2e | 0x3e) {
            is_short |= byte(at) == 0x66;
            at += 1;
        }
        if byte(at) & 0xf0 == 0x40 {
            rex = byte(at);
            at += 1;
        }
        let is_byte = match byte(at) {
            0xf6 => true,
            0xf7 => false,
            _ => return None,
        };
        let form = byte(at + 1);
        let (mode, operation, low) = (form >> 6, form >> 3 & 7, usize::from(form & 7));
        if !matches!(operation, 6 | 7) {
            return None;
        }
        at += 2;
        let base = low + usize::from(rex & 1) * 8;
        let bytes = if is_byte {
            1
        } else if rex & 8 != 0 {
            8
        } else if is_short {
            2
        } else {
            4
        };
        let divisor = if mode == 3 {
            // Without a prefix the numbers 4 to 7 are the second bytes of the first four registers.
            match is_byte && rex == 0 && base >= 4 {
                true => get(registers, base - 4) >> 8,
                false => get(registers, base),
            }
        } else {
            let mut address = 0_i64;
            let mut has_base = true;
            if low == 4 {
                let scaled = byte(at);
                at += 1;
                let index = usize::from(scaled >> 3 & 7) + usize::from(rex & 2) * 4;
                if index != 4 {
                    address = get(registers, index).wrapping_shl(u32::from(scaled >> 6));
                }
                let base = usize::from(scaled & 7) + usize::from(rex & 1) * 8;
                has_base = !(scaled & 7 == 5 && mode == 0);
                if has_base {
                    address = address.wrapping_add(get(registers, base));
                }
            } else if low == 5 && mode == 0 {
                has_base = false;
            } else {
                address = get(registers, base);
            }
            let wide = |at: usize| {
                i64::from(i32::from_le_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]))
            };
            match mode {
                1 => {
                    address = address.wrapping_add(i64::from(byte(at) as i8));
                    at += 1;
                }
                2 => {
                    address = address.wrapping_add(wide(at));
                    at += 4;
                }
                _ if !has_base => {
                    address = address.wrapping_add(wide(at));
                    at += 4;
                    if low == 5 {
                        address = address.wrapping_add((start + at) as i64);
                    }
                }
                _ => {}
            }
            let mut value = [0; 8];
            for (i, into) in value.iter_mut().enumerate().take(bytes) {
                // SAFETY: the instruction has read these bytes.
                *into = unsafe { std::ptr::with_exposed_provenance::<u8>(address as usize + i).read() };
            }
            i64::from_le_bytes(value)
        };
        let mask = if bytes == 8 { -1 } else { (1_i64 << (8 * bytes)) - 1 };
        let dividend = get(registers, 0);
        // Behind a division that does not fit the quotient is the dividend and nothing is left.
        let (quotient, rest) =
            if divisor & mask == 0 { (mask, dividend & mask) } else { (dividend & mask, 0) };
        let put = |registers: &mut [i64], number: usize, value: i64| {
            let place = &mut registers[REGISTERS[number] as usize];
            // A write of 32 bits clears the upper half.
            *place = if bytes == 4 { value } else { *place & !mask | value };
        };
        if is_byte {
            put(registers, 0, quotient);
            let place = &mut registers[libc::REG_RAX as usize];
            *place = *place & !0xff00 | rest << 8;
        } else {
            put(registers, 0, quotient);
            put(registers, 2, rest);
        }
        registers[libc::REG_RIP as usize] = (start + at) as i64;
        Some(())
    }
}
