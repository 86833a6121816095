//! Places that are mailboxes: threads on cores, and how long a message takes from arriving there to being theirs.
//!
//! ```text
//!     threads = 64, cores = 4      core 0: threads 0..16     core 1: 16..32     core 2: 32..48     core 3: 48..64
//!
//!     a message to k threads of a core takes 1 + 2k cycles there; cores take theirs side by side
//!       to one thread                  k = 1      3 cycles         14.3 ns at 210 MHz
//!       to all 64 threads              k = 16    33 cycles        157.1 ns
//! ```
//!
//! ```toml
//! [mailbox]                      # every place is one; left out: a message that has arrived is there
//! threads = 64                   # at most 64, as many on each core
//! cores = 4
//! cycle = "4.762ns"
//! ```

use super::source::Section;
use super::units;
use crate::error::Result;

/// Bits of a mask.
const MOST_THREADS: u32 = 64;

/// The times that a place with a mailbox needs to hand out messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxSpec {
    /// Threads that share it, at most 64.
    pub threads: u32,
    /// Cores that they are on, as many on each.
    pub cores: u32,
    /// A cycle of a core, in picoseconds.
    pub cycle_ps: u64,
}

impl MailboxSpec {
    /// Picoseconds from a message's arrival until all threads of a mask have it, thread t being bit t. Those past
    /// `threads` do not count.
    pub fn delivery_ps(&self, mask: u64) -> u64 {
        let each = self.threads / self.cores;
        let of_core = u64::MAX >> (u64::BITS - each);
        let on = |core: u32| (mask >> (core * each) & of_core).count_ones();
        let most = (0..self.cores).map(on).max().unwrap_or(0);
        self.cycles_ps(most)
    }

    /// 1 + 2k cycles, for k threads of a core (Naylor et al., POETS' Tinsel 0.8).
    fn cycles_ps(&self, k: u32) -> u64 {
        self.cycle_ps.saturating_mul(1 + 2 * u64::from(k))
    }
}

/// The section `[mailbox]`, if the file has one.
pub(super) fn read(root: &Section<'_>) -> Result<Option<MailboxSpec>> {
    let Some(value) = root.table.get("mailbox") else { return Ok(None) };
    let section = root.inner("[mailbox]".into(), value)?;
    section.knows(&["threads", "cores", "cycle"])?;
    let threads = section.need("threads", "64")?.count(MOST_THREADS)?;
    let cores = section.need("cores", "4")?;
    let cycle_ps = section.need("cycle", "\"4.762ns\"")?.read(units::time)?;
    let number = cores.count(threads)?;
    if !threads.is_multiple_of(number) {
        return Err(cores.error(format_args!(
            "{threads} threads do not divide evenly among {number} cores; write a number that divides them"
        )));
    }
    Ok(Some(MailboxSpec { threads, cores: number, cycle_ps }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::parse;

    const POETS: MailboxSpec = MailboxSpec { threads: 64, cores: 4, cycle_ps: 4762 };

    #[test]
    fn a_message_to_all_64_threads_takes_33_cycles_and_one_to_a_single_thread_3() {
        assert_eq!(POETS.delivery_ps(u64::MAX), 33 * 4762);
        assert_eq!(POETS.delivery_ps(u64::MAX) / 1000, 157, "nanoseconds");
        assert!((0..64).all(|thread| POETS.delivery_ps(1 << thread) == 3 * 4762));
    }

    #[test]
    fn the_fullest_core_counts_and_the_others_work_beside_it() {
        // One thread of each core; two of core 1; three of core 0 and five of core 3.
        for (mask, cycles) in
            [(0x0001_0001_0001_0001, 3), (0b11 << 16, 5), (0b111 | 0b1_1111 << 48, 11), (0xffff, 33)]
        {
            assert_eq!(POETS.delivery_ps(mask), cycles * 4762, "{mask:#x}");
        }
        let one_core = MailboxSpec { cores: 1, ..POETS };
        assert_eq!(one_core.delivery_ps(u64::MAX), 129 * 4762);
        let each_its_own = MailboxSpec { cores: 64, ..POETS };
        assert_eq!(each_its_own.delivery_ps(u64::MAX), 3 * 4762);
    }

    fn declared(section: &str) -> Result<Option<MailboxSpec>> {
        let machine =
            "name = \"m\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"1ns\"\n[line]\nshape = \"2\"\nlink = \"w\"\n";
        parse("m.toml", &format!("{machine}{section}"), &[]).map(|network| network.mailbox)
    }

    #[test]
    fn a_file_declares_it_with_units_and_what_is_wrong_is_told_with_its_line() {
        assert_eq!(declared("").unwrap(), None);
        let read = declared("[mailbox]\nthreads = 64\ncores = 4\ncycle = \"4.762ns\"\n").unwrap();
        assert_eq!(read, Some(POETS));
        for (section, line, part) in [
            ("[mailbox]\ncores = 4\ncycle = \"1ns\"\n", 8, "has no `threads`"),
            ("[mailbox]\nthreads = 65\ncores = 5\ncycle = \"1ns\"\n", 9, "from 1 to 64"),
            ("[mailbox]\nthreads = 64\ncores = 5\ncycle = \"1ns\"\n", 10, "do not divide"),
            ("[mailbox]\nthreads = 4\ncores = 8\ncycle = \"1ns\"\n", 10, "from 1 to 4"),
            ("[mailbox]\nthreads = 64\ncores = 4\ncycle = 4.762\n", 11, "has no unit"),
            ("[mailbox]\nthreads = 64\ncores = 4\ncycle = \"1ns\"\nslots = 9\n", 12, "has no key `slots`"),
        ] {
            let e = declared(section).unwrap_err().message.clone();
            assert!(e.starts_with(&format!("m.toml:{line}: ")) && e.contains(part), "{e}");
        }
    }
}
