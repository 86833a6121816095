//! What of a protocol depends on the size of calls and on their nodes.

use crate::error::Result;
use crate::topology::source::Section;
use crate::topology::units::{self, Ratio};
use std::ops::Range;

/// The most channels of a protocol.
const MOST_CHANNELS: u32 = 256;
/// The most slices of a chunk that a protocol asks for.
const MOST_SLICES: u32 = 128;

/// The ranges of sizes in which a protocol is the same.
pub(super) struct BySize {
    /// Sizes are those of a rank's share.
    pub per_rank: bool,
    pub ranges: Vec<SizeRange>,
}

/// A range of sizes in which a protocol is the same.
pub(super) struct SizeRange {
    pub bytes: Range<u64>,
    /// The part of the channels that a call has, if there are channels.
    pub channels: Option<Ratio>,
    /// What is left of the bandwidth beside that.
    pub part: Option<Ratio>,
    /// How chunks are cut.
    pub slices: SliceBounds,
}

/// How a protocol cuts chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceBounds {
    /// The largest slice, if it is given.
    pub largest: Option<u64>,
    /// The slices of a chunk at least; 1: those that `largest` makes.
    pub parts: u64,
    /// No chunk is cut into smaller slices because of `parts`.
    pub least: u64,
}

impl SliceBounds {
    /// Returns the largest slice of a call whose largest chunk has `chunk_bytes` bytes; `None`: the quickest.
    pub fn of(self, chunk_bytes: u64) -> Option<u64> {
        if self.parts == 1 {
            return self.largest;
        }
        let part = chunk_bytes.div_ceil(self.parts).max(self.least).max(1);
        Some(self.largest.map_or(part, |largest| part.min(largest)))
    }
}

impl BySize {
    /// Reads `sizes`, `channels`, `channel_bytes`, `channel_bytes_per_rank`, `part`, `slice`, `slices` and `slice_least`.
    pub fn read(section: &Section) -> Result<BySize> {
        let channels = section.get("channels").map(|field| field.count(MOST_CHANNELS)).transpose()?;
        let (all, each) = (section.get("channel_bytes"), section.get("channel_bytes_per_rank"));
        let per_rank = each.is_some();
        let of_channel = match (channels, all.or(each)) {
            (Some(channels), Some(field)) => match field.read(units::size)? {
                0 => return Err(field.error("a channel for each 0 bytes is none; write more")),
                bytes => Some((channels, bytes)),
            },
            (None, None) => None,
            (Some(_), None) => {
                return Err(
                    section.error("has channels, but not for how many bytes; add channel_bytes = \"4KiB\"")
                );
            }
            (None, Some(_)) => {
                return Err(section.error("has channel_bytes, but not how many channels; add channels = 16"));
            }
        };
        let parts = from_sizes(section, "part", |field| field.part())?;
        let slices = match section.get("slice").filter(|field| field.text().is_ok()) {
            Some(field) => vec![(0, field.read(units::size)?)],
            None => from_sizes(section, "slice", |field| field.read(units::size))?,
        };
        let at_least = section.get("slices").map_or(Ok(1), |field| field.count(MOST_SLICES))?.into();
        let least = section.get("slice_least").map(|field| field.read(units::size)).transpose()?;
        if at_least == 1 && least.is_some() {
            return Err(section.error("has slice_least, but not how many slices; add slices = 2"));
        }
        let least = least.unwrap_or(0);
        let sizes = sizes(section)?;
        let by_vector =
            !parts.is_empty() || sizes != (0..u64::MAX) || slices.iter().any(|&(from, _)| from > 0);
        if per_rank && by_vector {
            let what = "has sizes of a rank's share in channel_bytes_per_rank, and of vectors in part, sizes or slice; leave one out";
            return Err(section.error(what));
        }
        let of_channels = of_channel
            .iter()
            .flat_map(|&(channels, bytes)| (2..=channels.into()).map(move |n: u64| n.saturating_mul(bytes)));
        let mut begins: Vec<u64> = std::iter::once(sizes.start)
            .chain(of_channels)
            .chain(parts.iter().map(|&(from, _)| from))
            .chain(slices.iter().map(|&(from, _)| from))
            .filter(|from| sizes.contains(from))
            .collect();
        begins.sort_unstable();
        begins.dedup();
        let ends = begins.iter().skip(1).copied().chain([sizes.end]);
        let ranges = begins.iter().copied().zip(ends).map(|(from, until)| SizeRange {
            bytes: from..until,
            channels: of_channel.map(|(channels, bytes)| {
                Ratio::new((from / bytes).clamp(1, channels.into()), channels.into())
            }),
            part: latest(&parts, from),
            slices: SliceBounds { largest: latest(&slices, from), parts: at_least, least },
        });
        Ok(BySize { per_rank, ranges: ranges.collect() })
    }
}

/// The value that holds from a size on.
pub(super) fn latest<T: Copy>(values: &[(u64, T)], size: u64) -> Option<T> {
    values.iter().rev().find(|&&(from, _)| from <= size).map(|&(_, value)| value)
}

/// A table whose keys are sizes, ascending.
pub(super) fn from_sizes<T>(
    section: &Section,
    key: &str,
    read: impl Fn(&crate::topology::source::Field) -> Result<T>,
) -> Result<Vec<(u64, T)>> {
    let Some(value) = section.table.get(key) else { return Ok(Vec::new()) };
    let inner = section.inner(format!("{}'s {key}", section.name), value)?;
    let mut values = Vec::new();
    for name in inner.table.keys().map(|name| name.get_ref().as_ref()) {
        let Some(field) = inner.get(name) else { continue };
        let from = units::size(name).map_err(|why| field.error(format_args!("the key is no size: {why}")))?;
        values.push((from, read(&field)?));
    }
    values.sort_by_key(|&(from, _)| from);
    Ok(values)
}

/// Reads `sizes`: a range like `..30MiB`, without its end, or `30MiB..`.
fn sizes(section: &Section) -> Result<Range<u64>> {
    let Some(field) = section.get("sizes") else { return Ok(0..u64::MAX) };
    field.read(|text| {
        let wrong =
            || format!("`{text}` is no range of sizes; write one such as ..30MiB, 1MiB..30MiB or 30MiB..");
        let (from, until) = text.split_once("..").ok_or_else(wrong)?;
        let bound = |text: &str, open| if text.is_empty() { Ok(open) } else { units::size(text) };
        let range = bound(from, 0)?..bound(until, u64::MAX)?;
        if range.is_empty() { Err(wrong()) } else { Ok(range) }
    })
}

/// Reads `nodes`: a number, or a range like `2..` or `2..4` with both ends in it.
pub(super) fn nodes(section: &Section) -> Result<Range<u32>> {
    let Some(field) = section.get("nodes") else { return Ok(0..u32::MAX) };
    field.read(|text| {
        let wrong = || format!("`{text}` is no number of nodes; write one such as 1, 2.. or 2..4");
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| (1..u32::MAX).contains(&n));
        let (from, to) = match text.split_once("..") {
            None => (number(text), number(text)),
            Some((from, "")) => (number(from), Some(u32::MAX - 1)),
            Some((from, to)) => (number(from), number(to)),
        };
        match (from, to) {
            (Some(from), Some(to)) if from <= to => Ok(from..to + 1),
            _ => Err(wrong()),
        }
    })
}
