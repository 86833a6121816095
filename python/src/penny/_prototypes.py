"""The parameters of each function of include/penny.h. A test compares this table with the header."""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ssize_t,
    c_uint,
    c_uint64,
    c_void_p,
)

from . import _structs as s

_P = c_void_p  # an address, or a handle
_I = c_int  # a number, or an enum
_Z = c_size_t
_U = c_uint
_U64 = c_uint64
_OUT_P = POINTER(c_void_p)
_OUT_I = POINTER(c_int)
_OUT_Z = POINTER(c_size_t)
_OUT_U64 = POINTER(c_uint64)

# A function that a stream calls on its worker thread.
HOST_FUNCTION = CFUNCTYPE(None, c_void_p)

# A function that a waiting call asks whether it shall go on.
INTERRUPT_CHECK = CFUNCTYPE(c_int, c_void_p)

_CONFIG = POINTER(s.Config)
_COPY = POINTER(s.RemoteCopy)

# Functions that return text instead of a result.
TEXTS: dict[str, tuple[type, ...]] = {
    "pennyGetErrorString": (_I,),
    "pennyGetLastError": (_P,),
}

COMMUNICATORS: dict[str, tuple[type, ...]] = {
    "pennyGetVersion": (_OUT_I,),
    "pennySetInterruptCheck": (INTERRUPT_CHECK, _P),
    "pennySetProgress": (HOST_FUNCTION, _P),
    "pennyGetUniqueId": (POINTER(s.UniqueId),),
    "pennyCommInitRank": (_OUT_P, _I, s.UniqueId, _I),
    "pennyCommInitRankConfig": (_OUT_P, _I, s.UniqueId, _I, _CONFIG),
    "pennyCommInitAll": (_OUT_P, _I, _OUT_I),
    "pennyCommInitFromEnv": (_OUT_P, _CONFIG),
    "pennyCommGroup": (_P, _I, _I, _OUT_P),
    "pennyCommDup": (_P, _OUT_P),
    "pennyCommGetUniqueId": (_P, POINTER(s.UniqueId)),
    "pennyCommGrow": (_P, _I, POINTER(s.UniqueId), _I, _OUT_P, _CONFIG),
    "pennyCommRevoke": (_P, _I),
    "pennyCommSuspend": (_P, _I),
    "pennyCommResume": (_P,),
    "pennyCommMemStats": (_P, _I, _OUT_U64),
    "pennyCommShrink": (_P, _OUT_I, _I, _OUT_P, _CONFIG, _I),
    "pennyCommSplit": (_P, _I, _I, _OUT_P, _CONFIG),
    "pennyCommFinalize": (_P,),
    "pennyCommDestroy": (_P,),
    "pennyCommAbort": (_P,),
    "pennyCommGetAsyncError": (_P, _OUT_I),
    "pennyCommCount": (_P, _OUT_I),
    "pennyCommUserRank": (_P, _OUT_I),
    "pennyCommDevice": (_P, _OUT_I),
    "pennyMemAlloc": (_OUT_P, _Z),
    "pennyMemFree": (_P,),
    "pennyCommRegister": (_P, _P, _Z, _OUT_P),
    "pennyCommDeregister": (_P, _P),
}

