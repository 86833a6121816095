//! The C interface of libpenny.so, loaded at run time: the fuzzer knows nothing else of the library.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;

pub type In = *const c_void;
pub type Out = *mut c_void;

/// Results that the fuzzer tells apart.
pub const SUCCESS: c_int = 0;
pub const INVALID_ARGUMENT: c_int = 4;
pub const INVALID_USAGE: c_int = 5;
pub const REMOTE: c_int = 6;
pub const IN_PROGRESS: c_int = 7;

/// pennyUniqueId.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId(pub [u8; 128]);

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("id")
    }
}

/// A pennyDataType_t, written as in C.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DataType(pub c_int);

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::element::TYPES.iter().find(|t| t.number == *self) {
            Some(known) => f.write_str(known.name),
            None => write!(f, "(pennyDataType_t){}", self.0),
        }
    }
}

/// A pennyRedOp_t, written as in C.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RedOp(pub c_int);

impl fmt::Debug for RedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::element::OPS.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "(pennyRedOp_t){}", self.0),
        }
    }
}

/// A pennyComm_t.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comm(pub Out);

// SAFETY: the library says that a handle is a number and may be used from any thread.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

/// pennyConfig_t.
#[repr(C)]
pub struct Config {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub blocking: c_int,
    pub timeout_ms: c_int,
    pub name: *const c_char,
    pub algo: *const c_char,
    pub fabric: *const c_char,
    pub clock: *const c_char,
}

impl Config {
    /// PENNY_CONFIG_INITIALIZER.
    pub fn new() -> Config {
        let null = std::ptr::null();
        Config {
            size: size_of::<Config>(),
            magic: 1_346_719_321,
            version: 100,
            blocking: c_int::MIN,
            timeout_ms: c_int::MIN,
            name: null,
            algo: null,
            fabric: null,
            clock: null,
        }
    }
}

/// A pennyProgress_t.
pub type Progress = Option<extern "C" fn(Out)>;

/// pennyWaitSignalDesc_t.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct WaitSignal {
    pub count: c_int,
    pub peer: c_int,
    pub index: c_int,
    pub context: c_int,
}

/// pennyMailboxConfig_t.
#[repr(C)]
pub struct MailboxConfig {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub threads: c_int,
    pub slots: c_int,
    pub slot_bytes: c_int,
}

/// pennyMailboxMessage_t.
#[repr(C)]
pub struct Message {
    pub data: In,
    pub flits: c_int,
    pub source_rank: c_int,
    pub source_thread: c_int,
    pub local_key: c_uint,
}

/// pennyDevice_t.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Device {
    pub kind: c_int,
    pub coord: [c_int; 4],
}

/// pennyRemoteCopy_t.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RemoteCopy {
    pub src: In,
    pub dst: Out,
    pub bytes: usize,
    pub send_sem: Out,
    pub send_index: c_int,
    pub recv_sem: Out,
    pub recv_index: c_int,
    pub device: Device,
}

/// pennySimInfo_t.
#[repr(C)]
pub struct SimInfo {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub time: f32,
    pub ps: u64,
}

macro_rules! functions {
    ($($name:ident($($ty:ty),*);)*) => {
        /// Every function that the fuzzer calls.
        #[allow(non_snake_case)]
        pub struct Penny {
            $(pub $name: unsafe extern "C" fn($($ty),*) -> c_int,)*
            last_error: unsafe extern "C" fn(Comm) -> *const c_char,
        }

        impl Penny {
            /// Loads a libpenny.so.
            pub fn load(path: &Path) -> Result<Penny, String> {
                let library = open(path)?;
                // SAFETY: include/penny.h declares each function with these parameters.
                unsafe {
                    Ok(Penny {
                        $($name: std::mem::transmute::<Out, unsafe extern "C" fn($($ty),*) -> c_int>(
                            find(library, stringify!($name))?,
                        ),)*
                        last_error: std::mem::transmute::<Out, unsafe extern "C" fn(Comm) -> *const c_char>(
                            find(library, "pennyGetLastError")?,
                        ),
                    })
                }
            }
        }
    };
}

