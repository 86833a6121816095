//! The results of CUDA's runtime: their numbers, their names, and a sentence for each.

use std::ffi::{CStr, c_int};

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        // All have their names; not all occur here.
        $(#[allow(dead_code)] pub const $name: c_int = $number;)*
        /// Number, name and sentence of each result.
        const TABLE: &[(c_int, &str, &str)] = &[
            $(($number, concat!(stringify!($name), "\0"), concat!($text, "\0")),)*
        ];
    };
}

codes! {
    cudaSuccess = 0, "no error";
    cudaErrorInvalidValue = 1, "an argument is not valid";
    cudaErrorMemoryAllocation = 2, "there is not enough memory";
    cudaErrorInitializationError = 3, "the library could not be initialized in this process";
    cudaErrorCudartUnloading = 4, "cudart unloading";
    cudaErrorProfilerDisabled = 5, "profiler disabled";
    cudaErrorProfilerNotInitialized = 6, "profiler not initialized";
    cudaErrorProfilerAlreadyStarted = 7, "profiler already started";
    cudaErrorProfilerAlreadyStopped = 8, "profiler already stopped";
    cudaErrorInvalidConfiguration = 9, "invalid configuration";
    cudaErrorInvalidPitchValue = 12, "a pitch is smaller than a row";
    cudaErrorInvalidSymbol = 13, "not the symbol of a variable";
    cudaErrorInvalidHostPointer = 16, "invalid host pointer";
    cudaErrorInvalidDevicePointer = 17, "invalid device pointer";
    cudaErrorInvalidTexture = 18, "invalid texture";
    cudaErrorInvalidTextureBinding = 19, "invalid texture binding";
    cudaErrorInvalidChannelDescriptor = 20, "invalid channel descriptor";
    cudaErrorInvalidMemcpyDirection = 21, "the direction of a copy is not a cudaMemcpyKind";
    cudaErrorAddressOfConstant = 22, "address of constant";
    cudaErrorTextureFetchFailed = 23, "texture fetch failed";
    cudaErrorTextureNotBound = 24, "texture not bound";
    cudaErrorSynchronizationError = 25, "synchronization error";
    cudaErrorInvalidFilterSetting = 26, "invalid filter setting";
    cudaErrorInvalidNormSetting = 27, "invalid norm setting";
    cudaErrorMixedDeviceExecution = 28, "mixed device execution";
    cudaErrorNotYetImplemented = 31, "not yet implemented";
    cudaErrorMemoryValueTooLarge = 32, "memory value too large";
    cudaErrorStubLibrary = 34, "stub library";
    cudaErrorInsufficientDriver = 35, "insufficient driver";
    cudaErrorCallRequiresNewerDriver = 36, "call requires newer driver";
    cudaErrorInvalidSurface = 37, "invalid surface";
    cudaErrorDuplicateVariableName = 43, "duplicate variable name";
    cudaErrorDuplicateTextureName = 44, "duplicate texture name";
    cudaErrorDuplicateSurfaceName = 45, "duplicate surface name";
    cudaErrorDevicesUnavailable = 46, "devices unavailable";
    cudaErrorIncompatibleDriverContext = 49, "incompatible driver context";
    cudaErrorMissingConfiguration = 52, "missing configuration";
    cudaErrorPriorLaunchFailure = 53, "prior launch failure";
    cudaErrorLaunchMaxDepthExceeded = 65, "launch max depth exceeded";
    cudaErrorLaunchFileScopedTex = 66, "launch file scoped tex";
    cudaErrorLaunchFileScopedSurf = 67, "launch file scoped surf";
    cudaErrorSyncDepthExceeded = 68, "sync depth exceeded";
    cudaErrorLaunchPendingCountExceeded = 69, "launch pending count exceeded";
    cudaErrorInvalidDeviceFunction = 98, "not a function of a device";
    cudaErrorNoDevice = 100, "there is no device";
    cudaErrorInvalidDevice = 101, "not the number of a device";
    cudaErrorDeviceNotLicensed = 102, "device not licensed";
    cudaErrorSoftwareValidityNotEstablished = 103, "software validity not established";
    cudaErrorStartupFailure = 127, "startup failure";
    cudaErrorInvalidKernelImage = 200, "invalid kernel image";
    cudaErrorDeviceUninitialized = 201, "device uninitialized";
    cudaErrorMapBufferObjectFailed = 205, "map buffer object failed";
    cudaErrorUnmapBufferObjectFailed = 206, "unmap buffer object failed";
    cudaErrorArrayIsMapped = 207, "array is mapped";
    cudaErrorAlreadyMapped = 208, "already mapped";
    cudaErrorNoKernelImageForDevice = 209, "no kernel image for device";
    cudaErrorAlreadyAcquired = 210, "already acquired";
    cudaErrorNotMapped = 211, "not mapped";
    cudaErrorNotMappedAsArray = 212, "not mapped as array";
    cudaErrorNotMappedAsPointer = 213, "not mapped as pointer";
    cudaErrorECCUncorrectable = 214, "ECC uncorrectable";
    cudaErrorUnsupportedLimit = 215, "unsupported limit";
    cudaErrorDeviceAlreadyInUse = 216, "device already in use";
    cudaErrorPeerAccessUnsupported = 217, "peer access unsupported";
    cudaErrorInvalidPtx = 218, "invalid ptx";
    cudaErrorInvalidGraphicsContext = 219, "invalid graphics context";
    cudaErrorNvlinkUncorrectable = 220, "nvlink uncorrectable";
    cudaErrorJitCompilerNotFound = 221, "jit compiler not found";
    cudaErrorUnsupportedPtxVersion = 222, "unsupported ptx version";
    cudaErrorJitCompilationDisabled = 223, "jit compilation disabled";
    cudaErrorUnsupportedExecAffinity = 224, "unsupported exec affinity";
    cudaErrorUnsupportedDevSideSync = 225, "unsupported dev side sync";
    cudaErrorContained = 226, "contained";
    cudaErrorInvalidSource = 300, "invalid source";
    cudaErrorFileNotFound = 301, "file not found";
    cudaErrorSharedObjectSymbolNotFound = 302, "shared object symbol not found";
    cudaErrorSharedObjectInitFailed = 303, "shared object init failed";
    cudaErrorOperatingSystem = 304, "operating system";
    cudaErrorInvalidResourceHandle = 400, "not a live stream, event, graph or pool";
    cudaErrorIllegalState = 401, "not possible in the present state";
    cudaErrorLossyQuery = 402, "lossy query";
    cudaErrorSymbolNotFound = 500, "symbol not found";
    cudaErrorNotReady = 600, "work has not completed yet";
    cudaErrorIllegalAddress = 700, "illegal address";
    cudaErrorLaunchOutOfResources = 701, "launch out of resources";
    cudaErrorLaunchTimeout = 702, "launch timeout";
    cudaErrorLaunchIncompatibleTexturing = 703, "launch incompatible texturing";
    cudaErrorPeerAccessAlreadyEnabled = 704, "the access to this peer is enabled already";
    cudaErrorPeerAccessNotEnabled = 705, "the access to this peer is not enabled";
    cudaErrorSetOnActiveProcess = 708, "set on active process";
    cudaErrorContextIsDestroyed = 709, "context is destroyed";
    cudaErrorAssert = 710, "assert";
    cudaErrorTooManyPeers = 711, "too many peers";
    cudaErrorHostMemoryAlreadyRegistered = 712, "a part of the memory is registered already";
    cudaErrorHostMemoryNotRegistered = 713, "the memory is not registered";
    cudaErrorHardwareStackError = 714, "hardware stack error";
    cudaErrorIllegalInstruction = 715, "illegal instruction";
    cudaErrorMisalignedAddress = 716, "misaligned address";
    cudaErrorInvalidAddressSpace = 717, "invalid address space";
    cudaErrorInvalidPc = 718, "invalid pc";
    cudaErrorLaunchFailure = 719, "launch failure";
    cudaErrorCooperativeLaunchTooLarge = 720, "cooperative launch too large";
    cudaErrorTensorMemoryLeak = 721, "tensor memory leak";
    cudaErrorNotPermitted = 800, "not allowed here";
    cudaErrorNotSupported = 801, "not supported on the host";
    cudaErrorSystemNotReady = 802, "system not ready";
    cudaErrorSystemDriverMismatch = 803, "system driver mismatch";
    cudaErrorCompatNotSupportedOnDevice = 804, "compat not supported on device";
    cudaErrorMpsConnectionFailed = 805, "mps connection failed";
    cudaErrorMpsRpcFailure = 806, "mps rpc failure";
    cudaErrorMpsServerNotReady = 807, "mps server not ready";
    cudaErrorMpsMaxClientsReached = 808, "mps max clients reached";
    cudaErrorMpsMaxConnectionsReached = 809, "mps max connections reached";
    cudaErrorMpsClientTerminated = 810, "mps client terminated";
    cudaErrorCdpNotSupported = 811, "cdp not supported";
    cudaErrorCdpVersionMismatch = 812, "cdp version mismatch";
    cudaErrorStreamCaptureUnsupported = 900, "not possible while a stream is captured";
    cudaErrorStreamCaptureInvalidated = 901, "an error has made the capture invalid";
    cudaErrorStreamCaptureMerge = 902, "two captures would become one";
    cudaErrorStreamCaptureUnmatched = 903, "the capture was begun on another stream";
    cudaErrorStreamCaptureUnjoined = 904, "a stream of the capture was not joined to its first one";
    cudaErrorStreamCaptureIsolation = 905, "a captured stream would depend on work outside of the capture";
    cudaErrorStreamCaptureImplicit = 906, "the default stream would depend on a captured stream";
    cudaErrorCapturedEvent = 907, "the event was last recorded on a captured stream";
    cudaErrorStreamCaptureWrongThread = 908, "the capture was begun by another thread";
    cudaErrorTimeout = 909, "timeout";
    cudaErrorGraphExecUpdateFailure = 910, "the graph cannot take the place of the instantiated one";
    cudaErrorExternalDevice = 911, "external device";
    cudaErrorInvalidClusterSize = 912, "invalid cluster size";
    cudaErrorFunctionNotLoaded = 913, "function not loaded";
    cudaErrorInvalidResourceType = 914, "invalid resource type";
    cudaErrorInvalidResourceConfiguration = 915, "invalid resource configuration";
    cudaErrorUnknown = 999, "an error of another kind";
    cudaErrorApiFailureBase = 10000, "api failure base";
}

fn find(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
    let (_, name, text) = TABLE.iter().find(|row| row.0 == code)?;
    let c = |text: &'static str| CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or(c"");
    Some((c(name), c(text)))
}

/// Returns the name of a result.
pub fn name(code: c_int) -> &'static CStr {
    find(code).map_or(c"unrecognized error code", |row| row.0)
}

/// Returns the sentence of a result.
pub fn text(code: c_int) -> &'static CStr {
    find(code).map_or(c"unrecognized error code", |row| row.1)
}
