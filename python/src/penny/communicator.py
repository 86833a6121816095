"""Communicators: who belongs together, how ranks meet and part, and communicators made of others."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from . import _interrupts, groups
from ._enums import CommMemStat, GroupKind, Result
from ._errors import InvalidArgumentError, PennyError, error_for
from ._library import check, lib
from ._structs import SPLIT_NOCOLOR, UNIQUE_ID_BYTES, Config, UniqueId
from .fabric import Fabric
from .integers import number
from .memory import Registration
from .premul import PreMulSum
from .vector import VectorCollectives
from .windows import Window

# The flag of pennyCommSuspend for staging memory.
SUSPEND_MEM = 1


class Communicator(VectorCollectives):
    """A communicator, as one rank holds it: see `init`.

    Used in a `with` statement it is destroyed at the end of the block.

    Distinct communicators may be used by distinct threads at once, one communicator by one thread at a time.
    """

    def __init__(self, out: ctypes.c_void_p) -> None:
        self._out = out
        self._alive = True
        _interrupts.arm(lib)
        _interrupts.abort_at_interrupt(self)
        if groups.is_open():
            groups.at_end(self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        """The handle is there: outside of a group at once, in a group at its end."""
        found = ctypes.c_int()
        self._handle = self._out.value
        check(lib.pennyCommUserRank(self._handle, found), self._handle)
        self._rank = found.value
        check(lib.pennyCommCount(self._handle, found), self._handle)
        self._size = found.value

    @property
    def handle(self) -> int:
        """The pennyComm_t, for calls through `penny.lib`."""
        assert self._handle is not None
        return self._handle

    @property
    def rank(self) -> int:
        """This rank's number, 0 to size - 1."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._size

    @property
    def device(self) -> int:
        """This rank's place among the ranks of its machine, from 0."""
        found = ctypes.c_int()
        check(lib.pennyCommDevice(self._handle, found), self._handle)
        return found.value

    @property
    def fabric(self) -> Fabric:
        """The declared machine that the ranks stand on, its clock and its counters."""
        return Fabric(self)

    def split(self, color: int | None, key: int = 0, **settings: Any) -> Communicator | None:
        """Makes a communicator of the ranks that pass the same color, ordered by key, then by rank.

        Every rank calls.

        None for a color: this rank joins none, and gets None. Settings as for `init`; without any, they are
        this one's.
        """
        out = ctypes.c_void_p()
        config = _config(**settings) if settings else None
        chosen = SPLIT_NOCOLOR if color is None else number("color", color)
        check(lib.pennyCommSplit(self._handle, chosen, number("key", key), out, config), self._handle)
        return Communicator(out) if chosen != SPLIT_NOCOLOR else None

    def group(self, kind: GroupKind | str, size: int = 0) -> Communicator:
        """Divides the ranks into groups of one size, and makes a communicator of this rank's.

        Every rank calls.

        "consecutive": {0, 1}, {2, 3}; "orthogonal": {0, 2}, {1, 3}; "all": one group. The size must divide
        the ranks.
        """
        if not isinstance(kind, int):
            try:
                kind = GroupKind[kind.upper()]
            except (AttributeError, KeyError):
                kinds = ", ".join(known.name.lower() for known in GroupKind)
                remedy = (
                    "" if isinstance(kind, str) else "; for ranks of your choice call comm.split(color=...)"
                )
                raise InvalidArgumentError(
                    f"group: kind {kind!r} is not one of {kinds}{remedy} ({self})"
                ) from None
        out = ctypes.c_void_p()
        check(lib.pennyCommGroup(self._handle, kind, number("size", size), out), self._handle)
        return Communicator(out)

    def dup(self) -> Communicator:
        """Makes a communicator of the same ranks in the same order, whose calls do not meet this one's.

        Every rank calls.
        """
        out = ctypes.c_void_p()
        check(lib.pennyCommDup(self._handle, out), self._handle)
        return Communicator(out)

    def shrink(self, excluded: Iterable[int], *, abort: bool = False, **settings: Any) -> Communicator:
        """Makes a communicator of the ranks that are not excluded, in the same order.

        The remaining ranks alone call, with the same ranks to exclude; the excluded ranks may have died. Works where a death or a
        failure has broken this communicator. With `abort` the calls of this communicator are ended first, on all ranks.
        Settings as for `split`.
        """
        out = ctypes.c_void_p()
        config = _config(**settings) if settings else None
        ranks = [number("excluded", rank) for rank in excluded]
        ranks_list = (ctypes.c_int * len(ranks))(*ranks)
        check(
            lib.pennyCommShrink(self._handle, ranks_list, len(ranks), out, config, int(abort)), self._handle
        )
        return Communicator(out)

    def revoke(self) -> None:
        """Ends the calls of this communicator on all ranks, those under way and those to come.

        It still serves `shrink`.
        """
        check(lib.pennyCommRevoke(self._handle, 0), self._handle)

    def suspend(self) -> None:
        """Gives the staging memory back to the system. Until `resume`, the communicator takes no calls. Every rank calls."""
        check(lib.pennyCommSuspend(self._handle, SUSPEND_MEM), self._handle)

    def resume(self) -> None:
        """Takes back the memory that `suspend` has given back. Every rank calls."""
        check(lib.pennyCommResume(self._handle), self._handle)

    def memory_statistics(self) -> dict[str, int]:
        """Reads bytes of memory on this rank: `suspend`, what `suspend` gives back; `persist`; and `total`, their sum.

        `suspended` is 1 while the first is given back, else 0.
        """
        numbers = {}
        for stat in CommMemStat:
            value = ctypes.c_uint64()
            check(lib.pennyCommMemStats(self._handle, stat, ctypes.byref(value)), self._handle)
            numbers[stat.name.lower()] = value.value
        return numbers

    def premul_sum(self, factor: Any) -> PreMulSum:
        """Makes a reduction that multiplies this rank's input by `factor`, an array of one element.

        The products of all ranks are added. Each rank has its own factor.
        """
        return PreMulSum(self, factor)

    def register(self, buffer: Any) -> Registration:
        """Lets the other ranks reach ordinary memory where it lies, so that large calls on it copy less."""
        return Registration(self, buffer)

    def window(self, buffer: Any = None) -> Window:
        """Opens memory of `penny.empty`, or none, to the puts of the other ranks. Every rank calls."""
        return Window(self, buffer)

    def async_error(self) -> PennyError | None:
        """The failure that the communicator cannot recover from, if there was one.

        Waits for nothing; any thread may ask.
        """
        state = ctypes.c_int()
        check(lib.pennyCommGetAsyncError(self._handle, state), self._handle)
        if state.value in (Result.SUCCESS, Result.IN_PROGRESS):
            return None
        return error_for(state.value, f"{self} has failed: {lib.pennyGetErrorString(state.value).decode()}")

    def finalize(self) -> None:
        """Finishes what is under way on all ranks. Afterwards only `destroy` and `abort` are left."""
        check(lib.pennyCommFinalize(self._handle), self._handle)

    def destroy(self) -> None:
        """Frees the communicator and tells the other ranks that this one has left.

        Does nothing after the first time.
        """
        if self._alive:
            check(lib.pennyCommDestroy(self._handle), self._handle)
            self._alive = False

    def abort(self) -> None:
        """Makes present and future calls on the communicator fail, on every rank, and frees it here.

        In a signal handler that runs during a call it is not freed, which the next `abort` or `destroy` does.
        """
        if self._alive:
            self._alive = _interrupts.is_checking()
            check(lib.pennyCommAbort(self._handle), self._handle)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Who leaves by an exception will not make the calls that the others wait for.
        if kind is None:
            self.destroy()
        else:
            self.abort()

    def __del__(self) -> None:
        if getattr(self, "_alive", False) and getattr(self, "_handle", None) is not None:
            warnings.warn(f"{self} was not destroyed", ResourceWarning, stacklevel=2)
            lib.pennyCommDestroy(self._handle)

    def __repr__(self) -> str:
        return f"<penny.Communicator: {self}>"

    def __str__(self) -> str:
        if not hasattr(self, "_size"):
            return "a rank that has not joined yet"
        return f"rank {self._rank} of {self._size}"


