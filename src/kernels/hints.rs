//! Hints to the processor about cache lines that are read, overwritten or awaited soon, and how far each of them pays.
//!
//! A hint never changes a result. What it gains depends on how a processor's copies take the lines that they overwrite
//! (docs/decisions/0035): some read a line before they write it, and gain if it was claimed early; the copies of AMD's processors
//! overwrite whole lines without reading them, and a claim takes as long as the copy that it was to make quicker.

use super::copy::{LINE, copy};
use super::isa::Isa;
use crate::memory::view::Payload;
use crate::sync::prim::{Ordering, fence};
use std::sync::OnceLock;

/// The smallest copy that goes around the caches on any processor.
pub const LEAST_AROUND: usize = 2 << 10;

/// The size from which on results of calls, and messages that are received, are written around the caches where no rank reads them soon.
pub const STREAMED_FROM: usize = 16 << 20;

/// The most bytes for which each hint pays on this processor; 0: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Claiming the payload of the next arrival.
    pub claimed_payload: usize,
    /// Claiming the slots that the next message will take.
    pub claimed_slots: usize,
    /// The same where the two ends take turns.
    pub claimed_awaited: usize,
    /// Copying out of another rank's slots four pages side by side, the whole of a message or a slice of a program
    /// (docs/decisions/0082).
    pub side_by_side: usize,
    /// Not a limit: what has been written is demoted.
    pub demotes: bool,
    /// Copying a payload over claimed lines by stores that read them ([`copy_over`]).
    pub stored: usize,
    /// Copying by AVX registers in place of the C library's `rep movsb` (docs/decisions/0093). 0 without AVX.
    pub by_registers: usize,
    /// Not a limit but the size from which on staged copies are written around the caches where that is quicker
    /// (docs/decisions/0009-pace.md). Smaller ones fit the line buffers of a core, so that the wait for memory is not hidden.
    pub around_from: usize,
    /// Not a limit: how a rank finds out where that is quicker.
    pub around: Around,
    /// Cutting messages from 16 KiB on into pieces of 8 KiB, and from 32 KiB on of 16 KiB.
    pub cut: usize,
    /// Not a limit: which staged copies rotate, because lines that another core has read are slow to write (docs/decisions/0075).
    pub rotation: Rotation,
    /// Not a limit but the bytes above which two ranks write where they have read last, in turns to their own memory and to the other's
    /// (docs/decisions/0076); `usize::MAX`: they do not.
    pub swaps_above: usize,
    /// Not a limit but the bytes of a call's whole vector, or of a message, from which on peers read and write buffers where they lie if they
    /// can reach them (docs/decisions/0095).
    pub zero_copy_from: usize,
}

/// Which staged copies have places in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// None.
    Nothing,
    /// Those that come with a rank's arrival.
    Payloads,
    /// Slots of programs and pieces of messages, too.
    All,
}

/// How a rank finds out whether staged copies are quicker around the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// By the time in which lines are taken back from the peer's core.
    Probed,
    /// By copies that go each way in turns.
    Compared,
}

impl Limits {
    /// Measured on a Xeon with `cldemote`; processors without that instruction skip it.
    const GENERAL: Limits = Limits {
        claimed_payload: usize::MAX,
        claimed_slots: 16 << 10,
        claimed_awaited: 1 << 20,
        side_by_side: 1 << 20,
        demotes: true,
        stored: 0,
        by_registers: 0,
        around_from: 16 << 10,
        around: Around::Compared,
        cut: 0,
        rotation: Rotation::Payloads,
        swaps_above: 512,
        zero_copy_from: 0,
    };

    /// Measured on an EPYC of family 26 (Zen 5).
    const ZEN_5: Limits = Limits {
        claimed_payload: 4 << 10,
        claimed_slots: 1 << 10,
        claimed_awaited: 1 << 10,
        side_by_side: 0,
        demotes: false,
        stored: 4 << 10,
        by_registers: 0,
        around_from: usize::MAX,
        around: Around::Probed,
        cut: 128 << 10,
        rotation: Rotation::Nothing,
        swaps_above: usize::MAX,
        zero_copy_from: 0,
    };

    /// Measured on an EPYC of family 25 (Zen 4): cores that share no cache pass lines on at 2 GB/s, memory does at 10.
    const ZEN_4: Limits = Limits {
        stored: 0,
        by_registers: 256 << 10,
        around_from: LEAST_AROUND,
        rotation: Rotation::All,
        swaps_above: 128,
        zero_copy_from: 2 << 20,
        ..Limits::ZEN_5
    };