# Calls that a group or a stream may queue: the communicator and the stream come last.
_COLLECTIVE = (_P, _P, _Z, _I, _P, _P)
_REDUCING = (_P, _P, _Z, _I, _I, _P, _P)
_ROOTED = (_P, _P, _Z, _I, _I, _P, _P)
COLLECTIVES: dict[str, tuple[type, ...]] = {
    "pennyAllReduce": _REDUCING,
    "pennyReduce": (_P, _P, _Z, _I, _I, _I, _P, _P),
    "pennyBroadcast": _ROOTED,
    "pennyBcast": (_P, _Z, _I, _I, _P, _P),
    "pennyAllGather": _COLLECTIVE,
    "pennyReduceScatter": _REDUCING,
    "pennyReduceScatterPadded": _REDUCING,
    "pennyAlltoAll": _COLLECTIVE,
    "pennyGather": _ROOTED,
    "pennyScatter": _ROOTED,
    "pennyPermute": (_P, _P, _Z, _I, _OUT_I, _P, _P),
    "pennyRedOpCreatePreMulSum": (_OUT_I, _P, _I, _I, _P),
    "pennyRedOpDestroy": (_I, _P),
    "pennyAlltoAllv": (_P, _OUT_Z, _OUT_Z, _P, _OUT_Z, _OUT_Z, _I, _P, _P),
    "pennyAllGatherv": (_P, _Z, _P, _OUT_Z, _OUT_Z, _I, _P, _P),
    "pennyGatherv": (_P, _Z, _P, _OUT_Z, _OUT_Z, _I, _I, _P, _P),
    "pennyScatterv": (_P, _OUT_Z, _OUT_Z, _P, _Z, _I, _I, _P, _P),
    "pennyReduceScatterv": (_P, _P, _OUT_Z, _I, _I, _P, _P),
    "pennyBarrier": (_P, _P),
    "pennySend": (_P, _Z, _I, _I, _P, _P),
    "pennyRecv": (_P, _Z, _I, _I, _P, _P),
    "pennyProbe": (_I, _P, _OUT_I, _OUT_Z, _OUT_I),
    "pennyGroupStart": (),
    "pennyGroupEnd": (),
    "pennyGroupSimulateEnd": (POINTER(s.SimInfo),),
    "pennyRecordStart": (),
    "pennyRecordEnd": (_OUT_P,),
    "pennyRecordingLaunch": (_P, _P),
    "pennyRecordingDestroy": (_P,),
    "pennyCommWindowRegister": (_P, _P, _Z, _OUT_P, _I),
    "pennyCommWindowDeregister": (_P, _P),
    "pennyWinGetUserPtr": (_P, _P, _OUT_P),
    "pennyPutSignal": (_P, _Z, _I, _I, _P, _Z, _I, _I, _U, _P, _P),
    "pennySignal": (_I, _I, _I, _U, _P, _P),
    "pennyWaitSignal": (_I, POINTER(s.WaitSignalDesc), _P, _P),
}

FABRIC: dict[str, tuple[type, ...]] = {
    "pennyFabricNow": (_P, _OUT_U64),
    "pennyFabricAdvance": (_P, _U64),
    "pennyFabricAdvanceTo": (_P, _U64),
    "pennyFabricInfo": (_P, POINTER(s.FabricInfo)),
    "pennyFabricCounters": (_P, POINTER(s.FabricPort), _OUT_Z),
    "pennyLinkChannelsRun": (_P, _I, _I, POINTER(s.LinkChannel), _I),
}

