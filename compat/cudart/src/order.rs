//! What an operation of a stream waits for beside the stream itself: the legacy stream of a device follows the blocking streams of
//! the device, and they follow it.
//!
//! ```text
//!     operation on the legacy stream     each blocking stream that is busy: an event there, which the legacy stream waits for
//!     operation on a blocking stream     the legacy stream, if it is busy: an event there, which the stream waits for
//! ```
//!
//! Calls that other libraries queue are followed, too, because each operation asks Penny whether a stream is busy.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::guard::Result;
use crate::handles::lock;
use crate::stream::{self, Stream};
use crate::{device, fork};

/// The streams of a device in this process.
#[derive(Default)]
struct Streams {
    legacy: Option<Arc<Stream>>,
    /// Those that the program made, those of threads, and those that were destroyed while work was queued.
    others: Vec<Arc<Stream>>,
}

/// By process and device: a forked child begins without streams.
static STREAMS: Mutex<BTreeMap<(u32, c_int), Streams>> = Mutex::new(BTreeMap::new());

/// This process, or one that it was forked from, has made a legacy stream.
static HAS_LEGACY: AtomicBool = AtomicBool::new(false);

/// May there be streams that a stream follows?
pub fn may_follow(stream: &Stream) -> bool {
    stream.is_legacy() || stream.is_blocking() && HAS_LEGACY.load(Ordering::Acquire)
}

fn with<T>(device: c_int, act: impl FnOnce(&mut Streams) -> T) -> T {
    act(lock(&STREAMS).entry((fork::generation(), device)).or_default())
}

/// Returns the legacy stream of a device, made at its first use.
pub fn legacy(device: c_int) -> Result<Arc<Stream>> {
    if let Some(legacy) = with(device, |streams| streams.legacy.clone()) {
        return Ok(legacy);
    }
    let made = stream::make_legacy(device)?;
    HAS_LEGACY.store(true, Ordering::Release);
    let kept = with(device, |streams| streams.legacy.get_or_insert_with(|| made.clone()).clone());
    if !Arc::ptr_eq(&kept, &made) {
        made.give_back();
    }
    Ok(kept)
}

/// Lists a stream on its device.
pub fn list(stream: &Arc<Stream>) {
    if !stream.is_legacy() {
        with(stream.device, |streams| streams.others.push(stream.clone()));
    }
}

/// Gives a stream back as soon as its work is over.
pub fn retire(stream: &Arc<Stream>) {
    stream::mark_retired(stream);
    sweep(stream.device);
}

/// Gives back the streams of a device that were destroyed and whose work is over.
pub fn sweep(device: c_int) {
    let is_over = |stream: &Arc<Stream>| stream.is_retired.load(Ordering::Relaxed) && stream.is_idle();
    let retired: Vec<_> = all(device).into_iter().filter(is_over).collect();
    for stream in retired {
        let is_listed = with(device, |streams| {
            let before = streams.others.len();
            streams.others.retain(|other| !Arc::ptr_eq(other, &stream));
            streams.others.len() < before
        });
        if is_listed {
            stream.give_back();
        }
    }
}

/// Returns all streams of a device.
pub fn all(device: c_int) -> Vec<Arc<Stream>> {
    with(device, |streams| streams.others.iter().chain(&streams.legacy).cloned().collect())
}

/// Returns the streams that a stream follows.
fn predecessors(stream: &Stream) -> Vec<Arc<Stream>> {
    if stream.is_legacy() {
        with(stream.device, |streams| {
            streams.others.iter().filter(|other| other.is_blocking()).cloned().collect()
        })
    } else if may_follow(stream) {
        with(stream.device, |streams| streams.legacy.iter().cloned().collect())
    } else {
        Vec::new()
    }
}

/// Returns the blocking streams that the legacy stream would follow.
pub fn followed(stream: &Stream) -> Vec<Arc<Stream>> {
    if stream.is_legacy() { predecessors(stream) } else { Vec::new() }
}

/// Makes the stream's next operation wait for what it follows. Is that over?
pub fn follow(stream: &Stream) -> Result<bool> {
    let mut is_idle = true;
    for before in predecessors(stream) {
        if !before.is_idle() {
            is_idle = false;
            stream.wait_for(&before)?;
        }
    }
    Ok(is_idle)
}

/// Waits until everything is over that is queued on the stream; the legacy stream: also on those that it would follow.
pub fn settle(stream: &Stream) {
    // Even those that are idle: who waits for a stream knows on a declared machine when its work was over.
    followed(stream).iter().map(|before| &**before).chain([stream]).for_each(Stream::settle);
}

/// Tests the same without waiting.
pub fn is_idle(stream: &Stream) -> bool {
    stream.is_idle() && followed(stream).iter().all(|before| before.is_idle())
}

/// Waits for all streams of a device; the first failure.
pub fn settle_device(device: c_int) -> Result<()> {
    let all = all(device);
    all.iter().for_each(|stream| stream.settle());
    sweep(device);
    all.iter().map(|stream| stream.outcome()).fold(Ok(()), Result::and)
}

/// Waits for the streams of a device without telling failures.
pub fn quiet(device: c_int) {
    if device::is_one(device) {
        all(device).iter().filter(|stream| !stream.is_idle()).for_each(|stream| stream.settle());
    }
}