    /// Measured on an EPYC of family 25 without AVX-512 (Zen 3), which writes lines that another core has read in half of Zen 4's time.
    const ZEN_3: Limits = Limits { zero_copy_from: 64 << 10, ..Limits::ZEN_4 };
}

/// Returns the limits for this processor, which is asked once.
#[inline]
pub fn limits() -> &'static Limits {
    static HERE: OnceLock<Limits> = OnceLock::new();
    HERE.get_or_init(|| match family_of_amd_with_erms() {
        Some(26..) => Limits::ZEN_5,
        Some(_) if Isa::Avx512.is_supported() => Limits::ZEN_4,
        Some(_) if Isa::Avx2.is_supported() => Limits::ZEN_3,
        Some(_) => Limits { by_registers: 0, ..Limits::ZEN_3 },
        None => Limits::GENERAL,
    })
}

/// Returns the processor's family if it is AMD's and copies whole lines by `rep movsb` (ERMS).
fn family_of_amd_with_erms() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let about = __cpuid(0);
        let maker = [about.ebx, about.edx, about.ecx].map(u32::to_le_bytes).concat();
        let has_erms = about.eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 9 != 0;
        let version = __cpuid(1).eax;
        let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
        (has_erms && matches!(&maker[..], b"AuthenticAMD" | b"HygonGenuine")).then_some(family)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Copies `src` over lines that another core has read last, as [`copy`] does. The lines of small payloads were claimed, so they are
/// copied without `rep movsb`, which starts late. `all`: the bytes of the payload that the copy is a part of.
#[inline(always)]
pub fn copy_over(dst: Payload<'_>, src: Payload<'_>, all: usize) {
    if dst.bytes() < SHORTEST || all > limits().stored {
        return copy(dst, src, false);
    }
    let whole = dst.bytes() / LINE * LINE;
    store_lines(dst.part(0, whole), src.part(0, whole));
    copy(dst.part(whole, dst.bytes() - whole), src.part(whole, dst.bytes() - whole), false);
}

/// The smallest copy for which a C library may use `rep movsb`.
pub(super) const SHORTEST: usize = 2 << 10;

/// Copies whole lines by ordinary stores.
fn store_lines(dst: Payload<'_>, src: Payload<'_>) {
    assert_eq!(dst.bytes(), src.bytes(), "a copy's ends are equally long");
    debug_assert!(!dst.overlaps(src), "a copy's ends overlap");
    for at in (0..dst.bytes()).step_by(LINE) {
        // SAFETY: a line at `at` lies within both.
        unsafe {
            let line = src.addr().add(at).cast::<[u128; LINE / 16]>().read_unaligned();
            dst.addr().add(at).cast::<[u128; LINE / 16]>().write_unaligned(line);
        }
    }
}

/// Bytes of a page.
const PAGE: usize = 4 << 10;
/// Pages that [`copy_side_by_side`] copies at the same time.
const SIDE_BY_SIDE: usize = 4;

/// Copies what another core has just written, a line of each of four pages in turn: processors foresee the next lines of a page, of
/// several pages at once, and none across the end of a page. Slower than `copy` where the lines are in this core's own cache.
pub fn copy_side_by_side(dst: Payload<'_>, src: Payload<'_>) {
    assert_eq!(dst.bytes(), src.bytes(), "a copy's ends are equally long");
    debug_assert!(!dst.overlaps(src), "a copy's ends overlap");
    let bytes = dst.bytes();
    let head = dst.addr().align_offset(LINE).min(bytes);
    let tail = head + (bytes - head) / (SIDE_BY_SIDE * PAGE) * (SIDE_BY_SIDE * PAGE);
    copy(dst.part(0, head), src.part(0, head), false);
    for pages in (head..tail).step_by(SIDE_BY_SIDE * PAGE) {
        for at in (pages..pages + PAGE).step_by(LINE) {
            for line in (at..at + SIDE_BY_SIDE * PAGE).step_by(PAGE) {
                // SAFETY: a line at `line` lies within both, and that of the destination is aligned to one.
                unsafe { copy_line(dst.addr().add(line), src.addr().add(line)) }
            }
        }
    }
    copy(dst.part(tail, bytes - tail), src.part(tail, bytes - tail), false);
}

/// Copies a line, from its beginning to its end.
///
/// # Safety
/// Both are valid for a line and do not overlap; `to` is aligned to one.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_line(to: *mut u8, from: *const u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_store_si128};
    // SAFETY: the caller's promise; every x86-64 has SSE2.
    unsafe {
        let parts = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.cast::<__m128i>().add(i)));
        for (i, part) in parts.into_iter().enumerate() {
            _mm_store_si128(to.cast::<__m128i>().add(i), part);
        }
    }
}

