//! The streams of this process, by handle.

use super::queue::{NOT_LIVE, StreamQueue};
use super::turn::refuse_forked;
use crate::comm::group::batch::Queued;
use crate::error::Result;
use crate::handle::{self, Objects, Remembered, StreamKind};
use std::sync::Arc;

/// Names a stream of this process.
pub type StreamHandle = handle::Handle<StreamKind>;

thread_local! {
    static LAST: Remembered<StreamKind, StreamQueue> = const { handle::nothing_remembered() };
}
pub(super) static STREAMS: Objects<StreamKind, StreamQueue> = Objects::new(&LAST);

/// A call, and the stream that it is to be made on.
pub(in crate::comm) type Placed = (Queued, Option<StreamHandle>);

/// Returns the stream of a handle.
pub(super) fn find(stream: StreamHandle) -> Result<Arc<StreamQueue>> {
    let found = STREAMS.get(stream).ok_or_else(|| stream.refusal("stream", format_args!("{NOT_LIVE}")))?;
    refuse_forked(found.generation, "stream")?;
    Ok(found)
}

/// Checks that the stream exists, for a call that is queued later.
pub(in crate::comm) fn check(stream: StreamHandle) -> Result<()> {
    match STREAMS.with(stream, |found| found.generation) {
        Some(generation) => refuse_forked(generation, "stream"),
        None => find(stream).map(drop),
    }
}
