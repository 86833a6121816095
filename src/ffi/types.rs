//! The types that cross the boundary: numbers, the unique id.
//!
//! C sees enums. Rust sees integers with names, because C may pass any number and a Rust enum that holds an unlisted one
//! is undefined behaviour. Each is range-checked when it is admitted.

use std::ffi::{c_char, c_int, c_uint};

use crate::bootstrap::UniqueId;
use crate::comm::{self, Grouping};
use crate::error::{Error, Result};
use crate::ffi::guard::Parameter;
use crate::types::{DataType, RedOp};

/// An enum to C, an integer with names to Rust.
macro_rules! c_numbers {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$item_doc:meta])* $item:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub c_int);
        $($(#[$item_doc])* pub const $item: $name = $name($value);)*
    };
}
pub(super) use c_numbers;

c_numbers! {
    /// The result of a call. The numbers are NCCL's and never change.
    pub enum pennyResult_t {
        /// The call succeeded.
        pennySuccess = 0,
        /// A device error. Never returned: Penny has no device. It keeps NCCL's numbering.
        pennyUnhandledDeviceError = 1,
        /// A system error: the operating system refused shared memory, a socket, or a limit was reached.
        pennySystemError = 2,
        /// A defect in Penny. The communicator accepts no more calls but pennyCommAbort and pennyCommDestroy.
        pennyInternalError = 3,
        /// An argument is wrong by itself. The call did nothing.
        pennyInvalidArgument = 4,
        /// A wrong use: the arguments are each valid, but not together, not now, or not those of the other ranks.
        pennyInvalidUsage = 5,
        /// Another rank died, left or failed.
        pennyRemoteError = 6,
        /// A non-blocking call has not finished yet; poll pennyCommGetAsyncError.
        pennyInProgress = 7,
        /// The deadline passed.
        pennyTimeout = 8,
        /// The number of results; not a result itself.
        pennyNumResults = 9,
    }
}

c_numbers! {
    /// Element types. NCCL's numbers; Penny's own begin at 64.
    pub enum pennyDataType_t {
        /// Signed 8-bit integer.
        pennyInt8 = 0,
        /// The same.
        pennyChar = 0,
        /// Unsigned 8-bit integer.
        pennyUint8 = 1,
        /// Signed 32-bit integer.
        pennyInt32 = 2,
        /// The same.
        pennyInt = 2,
        /// Unsigned 32-bit integer.
        pennyUint32 = 3,
        /// Signed 64-bit integer.
        pennyInt64 = 4,
        /// Unsigned 64-bit integer.
        pennyUint64 = 5,
        /// IEEE binary16.
        pennyFloat16 = 6,
        /// The same.
        pennyHalf = 6,
        /// IEEE binary32.
        pennyFloat32 = 7,
        /// The same.
        pennyFloat = 7,
        /// IEEE binary64.
        pennyFloat64 = 8,
        /// The same.
        pennyDouble = 8,
        /// The upper half of binary32.
        pennyBfloat16 = 9,
        /// OCP FP8 E4M3: finite only, one NaN. Results saturate at 448.
        pennyFloat8e4m3 = 10,
        /// OCP FP8 E5M2: with infinities. Results saturate at 57344.
        pennyFloat8e5m2 = 11,
        /// One byte, zero or not.
        pennyBool = 64,
        /// Signed 16-bit integer.
        pennyInt16 = 65,
        /// Unsigned 16-bit integer.
        pennyUint16 = 66,
    }
}

