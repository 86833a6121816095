"""The symmetric heap: memory that all ranks allocate together; each names everybody's copy by its own."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._enums import ITEMSIZE, Cmp, DataType, SignalOp
from ._errors import InvalidArgumentError
from ._library import check, lib
from ._structs import ShmemStats
from .closing import ClosedByAll
from .datatypes import SCALARS, data_type
from .integers import number, size, within, word
from .operands import prepare

if TYPE_CHECKING:
    from .communicator import Communicator


@dataclass(frozen=True)
class HeapAccount:
    """A symmetric heap's books, in bytes where it says no other; the same on all ranks."""

    bytes: int
    used: int
    free: int
    largest_free: int
    peak_used: int
    blocks: int
    allocations: int
    frees: int
    segments: int
    fragmentation: float


class SymmetricHeap(ClosedByAll):
    """The symmetric heap of a communicator. Every rank makes it, makes the same arrays in it, and closes it.

    In a `with` statement it is closed at the end of the block.
    """

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self._handle = comm.handle
        check(lib.pennyShmemInit(self._handle), self._handle)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> SymmetricArray:
        """An array on every rank, with undefined contents. Every rank calls with the same arguments."""
        return SymmetricArray(self, shape, dtype, lib.pennyShmemMalloc)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> SymmetricArray:
        """An array of zeros on every rank. Every rank calls with the same arguments."""
        return SymmetricArray(self, shape, dtype, _calloc)

    def barrier(self) -> None:
        """All ranks have come here, and what they have put before is done and visible to all."""
        check(lib.pennyShmemBarrierAll(self._handle), self._handle)

    def sync(self) -> None:
        """All ranks have come here. Says nothing about puts."""
        check(lib.pennyShmemSyncAll(self._handle), self._handle)

    def fence(self) -> None:
        """Orders this thread's earlier puts to each rank before its later puts there."""
        check(lib.pennyShmemFence(self._handle), self._handle)

    def quiet(self) -> None:
        """Everything that this thread has put and got is done, and visible to all ranks."""
        check(lib.pennyShmemQuiet(self._handle), self._handle)

    def account(self) -> HeapAccount:
        """The used and the free memory, and other counters of the heap."""
        stats = ShmemStats()
        check(lib.pennyShmemStats(self._handle, stats), self._handle)
        return HeapAccount(*(getattr(stats, name) for name, *_ in ShmemStats._fields_[3:]))

    def close(self) -> None:
        """Gives the heap up with all that is in it. Every rank calls."""
        check(lib.pennyShmemFinalize(self._handle), self._handle)


def _calloc(out: ctypes.c_void_p, nbytes: int, comm: int) -> int:
    return int(lib.pennyShmemCalloc(out, nbytes, 1, comm))


