"""Groups: calls that are queued and run together, or only priced; their buffers are kept until then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from ._library import check, lib
from ._structs import SimInfo

if TYPE_CHECKING:
    from .streams import Stream

# Threads that have a group open: where there are none, a call need not ask for its own.
threads_with_groups: set[int] = set()


class _Thread(threading.local):
    """The calling thread's open groups, and what is to be done when the outermost has ended."""

    depth = 0

    def __init__(self) -> None:
        self.anchors: list[tuple[Stream | None, object]] = []
        self.endings: list[Callable[[], None]] = []


_thread = _Thread()


def is_open() -> bool:
    """Does the calling thread have a group open?"""
    return _thread.depth > 0


def retain(stream: Stream | None, anchors: object) -> None:
    """Keeps buffers in place until the open group has ended, and then until the stream has run the call."""
    if _thread.depth:
        _thread.anchors.append((stream, anchors))
    elif stream is not None:
        stream.retain(anchors)


def at_end(ending: Callable[[], None]) -> None:
    """Does something when the outermost group has ended well: what it made is then there."""
    _thread.endings.append(ending)


class group:
    """The calls of the `with` block are checked and queued, and run together when it ends.

    Calls to different peers run at the same time, so two ranks may send to each other. If the block raises,
    nothing of it is run. Groups nest; the outermost runs.
    """

    def __enter__(self) -> group:
        check(lib.pennyGroupStart())
        _thread.depth += 1
        if _thread.depth == 1:
            threads_with_groups.add(threading.get_ident())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # A call without a communicator is refused, and a group with a refused call runs nothing.
            lib.pennyBarrier(None, None)
        result = self._end()
        _thread.depth -= 1
        if _thread.depth:
            if kind is None:
                check(result)
            return
        threads_with_groups.discard(threading.get_ident())
        anchors, _thread.anchors = _thread.anchors, []
        endings, _thread.endings = _thread.endings, []
        if kind is not None:
            return
        check(result)
        for stream, held in anchors:
            if stream is not None:
                stream.retain(held)
        for ending in endings:
            ending()

    def _end(self) -> int:
        return int(lib.pennyGroupEnd())


class simulate(group):
    """A group that runs nothing, and tells afterwards what it would take on the declared machine.

    Needs a communicator with a declared machine (`fabric=`, or PENNY_FABRIC). It must be the outermost group.
    """

    def __init__(self) -> None:
        self._info = SimInfo()

    def _end(self) -> int:
        return int(lib.pennyGroupSimulateEnd(self._info))

    @property
    def picoseconds(self) -> int:
        """The time that the calls would take together."""
        return int(self._info.estimatedPs)

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.picoseconds * 1e-12
