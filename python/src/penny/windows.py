"""Windows: memory that each rank opens to the others, who write there and count a signal up."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import groups
from ._errors import InvalidArgumentError
from ._library import check, lib
from ._structs import WaitSignalDesc
from .buffers import Buffer
from .closing import ClosedByAll
from .integers import number, size
from .operands import prepare
from .streams import Stream

if TYPE_CHECKING:
    from .communicator import Communicator


@dataclass(frozen=True)
class Signals:
    """Signals to wait for: `count` signals of rank `peer`, with index 0 to 63, in one of 8 contexts."""

    peer: int
    count: int = 1
    index: int = 0
    context: int = 0

    def _descriptor(self) -> WaitSignalDesc:
        return WaitSignalDesc(
            number("count", self.count),
            number("peer", self.peer),
            number("index", self.index),
            number("context", self.context),
        )


class Window(ClosedByAll):
    """This rank's part of a window, and the way to the others': made by `Communicator.window`, by every rank.

    In a `with` statement it is closed at the end of the block, which waits for all ranks.
    """

    def __init__(self, comm: Communicator, buffer: Any) -> None:
        self._comm = comm
        self._buffer = None if buffer is None else Buffer(buffer)
        self._handle = ctypes.c_void_p()
        address, nbytes = (0, 0) if self._buffer is None else self._buffer.resolved[:2]
        check(lib.pennyCommWindowRegister(comm.handle, address, nbytes, self._handle, 0), comm.handle)
        if not self._handle:
            raise InvalidArgumentError(
                "window: the memory of a rank is not shareable, so no rank has a window; pass memory of penny.empty"
            )

    def put_signal(
        self,
        data: Any,
        peer: int,
        offset: int = 0,
        *,
        index: int = 0,
        context: int = 0,
        dtype: Any = None,
        count: int | None = None,
        stream: Stream | None = None,
    ) -> None:
        """Writes into a rank's part, `offset` bytes from its start, and then gives it a signal.

        It need not be in any call.
        """
        source, _, element, n = prepare(self._comm, "put_signal", data, None, dtype, count, 1, 0)
        result = lib.pennyPutSignal(
            source[0],
            n,
            element,
            number("peer", peer),
            self._handle,
            size("offset", offset),
            number("index", index),
            number("context", context),
            0,
            self._comm.handle,
            stream,
        )
        self._finish(result, stream, source)

    def signal(self, peer: int, *, index: int = 0, context: int = 0, stream: Stream | None = None) -> None:
        """Gives a rank a signal without data."""
        which = number("peer", peer), number("index", index), number("context", context)
        result = lib.pennySignal(*which, 0, self._comm.handle, stream)
        self._finish(result, stream)

    def wait_signal(self, signals: int | Iterable[Signals], *, stream: Stream | None = None) -> None:
        """Waits until signals have come, and takes them off. A number: one signal of that rank.

        Who has waited for a signal sees its data, and what its sender put in that context before.
        """
        wanted = [Signals(signals)] if isinstance(signals, int) else list(signals)
        descriptors = (WaitSignalDesc * len(wanted))(*(s._descriptor() for s in wanted))
        result = lib.pennyWaitSignal(len(wanted), descriptors, self._comm.handle, stream)
        self._finish(result, stream)

    def close(self) -> None:
        """Closes the window. Every rank calls; afterwards no rank writes there.

        Does nothing after the first time.
        """
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            # A rank that has met the others knows that none of them writes any more.
            check(lib.pennyBarrier(self._comm.handle, None), self._comm.handle)
            check(lib.pennyCommWindowDeregister(self._comm.handle, handle), self._comm.handle)

    def _finish(self, result: int, stream: Stream | None, *anchors: object) -> None:
        if result:
            check(result, self._comm.handle)
        if stream is not None or groups.threads_with_groups:
            groups.retain(stream, (self, anchors))