c_numbers! {
    /// Reductions. NCCL's numbers; Penny's own begin at 64. include/README.md has the table of types that each serves.
    pub enum pennyRedOp_t {
        /// x0 + x1 + ...
        pennySum = 0,
        /// x0 * x1 * ...
        pennyProd = 1,
        /// The largest; a NaN loses to a number.
        pennyMax = 2,
        /// The smallest; a NaN loses to a number.
        pennyMin = 3,
        /// The mean. Floats are multiplied by 1/ranks before the sum; integers are divided after it, toward zero.
        pennyAvg = 4,
        /// x0*x0 + x1*x1 + ...
        pennySquareAdd = 64,
        /// 1 where all are non-zero, else 0.
        pennyLogicalAnd = 65,
        /// 1 where any is non-zero, else 0.
        pennyLogicalOr = 66,
        /// 1 where an odd number is non-zero, else 0.
        pennyLogicalXor = 67,
        /// Bitwise and.
        pennyBitAnd = 68,
        /// Bitwise or.
        pennyBitOr = 69,
        /// Bitwise exclusive or.
        pennyBitXor = 70,
        /// No reduction: makes the enum as wide as an int.
        pennyMaxRedOp = 0x7fffffff,
    }
}

c_numbers! {
    /// The place of the number of a pennyRedOpCreatePreMulSum, and the time at which it is read. NCCL's numbers.
    pub enum pennyScalarResidence_t {
        /// In memory that stays valid until the operation is destroyed; read by each call, on a stream when the call's turn comes.
        pennyScalarDevice = 0,
        /// Read before pennyRedOpCreatePreMulSum returns.
        pennyScalarHostImmediate = 1,
    }
}

c_numbers! {
    /// What pennyCommMemStats reads, for the calling rank. NCCL's numbers.
    pub enum pennyCommMemStat_t {
        /// Bytes of staging memory, which pennyCommSuspend gives back; the same number while it is given back.
        pennyStatMemSuspend = 0,
        /// 1 while it is given back, else 0.
        pennyStatMemSuspended = 1,
        /// Bytes of its part of the other memory that the ranks share for comm.
        pennyStatMemPersist = 2,
        /// The sum of both.
        pennyStatMemTotal = 3,
    }
}

c_numbers! {
    /// The division of N ranks into groups of size k by pennyCommGroup. The numbers are those of GCL's CommGroupType.
    pub enum pennyGroupKind_t {
        /// One group of all ranks.
        pennyGroupAll = 0,
        /// {0 .. k-1}, {k .. 2k-1}, ...
        pennyGroupConsecutive = 1,
        /// With m = N/k groups: {0, m, 2m, ...}, {1, m+1, 2m+1, ...}, ...
        pennyGroupOrthogonal = 2,
    }
}

/// The color of a rank that joins no communicator of a pennyCommSplit. NCCL's number.
pub const PENNY_SPLIT_NOCOLOR: c_int = -1;

/// A flag of pennyCommShrink: comm's calls go on, and comm stays as it is.
pub const PENNY_SHRINK_DEFAULT: c_int = 0;

/// A flag of pennyCommShrink: comm is aborted first, so that its calls end on all ranks.
pub const PENNY_SHRINK_ABORT: c_int = 1;

/// The flag of pennyCommSuspend: give staging memory back.
pub const PENNY_SUSPEND_MEM: c_int = 1;

/// The flag of pennyCommRevoke.
pub const PENNY_REVOKE_DEFAULT: c_int = 0;

/// Bytes of a pennyUniqueId.
pub const PENNY_UNIQUE_ID_BYTES: usize = 128;

/// An identifier that all ranks of one future communicator share. It is opaque: copy the bytes to the other ranks by any
/// means. Its holder can join the communicator, so keep it secret.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyUniqueId {
    /// The bytes.
    pub internal: [c_char; PENNY_UNIQUE_ID_BYTES],
}

/// A field of pennyConfig_t that the caller leaves to Penny.
pub const PENNY_CONFIG_UNDEF_INT: c_int = c_int::MIN;

/// This library's version: major * 10000 + minor * 100 + patch.
pub const PENNY_VERSION_CODE: c_uint = {
    const fn number(digits: &str) -> c_uint {
        match c_uint::from_str_radix(digits, 10) {
            Ok(number) => number,
            Err(_) => panic!("cargo's version is made of numbers"),
        }
    }
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 10000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
        + number(env!("CARGO_PKG_VERSION_PATCH"))
};

