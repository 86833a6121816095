//! What devices say about themselves: CUDA's structure and its attributes.
//!
//! A device is this host. Its numbers of blocks and registers are those of a GPU of compute capability 9.0, because programs divide by
//! them; its memory, its cores and its name are the host's.

use std::ffi::{c_char, c_int, c_uint};

use crate::device;
use crate::guard::{Result, cuda_api, invalid, place, set_text};

/// CUDA's structure, as programs built for CUDA 12 have it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaDeviceProp {
    pub name: [c_char; 256],
    pub uuid: [c_char; 16],
    pub luid: [c_char; 8],
    pub luidDeviceNodeMask: c_uint,
    pub totalGlobalMem: usize,
    pub sharedMemPerBlock: usize,
    pub regsPerBlock: c_int,
    pub warpSize: c_int,
    pub memPitch: usize,
    pub maxThreadsPerBlock: c_int,
    pub maxThreadsDim: [c_int; 3],
    pub maxGridSize: [c_int; 3],
    pub clockRate: c_int,
    pub totalConstMem: usize,
    pub major: c_int,
    pub minor: c_int,
    pub textureAlignment: usize,
    pub texturePitchAlignment: usize,
    pub deviceOverlap: c_int,
    pub multiProcessorCount: c_int,
    pub kernelExecTimeoutEnabled: c_int,
    pub integrated: c_int,
    pub canMapHostMemory: c_int,
    pub computeMode: c_int,
    pub maxTexture1D: c_int,
    pub maxTexture1DMipmap: c_int,
    pub maxTexture1DLinear: c_int,
    pub maxTexture2D: [c_int; 2],
    pub maxTexture2DMipmap: [c_int; 2],
    pub maxTexture2DLinear: [c_int; 3],
    pub maxTexture2DGather: [c_int; 2],
    pub maxTexture3D: [c_int; 3],
    pub maxTexture3DAlt: [c_int; 3],
    pub maxTextureCubemap: c_int,
    pub maxTexture1DLayered: [c_int; 2],
    pub maxTexture2DLayered: [c_int; 3],
    pub maxTextureCubemapLayered: [c_int; 2],
    pub maxSurface1D: c_int,
    pub maxSurface2D: [c_int; 2],
    pub maxSurface3D: [c_int; 3],
    pub maxSurface1DLayered: [c_int; 2],
    pub maxSurface2DLayered: [c_int; 3],
    pub maxSurfaceCubemap: c_int,
    pub maxSurfaceCubemapLayered: [c_int; 2],
    pub surfaceAlignment: usize,
    pub concurrentKernels: c_int,
    pub ECCEnabled: c_int,
    pub pciBusID: c_int,
    pub pciDeviceID: c_int,
    pub pciDomainID: c_int,
    pub tccDriver: c_int,
    pub asyncEngineCount: c_int,
    pub unifiedAddressing: c_int,
    pub memoryClockRate: c_int,
    pub memoryBusWidth: c_int,
    pub l2CacheSize: c_int,
    pub persistingL2CacheMaxSize: c_int,
    pub maxThreadsPerMultiProcessor: c_int,
    pub streamPrioritiesSupported: c_int,
    pub globalL1CacheSupported: c_int,
    pub localL1CacheSupported: c_int,
    pub sharedMemPerMultiprocessor: usize,
    pub regsPerMultiprocessor: c_int,
    pub managedMemory: c_int,
    pub isMultiGpuBoard: c_int,
    pub multiGpuBoardGroupID: c_int,
    pub hostNativeAtomicSupported: c_int,
    pub singleToDoublePrecisionPerfRatio: c_int,
    pub pageableMemoryAccess: c_int,
    pub concurrentManagedAccess: c_int,
    pub computePreemptionSupported: c_int,
    pub canUseHostPointerForRegisteredMem: c_int,
    pub cooperativeLaunch: c_int,
    pub cooperativeMultiDeviceLaunch: c_int,
    pub sharedMemPerBlockOptin: usize,
    pub pageableMemoryAccessUsesHostPageTables: c_int,
    pub directManagedMemAccessFromHost: c_int,
    pub maxBlocksPerMultiProcessor: c_int,
    pub accessPolicyMaxWindowSize: c_int,
    pub reservedSharedMemPerBlock: usize,
    pub hostRegisterSupported: c_int,
    pub sparseCudaArraySupported: c_int,
    pub hostRegisterReadOnlySupported: c_int,
    pub timelineSemaphoreInteropSupported: c_int,
    pub memoryPoolsSupported: c_int,
    pub gpuDirectRDMASupported: c_int,
    pub gpuDirectRDMAFlushWritesOptions: c_uint,
    pub gpuDirectRDMAWritesOrdering: c_int,
    pub memoryPoolSupportedHandleTypes: c_uint,
    pub deferredMappingCudaArraySupported: c_int,
    pub ipcEventSupported: c_int,
    pub clusterLaunch: c_int,
    pub unifiedFunctionPointers: c_int,
    pub reserved: [c_int; 63],
}
// Programs that are built already have room for this much.
const _: () = assert!(size_of::<cudaDeviceProp>() == 1032);

