//! What an endpoint reports: messages and writes that have come, and what has become of its own.

use super::abi::*;
use super::endpoint::{Context, OfiEndpoint, RECEIVES, SENDS};
use super::wakeup::COMPLETIONS;
use crate::error::Result;
use crate::sys::endpoint::Report;
use std::mem::{MaybeUninit, zeroed};

/// Completions that are read at once.
const BATCH: usize = 16;

impl OfiEndpoint {
    /// The index of the buffer whose context this is.
    fn index_of(&self, context: *mut std::ffi::c_void) -> Option<u32> {
        let distance = (context as usize).checked_sub(self.contexts as usize)?;
        let index = distance / size_of::<Context>();
        (distance.is_multiple_of(size_of::<Context>()) && index < RECEIVES + SENDS).then_some(index as u32)
    }

    /// Makes progress, and passes on what has come.
    pub(super) fn poll(&mut self, sink: &mut dyn FnMut(Report<'_>)) -> Result<()> {
        let mut entries = [const { MaybeUninit::<CqEntry>::uninit() }; BATCH];
        let cq = self.objects.cq;
        let mut has_come = false;
        // Completions that stay in the queue wake no sleeping thread, so a thread that may sleep takes all of them out first.
        let batches = if self.is_slept_on() { COMPLETIONS / BATCH } else { BATCH };
        // BOUND: what has come; a caller that has to go on is not held up by a flood for longer than these.
        for _ in 0..batches {
            // SAFETY: a live queue, and a place for as many completions.
            let read = unsafe { ((*(*cq).ops).read)(cq, entries.as_mut_ptr().cast(), BATCH) };
            if read == AGAIN || read == 0 {
                break;
            }
            if read == ERROR_AVAILABLE {
                self.failed(sink);
                continue;
            }
            self.check(read, || "cannot read the completion queue".into())?;
            has_come = true;
            for entry in entries.iter().take(read as usize) {
                // SAFETY: the queue has filled in as many as it says.
                self.completed(unsafe { entry.assume_init_ref() }, sink);
            }
            if (read as usize) < BATCH {
                break;
            }
        }
        // What has come is waited for: its buffers can be given back when nothing does, unless they run short.
        let is_due = if has_come { self.idle.len() >= RECEIVES / 2 } else { !self.idle.is_empty() };
        if is_due { self.post_receives() } else { Ok(()) }
    }

    fn completed(&mut self, entry: &CqEntry, sink: &mut dyn FnMut(Report<'_>)) {
        let index = self.index_of(entry.op_context);
        let written = entry.flags & FI_REMOTE_CQ_DATA != 0;
        match index {
            Some(index) if (index as usize) < RECEIVES => {
                if !written {
                    let words = entry.len.div_ceil(8).min(self.words);
                    // SAFETY: a buffer that the provider has given back, of at least as many words; nobody else uses it until it is
                    // posted anew, after this function.
                    let message = unsafe { std::slice::from_raw_parts_mut(self.buffer(index), words) };
                    sink(Report::Message(message));
                }
                self.idle.push(index);
            }
            Some(index) => self.sent(index),
            None => {}
        }
        if written {
            sink(Report::Written(entry.data as u32));
        }
    }

    /// The provider needs a send's buffer and bytes no longer.
    fn sent(&mut self, index: u32) {
        self.free.push(index);
        let bit = 1 << (index as usize - RECEIVES);
        for bits in [&mut self.lent, &mut self.by_second, &mut self.abandoned] {
            *bits &= !bit;
        }
    }

    /// Reads the error at the head of the queue.
    #[cold]
    fn failed(&mut self, sink: &mut dyn FnMut(Report<'_>)) {
        // SAFETY: numbers and addresses, for which all zero is a value: the provider's own data of the error are not asked for.
        let mut error: CqError = unsafe { zeroed() };
        let cq = self.objects.cq;
        // SAFETY: a live queue, and a place for an error.
        if unsafe { ((*(*cq).ops).readerr)(cq, &mut error, 0) } <= 0 {
            return;
        }
        let why = self.library.describe(error.err as isize);
        match self.index_of(error.op_context) {
            Some(index) if (index as usize) < RECEIVES => self.idle.push(index),
            // The endpoint by which it went was closed here.
            Some(index) if self.abandoned >> (index as usize - RECEIVES) & 1 == 1 => self.sent(index),
            Some(index) => {
                self.sent(index);
                sink(Report::Lost(Some(self.receivers[index as usize]), why));
            }
            None => sink(Report::Lost(None, why)),
        }
    }
}
