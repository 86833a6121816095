//! The calling thread, as a number.

/// Returns a number that no other live thread has which the C library of this process has made: a multiple of 8, never 0. It takes one
/// instruction where the processor has a register for it.
#[inline(always)]
pub fn number() -> u64 {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux"))]
    {
        let number: u64;
        // SAFETY: the first word of a thread's control block is its own address, in every C library for this processor.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) number, options(nostack, preserves_flags, readonly, pure));
        }
        number
    }
    #[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux")))]
    {
        thread_local! {
            static HERE: u64 = const { 0 };
        }
        HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_number_of_its_own() {
        let here = number();
        let there = std::thread::spawn(number).join().unwrap();
        assert!(
            here != 0 && there != 0 && here != there && here == number() && (here | there).is_multiple_of(8)
        );
    }
}