_MOVE = (_P, _P, _Z, _I, _P)
_MOVE_ELEMENTS = (_P, _P, _Z, _I, _I, _P)
_STRIDED = (_P, _P, c_ssize_t, c_ssize_t, _Z, _I, _I, _P)
_PUT_SIGNAL = (_P, _P, _Z, _OUT_U64, _U64, _I, _I, _P)
_ELEMENT = (_P, _P, _I, _I, _P)
_FETCH_ELEMENT = (_P, _P, _P, _I, _I, _P)
SYMMETRIC: dict[str, tuple[type, ...]] = {
    "pennyShmemInit": (_P,),
    "pennyShmemFinalize": (_P,),
    "pennyShmemMyPe": (_P, _OUT_I),
    "pennyShmemNPes": (_P, _OUT_I),
    "pennyShmemMalloc": (_OUT_P, _Z, _P),
    "pennyShmemCalloc": (_OUT_P, _Z, _Z, _P),
    "pennyShmemAlign": (_OUT_P, _Z, _Z, _P),
    "pennyShmemFree": (_P, _P),
    "pennyShmemPtr": (_OUT_P, _P, _I, _P),
    "pennyShmemBufferRegister": (_P, _Z, _P),
    "pennyShmemBufferUnregister": (_P, _P),
    "pennyShmemBarrierAll": (_P,),
    "pennyShmemSyncAll": (_P,),
    "pennyShmemStats": (_P, POINTER(s.ShmemStats)),
    "pennyShmemPutMem": _MOVE,
    "pennyShmemGetMem": _MOVE,
    "pennyShmemPutMemNbi": _MOVE,
    "pennyShmemGetMemNbi": _MOVE,
    "pennyShmemPut": _MOVE_ELEMENTS,
    "pennyShmemGet": _MOVE_ELEMENTS,
    "pennyShmemPutNbi": _MOVE_ELEMENTS,
    "pennyShmemGetNbi": _MOVE_ELEMENTS,
    "pennyShmemP": _ELEMENT,
    "pennyShmemG": _ELEMENT,
    "pennyShmemIput": _STRIDED,
    "pennyShmemIget": _STRIDED,
    "pennyShmemFence": (_P,),
    "pennyShmemQuiet": (_P,),
    "pennyShmemPutMemSignal": _PUT_SIGNAL,
    "pennyShmemPutMemSignalNbi": _PUT_SIGNAL,
    "pennyShmemSignalOp": (_OUT_U64, _U64, _I, _I, _P),
    "pennyShmemSignalFetch": (_OUT_U64, _OUT_U64, _P),
    "pennyShmemSignalWaitUntil": (_OUT_U64, _OUT_U64, _I, _U64, _P),
    "pennyShmemWaitUntil": (_P, _I, _P, _I, _P),
    "pennyShmemTest": (_OUT_I, _P, _I, _P, _I, _P),
    "pennyShmemWaitUntilAll": (_P, _Z, _OUT_I, _I, _P, _I, _P),
    "pennyShmemWaitUntilAny": (_OUT_Z, _P, _Z, _OUT_I, _I, _P, _I, _P),
    "pennyShmemWaitUntilSome": (_OUT_Z, _OUT_Z, _P, _Z, _OUT_I, _I, _P, _I, _P),
    "pennyShmemTestAll": (_OUT_I, _P, _Z, _OUT_I, _I, _P, _I, _P),
    "pennyShmemTestAny": (_OUT_Z, _P, _Z, _OUT_I, _I, _P, _I, _P),
    "pennyShmemTestSome": (_OUT_Z, _OUT_Z, _P, _Z, _OUT_I, _I, _P, _I, _P),
    "pennyShmemAtomicFetch": _ELEMENT,
    "pennyShmemAtomicSet": _ELEMENT,
    "pennyShmemAtomicAdd": _ELEMENT,
    "pennyShmemAtomicInc": (_P, _I, _I, _P),
    "pennyShmemAtomicFetchAdd": _FETCH_ELEMENT,
    "pennyShmemAtomicFetchInc": _ELEMENT,
    "pennyShmemAtomicSwap": _FETCH_ELEMENT,
    "pennyShmemAtomicCompareSwap": (_P, _P, _P, _P, _I, _I, _P),
    "pennyShmemAtomicAnd": _ELEMENT,
    "pennyShmemAtomicFetchAnd": _FETCH_ELEMENT,
    "pennyShmemAtomicOr": _ELEMENT,
    "pennyShmemAtomicFetchOr": _FETCH_ELEMENT,
    "pennyShmemAtomicXor": _ELEMENT,
    "pennyShmemAtomicFetchXor": _FETCH_ELEMENT,
    "pennyShmemTeamSplitStrided": (_P, _I, _I, _I, _OUT_P),
    "pennyShmemTeamSplit2d": (_P, _I, _OUT_P, _OUT_P),
    "pennyShmemTeamTranslatePe": (_P, _I, _P, _OUT_I),
    "pennyShmemTeamSync": (_P,),
    "pennyMesh": (_P, _I, _OUT_I),
    "pennySemaphoreCreate": (_P, _I, c_char_p, _I, _OUT_P),
    "pennySemaphoreDestroy": (_P,),
    "pennyBarrierSemaphore": (_P, _I, _OUT_P),
    "pennySemaphoreSignal": (_P, _I, _U64, s.Device),
    "pennySemaphoreWait": (_P, _I, _U64),
    "pennySemaphoreRead": (_P, _I, _OUT_U64),
    "pennyRemoteCopyStart": (_P, _COPY),
    "pennyRemoteCopyWaitSend": (_P, _COPY),
    "pennyRemoteCopyWaitRecv": (_P, _COPY),
    "pennyRemoteCopyWait": (_P, _COPY),
    "pennyRemoteCopyTest": (_P, _COPY, _OUT_I),
}