def unique_id() -> bytes:
    """Makes an id for one future communicator. One rank calls this and gives the bytes to the others.

    It admits to the communicator, so it is a secret. The process must live until all ranks have joined.
    """
    made = UniqueId()
    check(lib.pennyGetUniqueId(made))
    return bytes(memoryview(made))


def init(
    nranks: int | None = None,
    rank: int | None = None,
    unique_id: bytes | None = None,
    *,
    timeout: float | None = None,
    name: str | None = None,
    algo: str | None = None,
    fabric: str | None = None,
    fabric_clock: str | None = None,
    threads: int | None = None,
) -> Communicator:
    """Joins a communicator, and returns when all ranks have.

    Without arguments it is that of all processes of this launch: `penny run`, torchrun, mpirun, srun. Else
    all three of `nranks`, this one's `rank`, and the `unique_id` that one of them made.

    timeout: seconds after which a waiting call gives up; 0: never. name: for sentences. algo, fabric,
    fabric_clock: as the variables PENNY_ALGO, PENNY_FABRIC, PENNY_FABRIC_CLOCK. threads: as PENNY_THREADS, how
    many threads of this rank share each large copy. What is not given is left to the environment.
    """
    out = ctypes.c_void_p()
    config = _config(
        timeout=timeout, name=name, algo=algo, fabric=fabric, fabric_clock=fabric_clock, threads=threads
    )
    if nranks is None and rank is None and unique_id is None:
        check(lib.pennyCommInitFromEnv(out, config))
        return Communicator(out)
    if nranks is None or rank is None or unique_id is None:
        raise InvalidArgumentError(
            "init: pass all of nranks, rank and unique_id, or none of them to ask the launcher's environment"
        )
    if len(unique_id) != UNIQUE_ID_BYTES:
        raise InvalidArgumentError(
            f"init: unique_id has {len(unique_id)} bytes, but must have {UNIQUE_ID_BYTES}: "
            "pass what penny.unique_id() gave on one rank"
        )
    ranks, rank = number("nranks", nranks), number("rank", rank)
    check(lib.pennyCommInitRankConfig(out, ranks, UniqueId.from_buffer_copy(unique_id), rank, config))
    return Communicator(out)


