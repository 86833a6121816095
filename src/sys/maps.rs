//! What a process's address space is made of: the lines of /proc/self/maps.

use crate::error::{Error, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

/// One mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<usize>,
    /// Readable, writable, executable, and private or shared, as `rw-p`.
    access: String,
    /// Its offset in the file.
    offset: usize,
    device: u64,
    inode: u64,
    /// The file's path, or a name in brackets that the kernel gives.
    name: String,
}

impl Mapping {
    /// Memory of this process alone, of no file, which it may write: what malloc hands out. A stack is not counted.
    pub fn is_ordinary(&self) -> bool {
        self.access == "rw-p" && self.inode == 0 && !self.name.starts_with("[stack")
    }

    /// The byte at `address` is byte `offset` of this file, shared with all that map it.
    pub fn shares(&self, file: &File, address: usize, offset: usize) -> bool {
        let same = |m: std::fs::Metadata| m.ino() == self.inode && m.dev() == self.device;
        self.access.ends_with('s')
            && address.wrapping_sub(self.range.start).wrapping_add(self.offset) == offset
            && file.metadata().is_ok_and(same)
    }

    /// Returns its description.
    pub fn text(&self) -> String {
        let name = if self.name.is_empty() { "without a name" } else { &self.name };
        format!("{:#x}-{:#x} {} {name}", self.range.start, self.range.end, self.access)
    }

    /// A line such as `7f01b000-7f01c000 rw-s 00002000 00:1a 77   /dev/shm/file (deleted)`.
    fn parse(line: &str) -> Option<Mapping> {
        let mut fields = line.splitn(6, ' ');
        let hex = |text: &str| usize::from_str_radix(text, 16).ok();
        let (start, end) = fields.next()?.split_once('-')?;
        let range = hex(start)?..hex(end)?;
        let access = fields.next()?.to_owned();
        let offset = hex(fields.next()?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let device = libc::makedev(hex(major)? as u32, hex(minor)? as u32);
        let inode = fields.next()?.parse().ok()?;
        let name = fields.next().unwrap_or_default().trim_start().to_owned();
        Some(Mapping { range, access, offset, device, inode, name })
    }
}

/// The mappings that share an address with `range`, in order.
pub fn over(range: &Range<usize>) -> Result<Vec<Mapping>> {
    let text = std::fs::read("/proc/self/maps")
        .map_err(|e| Error::system(format!("cannot read this process's mappings: {e}; is /proc mounted?")))?;
    let all = String::from_utf8_lossy(&text);
    let meets = |m: &Mapping| m.range.start < range.end && range.start < m.range.end;
    Ok(all.lines().filter_map(Mapping::parse).filter(meets).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_all_its_fields() {
        let shared =
            "7f01b000-7f01c000 rw-s 00002000 00:1a 77                         /dev/shm/#77 (deleted)";
        let shared = Mapping::parse(shared).unwrap();
        assert_eq!(shared.range, 0x7f01b000..0x7f01c000);
        assert_eq!((shared.offset, shared.inode, shared.device), (0x2000, 77, libc::makedev(0, 0x1a)));
        assert_eq!(shared.name, "/dev/shm/#77 (deleted)");
        assert!(!shared.is_ordinary());
        assert!(Mapping::parse("55d0c000-55d2d000 rw-p 00000000 00:00 0      [heap]").unwrap().is_ordinary());
        assert!(Mapping::parse("7ff0c000-7ff2d000 rw-p 00000000 00:00 0 ").unwrap().is_ordinary());
        assert!(
            !Mapping::parse("7ff0c000-7ff2d000 rw-p 00000000 00:00 0      [stack]").unwrap().is_ordinary()
        );
        assert!(!Mapping::parse("7ff0c000-7ff2d000 r--p 00000000 00:00 0 ").unwrap().is_ordinary());
        assert_eq!(Mapping::parse("no mapping"), None);
    }

    #[test]
    fn a_local_lies_on_the_stack_and_a_box_in_ordinary_memory() {
        let boxed = Box::new([1u8; 100]);
        let at = boxed.as_ptr() as usize;
        let found = over(&(at..at + boxed.len())).unwrap();
        assert!(found.len() == 1 && found[0].is_ordinary(), "{found:?}");
        assert_eq!(over(&(0..1)).unwrap(), []);
    }
}
