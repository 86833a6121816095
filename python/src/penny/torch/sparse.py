"""Sums of sparse tensors: every rank gets the indices and values of all ranks, and adds up those that stand in one place.

The ranks first tell each other how many values they have, in the order of the group's other collectives. How much is moved after
that is known only then, so it is moved on a communicator of its own, whose calls do not come between what has been queued on the
group's meanwhile.

    the group's communicator      all_gather of headers (shape, type, number of values)
    that of sparse tensors        all_gather of indices, all_gather of values: as many from each rank as its header says
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import c_size_t
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import PrefixStore

import torch
from torch import Tensor

from .._library import lib
from . import rendezvous
from .calls import run
from .completion import Completion
from .errors import InvalidUsageError
from .lanes import Lane
from .reductions import SUM, kind_of
from .tensors import moved_as

_MOST_DIMENSIONS = 16
_DTYPES = sorted((each for each in vars(torch).values() if isinstance(each, torch.dtype)), key=str)


class SparseSums:
    """The sparse all-reduces of one rank of a process group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, name: str) -> None:
        self._store = store
        self._rank, self._size, self._timeout, self._name = rank, size, timeout, name
        self._lane = Lane("sparse sums")
        self._lock = threading.Lock()
        self._comm = 0

    def check(self, operation: str, tensor: Tensor, op: Any) -> None:
        """Raises what is wrong with a sparse tensor, or with adding it up."""
        where = f"{operation} on rank {self._rank}"
        if op != SUM:
            raise ValueError(
                f"{where}: {kind_of(op).name} is not defined for sparse tensors; pass ReduceOp.SUM, or tensor.to_dense()"
            )
        if not tensor.is_cpu:
            raise ValueError(f"{where}: tensor is on {tensor.device}; pass tensor.cpu()")
        if tensor.dim() > _MOST_DIMENSIONS:
            raise ValueError(
                f"{where}: tensor has {tensor.dim()} dimensions, but sparse tensors may have {_MOST_DIMENSIONS}"
            )

    def header(self, tensor: Tensor) -> Tensor:
        """The description of a coalesced tensor for the other ranks; the number of its values comes first."""
        shape = [tensor.sparse_dim(), tensor.dim(), *tensor.shape]
        shape += [0] * (2 + _MOST_DIMENSIONS - len(shape))
        return torch.tensor([tensor._nnz(), _DTYPES.index(tensor.dtype), *shape])

    def add_up(
        self, tensor: Tensor, mine: Tensor, headers: Tensor, told: Callable[[], object]
    ) -> Callable[[], None]:
        """The job that makes a tensor the sum. mine: its coalesced form. told: waits until the headers are there."""

        def job() -> None:
            told()
            self._check_agreement(headers)
            if not self._comm:
                self._join()
            counts: list[int] = headers[:, 0].tolist()
            indices = self._gathered(mine.indices().t(), counts).t()
            values = self._gathered(mine.values(), counts)
            total = torch.sparse_coo_tensor(indices, values, mine.shape, check_invariants=False).coalesce()
            with torch.no_grad():
                tensor.copy_(total)

        return job

    def now(self, job: Callable[[], None]) -> bool:
        """Does a job in the calling thread; False if others come before it."""
        return self._lane.now(job)

    def submit(self, job: Callable[[], None]) -> Completion:
        """Queues a job."""
        return self._lane.submit(job)

    def close(self, abort: bool) -> None:
        """Ends the communicator. Operations in progress fail if `abort` is set or if no thread waits for them any more."""
        with self._lock:
            comm, busy = self._comm, not self._lane.is_idle()
        if comm and (abort or busy):
            lib.pennyCommAbort(comm)
        self._lane.close()
        if comm and not (abort or busy):
            lib.pennyCommDestroy(comm)

    def _join(self) -> None:
        clone = getattr(self._store, "clone", None)
        store = self._store if clone is None else clone()
        prefixed = PrefixStore("sparse", store)
        comm = rendezvous.join(
            prefixed, self._rank, self._size, self._timeout, f"sparse tensors, {self._name}"
        )
        with self._lock:
            self._comm = comm

    def _check_agreement(self, headers: Tensor) -> None:
        """Raises, on every rank alike, if the ranks have tensors of different shapes or types."""
        different = (headers[:, 1:] != headers[0, 1:]).any(1).nonzero()
        if not different.numel():
            return
        other = int(different[0])
        raise InvalidUsageError(
            f"ranks disagree in all_reduce of a sparse tensor: rank 0 passes {_text(headers[0])}, rank {other} passes "
            f"{_text(headers[other])}; all must pass the same shape, type and number of sparse dimensions ({self._name})"
        )

    def _gathered(self, mine: Tensor, counts: list[int]) -> Tensor:
        """The rows of all ranks, in the order of the ranks."""
        mine = mine.contiguous()
        whole = torch.empty((sum(counts), *mine.shape[1:]), dtype=mine.dtype)
        row = mine.numel() // mine.shape[0] if mine.shape[0] else whole[:1].numel()
        datatype, total = moved_as(whole)
        scale = total // whole.numel() if whole.numel() else 1
        lengths = (c_size_t * self._size)(*(count * row * scale for count in counts))
        arguments = (mine.data_ptr(), lengths[self._rank], whole.data_ptr(), lengths, None, datatype)
        run([(lib.pennyAllGatherv, arguments)], self._comm)
        return whole


def behind_view(tensor: Tensor) -> Tensor:
    """The complex tensor of whose parts torch has made a view, whose indices are its own; any other tensor itself."""
    base = tensor._base if tensor._is_view() else None
    return base if base is not None and base.is_complex() and not tensor.is_complex() else tensor


def _text(header: Tensor) -> str:
    _, dtype, sparse, dimensions, *shape = header.tolist()
    return f"the shape {shape[:dimensions]} of {_DTYPES[dtype]} with {sparse} sparse"
