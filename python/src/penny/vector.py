"""The collectives whose blocks have lengths of their own, which lie one behind the other in their buffers.

Each takes the counts as a sequence of elements, one for each rank; 0 is allowed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import index
from typing import Any

from ._enums import RedOp
from ._errors import InvalidArgumentError
from ._library import lib
from .buffers import Resolved
from .collectives import Collectives
from .integers import number
from .operands import NOTHING, prepare, reduction
from .streams import Stream


class VectorCollectives(Collectives):
    """A communicator's collectives over blocks of different lengths."""

    def _counts(self, call: str, name: str, counts: Sequence[int]) -> tuple[int, Any]:
        """The sum of the counts, and the counts for C."""
        known = list(map(index, counts))
        if len(known) != self._size or min(known) < 0:
            raise InvalidArgumentError(
                f"{call}: {name} is {known}, but must have a length for each rank, none negative ({self})"
            )
        return sum(known), (ctypes.c_size_t * self._size)(*known)

    def _both(
        self, call: str, send: Any, sent: int | None, recv: Any, received: int | None, dtype: Any
    ) -> tuple[Resolved, Resolved, int, tuple[int, int]]:
        """Both buffers, the element type and the elements of each; a length of None is the buffer's own."""
        source, _, element, sends = prepare(self, call, send, None, dtype, sent, 1, 0)
        _, target, other, receives = prepare(self, call, None, recv, dtype, received, 0, 1)
        if other != element:
            prepare(self, call, send, recv, None, 0, 1, 1)
        return source, target, element, (sends, receives)

    def all_to_all_v(
        self,
        send: Any,
        send_counts: Sequence[int],
        recv: Any,
        recv_counts: Sequence[int],
        *,
        dtype: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """As `all_to_all`: send_counts[j] elements go to rank j, and recv_counts[j] come from it.

        In place if `recv` is `send` and the counts are equal.
        """
        sent, send_table = self._counts("all_to_all_v", "send_counts", send_counts)
        received, recv_table = self._counts("all_to_all_v", "recv_counts", recv_counts)
        source, target, element, _ = self._both("all_to_all_v", send, sent, recv, received, dtype)
        result = lib.pennyAlltoAllv(
            source[0], send_table, None, target[0], recv_table, None, element, self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv

    def all_gather_v(
        self,
        send: Any,
        recv: Any,
        recv_counts: Sequence[int],
        *,
        dtype: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """As `all_gather`: recv_counts[j] elements come from rank j. The same counts on all ranks."""
        received, table = self._counts("all_gather_v", "recv_counts", recv_counts)
        source, target, element, lengths = self._both("all_gather_v", send, None, recv, received, dtype)
        result = lib.pennyAllGatherv(
            source[0], lengths[0], target[0], table, None, element, self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv

    def gather_v(
        self,
        send: Any,
        recv: Any = None,
        recv_counts: Sequence[int] | None = None,
        root: int = 0,
        *,
        dtype: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """As `gather`: `root` gets recv_counts[j] elements from rank j in `recv`; both mean nothing elsewhere."""
        target: Resolved = NOTHING
        table = None
        if self._rank == root:
            received, table = self._counts("gather_v", "recv_counts", recv_counts or ())
            source, target, element, (sent, _) = self._both("gather_v", send, None, recv, received, dtype)
        else:
            source, _, element, sent = prepare(self, "gather_v", send, None, dtype, None, 1, 0)
        result = lib.pennyGatherv(
            source[0], sent, target[0], table, None, element, number("root", root), self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv if self._rank == root else None

    def scatter_v(
        self,
        send: Any,
        send_counts: Sequence[int] | None,
        recv: Any,
        root: int = 0,
        *,
        dtype: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """As `scatter`: rank j gets send_counts[j] elements of `send` of `root`; both mean nothing elsewhere."""
        source: Resolved = NOTHING
        table = None
        if self._rank == root:
            sent, table = self._counts("scatter_v", "send_counts", send_counts or ())
            source, target, element, (_, received) = self._both("scatter_v", send, sent, recv, None, dtype)
        else:
            _, target, element, received = prepare(self, "scatter_v", None, recv, dtype, None, 0, 1)
        result = lib.pennyScatterv(
            source[0], table, None, target[0], received, element, number("root", root), self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv

    def reduce_scatter_v(
        self,
        send: Any,
        recv: Any,
        recv_counts: Sequence[int],
        op: RedOp | str = RedOp.SUM,
        *,
        dtype: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """As `reduce_scatter`: rank j gets recv_counts[j] elements. The same counts on all ranks."""
        sent, table = self._counts("reduce_scatter_v", "recv_counts", recv_counts)
        received = table[self._rank]
        source, target, element, _ = self._both("reduce_scatter_v", send, sent, recv, received, dtype)
        result = lib.pennyReduceScatterv(
            source[0], target[0], table, element, reduction(op), self._handle, stream
        )
        self._finish(result, stream, source, target)
        return recv
