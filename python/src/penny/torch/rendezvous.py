"""Makes a communicator of the ranks of a process group: rank 0 makes an id and distributes it through torch's store."""

from __future__ import annotations

import ctypes
import time
from datetime import timedelta

from torch._C._distributed_c10d import Store

from .. import _structs
from .._enums import Result
from .._interrupts import raise_interrupt
from .._library import last_error, lib
from .errors import InvalidUsageError, RendezvousError, check

# The library takes its deadline as an int of milliseconds.
_MOST_MILLISECONDS = 2**31 - 1
# Seconds between two looks at torch's store.
_SHORTEST_NAP, _LONGEST_NAP = 0.0001, 0.02


def milliseconds(timeout: timedelta) -> int:
    """A timeout as the C interface takes it."""
    return max(1, min(int(timeout.total_seconds() * 1000), _MOST_MILLISECONDS))


def join(store: Store, rank: int, size: int, timeout: timedelta, name: str) -> int:
    """Makes the communicator of a process group and returns its handle. Every rank of the group calls.

    name: says which ranks of the job the group has, and is the same on all of them.
    """
    if size == 1:
        # It has nobody to meet. Torch may give its number to another group at the same time, whose ranks are in this store.
        return connect(new_id(), rank, size, timeout, name)
    # A store may outlive the group and its next incarnation, so a rank counts how often it has come here.
    turn = store.add(f"turns/{rank}", 1)
    unique_id, first = _exchanged_id(store, f"id/{turn}", rank, name, timeout)
    comm = connect(unique_id, rank, size, timeout, name)
    if first != name:
        # Torch numbers groups on each rank for itself: where ranks have made different groups before, one number stands for two.
        lib.pennyCommAbort(comm)  # the others have joined and learn it from their next call
        raise InvalidUsageError(
            f"rank {rank} of {name} has met rank 0 of {first}: all ranks of the job make the same groups in the same order "
            "(dist.new_group, init_device_mesh), also those of which they are no member"
        )
    return comm


def new_id() -> bytes:
    """The id of a future communicator."""
    unique = _structs.UniqueId()
    check(lib.pennyGetUniqueId(ctypes.byref(unique)))
    return bytes(unique)


def connect(unique_id: bytes, rank: int, size: int, timeout: timedelta, name: str) -> int:
    """Joins the communicator of an id, or says who has not come."""
    config = configuration(timeout, name)
    unique = _structs.UniqueId.from_buffer_copy(unique_id)
    comm = ctypes.c_void_p()
    result = lib.pennyCommInitRankConfig(ctypes.byref(comm), size, unique, rank, ctypes.byref(config))
    if result == Result.TIMEOUT:
        error = RendezvousError(last_error())
        raise_interrupt(error)
        raise error
    check(result)
    return comm.value or 0


def split(comm: int, color: int, key: int, timeout: timedelta, name: str) -> int:
    """Makes a communicator of the ranks of another that pass the same color; 0 for a rank that joins none."""
    config = configuration(timeout, name)
    child = ctypes.c_void_p()
    check(lib.pennyCommSplit(comm, color, key, ctypes.byref(child), ctypes.byref(config)), comm)
    return child.value or 0


def configuration(timeout: timedelta, name: str) -> _structs.Config:
    """The settings of a group's communicator."""
    return _structs.Config(timeoutMs=milliseconds(timeout), commName=name.encode())


def _exchanged_id(store: Store, key: str, rank: int, name: str, timeout: timedelta) -> tuple[bytes, str]:
    """The id of rank 0's communicator, and the name that its group has there."""
    if rank == 0:
        unique_id = new_id()
        store.set(key, unique_id + name.encode())  # type: ignore[arg-type]  # the stubs forget bytes
        return unique_id, name
    if not comes(store, key, timeout):
        raise RendezvousError(
            f"rank {rank} of {name} waited {timeout.total_seconds():g} s for rank 0, which has not come: "
            "start it, or pass a longer timeout to init_process_group"
        )
    told = store.get(key)
    length = ctypes.sizeof(_structs.UniqueId)
    return told[:length], told[length:].decode()


def comes(store: Store, key: str, timeout: timedelta) -> bool:
    """Waits for a key of torch's store. Returns false if the time is over.

    It looks, and sleeps between two looks: in a wait of torch's no signal handler runs, and one that ends by its time limit
    prints warnings.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    nap = _SHORTEST_NAP
    while not store.check([key]):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(nap, left))
        nap = min(2 * nap, _LONGEST_NAP)
    return True
