//! Waiting for words of one's own symmetric memory, and looking at them.

use super::symmetric_memory::SymmetricMemory;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::view::Address;
use crate::recorder::{self, Description};
use crate::sync::prim::Ordering;
use crate::types::DataType;
use std::cmp::Ordering as Order;
use std::fmt;

/// The comparison of a word with a value. The numbers are OpenSHMEM's, as in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq = 0,
    /// Not equal.
    Ne = 1,
    /// Greater than.
    Gt = 2,
    /// Less than or equal.
    Le = 3,
    /// Less than.
    Lt = 4,
    /// Greater than or equal.
    Ge = 5,
}

impl Comparison {
    /// Returns the comparison with this number.
    pub const fn from_c(value: i32) -> Option<Comparison> {
        use Comparison::*;
        match value {
            0 => Some(Eq),
            1 => Some(Ne),
            2 => Some(Gt),
            3 => Some(Le),
            4 => Some(Lt),
            5 => Some(Ge),
            _ => None,
        }
    }

    /// Tells whether the comparison holds for this order of word and value.
    #[inline]
    pub const fn holds(self, order: Order) -> bool {
        match self {
            Comparison::Eq => order.is_eq(),
            Comparison::Ne => order.is_ne(),
            Comparison::Gt => order.is_gt(),
            Comparison::Le => order.is_le(),
            Comparison::Lt => order.is_lt(),
            Comparison::Ge => order.is_ge(),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Eq => "equal to",
            Comparison::Ne => "other than",
            Comparison::Gt => "greater than",
            Comparison::Le => "at most",
            Comparison::Lt => "less than",
            Comparison::Ge => "at least",
        })
    }
}

/// The number of words for which a wait must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Several {
    /// All words.
    All,
    /// The first that is found.
    Any,
    /// At least one word; all that hold are returned.
    Some,
}

/// Words of one's own symmetric memory and what they are compared with.
pub struct WordRange<'a> {
    symmetric: &'a SymmetricMemory,
    first: usize,
    count: usize,
    /// 0 where a word counts; `None`: all do.
    left_out: Option<&'a [i32]>,
    cmp: Comparison,
    dtype: DataType,
    value: u64,
}

impl SymmetricMemory {
    /// `count` words from `ivars` on, each of which is to compare so with the value. `left_out`: words with another entry
    /// than 0 do not count.
    pub fn words<'a>(
        &'a self,
        ivars: Address,
        count: usize,
        left_out: Option<&'a [i32]>,
        cmp: Comparison,
        value: Address,
        dtype: DataType,
    ) -> Result<WordRange<'a>> {
        self.usable()?;
        if !dtype.is_integer() || dtype.size() < 4 {
            return Err(Error::argument(format!(
                "datatype {dtype} cannot be waited for; int32, uint32, int64 and uint64 can"
            )));
        }
        if value.is_null() {
            return Err(Error::argument("value is NULL; pass the value to compare with"));
        }
        let value = kernels::bits(value.view(dtype.size()));
        let words = WordRange { symmetric: self, first: ivars.get(), count, left_out, cmp, dtype, value };
        let bytes = count.checked_mul(dtype.size()).ok_or_else(|| Error::argument("nelems is too large"))?;
        if count > 0 {
            self.place("ivar", ivars.get(), bytes)?;
            words.now(0)?;
        }
        Ok(words)
    }
}

impl WordRange<'_> {
    fn now(&self, index: usize) -> Result<u64> {
        let (symmetric, size) = (self.symmetric, self.dtype.size());
        let addr = self.first.wrapping_add(index * size);
        // ORDER: partner of whatever release store another rank made; see `put.rs`.
        Ok(if size == 8 {
            symmetric.word64("ivar", addr, symmetric.my_pe())?.load(Ordering::Acquire)
        } else {
            symmetric.word32("ivar", addr, symmetric.my_pe())?.load(Ordering::Acquire) as u64
        })
    }

    fn holds(&self, index: usize) -> bool {
        let Ok(now) = self.now(index) else { return false };
        let order = match self.dtype {
            DataType::Int32 => (now as i32).cmp(&(self.value as i32)),
            DataType::Int64 => (now as i64).cmp(&(self.value as i64)),
            _ => now.cmp(&self.value),
        };
        self.cmp.holds(order)
    }

    fn counted(&self) -> impl Iterator<Item = usize> {
        let counts =
            |i: &usize| self.left_out.is_none_or(|left_out| left_out.get(*i).is_none_or(|&x| x == 0));
        (0..self.count).filter(counts)
    }

    /// Returns the indices for which it holds now, if they are enough: empty where nothing counts.
    pub fn test(&self, several: Several) -> Option<Vec<usize>> {
        self.symmetric.transport.poll_far();
        self.found(several)
    }

    fn found(&self, several: Several) -> Option<Vec<usize>> {
        let found = self.look(several)?;
        for &index in &found {
            let addr = self.first.wrapping_add(index * self.dtype.size());
            // The rank that holds the ledger is gone: the next call says so.
            let _ = self.symmetric.has_seen(addr, self.symmetric.my_pe());
        }
        Some(found)
    }

    fn look(&self, several: Several) -> Option<Vec<usize>> {
        let mut counted = self.counted().peekable();
        if counted.peek().is_none() {
            return Some(Vec::new());
        }
        match several {
            Several::All => {
                let all: Vec<usize> = counted.collect();
                all.iter().all(|&i| self.holds(i)).then_some(all)
            }
            Several::Any => counted.find(|&i| self.holds(i)).map(|i| vec![i]),
            Several::Some => {
                Some(counted.filter(|&i| self.holds(i)).collect()).filter(|v: &Vec<_>| !v.is_empty())
            }
        }
    }

    /// Waits until [`test`](Self::test) finds enough.
    pub fn wait(&self, several: Several) -> Result<Vec<usize>> {
        let recorded = match several {
            Several::All => recorder::record(|d| self.counted().for_each(|index| self.describe(d, index))),
            // Which it waits for is known in the end.
            Several::Any | Several::Some => None,
        };
        let mut found = None;
        let ready = || {
            found = self.found(several);
            found.is_some()
        };
        let what = || {
            let short = self.counted().find(|&i| !self.holds(i)).unwrap_or(0);
            format!(
                "{} of its {} words at {:#x} to be {} {} (word {short} is {})",
                match several {
                    Several::All => "all",
                    _ => "one",
                },
                self.count,
                self.first,
                self.cmp,
                self.text(self.value),
                self.now(short).map_or_else(|e| e.message.clone(), |now| self.text(now))
            )
        };
        self.symmetric.wait(ready, what)?;
        die_point!(144 "wait_over");
        let found = found.unwrap_or_default();
        drop(recorded);
        if several != Several::All {
            drop(recorder::record(|d| found.iter().for_each(|&index| self.describe(d, index))));
        }
        Ok(found)
    }

    fn describe(&self, d: &mut Description, index: usize) {
        let is_signed = matches!(self.dtype, DataType::Int32 | DataType::Int64);
        let (addr, size) = (self.first.wrapping_add(index * self.dtype.size()), self.dtype.size());
        let Ok(before) = self.now(index) else { return };
        self.symmetric.describe_wait(d, addr, (size, is_signed), (self.cmp, self.value), before);
    }

    fn text(&self, bits: u64) -> String {
        match self.dtype {
            DataType::Int32 => (bits as i32).to_string(),
            DataType::Int64 => (bits as i64).to_string(),
            _ => bits.to_string(),
        }
    }
}