_OUT_MESSAGE = POINTER(s.MailboxMessage)
MAILBOXES: dict[str, tuple[type, ...]] = {
    "pennyMailboxCreate": (_P, POINTER(s.MailboxConfig), _OUT_P),
    "pennyMailboxDestroy": (_P,),
    "pennyMailboxSendSlot": (_P, _I, _OUT_P),
    "pennyMailboxSetLen": (_P, _I, _I),
    "pennyMailboxCanSend": (_P, _I, _I, _OUT_I),
    "pennyMailboxCanRecv": (_P, _I, _OUT_I),
    "pennyMailboxMulticast": (_P, _I, _U, _U, _P),
    "pennyMailboxTryMulticast": (_P, _I, _U, _U, _P, _OUT_I),
    "pennyMailboxSend": (_P, _I, _I, _P),
    "pennyMailboxRecv": (_P, _I, _OUT_MESSAGE),
    "pennyMailboxTryRecv": (_P, _I, _OUT_MESSAGE, _OUT_I),
    "pennyMailboxFree": (_P, _I, _P),
    "pennyMailboxWaitUntil": (_P, _I, _I, _I, _OUT_I),
    "pennyMailboxIdle": (_P, _I, _I, _OUT_I),
    "pennyMailboxKeyCreate": (_P, POINTER(s.MailboxKeyEntry), _Z, _OUT_U64),
    "pennyMailboxKeySend": (_P, _U64, _P),
    "pennyMailboxKeyDestroy": (_P, _U64),
    "pennyMailboxStats": (_P, POINTER(s.MailboxStats)),
}

# A call on a stream is queued and returns; the stream's worker runs it.
STREAMS: dict[str, tuple[type, ...]] = {
    "pennyStreamCreate": (_OUT_P,),
    "pennyStreamDestroy": (_P,),
    "pennyStreamSynchronize": (_P,),
    "pennyStreamQuery": (_P,),
    "pennyStreamWaitEvent": (_P, _P),
    "pennyStreamLaunchHostFunc": (_P, HOST_FUNCTION, _P),
    "pennyEventCreate": (_OUT_P,),
    "pennyEventRecord": (_P, _P),
    "pennyEventQuery": (_P,),
    "pennyEventSynchronize": (_P,),
    "pennyEventElapsedTime": (POINTER(c_float), _P, _P),
    "pennyEventDestroy": (_P,),
}

RESULTS: dict[str, tuple[type, ...]] = {
    **COMMUNICATORS,
    **COLLECTIVES,
    **FABRIC,
    **SYMMETRIC,
    **MAILBOXES,
    **STREAMS,
}

# Functions that never wait and are over before another thread could have run: they keep the
# interpreter's lock, which costs less than giving it up and asking for it again. All others give it up.
QUICK = frozenset(
    {
        "pennyGetVersion",
        "pennyGetErrorString",
        "pennyGetLastError",
        "pennySetInterruptCheck",
        "pennySetProgress",
        "pennyCommGetAsyncError",
        "pennyCommCount",
        "pennyCommUserRank",
        "pennyCommDevice",
        "pennyGroupStart",
        "pennyEventCreate",
        "pennyEventRecord",
        "pennyShmemMyPe",
        "pennyShmemNPes",
        "pennyMailboxCanSend",
        "pennyMailboxCanRecv",
    }
)
