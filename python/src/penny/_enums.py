"""The numbers of the C interface by name: results, element types, reductions, and its other enums."""

from __future__ import annotations

from enum import IntEnum


class Result(IntEnum):
    """The result of a call of the C interface."""

    SUCCESS = 0
    UNHANDLED_DEVICE_ERROR = 1
    SYSTEM_ERROR = 2
    INTERNAL_ERROR = 3
    INVALID_ARGUMENT = 4
    INVALID_USAGE = 5
    REMOTE_ERROR = 6
    IN_PROGRESS = 7
    TIMEOUT = 8


class DataType(IntEnum):
    """Element types."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT8E4M3 = 10
    FLOAT8E5M2 = 11
    BOOL = 64
    INT16 = 65
    UINT16 = 66

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return ITEMSIZE[self]


ITEMSIZE: dict[int, int] = {
    DataType.INT8: 1,
    DataType.UINT8: 1,
    DataType.INT32: 4,
    DataType.UINT32: 4,
    DataType.INT64: 8,
    DataType.UINT64: 8,
    DataType.FLOAT16: 2,
    DataType.FLOAT32: 4,
    DataType.FLOAT64: 8,
    DataType.BFLOAT16: 2,
    DataType.FLOAT8E4M3: 1,
    DataType.FLOAT8E5M2: 1,
    DataType.BOOL: 1,
    DataType.INT16: 2,
    DataType.UINT16: 2,
}


class RedOp(IntEnum):
    """Reductions."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    SQUARE_ADD = 64
    LOGICAL_AND = 65
    LOGICAL_OR = 66
    LOGICAL_XOR = 67
    BIT_AND = 68
    BIT_OR = 69
    BIT_XOR = 70


class GroupKind(IntEnum):
    """How the ranks of a communicator are divided into groups of one size."""

    ALL = 0
    CONSECUTIVE = 1
    ORTHOGONAL = 2


class SignalOp(IntEnum):
    """The operation on a signal."""

    SET = 9
    ADD = 10


class Cmp(IntEnum):
    """The comparison of a wait: the awaited element on the left, the given value on the right."""

    EQ = 0
    NE = 1
    GT = 2
    LE = 3
    LT = 4
    GE = 5


class SemaphoreKind(IntEnum):
    """What a semaphore counts: bytes of remote copies, or signals."""

    DMA = 0
    REGULAR = 1


class DeviceKind(IntEnum):
    """The way in which a device names a rank: by coordinates if a mesh is declared, else by number; or explicitly."""

    DEFAULT = 0
    LOGICAL = 1
    MESH = 2


class ChannelRole(IntEnum):
    """An end of a channel of a data mover."""

    SENDER = 0
    RECEIVER = 1


class SignalMode(IntEnum):
    """The way in which a message of a channel and the word that announces it travel."""

    DEFAULT = 0
    MERGED = 1
    SEPARATE = 2


class Termination(IntEnum):
    """The condition that ends channels."""

    DEFAULT = 0
    MESSAGE_COUNT = 1
    WORKER_INITIATED = 2


class ScalarResidence(IntEnum):
    """The place of the number of a scaled sum."""

    SCALAR_DEVICE = 0
    SCALAR_HOST_IMMEDIATE = 1


class CommMemStat(IntEnum):
    """The numbers about a communicator's memory."""

    SUSPEND = 0
    SUSPENDED = 1
    PERSIST = 2
    TOTAL = 3
