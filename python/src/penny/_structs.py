"""The structs and constants of the C interface, each with the initializer that its header gives it.

Written by python/generate.py from include/penny.h.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)

CONFIG_UNDEF_INT = -(2**31)
SPLIT_NOCOLOR = -1
SHRINK_DEFAULT = 0
SHRINK_ABORT = 1
SUSPEND_MEM = 1
REVOKE_DEFAULT = 0
UNIQUE_ID_BYTES = 128
WIN_DEFAULT = 0
WIN_COLL_SYMMETRIC = 1
WIN_STRICT_ORDERING = 2
SIGNALS = 64
SIGNAL_CONTEXTS = 8
MAILBOX_FLIT_BYTES = 16
MAILBOX_CAN_SEND = 1
MAILBOX_CAN_RECV = 2
MAILBOX_MESSAGE = 0
MAILBOX_ALL_IDLE = 1
MAILBOX_ALL_VOTED = 2
MESH_DIMS = 4
SEMAPHORE_NAME_BYTES = 32
BARRIER_SEMAPHORES = 32
# The version of the header that these declarations follow, as PENNY_VERSION_CODE counts.
HEADER_VERSION = (0, 1, 0)
_VERSION_CODE = HEADER_VERSION[0] * 10000 + HEADER_VERSION[1] * 100 + HEADER_VERSION[2]

INTERRUPT_CHECK = CFUNCTYPE(c_int, c_void_p)
PROGRESS = CFUNCTYPE(None, c_void_p)
LOOP_BODY = CFUNCTYPE(None, c_void_p, c_int)
PARALLEL_FOR = CFUNCTYPE(None, c_void_p, c_int, LOOP_BODY, c_void_p)
HOST_FN = CFUNCTYPE(None, c_void_p)


class _Versioned(ctypes.Structure):
    """A struct that begins with its size, a magic number and the version of the header it was declared by."""

    MAGIC = 0
    # Fields whose value, unless it is given, is left to the library.
    UNDEFINED: tuple[str, ...] = ()

    def __init__(self, **values: object) -> None:
        undefined = dict.fromkeys(self.UNDEFINED, CONFIG_UNDEF_INT)
        head = {"size": ctypes.sizeof(self), "magic": self.MAGIC, "version": _VERSION_CODE}
        super().__init__(**{**head, **undefined, **values})


_HEAD = [("size", c_size_t), ("magic", c_uint), ("version", c_uint)]


class UniqueId(ctypes.Structure):
    """pennyUniqueId."""

    _fields_ = [
        ("internal", c_char * UNIQUE_ID_BYTES),
    ]


class Config(_Versioned):
    """pennyConfig_t."""

    MAGIC = 1346719321
    UNDEFINED = ("blocking", "timeoutMs", "threads")
    _fields_ = [
        *_HEAD,
        ("blocking", c_int),
        ("timeoutMs", c_int),
        ("commName", c_char_p),
        ("algo", c_char_p),
        ("fabric", c_char_p),
        ("fabricClock", c_char_p),
        ("threads", c_int),
        ("parallelFor", PARALLEL_FOR),
        ("parallelForArg", c_void_p),
    ]


class WaitSignalDesc(ctypes.Structure):
    """pennyWaitSignalDesc_t."""

    _fields_ = [
        ("opCnt", c_int),
        ("peer", c_int),
        ("sigIdx", c_int),
        ("ctx", c_int),
    ]


class FabricInfo(_Versioned):
    """pennyFabricInfo_t."""

    MAGIC = 1346717257
    _fields_ = [
        *_HEAD,
        ("name", c_char * 128),
        ("hash", c_uint64),
        ("places", c_uint),
        ("ports", c_uint),
        ("nowPs", c_uint64),
        ("calls", c_uint64),
        ("trace", c_uint64),
        ("late", c_uint64),
        ("dilation", c_double),
        ("slip", c_double),
        ("neededDilation", c_double),
        ("valid", c_int),
        ("lateNs", c_uint64),
        ("askedNs", c_uint64),
        ("workedNs", c_uint64),
        ("fabricPs", c_uint64),
    ]


class FabricPort(ctypes.Structure):
    """pennyFabricPort_t."""

    _fields_ = [
        ("name", c_char * 64),
        ("bytes", c_uint64),
        ("messages", c_uint64),
        ("busyPs", c_uint64),
        ("queueHigh", c_uint64),
        ("errors", c_uint64),
        ("resends", c_uint64),
        ("downPs", c_uint64),
        ("reserved", c_uint64 * 8),
    ]


class SimInfo(_Versioned):
    """pennySimInfo_t."""

    MAGIC = 1346720585
    _fields_ = [
        *_HEAD,
        ("estimatedTime", c_float),
        ("estimatedPs", c_uint64),
    ]


class LinkChannel(ctypes.Structure):
    """pennyLinkChannel_t."""

    _fields_ = [
        ("role", c_int),
        ("peer", c_int),
        ("link", c_int),
        ("buffers", c_int),
        ("messages", c_size_t),
        ("bytes", c_size_t),
        ("data", c_void_p),
        ("relays", c_int),
        ("everyNs", c_uint64),
        ("firstPs", c_uint64),
        ("lastPs", c_uint64),
    ]


class ShmemStats(_Versioned):
    """pennyShmemStats_t."""

    MAGIC = 1346720584
    _fields_ = [
        *_HEAD,
        ("bytes", c_uint64),
        ("used", c_uint64),
        ("free", c_uint64),
        ("largestFree", c_uint64),
        ("peakUsed", c_uint64),
        ("blocks", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("segments", c_uint64),
        ("fragmentation", c_double),
    ]


class MailboxConfig(_Versioned):
    """pennyMailboxConfig_t."""

    MAGIC = 1346719042
    UNDEFINED = ("threads", "slots", "slotBytes")
    _fields_ = [
        *_HEAD,
        ("threads", c_int),
        ("slots", c_int),
        ("slotBytes", c_int),
    ]


class MailboxMessage(ctypes.Structure):
    """pennyMailboxMessage_t."""

    _fields_ = [
        ("data", c_void_p),
        ("flits", c_int),
        ("sourceRank", c_int),
        ("sourceThread", c_int),
        ("localKey", c_uint),
    ]


class MailboxKeyEntry(ctypes.Structure):
    """pennyMailboxKeyEntry_t."""

    _fields_ = [
        ("dest", c_int),
        ("maskHigh", c_uint),
        ("maskLow", c_uint),
        ("localKey", c_uint),
    ]


class MailboxStats(_Versioned):
    """pennyMailboxStats_t."""

    MAGIC = 1346719059
    _fields_ = [
        *_HEAD,
        ("slots", c_uint64),
        ("slotsFree", c_uint64),
        ("sent", c_uint64),
        ("received", c_uint64),
        ("written", c_uint64),
        ("delivered", c_uint64),
        ("bytesWritten", c_uint64),
    ]


class Device(ctypes.Structure):
    """pennyDevice_t."""

    _fields_ = [
        ("kind", c_int),
        ("coord", c_int * MESH_DIMS),
    ]


class RemoteCopy(ctypes.Structure):
    """pennyRemoteCopy_t."""

    _fields_ = [
        ("src", c_void_p),
        ("dst", c_void_p),
        ("bytes", c_size_t),
        ("sendSem", c_void_p),
        ("sendIndex", c_int),
        ("recvSem", c_void_p),
        ("recvIndex", c_int),
        ("device", Device),
    ]
