"""The common base of a process group's operations: its communicator, its stream, and the locks for both."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch._C._autograd import _profiler_enabled
from torch._C._distributed_c10d import Backend, Work

import torch
from torch import Tensor

from .. import _interrupts, _structs
from .._library import lib
from . import allocation, rendezvous
from .arguments import Arguments
from .calls import Call, run
from .errors import check, members
from .monitored_barrier import Gathering
from .point_to_point import Channels
from .scaled_sums import ScaledSums
from .sparse import SparseSums
from .streams import Stream
from .tensors import Finish
from .work import DONE, PennyWork

if TYPE_CHECKING:
    from typing_extensions import Self

_NO_TIME = timedelta(0)
_UNSET_TIMEOUT = timedelta(milliseconds=-1)


class Batch:
    """Operations between start_coalescing and end_coalescing: they become one group of calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.finishes: list[Finish] = []
        self.outputs: list[Tensor] = []
        self.keep: list[Any] = []


class Group(Backend):
    """A process group's communicator with its queue; the operations are those of its subclass."""

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        name: str,
        comm: int | None = None,
        global_ranks: Sequence[int] = (),
    ) -> None:
        super().__init__(rank, size)
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._name = name
        self._store = store
        self._options = Backend.Options("penny", timeout)
        self._global_ranks = list(global_ranks) or list(range(size))
        self._options.global_ranks_in_group = self._global_ranks
        self._comm = rendezvous.join(store, rank, size, timeout, name) if comm is None else comm
        if self._global_ranks != list(range(size)):
            members[self._comm] = (
                f" (ranks 0 to {size - 1} of this group are the ranks {self._global_ranks} of the job)"
            )
        self._stream = Stream()
        self._lock = threading.Lock()
        self._batch: Batch | None = None
        self._arguments = Arguments(rank, size, name)
        _groups.add(self)
        _interrupts.arm(lib)
        _interrupts.abort_at_interrupt(self)
        self._channels = Channels(store, rank, size, timeout, name)
        self._scaled_sums = ScaledSums(self._comm)
        self._sparse = SparseSums(store, rank, size, timeout, name)
        self._gathering = Gathering(store, rank, size, name)
        self._splits = 0

    def getBackendName(self) -> str:
        """The name under which torch knows the backend."""
        return "penny"

    @property
    def options(self) -> Backend.Options:
        """The settings that torch passes on to groups that are split off."""
        return self._options

    # --- doing it ---

    def submit(
        self,
        operation: str,
        calls: Sequence[Call],
        outputs: Sequence[Tensor],
        opts: Any,
        finishes: Sequence[Finish] = (),
        keep: object = None,
    ) -> Work:
        """Makes the calls: at once if `opts` says that the caller blocks, else on the stream.

        finishes: what is done after them. keep: what must live until then, besides the outputs."""
        batch = self._batch
        if batch is not None:
            batch.calls += calls
            batch.finishes += finishes
            batch.outputs += outputs
            batch.keep.append(keep)
            return DONE
        if _profiler_enabled():
            with torch.profiler.record_function(f"penny:{operation}"):
                return self._submit(operation, calls, outputs, opts, finishes, keep)
        return self._submit(operation, calls, outputs, opts, finishes, keep)

    def _submit(
        self,
        operation: str,
        calls: Sequence[Call],
        outputs: Sequence[Tensor],
        opts: Any,
        finishes: Sequence[Finish],
        keep: object,
    ) -> Work:
        if not opts.asyncOp:
            # The library makes a call without a stream after those that are queued.
            with self._lock:
                run(calls, self._comm)
            for finish in finishes:
                finish()
            return DONE
        return self.queue(operation, calls, outputs, opts, finishes, keep)

    def queue(
        self,
        operation: str,
        calls: Sequence[Call],
        outputs: Sequence[Tensor],
        opts: Any,
        finishes: Sequence[Finish],
        keep: object,
    ) -> Work:
        """Queues the calls on the group's stream."""
        timeout = opts.timeout
        with self._lock:
            completion = self._stream.submit(calls, self._comm, finishes, (outputs, keep))
        return PennyWork(operation, completion, outputs, None if timeout == _UNSET_TIMEOUT else timeout)

    # --- what torch asks a backend about itself; what a subclass does not answer torch asks it again and again ---

    @property
    def supports_coalescing(self) -> bool:
        """Batches of sends and receives need no bracket around them: each has a queue of its own."""
        return False

    def supports_tensor_alloc(self, device: object) -> bool:
        """Tensors for collectives can be had in shareable memory."""
        return True

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: object = None) -> Tensor:
        """A flat tensor in shareable memory, on which collectives copy nothing."""
        return allocation.empty(size, dtype=dtype)

    @property
    def supports_shrinking(self) -> bool:
        """A group without its dead ranks is made anew."""
        return False

    @property
    def supports_reconfigure(self) -> bool:
        """The ranks of a group are for good."""
        return False

    @property
    def supports_window(self) -> bool:
        """One-sided access is in `penny`, not behind torch's windows."""
        return False

    @property
    def _supports_time_estimate(self) -> bool:
        return False

    # Its name in torch 2.14.
    supports_time_estimate = _supports_time_estimate

    # --- several at once ---

    def start_coalescing(self) -> None:
        """Collects operations until end_coalescing, which runs them together."""
        if self._batch is not None:
            raise RuntimeError(
                f"start_coalescing on rank {self._rank}: it has been called before; call end_coalescing first"
            )
        self._scaled_sums.forget_oldest()
        self._batch = Batch()

    def end_coalescing(self) -> Work:
        """Runs what was collected, and returns the work of all of it."""
        batch, self._batch = self._batch, None
        if batch is None:
            raise RuntimeError(f"end_coalescing on rank {self._rank}: start_coalescing has not been called")
        return self._submit("coalesced", batch.calls, batch.outputs, _Queued, batch.finishes, batch.keep)

    # --- meeting over the store, and groups of its ranks ---

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """A barrier at which rank 0 says who has not come; the group survives it."""
        self._gathering.meet(self._timeout if opts.timeout < _NO_TIME else opts.timeout, wait_all_ranks)

    @property
    def supports_splitting(self) -> bool:
        """Groups of its ranks are split off its communicator."""
        return True

    def comm_split_count(self) -> int:
        """The number of groups that were split off so far."""
        return self._splits

    def split(self, store: Any, ranks: Sequence[int], opts: Any) -> Self | None:
        """Makes the group of some of its ranks, in the order of the list. Every rank calls, with its own group's list."""
        timeout = self._timeout if opts is None else opts._timeout
        members = list(ranks)
        if self._rank not in members:
            self.perform_nocolor_split(None)
            return None
        place = members.index(self._rank)
        names = [self._global_ranks[rank] for rank in members]
        name = f"the process group of the ranks {', '.join(map(str, names))}"
        with self._lock:
            comm = rendezvous.split(self._comm, min(members), place, timeout, name)
        self._splits += 1
        return type(self)(store, place, len(members), timeout, name, comm, names)

    def perform_nocolor_split(self, device: Any) -> None:
        """This rank's part of a split that makes a group without it."""
        with self._lock:
            rendezvous.split(self._comm, _structs.SPLIT_NOCOLOR, 0, self._timeout, self._name)
        self._splits += 1

    def eager_connect_single_device(self, device: Any) -> None:
        """Nothing to do: a group is connected when it is made."""

    # --- its life ---

    def set_timeout(self, timeout: timedelta) -> None:
        """Takes the timeout for groups that are made of this one; a communicator keeps the one that it began with."""
        self._timeout = timeout

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to do: Penny numbers its calls itself, and finds out where ranks differ."""

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def shutdown(self) -> None:
        """Ends the group after what is queued."""
        comm = self._end()
        if comm:
            self._stream.close()
            self._channels.close()
            self._sparse.close(abort=False)
            check(lib.pennyCommDestroy(comm))

    def abort(self) -> None:
        """Ends what is under way on every rank with an error, and the group here."""
        comm = self._end()
        if comm:
            check(lib.pennyCommAbort(comm))
            self._channels.close()
            self._sparse.close(abort=True)
            self._stream.close()

    def _end(self) -> int:
        """Makes the group refuse calls from now on. Returns its communicator, unless the group had ended before."""
        _groups.discard(self)
        members.pop(self._comm, None)
        comm, self._comm = self._comm, 0
        return comm

    def leave(self) -> None:
        """The program ends without having ended the group: nothing may be under way when the interpreter is gone."""
        if not self._stream.is_idle():
            self.abort()


# Torch keeps a backend's part in C++ only, if it is wrapped, so that its part in Python has to be kept here.
_groups: set[Group] = set()


@atexit.register
def _leave_all() -> None:
    for group in list(_groups):
        group.leave()


class _Queued:
    """Options of a call that does not block."""

    asyncOp = True
    timeout = _UNSET_TIMEOUT
