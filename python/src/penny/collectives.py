"""The calls that move data between the ranks of a communicator: collectives, send and receive.

Each takes buffers of any kind (see buffers.py), finds the element type and the count in them, and returns the
one that holds the result. On a stream, or in a group, it returns before it has run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import groups
from ._enums import ITEMSIZE, DataType, RedOp
from ._errors import InvalidArgumentError
from ._library import check, lib
from .buffers import RESOLVERS
from .integers import number
from .operands import NOTHING, prepare, reduction
from .streams import Stream

_all_reduce = lib.pennyAllReduce


class Collectives:
    """A communicator's collectives and transfers.

    Its number among the ranks and theirs are set by `Communicator`.
    """

    _handle: int | None
    _rank: int
    _size: int

    def _finish(self, result: int, stream: Stream | None, *anchors: object) -> None:
        """Raises what a call returned, or keeps its buffers in place where it has only been queued."""
        if result:
            check(result, self._handle)
        if stream is not None or groups.threads_with_groups:
            groups.retain(stream, anchors)

    def all_reduce(
        self,
        send: Any,
        recv: Any = None,
        op: RedOp | str = RedOp.SUM,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Reduces over all ranks and gives every rank the result, the same bits on each.

        In place without `recv`.
        """
        if recv is None and dtype is None and count is None:
            # The shortest way for what programs do most: in place, all of one buffer. It is `prepare` without
            # questions.
            try:
                source = target = RESOLVERS[type(send)](send)
            except (KeyError, InvalidArgumentError):
                source = target = NOTHING
            known = source[2]
            if known is None or not source[3] or source[1] % ITEMSIZE[known]:
                source, target, element, n = prepare(self, "all_reduce", send, send, None, None, 1, 1)
            else:
                element, n = known, source[1] // ITEMSIZE[known]
            recv = send
        else:
            recv = send if recv is None else recv
            source, target, element, n = prepare(self, "all_reduce", send, recv, dtype, count, 1, 1)
        result = _all_reduce(source[0], target[0], n, element, reduction(op), self._handle, stream)
        if result or stream is not None or groups.threads_with_groups:
            self._finish(result, stream, source, target)
        return recv

    def reduce(
        self,
        send: Any,
        recv: Any = None,
        op: RedOp | str = RedOp.SUM,
        root: int = 0,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Reduces over all ranks and gives `root` the result: in `recv`, or in place.

        Elsewhere `recv` is not looked at.
        """
        here = self._rank == root
        if here and recv is None:
            recv = send
        source, target, element, n = prepare(self, "reduce", send, recv, dtype, count, 1, int(here))
        result = lib.pennyReduce(
            source[0], target[0], n, element, reduction(op), number("root", root), self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv if here else None

    def broadcast(
        self,
        send: Any,
        recv: Any = None,
        root: int = 0,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Copies `send` of `root` to every rank's `recv`.

        Without `recv`, `send` is the input at root and the output elsewhere.
        """
        if recv is None:
            recv = send
        here = int(self._rank == root)
        # At the root in place nothing is written, so that what is read-only may be sent from there.
        written = int(recv is not send or not here)
        source, target, element, n = prepare(self, "broadcast", send, recv, dtype, count, here, written)
        address = target[0] if written else source[0]
        result = lib.pennyBroadcast(
            source[0], address, n, element, number("root", root), self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv

    def all_gather(
        self,
        send: Any,
        recv: Any,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Collects each rank's `send` in every rank's `recv`, in rank order.

        In place if `send` is this rank's block of it.
        """
        source, target, element, n = prepare(self, "all_gather", send, recv, dtype, count, 1, self._size)
        result = lib.pennyAllGather(source[0], target[0], n, element, self._handle, stream)
        self._finish(result, stream, source, target)
        return recv

    def reduce_scatter(
        self,
        send: Any,
        recv: Any,
        op: RedOp | str = RedOp.SUM,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Reduces over all ranks and gives rank r block r of the result.

        In place if `recv` is this rank's block of `send`.
        """
        source, target, element, n = prepare(self, "reduce_scatter", send, recv, dtype, count, self._size, 1)
        result = lib.pennyReduceScatter(source[0], target[0], n, element, reduction(op), self._handle, stream)
        self._finish(result, stream, source, target)
        return recv

    def reduce_scatter_padded(
        self,
        send: Any,
        recv: Any,
        op: RedOp | str = RedOp.SUM,
        *,
        dtype: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """As `reduce_scatter`, for any length: a rank gets ceil(length / ranks) elements; the last ones are zeros."""
        source, _, element, n = prepare(self, "reduce_scatter_padded", send, None, dtype, None, 1, 0)
        block = -(-n // self._size)
        _, target, _, _ = prepare(self, "reduce_scatter_padded", None, recv, dtype, block, 0, 1)
        if dtype is None and target[2] != element:
            prepare(self, "reduce_scatter_padded", send, recv, None, 0, 1, 1)
        result = lib.pennyReduceScatterPadded(
            source[0], target[0], n, element, reduction(op), self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv

    def all_to_all(
        self,
        send: Any,
        recv: Any = None,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Sends block j of each rank's `send` to rank j. In place without `recv`."""
        if recv is None:
            recv = send
        source, target, element, n = prepare(
            self, "all_to_all", send, recv, dtype, count, self._size, self._size
        )
        result = lib.pennyAlltoAll(source[0], target[0], n, element, self._handle, stream)
        self._finish(result, stream, source, target)
        return recv

    def gather(
        self,
        send: Any,
        recv: Any = None,
        root: int = 0,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Collects each rank's `send` in `recv` of `root`, in rank order.

        Elsewhere `recv` is not looked at.
        """
        blocks = self._size if self._rank == root else 0
        source, target, element, n = prepare(self, "gather", send, recv, dtype, count, 1, blocks)
        result = lib.pennyGather(source[0], target[0], n, element, number("root", root), self._handle, stream)
        self._finish(result, stream, source, target)
        return recv if blocks else None

    def scatter(
        self,
        send: Any,
        recv: Any,
        root: int = 0,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Gives rank r block r of `send` of `root`. Elsewhere `send` is not looked at and may be None."""
        blocks = self._size if self._rank == root else 0
        source, target, element, n = prepare(self, "scatter", send, recv, dtype, count, blocks, 1)
        result = lib.pennyScatter(
            source[0], target[0], n, element, number("root", root), self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv

    def permute(
        self,
        send: Any,
        recv: Any,
        perm: Sequence[int],
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Sends from each rank r to rank perm[r], or nowhere if that is -1.

        Who is sent nothing gets zeros.
        """
        if len(perm) != self._size:
            raise InvalidArgumentError(
                f"permute: perm has {len(perm)} entries, but must have one for each rank: {self._size} "
                f"({self})"
            )
        source, target, element, n = prepare(
            self, "permute", send, recv, dtype, count, int(perm[self._rank] != -1), 1
        )
        table = (ctypes.c_int * self._size)(*(number("perm", to) for to in perm))
        result = lib.pennyPermute(source[0], target[0], n, element, table, self._handle, stream)
        self._finish(result, stream, source, target)
        return recv

    def send(
        self,
        buffer: Any,
        peer: int,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> None:
        """Sends to one rank, which must call `recv`.

        Two ranks that send to each other put both calls into a group.
        """
        source, _, element, n = prepare(self, "send", buffer, None, dtype, count, 1, 0)
        self._finish(
            lib.pennySend(source[0], n, element, number("peer", peer), self._handle, stream), stream, source
        )

    def recv(
        self,
        buffer: Any,
        peer: int,
        *,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Receives from one rank, in the order of its sends."""
        _, target, element, n = prepare(self, "recv", None, buffer, dtype, count, 0, 1)
        self._finish(
            lib.pennyRecv(target[0], n, element, number("peer", peer), self._handle, stream), stream, target
        )
        return buffer

    def probe(self, peer: int) -> tuple[int, DataType] | None:
        """Looks for a message of a rank that no `recv` has taken: its number of elements and their type.

        None if there is none yet. Waits for nothing but calls that are queued. Raises where none can come any more.
        """
        flag, count, datatype = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_int()
        check(lib.pennyProbe(number("peer", peer), self._handle, flag, count, datatype), self._handle)
        return (count.value, DataType(datatype.value)) if flag.value else None

    def barrier(self, *, stream: Stream | None = None) -> None:
        """Returns when every rank has called it."""
        self._finish(lib.pennyBarrier(self._handle, stream), stream)
