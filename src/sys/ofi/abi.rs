//! The layout of libfabric's structures and tables, as far as this library uses them: version FABRIC_1.3 of its binary interface.
//!
//! libfabric only appends to its structures and tables, and 1.17 has all functions that are called here. So a table is declared up to
//! the last of these, and a structure that only the library allocates up to the last field that is read.

use std::ffi::{c_char, c_int, c_void};

/// Capabilities.
pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
/// Directions: of a queue that is bound, of registered memory, of a completion.
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
/// A write that tells its target 32 bits.
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
/// The address given to `fi_getinfo` is this side's.
pub const FI_SOURCE: u64 = 1 << 57;
/// The address given to `fi_getinfo` is a number.
pub const FI_NUMERICHOST: u64 = 1 << 55;
/// Modes: what a provider asks of its user.
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;
pub const FI_RX_CQ_DATA: u64 = 1 << 56;
/// Modes of registered memory.
pub const FI_MR_LOCAL: c_int = 1 << 2;
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub const FI_MR_ALLOCATED: c_int = 1 << 5;
pub const FI_MR_PROV_KEY: c_int = 1 << 6;
pub const FI_MR_ENDPOINT: c_int = 1 << 9;

pub const FI_EP_RDM: c_int = 3;
pub const FI_THREAD_DOMAIN: c_int = 3;
pub const FI_PROGRESS_MANUAL: c_int = 2;
pub const FI_RM_ENABLED: c_int = 2;
pub const FI_CQ_FORMAT_DATA: c_int = 3;
pub const FI_WAIT_NONE: c_int = 0;
pub const FI_WAIT_FD: c_int = 3;
pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
/// `-FI_EAGAIN`, and an error to be read from the queue: `-FI_EAVAIL`.
pub const AGAIN: isize = -(libc::EAGAIN as isize);
pub const ERROR_AVAILABLE: isize = -259;

/// Makes the number of a version.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

#[repr(C)]
pub struct Info {
    pub next: *mut Info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut Fid,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut RxAttr,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
    pub nic: *mut c_void,
}

#[repr(C)]
pub struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct RxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

/// The beginning of an endpoint's attributes.
#[repr(C)]
pub struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
}

/// The beginning of a domain's attributes.
#[repr(C)]
pub struct DomainAttr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
}

#[repr(C)]
pub struct FabricAttr {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

/// What every object of libfabric begins with.
#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *const Ops,
}

#[repr(C)]
pub struct Ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

/// A function that is not called here.
pub type Unused = *const c_void;

#[repr(C)]
pub struct Fabric {
    pub fid: Fid,
    pub ops: *const FabricOps,
    pub api_version: u32,
}

#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain: unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    pub passive_ep: Unused,
    pub eq_open: Unused,
    pub wait_open: Unused,
    pub trywait: Option<unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int>,
}

#[repr(C)]
pub struct Domain {
    pub fid: Fid,
    pub ops: *const DomainOps,
    pub mr: *const MrOps,
}

#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open: unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub cq_open: unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub endpoint: unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct MrOps {
    pub size: usize,
    #[allow(clippy::type_complexity)]
    pub reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Mr,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct Av {
    pub fid: Fid,
    pub ops: *const AvOps,
}

#[repr(C)]
pub struct AvOps {
    pub size: usize,
    pub insert: unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct Cq {
    pub fid: Fid,
    pub ops: *const CqOps,
}

#[repr(C)]
pub struct CqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize,
    pub readfrom: Unused,
    pub readerr: unsafe extern "C" fn(*mut Cq, *mut CqError, u64) -> isize,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CqEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct CqError {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct Ep {
    pub fid: Fid,
    pub ops: Unused,
    pub cm: *const CmOps,
    pub msg: *const MsgOps,
    pub rma: *const RmaOps,
}

#[repr(C)]
pub struct CmOps {
    pub size: usize,
    pub setname: Unused,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub struct MsgOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    pub recvv: Unused,
    pub recvmsg: Unused,
    pub send: unsafe extern "C" fn(*mut Ep, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    pub sendv: Unused,
    pub sendmsg: Unused,
    pub inject: unsafe extern "C" fn(*mut Ep, *const c_void, usize, u64) -> isize,
}

#[repr(C)]
pub struct RmaOps {
    pub size: usize,
    pub read: Unused,
    pub readv: Unused,
    pub readmsg: Unused,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: unsafe extern "C" fn(*mut Ep, *const RmaMessage, u64) -> isize,
}

#[repr(C)]
pub struct RmaMessage {
    pub msg_iov: *const libc::iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const RmaIov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// A range of another endpoint's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmaIov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

#[repr(C)]
pub struct Mr {
    pub fid: Fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

// What the compiler of libfabric's own headers says (1.17, 64 bits).
const _: () = assert!(size_of::<Info>() == 120 && std::mem::offset_of!(Info, tx_attr) == 72);
const _: () = assert!(std::mem::offset_of!(Info, nic) == 112);
const _: () = assert!(size_of::<TxAttr>() == 80 && size_of::<RxAttr>() == 64);
const _: () = assert!(std::mem::offset_of!(DomainAttr, mr_mode) == 36);
const _: () = assert!(size_of::<FabricAttr>() == 32 && std::mem::offset_of!(FabricAttr, prov_name) == 16);
const _: () = assert!(size_of::<Fid>() == 24 && std::mem::offset_of!(Ops, control) == 24);
const _: () = assert!(size_of::<Fabric>() == 40 && size_of::<Domain>() == 40 && size_of::<Av>() == 32);
const _: () = assert!(size_of::<Cq>() == 32 && size_of::<Mr>() == 40 && size_of::<AvAttr>() == 48);
const _: () = assert!(size_of::<CqAttr>() == 40 && std::mem::offset_of!(CqAttr, wait_obj) == 20);
const _: () = assert!(size_of::<CqEntry>() == 40 && size_of::<CqError>() == 80);
const _: () = assert!(std::mem::offset_of!(CqError, err) == 56);
const _: () = assert!(size_of::<RmaMessage>() == 64 && size_of::<RmaIov>() == 24);