/// Copies a line.
///
/// # Safety
/// As on x86-64.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn copy_line(to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, LINE) }
}

/// Asks for the cache lines of what will be read, and waits for nothing.
#[inline]
pub fn prefetch(src: Payload<'_>) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..src.bytes()).step_by(LINE) {
        // SAFETY: a hint, which every x86-64 has.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(src.addr().wrapping_add(at).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = src;
}

/// Bytes whose lines are claimed at once: more would keep the stores before them from the other cores.
const CLAIMED_BESIDE_STORES: usize = 1 << 10;

/// Asks for the cache lines of what will be overwritten, so that this core owns them by then, and waits for nothing but its own stores
/// before.
#[inline]
pub fn prefetch_for_write(dst: Payload<'_>) {
    if dst.bytes() > CLAIMED_BESIDE_STORES {
        stored();
    }
    #[cfg(target_arch = "x86_64")]
    for at in (0..dst.bytes()).step_by(LINE) {
        // SAFETY: a hint; a processor without it takes it for a no-op.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) dst.addr().wrapping_add(at), options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = dst;
}

/// Waits until other cores can see what this one has stored.
#[inline]
pub fn stored() {
    // ORDER: no order is needed; the fence drains the core's stores.
    fence(Ordering::SeqCst);
}

/// Moves the cache lines of what has been written towards the cache that all cores share, where another core reads them sooner
/// than in this core's own, and waits for nothing.
#[inline]
pub fn demote(written: Payload<'_>) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..written.bytes()).step_by(LINE) {
        // SAFETY: a hint; a processor without it takes it for a no-op.
        unsafe {
            std::arch::asm!("cldemote [{}]", in(reg) written.addr().wrapping_add(at), options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = written;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_over_lines_writes_every_byte_and_no_other() {
        const ROOM: usize = 6 << 10;
        let source: Vec<u64> = (0..ROOM as u64 / 8).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut same = source.clone();
        let from = Payload::from(&mut same[..]);
        for bytes in [0, 1, 63, 64, 2047, 2048, 2049, 2111, 4095, 4096, 4097, 5000] {
            for (to, at, by_lines) in
                [(0, 0, false), (1, 3, true), (64, 0, true), (9, 64, false), (9, 1, true)]
            {
                let bytes = if by_lines { bytes / LINE * LINE } else { bytes };
                let mut written = vec![!0u64; ROOM / 8];
                let place = Payload::from(&mut written[..]);
                match by_lines {
                    true => store_lines(place.part(to, bytes), from.part(at, bytes)),
                    false => copy_over(place.part(to, bytes), from.part(at, bytes), bytes),
                }
                let all: Vec<u8> = written.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let expected: Vec<u8> = source.iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert!(
                    all[..to].iter().chain(&all[to + bytes..]).all(|&byte| byte == 0xff),
                    "{bytes} bytes at {to}"
                );
                assert!(all[to..to + bytes] == expected[at..at + bytes], "{bytes} bytes at {to} of {at}");
            }
        }
    }

    #[test]
    fn a_copy_of_pages_side_by_side_writes_every_byte_and_no_other() {
        const ROOM: usize = 72 << 10;
        let bytes_of = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let mut words: Vec<u64> =
            (0..ROOM as u64 / 8).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let source = bytes_of(&words);
        let from = Payload::from(&mut words[..]);
        for bytes in [0, 1, 63, 4096, 16_383, 16_384, 16_447, 16_448, 32_768, 40_000, 65_536] {
            for (to, at) in [(0, 0), (1, 3), (64, 0), (9, 64), (127, 1)] {
                let mut written = vec![!0u64; ROOM / 8];
                copy_side_by_side(Payload::from(&mut written[..]).part(to, bytes), from.part(at, bytes));
                let all = bytes_of(&written);
                assert!(all[to..to + bytes] == source[at..at + bytes], "{bytes} bytes at {to} of {at}");
                let mut outside = all[..to].iter().chain(&all[to + bytes..]);
                assert!(outside.all(|&byte| byte == 0xff), "{bytes} bytes at {to}");
            }
        }
    }

    #[test]
    fn a_payload_that_is_stored_was_claimed() {
        for limits in [Limits::GENERAL, Limits::ZEN_5, Limits::ZEN_4, Limits::ZEN_3] {
            assert!(limits.stored <= limits.claimed_payload && limits.around_from >= LEAST_AROUND);
        }
    }
}
