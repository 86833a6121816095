"""Semaphores, and remote copies on a mesh of ranks, which count their bytes in them here and there."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._enums import DeviceKind, SemaphoreKind
from ._errors import InvalidArgumentError
from ._library import check, lib
from ._structs import MESH_DIMS, Device, RemoteCopy
from .buffers import resolve
from .closing import ClosedByAll
from .integers import number, word
from .symmetric_heap import SymmetricArray, SymmetricHeap

if TYPE_CHECKING:
    from .communicator import Communicator

# A rank by its number, or by its coordinates in the mesh.
DeviceId = int | Sequence[int]


def declare_mesh(comm: Communicator, sides: Sequence[int]) -> None:
    """Declares how the ranks lie: a mesh, row-major, of at most 4 dimensions.

    Every rank calls, with a symmetric heap made.

    No sides: takes the mesh back.
    """
    dims = (ctypes.c_int * len(sides))(*(number("sides", side) for side in sides)) if sides else None
    check(lib.pennyMesh(comm.handle, len(sides), dims), comm.handle)


class Semaphore(ClosedByAll):
    """Counters on every rank, all 0 at first.

    Any rank adds to them; only their own rank waits for them and takes off.

    Every rank makes them, with the same arguments, and closes them; what is not 0 then is reported by name.
    """

    def __init__(
        self,
        heap: SymmetricHeap,
        kind: SemaphoreKind = SemaphoreKind.REGULAR,
        name: str = "semaphore",
        count: int = 1,
    ) -> None:
        self._comm = heap.comm.handle
        out = ctypes.c_void_p()
        many = number("count", count)
        check(lib.pennySemaphoreCreate(self._comm, kind, name.encode(), many, out), self._comm)
        self._as_parameter_ = out.value

    @classmethod
    def barrier(cls, heap: SymmetricHeap, collective_id: int = 0) -> Semaphore:
        """One of the 32 barrier semaphores, which are there from the heap's beginning to its end."""
        semaphore = cls.__new__(cls)
        semaphore._comm = heap.comm.handle
        out = ctypes.c_void_p()
        which = number("collective_id", collective_id)
        check(lib.pennyBarrierSemaphore(semaphore._comm, which, out), semaphore._comm)
        semaphore._as_parameter_ = out.value
        return semaphore

    def signal(self, device: DeviceId, increment: int = 1, *, index: int = 0) -> None:
        """Adds to a rank's semaphore.

        This thread's earlier puts and copies are visible to a rank that waits for it.
        """
        which, increment = number("index", index), word("increment", increment)
        check(lib.pennySemaphoreSignal(self, which, increment, _device(device)), self._comm)

    def wait(self, value: int = 1, *, index: int = 0) -> None:
        """Waits until this rank's semaphore is at least the value, then takes it off."""
        check(lib.pennySemaphoreWait(self, number("index", index), word("value", value)), self._comm)

    def read(self, *, index: int = 0) -> int:
        """This rank's semaphore as it is now."""
        value = ctypes.c_uint64()
        check(lib.pennySemaphoreRead(self, number("index", index), value), self._comm)
        return value.value

    def close(self) -> None:
        """Gives the semaphores up. Every rank calls."""
        check(lib.pennySemaphoreDestroy(self), self._comm)


class Copy:
    """A copy from a buffer of this rank into another's part of a symmetric array.

    `received` counts, over there, the bytes that have come, and `sent` here those that have left; both are of
    kind DMA.
    """

    def __init__(
        self,
        source: Any,
        target: SymmetricArray,
        device: DeviceId,
        received: Semaphore,
        sent: Semaphore | None = None,
        *,
        index: int = 0,
        received_index: int = 0,
        sent_index: int = 0,
    ) -> None:
        self._comm = target.heap.comm.handle
        self._source, self._target = resolve(source), target
        self._semaphores = received, sent
        address, nbytes = self._source[:2]
        room = (target.size - index) * target.dtype.itemsize
        if index < 0 or nbytes > room:
            raise InvalidArgumentError(
                f"a copy of {nbytes} bytes does not fit into the {max(room, 0)} bytes behind index {index} "
                f"of the target ({target.heap.comm})"
            )
        self._copy = RemoteCopy(
            src=address,
            dst=target.address + index * target.dtype.itemsize,
            bytes=nbytes,
            sendSem=sent._as_parameter_ if sent is not None else None,
            sendIndex=number("sent_index", sent_index),
            recvSem=received._as_parameter_,
            recvIndex=number("received_index", received_index),
            device=_device(device),
        )

    def start(self) -> Copy:
        """Starts it.

        The source must stay as it is until `wait_sent`, the target may be read there after `wait_received`.
        """
        check(lib.pennyRemoteCopyStart(self._comm, self._copy), self._comm)
        return self

    def wait_sent(self) -> None:
        """Waits until its bytes have been sent from this rank, and takes them off."""
        check(lib.pennyRemoteCopyWaitSend(self._comm, self._copy), self._comm)

    def wait_received(self) -> None:
        """Waits until as many bytes have come to this rank, from any rank, and takes them off."""
        check(lib.pennyRemoteCopyWaitRecv(self._comm, self._copy), self._comm)

    def wait(self) -> None:
        """Waits for both."""
        check(lib.pennyRemoteCopyWait(self._comm, self._copy), self._comm)

    def test(self) -> bool:
        """Would `wait` return at once? Then the bytes are taken off, as by it."""
        done = ctypes.c_int()
        check(lib.pennyRemoteCopyTest(self._comm, self._copy, done), self._comm)
        return bool(done.value)


def _device(device: DeviceId) -> Device:
    if isinstance(device, int):
        return Device(DeviceKind.LOGICAL, (number("device", device),))
    if not 1 <= len(device) <= MESH_DIMS:
        raise InvalidArgumentError(f"device: {tuple(device)} must have 1 to {MESH_DIMS} coordinates")
    return Device(DeviceKind.MESH, tuple(number("device", at) for at in device))
