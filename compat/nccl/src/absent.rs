//! What Penny has no counterpart for. Each function is there, does nothing, and says what to use.

use crate::boundary::usage;
use crate::types::*;
use std::ffi::{c_int, c_void};

/// Defines functions that are refused: `fn name, twin(parameters): "sentence"`.
macro_rules! absent {
    ($(fn $name:ident, $twin:ident($($ty:ty),* $(,)?): $sentence:expr;)*) => {
        $(absent! { @one $name, $twin, $sentence, [$($ty),*] })*
    };
    (@one $name:ident, $twin:ident, $sentence:expr, [$($ty:ty),*]) => {
        const _: () = {
            /// Refuses the call; the arguments are not looked at.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($(_: $ty),*) -> ncclResult_t {
                $crate::boundary::call(stringify!($name), || Err(usage($sentence)))
            }

            /// The same, for libraries that interpose the other name.
            #[unsafe(no_mangle)]
            pub extern "C" fn $twin($(_: $ty),*) -> ncclResult_t {
                $crate::boundary::call(stringify!($name), || Err(usage($sentence)))
            }
        };
    };
}

const DEVICE: &str = "there is no device interface, because no GPU takes part; ncclCommQueryProperties says so with \
                      deviceApiSupport; use the calls of the host, such as ncclPutSignal";

absent! {
    fn ncclDevCommCreate, pncclDevCommCreate(ncclComm_t, *const c_void, *mut c_void): DEVICE;
    fn ncclDevCommDestroy, pncclDevCommDestroy(ncclComm_t, *const c_void): DEVICE;
    fn ncclGetLsaMultimemDevicePointer, pncclGetLsaMultimemDevicePointer(ncclWindow_t, usize, *mut *mut c_void): DEVICE;
    // The handle of a multicast is a struct of one pointer.
    fn ncclGetMultimemDevicePointer, pncclGetMultimemDevicePointer(
        ncclWindow_t, usize, *mut c_void, *mut *mut c_void
    ): DEVICE;
    fn ncclGetLsaDevicePointer, pncclGetLsaDevicePointer(ncclWindow_t, usize, c_int, *mut *mut c_void): DEVICE;
    fn ncclGetPeerDevicePointer, pncclGetPeerDevicePointer(ncclWindow_t, usize, c_int, *mut *mut c_void): DEVICE;
    fn ncclLsaBarrierCreateRequirement, pncclLsaBarrierCreateRequirement(
        ncclTeam_t, c_int, *mut c_void, *mut c_void
    ): DEVICE;
    fn ncclGinBarrierCreateRequirement, pncclGinBarrierCreateRequirement(
        ncclComm_t, ncclTeam_t, c_int, *mut c_void, *mut c_void
    ): DEVICE;
    fn ncclGinOutboxCreateRequirement, pncclGinOutboxCreateRequirement(c_int, c_int, *mut c_void, *mut c_void): DEVICE;
    fn ncclGinInboxA2ACreateRequirement, pncclGinInboxA2ACreateRequirement(
        ncclTeam_t, c_int, c_int, *mut c_void, *mut c_void
    ): DEVICE;
    fn ncclLLA2ACreateRequirement, pncclLLA2ACreateRequirement(c_int, c_int, *mut c_void, *mut c_void): DEVICE;
}

nccl_api! {
    /// Returns 0: there is no device interface whose slots could be counted.
    or 0,
    fn ncclLLA2ACalcSlots, pncclLLA2ACalcSlots(_maxElts: c_int, _maxEltSize: c_int) -> c_int {
        0
    }
}