/// Returns the host's memory in bytes: all, and what is free.
pub fn host_memory() -> (usize, usize) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0)
    };
    let all = kib("MemTotal") << 10;
    (all, (kib("MemAvailable") << 10).min(all))
}

/// Returns how much memory a device has: `PENNY_HEAP_SIZE`, else the host's.
pub fn device_memory() -> (usize, usize) {
    let (all, free) = host_memory();
    let heap = std::env::var("PENNY_HEAP_SIZE").ok().and_then(|text| text.trim().parse::<usize>().ok());
    let all = heap.map_or(all, |heap| heap.min(all));
    (all, free.min(all))
}

fn describe(number: c_int) -> cudaDeviceProp {
    // SAFETY: all-zero bytes are a value of a structure of numbers.
    let mut prop: cudaDeviceProp = unsafe { std::mem::zeroed() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as c_int;
    set_text(prop.name.as_mut_ptr(), prop.name.len(), "Penny host device");
    prop.uuid[..5].copy_from_slice(&[b'P', b'e', b'n', b'n', b'y'].map(|byte| byte as c_char));
    prop.uuid[15] = number as c_char;
    prop.totalGlobalMem = device_memory().0;
    prop.sharedMemPerBlock = 48 << 10;
    prop.regsPerBlock = 65536;
    prop.warpSize = 32;
    prop.memPitch = i32::MAX as usize;
    prop.maxThreadsPerBlock = 1024;
    prop.maxThreadsDim = [1024, 1024, 64];
    prop.maxGridSize = [i32::MAX, 65535, 65535];
    prop.clockRate = 1_000_000;
    prop.totalConstMem = 64 << 10;
    (prop.major, prop.minor) = (9, 0);
    prop.textureAlignment = 512;
    prop.texturePitchAlignment = 32;
    prop.deviceOverlap = 1;
    prop.multiProcessorCount = cores;
    prop.canMapHostMemory = 1;
    prop.surfaceAlignment = 512;
    prop.concurrentKernels = 1;
    (prop.pciBusID, prop.pciDeviceID, prop.pciDomainID) = (number + 1, 0, 0);
    prop.asyncEngineCount = 2;
    prop.unifiedAddressing = 1;
    prop.memoryClockRate = 1_000_000;
    prop.memoryBusWidth = 64;
    prop.l2CacheSize = 32 << 20;
    prop.maxThreadsPerMultiProcessor = 2048;
    prop.streamPrioritiesSupported = 1;
    prop.globalL1CacheSupported = 1;
    prop.localL1CacheSupported = 1;
    prop.sharedMemPerMultiprocessor = 228 << 10;
    prop.regsPerMultiprocessor = 65536;
    prop.managedMemory = 1;
    prop.multiGpuBoardGroupID = number;
    prop.hostNativeAtomicSupported = 1;
    prop.singleToDoublePrecisionPerfRatio = 2;
    prop.pageableMemoryAccess = 1;
    prop.concurrentManagedAccess = 1;
    prop.canUseHostPointerForRegisteredMem = 1;
    prop.sharedMemPerBlockOptin = 227 << 10;
    prop.pageableMemoryAccessUsesHostPageTables = 1;
    prop.directManagedMemAccessFromHost = 1;
    prop.maxBlocksPerMultiProcessor = 32;
    prop.reservedSharedMemPerBlock = 1 << 10;
    prop.hostRegisterSupported = 1;
    prop.memoryPoolsSupported = 1;
    prop
}

/// Returns an attribute; those that are not listed are 0: the host has no textures, surfaces or special memory.
fn attribute(number: c_int, prop: &cudaDeviceProp) -> Result<c_int> {
    Ok(match number {
        1 => prop.maxThreadsPerBlock,
        2..=4 => prop.maxThreadsDim[number as usize - 2],
        5..=7 => prop.maxGridSize[number as usize - 5],
        8 => prop.sharedMemPerBlock as c_int,
        9 => prop.totalConstMem as c_int,
        10 => prop.warpSize,
        11 => prop.memPitch as c_int,
        12 => prop.regsPerBlock,
        13 => prop.clockRate,
        14 => prop.textureAlignment as c_int,
        15 => prop.deviceOverlap,
        16 => prop.multiProcessorCount,
        19 => prop.canMapHostMemory,
        30 => prop.surfaceAlignment as c_int,
        31 => prop.concurrentKernels,
        33 => prop.pciBusID,
        34 => prop.pciDeviceID,
        36 => prop.memoryClockRate,
        37 => prop.memoryBusWidth,
        38 => prop.l2CacheSize,
        39 => prop.maxThreadsPerMultiProcessor,
        40 => prop.asyncEngineCount,
        41 => prop.unifiedAddressing,
        50 => prop.pciDomainID,
        51 => prop.texturePitchAlignment as c_int,
        75 => prop.major,
        76 => prop.minor,
        78 => prop.streamPrioritiesSupported,
        79 => prop.globalL1CacheSupported,
        80 => prop.localL1CacheSupported,
        81 => prop.sharedMemPerMultiprocessor as c_int,
        82 => prop.regsPerMultiprocessor,
        83 => prop.managedMemory,
        85 => prop.multiGpuBoardGroupID,
        86 => prop.hostNativeAtomicSupported,
        87 => prop.singleToDoublePrecisionPerfRatio,
        88 => prop.pageableMemoryAccess,
        89 => prop.concurrentManagedAccess,
        91 => prop.canUseHostPointerForRegisteredMem,
        97 => prop.sharedMemPerBlockOptin as c_int,
        98 => 1,
        99 => prop.hostRegisterSupported,
        100 => prop.pageableMemoryAccessUsesHostPageTables,
        101 => prop.directManagedMemAccessFromHost,
        106 => prop.maxBlocksPerMultiProcessor,
        111 => prop.reservedSharedMemPerBlock as c_int,
        115 => prop.memoryPoolsSupported,
        17..=143 => 0,
        _ => return invalid(format!("attr is {number}; pass a cudaDeviceAttr")),
    })
}

cuda_api! {
    /// Describes a device.
    fn cudaGetDeviceProperties_v2(prop: *mut cudaDeviceProp, device: c_int) {
        let at = place(prop, "prop")?;
        at.set(describe(device::check(device)?));
        Ok(())
    }

    /// Describes a device to programs that have the structure of CUDA 11, which ends earlier.
    fn cudaGetDeviceProperties(prop: *mut [u8; 712], device: c_int) {
        let at = place(prop, "prop")?;
        let all = describe(device::check(device)?);
        // SAFETY: the first bytes of a larger structure of numbers, whose fields are the same in both.
        at.set(unsafe { (&raw const all).cast::<[u8; 712]>().read() });
        Ok(())
    }

    /// Returns an attribute of a device.
    fn cudaDeviceGetAttribute(value: *mut c_int, attr: c_int, device: c_int) {
        let at = place(value, "value")?;
        let prop = describe(device::check(device)?);
        at.set(attribute(attr, &prop)?);
        Ok(())
    }
}