functions! {
    pennyGetUniqueId(*mut UniqueId);
    pennyGetUniqueIdHosts(*mut UniqueId);
    pennyCommInitRankConfig(*mut Comm, c_int, UniqueId, c_int, *const Config);
    pennyCommInitAll(*mut Comm, c_int, *const c_int);
    pennyCommInitFromEnv(*mut Comm, *const Config);
    pennyCommGroup(Comm, c_int, c_int, *mut Comm);
    pennyCommSplit(Comm, c_int, c_int, *mut Comm, *const Config);
    pennyCommDup(Comm, *mut Comm);
    pennyCommShrink(Comm, *const c_int, c_int, *mut Comm, *const Config, c_int);
    pennyCommAbort(Comm);
    pennySetProgress(Progress, Out);
    pennyRedOpCreatePreMulSum(*mut RedOp, In, DataType, c_int, Comm);
    pennyRedOpDestroy(RedOp, Comm);
    pennyCommFinalize(Comm);
    pennyCommDestroy(Comm);
    pennyCommGetAsyncError(Comm, *mut c_int);
    pennyCommCount(Comm, *mut c_int);
    pennyCommUserRank(Comm, *mut c_int);
    pennyMemAlloc(*mut Out, usize);
    pennyMemFree(Out);
    pennyCommRegister(Comm, Out, usize, *mut Out);
    pennyCommDeregister(Comm, Out);
    pennyAllReduce(In, Out, usize, DataType, RedOp, Comm, Out);
    pennyReduce(In, Out, usize, DataType, RedOp, c_int, Comm, Out);
    pennyBroadcast(In, Out, usize, DataType, c_int, Comm, Out);
    pennyBcast(Out, usize, DataType, c_int, Comm, Out);
    pennyAllGather(In, Out, usize, DataType, Comm, Out);
    pennyReduceScatter(In, Out, usize, DataType, RedOp, Comm, Out);
    pennyReduceScatterPadded(In, Out, usize, DataType, RedOp, Comm, Out);
    pennyAlltoAll(In, Out, usize, DataType, Comm, Out);
    pennyGather(In, Out, usize, DataType, c_int, Comm, Out);
    pennyScatter(In, Out, usize, DataType, c_int, Comm, Out);
    pennyPermute(In, Out, usize, DataType, *const c_int, Comm, Out);
    pennyBarrier(Comm, Out);
    pennyAlltoAllv(In, *const usize, *const usize, Out, *const usize, *const usize, DataType, Comm, Out);
    pennyAllGatherv(In, usize, Out, *const usize, *const usize, DataType, Comm, Out);
    pennyGatherv(In, usize, Out, *const usize, *const usize, DataType, c_int, Comm, Out);
    pennyScatterv(In, *const usize, *const usize, Out, usize, DataType, c_int, Comm, Out);
    pennyReduceScatterv(In, Out, *const usize, DataType, RedOp, Comm, Out);
    pennySend(In, usize, DataType, c_int, Comm, Out);
    pennyRecv(Out, usize, DataType, c_int, Comm, Out);
    pennyGroupStart();
    pennyGroupEnd();
    pennyGroupSimulateEnd(*mut SimInfo);
    pennyStreamCreate(*mut Out);
    pennyStreamDestroy(Out);
    pennyStreamSynchronize(Out);
    pennyStreamQuery(Out);
    pennyStreamWaitEvent(Out, Out);
    pennyStreamLaunchHostFunc(Out, extern "C" fn(Out), Out);
    pennyEventCreate(*mut Out);
    pennyEventDestroy(Out);
    pennyEventRecord(Out, Out);
    pennyEventQuery(Out);
    pennyEventSynchronize(Out);
    pennyCommWindowRegister(Comm, Out, usize, *mut Out, c_int);
    pennyCommWindowDeregister(Comm, Out);
    pennyPutSignal(In, usize, DataType, c_int, Out, usize, c_int, c_int, c_uint, Comm, Out);
    pennySignal(c_int, c_int, c_int, c_uint, Comm, Out);
    pennyWaitSignal(c_int, *mut WaitSignal, Comm, Out);
    pennyFabricNow(Comm, *mut u64);
    pennyFabricAdvance(Comm, u64);
    pennyShmemInit(Comm);
    pennyShmemFinalize(Comm);
    pennyShmemMalloc(*mut Out, usize, Comm);
    pennyShmemCalloc(*mut Out, usize, usize, Comm);
    pennyShmemAlign(*mut Out, usize, usize, Comm);
    pennyShmemFree(Out, Comm);
    pennyShmemBarrierAll(Comm);
    pennyShmemPutMem(Out, In, usize, c_int, Comm);
    pennyShmemPutMemNbi(Out, In, usize, c_int, Comm);
    pennyShmemGetMem(Out, In, usize, c_int, Comm);
    pennyShmemGetMemNbi(Out, In, usize, c_int, Comm);
    pennyShmemIput(Out, In, isize, isize, usize, DataType, c_int, Comm);
    pennyShmemIget(Out, In, isize, isize, usize, DataType, c_int, Comm);
    pennyShmemP(Out, In, DataType, c_int, Comm);
    pennyShmemG(Out, In, DataType, c_int, Comm);
    pennyShmemFence(Comm);
    pennyShmemQuiet(Comm);
    pennyShmemPutMemSignal(Out, In, usize, *mut u64, u64, c_int, c_int, Comm);
    pennyShmemSignalWaitUntil(*mut u64, *mut u64, c_int, u64, Comm);
    pennyShmemAtomicFetchAdd(Out, Out, In, DataType, c_int, Comm);
    pennyShmemAtomicAdd(Out, In, DataType, c_int, Comm);
    pennyShmemAtomicXor(Out, In, DataType, c_int, Comm);
    pennyShmemTeamSplitStrided(Comm, c_int, c_int, c_int, *mut Comm);
    pennyShmemTeamSplit2d(Comm, c_int, *mut Comm, *mut Comm);
    pennyShmemTeamTranslatePe(Comm, c_int, Comm, *mut c_int);
    pennyShmemTeamSync(Comm);
    pennyShmemAtomicSet(Out, In, DataType, c_int, Comm);
    pennyShmemAtomicSwap(Out, Out, In, DataType, c_int, Comm);
    pennyShmemAtomicCompareSwap(Out, Out, In, In, DataType, c_int, Comm);
    pennyShmemWaitUntilAll(Out, usize, *const c_int, c_int, In, DataType, Comm);
    pennyShmemWaitUntilAny(*mut usize, Out, usize, *const c_int, c_int, In, DataType, Comm);
    pennyShmemWaitUntilSome(*mut usize, *mut usize, Out, usize, *const c_int, c_int, In, DataType, Comm);
    pennyShmemTestAll(*mut c_int, Out, usize, *const c_int, c_int, In, DataType, Comm);
    pennyMailboxCreate(Comm, *const MailboxConfig, *mut Out);
    pennyMailboxDestroy(Out);
    pennyMailboxSendSlot(Out, c_int, *mut Out);
    pennyMailboxSetLen(Out, c_int, c_int);
    pennyMailboxTryMulticast(Out, c_int, c_uint, c_uint, In, *mut c_int);
    pennyMailboxTryRecv(Out, c_int, *mut Message, *mut c_int);
    pennyMailboxRecv(Out, c_int, *mut Message);
    pennyMailboxFree(Out, c_int, In);
    pennyMailboxWaitUntil(Out, c_int, c_int, c_int, *mut c_int);
    pennyMailboxIdle(Out, c_int, c_int, *mut c_int);
    pennySemaphoreCreate(Comm, c_int, *const c_char, c_int, *mut Out);
    pennySemaphoreDestroy(Out);
    pennySemaphoreSignal(Out, c_int, u64, Device);
    pennySemaphoreWait(Out, c_int, u64);
    pennyRemoteCopyStart(Comm, *const RemoteCopy);
    pennyRemoteCopyWait(Comm, *const RemoteCopy);
    pennyRemoteCopyWaitRecv(Comm, *const RemoteCopy);
    pennyRemoteCopyWaitSend(Comm, *const RemoteCopy);
}

impl Penny {
    /// The sentence of this thread's newest failure.
    pub fn sentence(&self) -> String {
        // SAFETY: NULL is allowed, and the text is copied before another call of this thread.
        unsafe {
            CStr::from_ptr((self.last_error)(Comm(std::ptr::null_mut()))).to_string_lossy().into_owned()
        }
    }
}

fn open(path: &Path) -> Result<Out, String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: a string that ends with 0; the library runs no code of its own when it is loaded.
    let library = unsafe { nix::libc::dlopen(name.as_ptr(), nix::libc::RTLD_NOW | nix::libc::RTLD_LOCAL) };
    if library.is_null() { Err(format!("{} cannot be loaded", path.display())) } else { Ok(library) }
}

fn find(library: Out, name: &str) -> Result<Out, String> {
    let symbol = CString::new(name).map_err(|e| e.to_string())?;
    // SAFETY: an open library and a string that ends with 0.
    let address = unsafe { nix::libc::dlsym(library, symbol.as_ptr()) };
    if address.is_null() { Err(format!("the library has no {name}")) } else { Ok(address) }
}
