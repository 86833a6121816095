//! NCCL's types and numbers at the C boundary. Handles are Penny's; what NCCL calls an enum is a number that the caller chose.

use penny_sys as penny;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `ncclResult_t`: Penny's numbers up to 7.
pub type ncclResult_t = c_int;
pub const ncclSuccess: ncclResult_t = 0;
pub const ncclUnhandledCudaError: ncclResult_t = 1;
pub const ncclSystemError: ncclResult_t = 2;
pub const ncclInternalError: ncclResult_t = 3;
pub const ncclInvalidArgument: ncclResult_t = 4;
pub const ncclInvalidUsage: ncclResult_t = 5;
pub const ncclRemoteError: ncclResult_t = 6;
pub const ncclInProgress: ncclResult_t = 7;
/// From 2.30 on.
pub const ncclTimeout: ncclResult_t = 8;

/// `ncclDataType_t`: 0 to 11, as Penny's.
pub type ncclDataType_t = c_int;
pub const ncclNumTypes: ncclDataType_t = 12;

/// `ncclRedOp_t`: 0 to 4 as Penny's, and the numbers of `ncclRedOpCreatePreMulSum`.
pub type ncclRedOp_t = c_int;
pub const ncclNumOps: ncclRedOp_t = 5;

pub type ncclScalarResidence_t = c_int;
pub type ncclCommMemStat_t = c_int;

pub type ncclComm_t = penny::pennyComm_t;
pub type ncclWindow_t = penny::pennyWindow_t;
/// A pointer of the CUDA runtime, or NULL.
pub type cudaStream_t = *mut c_void;
pub type ncclParamHandle_t = *mut c_void;

/// Passed by value, as Penny's is.
pub type ncclUniqueId = penny::pennyUniqueId;
pub type ncclWaitSignalDesc_t = penny::pennyWaitSignalDesc_t;

/// The first field of structs that grow, and the two that follow it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Head {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
}

/// The magic of `ncclConfig_t` and of later structs.
pub const NCCL_API_MAGIC: c_uint = 0xcafe_beef;
pub const NCCL_SIM_INFO_MAGIC: c_uint = 0x7468_5283;
pub const NCCL_CONFIG_UNDEF_INT: c_int = c_int::MIN;
pub const NCCL_SPLIT_NOCOLOR: c_int = -1;

/// `ncclConfig_t` of 2.27, up to the last field that is used here. A program's may be shorter or longer: see `config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclConfig_t {
    pub head: Head,
    pub blocking: c_int,
    pub cgaClusterSize: c_int,
    pub minCTAs: c_int,
    pub maxCTAs: c_int,
    pub netName: *const c_char,
    pub splitShare: c_int,
    pub trafficClass: c_int,
    pub commName: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclSimInfo_t {
    pub head: Head,
    pub estimatedTime: f32,
}

/// A set of ranks: those of a communicator at equal distances. Returned by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclTeam_t {
    pub nRanks: c_int,
    pub rank: c_int,
    pub stride: c_int,
}

/// What a communicator can do, for the device interface.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ncclCommProperties_t {
    pub head: Head,
    pub rank: c_int,
    pub nRanks: c_int,
    pub cudaDev: c_int,
    pub nvmlDev: c_int,
    pub deviceApiSupport: bool,
    pub multimemSupport: bool,
    pub ginType: c_int,
    pub nLsaTeams: c_int,
    pub hostRmaSupport: bool,
    pub railedGinType: c_int,
}

// LAYOUT: as NCCL's headers have them on 64-bit machines.
const _: () = {
    assert!(std::mem::offset_of!(ncclConfig_t, blocking) == 16);
    assert!(std::mem::offset_of!(ncclConfig_t, commName) == 48);
    assert!(std::mem::offset_of!(ncclSimInfo_t, estimatedTime) == 16);
    assert!(std::mem::offset_of!(ncclCommProperties_t, ginType) == 36);
    assert!(size_of::<ncclCommProperties_t>() == 56);
    assert!(size_of::<ncclUniqueId>() == 128);
};