impl Parameter for pennyUniqueId {
    type Admitted = UniqueId;
    unsafe fn admit(self, _name: &'static str) -> Result<UniqueId> {
        Ok(UniqueId(self.internal.map(|byte| byte as u8)))
    }
}

impl Parameter for *const pennyUniqueId {
    type Admitted = Option<UniqueId>;
    unsafe fn admit(self, name: &'static str) -> Result<Option<UniqueId>> {
        match self.is_null() {
            true => Ok(None),
            // SAFETY: the caller's promise. C may have aligned it badly.
            false => unsafe { self.read_unaligned().admit(name).map(Some) },
        }
    }
}

impl From<UniqueId> for pennyUniqueId {
    fn from(id: UniqueId) -> pennyUniqueId {
        pennyUniqueId { internal: id.0.map(|byte| byte as c_char) }
    }
}

/// Words the refusal of a number that an enum does not list.
#[cold]
fn unlisted(name: &str, value: c_int, of: &str) -> Error {
    Error::argument(format!("{name} is {value}, no {of}"))
}

impl Parameter for pennyDataType_t {
    type Admitted = DataType;
    #[inline(always)]
    unsafe fn admit(self, name: &'static str) -> Result<DataType> {
        DataType::from_c(self.0).ok_or_else(|| unlisted(name, self.0, "pennyDataType_t"))
    }
}

/// A reduction as a C program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpArgument {
    /// One that every communicator has.
    Known(RedOp),
    /// The number of one that the program has made.
    Made(c_int),
}

impl Parameter for pennyRedOp_t {
    type Admitted = OpArgument;
    #[inline(always)]
    unsafe fn admit(self, name: &'static str) -> Result<OpArgument> {
        if (comm::FIRST_OPERATION + 1..=comm::LAST_OPERATION).contains(&self.0) {
            return Ok(OpArgument::Made(self.0));
        }
        let known = RedOp::from_c(self.0).map(OpArgument::Known);
        known.ok_or_else(|| unlisted(name, self.0, "pennyRedOp_t"))
    }
}

impl Parameter for pennyScalarResidence_t {
    type Admitted = pennyScalarResidence_t;
    unsafe fn admit(self, name: &'static str) -> Result<pennyScalarResidence_t> {
        match self {
            pennyScalarDevice | pennyScalarHostImmediate => Ok(self),
            _ => Err(Error::argument(format!(
                "{name} is {}, no pennyScalarResidence_t; it is pennyScalarDevice or pennyScalarHostImmediate",
                self.0
            ))),
        }
    }
}

impl Parameter for pennyCommMemStat_t {
    type Admitted = pennyCommMemStat_t;
    unsafe fn admit(self, name: &'static str) -> Result<pennyCommMemStat_t> {
        match self {
            pennyStatMemSuspend | pennyStatMemSuspended | pennyStatMemPersist | pennyStatMemTotal => Ok(self),
            _ => Err(Error::argument(format!(
                "{name} is {}, no pennyCommMemStat_t; it is pennyStatMemSuspend, pennyStatMemSuspended, pennyStatMemPersist or \
                 pennyStatMemTotal",
                self.0
            ))),
        }
    }
}

impl Parameter for pennyGroupKind_t {
    type Admitted = Grouping;
    unsafe fn admit(self, name: &'static str) -> Result<Grouping> {
        Grouping::ALL.into_iter().find(|&kind| kind as c_int == self.0).ok_or_else(|| {
            Error::argument(format!(
                "{name} is {}, no pennyGroupKind_t; it is pennyGroupAll, pennyGroupConsecutive or pennyGroupOrthogonal",
                self.0
            ))
        })
    }
}

impl From<DataType> for pennyDataType_t {
    fn from(dtype: DataType) -> pennyDataType_t {
        pennyDataType_t(dtype as c_int)
    }
}

impl From<RedOp> for pennyRedOp_t {
    fn from(op: RedOp) -> pennyRedOp_t {
        pennyRedOp_t(op as c_int)
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