class SymmetricArray:
    """An array that every rank has at the same place of the heap.

    Indices are of elements, in the order of memory.

    `local` is this rank's copy. Whole arrays and parts go to and from a rank's copy by `put` and `get`;
    single elements of 4 and 8 bytes also by atomic operations, and this rank can wait for its own.
    """

    def __init__(self, heap: SymmetricHeap, shape: int | tuple[int, ...], dtype: Any, allocate: Any) -> None:
        self.heap = heap
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = data_type(dtype)
        self.size = math.prod(self.shape)
        self._itemsize = ITEMSIZE[self.dtype]
        self._comm = heap.comm.handle
        out = ctypes.c_void_p()
        check(allocate(out, size("shape", self.size * self._itemsize), self._comm), self._comm)
        self.address = out.value or 0
        self.local = self._view()

    def _view(self) -> memoryview | Any:
        """This rank's copy: a numpy array if numpy is there and has the type, else its bytes."""
        nbytes = self.size * self._itemsize
        memory = memoryview((ctypes.c_char * nbytes).from_address(self.address)).cast("B")
        try:
            import numpy

            return numpy.frombuffer(memory, self.dtype.name.lower()).reshape(self.shape)
        except (ImportError, TypeError):
            return memory

    def put(self, data: Any, pe: int, index: int = 0) -> None:
        """Writes data into a rank's copy, from an element on.

        Returns when `data` may be reused; see `SymmetricHeap.quiet`.
        """
        source, n = self._operand("put", data, index, False)
        check(
            lib.pennyShmemPut(self._at(index), source, n, self.dtype, number("pe", pe), self._comm),
            self._comm,
        )

    def get(self, into: Any, pe: int, index: int = 0) -> Any:
        """Fills a buffer from a rank's copy, from an element on. The elements are there when it returns."""
        target, n = self._operand("get", into, index, True)
        check(
            lib.pennyShmemGet(target, self._at(index), n, self.dtype, number("pe", pe), self._comm),
            self._comm,
        )
        return into

    def put_signal(
        self,
        data: Any,
        pe: int,
        signal: SymmetricArray,
        value: int,
        op: SignalOp = SignalOp.SET,
        *,
        index: int = 0,
        signal_index: int = 0,
    ) -> None:
        """`put`, and then a signal at the same rank: a rank that sees the signal sees the data.

        signal: an array of uint64; its element `signal_index` is set to the value, or the value is added to
        it.
        """
        source, n = self._operand("put_signal", data, index, False)
        result = lib.pennyShmemPutMemSignal(
            self._at(index),
            source,
            n * self._itemsize,
            signal._word(signal_index),
            word("value", value),
            op,
            number("pe", pe),
            self._comm,
        )
        check(result, self._comm)

    def signal(self, pe: int, value: int, op: SignalOp = SignalOp.SET, *, index: int = 0) -> None:
        """Sets or adds to an element of uint64 at a rank, as a signal without data."""
        check(
            lib.pennyShmemSignalOp(self._word(index), word("value", value), op, number("pe", pe), self._comm),
            self._comm,
        )

    def wait_until(self, cmp: Cmp | str, value: float, index: int = 0) -> None:
        """Waits until this rank's element compares so: "eq", "ne", "gt", "le", "lt" or "ge"."""
        result = lib.pennyShmemWaitUntil(
            self._at(index), _cmp(cmp), ctypes.byref(self._scalar(value)), self.dtype, self._comm
        )
        check(result, self._comm)

    def test(self, cmp: Cmp | str, value: float, index: int = 0) -> bool:
        """Does this rank's element compare so now?"""
        holds = ctypes.c_int()
        result = lib.pennyShmemTest(
            holds, self._at(index), _cmp(cmp), ctypes.byref(self._scalar(value)), self.dtype, self._comm
        )
        check(result, self._comm)
        return bool(holds.value)

    def fetch(self, pe: int, index: int = 0) -> Any:
        """Reads an element at a rank in one piece."""
        fetched = self._scalar(0)
        result = lib.pennyShmemAtomicFetch(
            ctypes.byref(fetched), self._at(index), self.dtype, number("pe", pe), self._comm
        )
        check(result, self._comm)
        return fetched.value

    def set(self, pe: int, value: float, index: int = 0) -> None:
        """Writes an element at a rank in one piece."""
        result = lib.pennyShmemAtomicSet(
            self._at(index), ctypes.byref(self._scalar(value)), self.dtype, number("pe", pe), self._comm
        )
        check(result, self._comm)

    def add(self, pe: int, value: int, index: int = 0) -> None:
        """Adds to an element at a rank, modulo its size."""
        result = lib.pennyShmemAtomicAdd(
            self._at(index), ctypes.byref(self._scalar(value)), self.dtype, number("pe", pe), self._comm
        )
        check(result, self._comm)

    def fetch_add(self, pe: int, value: int, index: int = 0) -> int:
        """Adds to an element at a rank and tells what it was before."""
        return int(self._fetching(lib.pennyShmemAtomicFetchAdd, pe, value, index))

    def fetch_and(self, pe: int, value: int, index: int = 0) -> int:
        """Bitwise and with an element at a rank; tells what it was before."""
        return int(self._fetching(lib.pennyShmemAtomicFetchAnd, pe, value, index))

    def fetch_or(self, pe: int, value: int, index: int = 0) -> int:
        """Bitwise or with an element at a rank; tells what it was before."""
        return int(self._fetching(lib.pennyShmemAtomicFetchOr, pe, value, index))

    def fetch_xor(self, pe: int, value: int, index: int = 0) -> int:
        """Bitwise exclusive or with an element at a rank; tells what it was before."""
        return int(self._fetching(lib.pennyShmemAtomicFetchXor, pe, value, index))

    def swap(self, pe: int, value: float, index: int = 0) -> Any:
        """Writes an element at a rank and tells what it was before."""
        return self._fetching(lib.pennyShmemAtomicSwap, pe, value, index)

    def compare_swap(self, pe: int, expected: int, value: int, index: int = 0) -> int:
        """Writes an element at a rank if it is what is expected.

        Tells what it was before: that, if it was written.
        """
        fetched = self._scalar(0)
        result = lib.pennyShmemAtomicCompareSwap(
            ctypes.byref(fetched),
            self._at(index),
            ctypes.byref(self._scalar(expected)),
            ctypes.byref(self._scalar(value)),
            self.dtype,
            number("pe", pe),
            self._comm,
        )
        check(result, self._comm)
        return int(fetched.value)

    def free(self) -> None:
        """Gives the memory back; `local` must not be used any more. Every rank calls."""
        self.local = None
        check(lib.pennyShmemFree(self.address, self._comm), self._comm)

    def _fetching(self, operation: Any, pe: int, value: float, index: int) -> Any:
        fetched = self._scalar(0)
        result = operation(
            ctypes.byref(fetched),
            self._at(index),
            ctypes.byref(self._scalar(value)),
            self.dtype,
            number("pe", pe),
            self._comm,
        )
        check(result, self._comm)
        return fetched.value

    def _scalar(self, value: float) -> Any:
        """An element on its own, to be passed by address."""
        kind = SCALARS.get(self.dtype)
        if kind is None:
            raise InvalidArgumentError(
                f"this array is of {self.dtype.name.lower()}, of which single elements cannot be passed"
            )
        if self.dtype not in (DataType.FLOAT32, DataType.FLOAT64):
            # Signed or not: what is added to an element may be negative in both.
            bits = 8 * self._itemsize
            within("value", value, -(1 << (bits - 1)), (1 << bits) - 1)
        return kind(value)

    def _at(self, index: int) -> int:
        if not 0 <= index < max(self.size, 1):
            raise InvalidArgumentError(f"index {index} is outside of an array of {self.size} elements")
        return self.address + index * self._itemsize

    def _word(self, index: int) -> Any:
        if self._itemsize != 8:
            raise InvalidArgumentError(
                f"a signal is an element of uint64, and this array is of {self.dtype.name.lower()}"
            )
        return ctypes.cast(self._at(index), ctypes.POINTER(ctypes.c_uint64))

    def _operand(self, call: str, buffer: Any, index: int, written: bool) -> tuple[int, int]:
        """Address and elements of a buffer that fits behind an index."""
        send, recv = (None, buffer) if written else (buffer, None)
        source, target, element, n = prepare(
            self.heap.comm, call, send, recv, None, None, int(not written), int(written)
        )
        if element != self.dtype or index + n > self.size:
            raise InvalidArgumentError(
                f"{call}: {n} elements of {DataType(element).name.lower()} do not fit into an array of "
                f"{self.size} of {self.dtype.name.lower()} at index {index} ({self.heap.comm})"
            )
        return (target if written else source)[0], n


def _cmp(name: Cmp | str) -> int:
    try:
        return Cmp[name.upper()] if isinstance(name, str) else Cmp(name)
    except (KeyError, ValueError):
        known = ", ".join(cmp.name.lower() for cmp in Cmp)
        raise InvalidArgumentError(f"{name!r} is no comparison; those are {known}") from None