def init_all(nranks: int) -> list[Communicator]:
    """Makes all ranks of a communicator in this process.

    Use each in a thread of its own, or all in one group.
    """
    # A number that the library refuses needs no room.
    outs = (ctypes.c_void_p * (nranks if 0 < number("nranks", nranks) <= MOST_RANKS else 1))()
    check(lib.pennyCommInitAll(outs, nranks, None))
    return [Communicator(ctypes.c_void_p(handle)) for handle in outs]


def _config(
    timeout: float | None = None,
    name: str | None = None,
    algo: str | None = None,
    fabric: str | None = None,
    fabric_clock: str | None = None,
    threads: int | None = None,
) -> Config:
    values: dict[str, object] = {
        "commName": name,
        "algo": algo,
        "fabric": fabric,
        "fabricClock": fabric_clock,
    }
    given: dict[str, object] = {
        key: str(value).encode() for key, value in values.items() if value is not None
    }
    if timeout is not None:
        # A deadline that is short is not none.
        given["timeoutMs"] = 0 if timeout == 0 else _milliseconds(timeout)
    if threads is not None:
        given["threads"] = number("threads", threads)
    return Config(**given)


def _milliseconds(timeout: float) -> int:
    """A timeout above 0 as the library takes it."""
    try:
        milliseconds = round(timeout * 1000)
    except TypeError:
        raise TypeError(f"timeout is {timeout!r}, but must be a number of seconds") from None
    except (OverflowError, ValueError):
        milliseconds = -1
    if timeout < 0 or not 0 <= milliseconds <= 0x7FFFFFFF:
        raise InvalidArgumentError(
            f"timeout is {timeout} s, but must be from 0 to {0x7FFFFFFF / 1000:g}; 0 means that calls wait for ever"
        )
    return max(1, milliseconds)


# The most ranks that a communicator has.
MOST_RANKS = 1024
