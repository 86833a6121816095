"""Streams, which run calls in order while the program goes on, and events, which mark places in them."""

from __future__ import annotations

import ctypes
from collections import deque
from threading import Lock
from types import TracebackType

from . import _interrupts
from ._enums import Result
from ._errors import PennyError
from ._library import check, lib


class Stream:
    """An ordered queue of calls.

    A call with `stream=` is checked, queued, and returns; a thread of the library runs it.

    The stream keeps the buffers of its calls in place until it is known that they have run: until
    `synchronize`, a `query` that says so, or the same of an event that was recorded behind them.
    """

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        _interrupts.arm(lib)
        check(lib.pennyStreamCreate(handle))
        # After `destroy` it stays what it was, so that the library refuses it; None would be a call without a
        # stream.
        self._as_parameter_ = handle.value
        self._alive = True
        self._held: deque[tuple[int, object]] = deque()
        self._issued = 0
        self._lock = Lock()

    @property
    def handle(self) -> int:
        """The pennyStream_t, for calls through `penny.lib`."""
        assert self._as_parameter_ is not None
        return self._as_parameter_

    def synchronize(self) -> None:
        """Waits until everything queued so far has run. Raises the first failure since one was last told."""
        upto = self._issued
        result = lib.pennyStreamSynchronize(self)
        if result:
            # What has been interrupted may still be under way.
            _interrupts.raise_interrupt()
        self.release(upto)
        check(result)

    def query(self) -> bool:
        """Has everything queued so far run? Raises the failure, if it has failed."""
        upto = self._issued
        result = lib.pennyStreamQuery(self)
        if result == Result.IN_PROGRESS:
            return False
        self.release(upto)
        check(result)
        return True

    def wait_event(self, event: Event) -> None:
        """Makes all work that is queued here from now on wait until the event has happened."""
        check(lib.pennyStreamWaitEvent(self, event))
        self.retain(event.position)

    def destroy(self) -> None:
        """Waits for what is queued, and ends the stream. Does nothing if that was done before."""
        if self._alive:
            self._alive = False
            result = lib.pennyStreamDestroy(self)
            self.release(self._issued)
            check(result)

    def retain(self, anchors: object) -> None:
        """Keeps objects for as long as what has been queued so far may use them."""
        self._issued += 1
        self._held.append((self._issued, anchors))

    def release(self, upto: int) -> None:
        """Forgets what calls up to a place needed. What they waited for on other streams has run too."""
        done = []
        with self._lock:
            while self._held and self._held[0][0] <= upto:
                done.append(self._held.popleft()[1])
        for anchors in done:
            if isinstance(anchors, Position):
                anchors.stream.release(anchors.issued)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.destroy()
        except PennyError:
            # The exception that leaves the block comes first.
            if kind is None:
                raise

    def __del__(self) -> None:
        if getattr(self, "_alive", False):
            lib.pennyStreamDestroy(self)

    def __repr__(self) -> str:
        return f"<penny.Stream {self.handle:#x}{'' if self._alive else ', destroyed'}>"


class Position:
    """A point in a stream: all work that was queued before the event was recorded."""

    __slots__ = ("issued", "stream")

    def __init__(self, stream: Stream, issued: int) -> None:
        self.stream = stream
        self.issued = issued


class Event:
    """A mark in a stream, which has happened when everything queued before it has run.

    Its failure is that of the calls between the mark before it on the same stream and itself: a call and an
    event behind it are one request with an outcome of its own.
    """

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        check(lib.pennyEventCreate(handle))
        self._as_parameter_ = handle.value
        self._alive = True
        self.position: Position | None = None

    @property
    def handle(self) -> int:
        """The pennyEvent_t, for calls through `penny.lib`."""
        assert self._as_parameter_ is not None
        return self._as_parameter_

    def record(self, stream: Stream) -> Event:
        """Marks the place that the stream has been filled to."""
        check(lib.pennyEventRecord(self, stream))
        self.position = Position(stream, stream._issued)
        return self

    def query(self) -> bool:
        """Has it happened? Raises the failure of its calls, if they have failed."""
        result = lib.pennyEventQuery(self)
        if result == Result.IN_PROGRESS:
            return False
        self._has_happened()
        check(result)
        return True

    def synchronize(self) -> None:
        """Waits until it has happened. Raises the failure of its calls."""
        result = lib.pennyEventSynchronize(self)
        if result:
            _interrupts.raise_interrupt()
        self._has_happened()
        check(result)

    def seconds_until(self, end: Event) -> float:
        """The time from this event to a later one; both must have happened."""
        milliseconds = ctypes.c_float()
        check(lib.pennyEventElapsedTime(milliseconds, self, end))
        return milliseconds.value / 1000

    def destroy(self) -> None:
        """Gives the event up. Does nothing if that was done before."""
        if self._alive:
            self._alive = False
            check(lib.pennyEventDestroy(self))

    def _has_happened(self) -> None:
        if self.position is not None:
            self.position.stream.release(self.position.issued)

    def __del__(self) -> None:
        if getattr(self, "_alive", False):
            lib.pennyEventDestroy(self)

    def __repr__(self) -> str:
        return f"<penny.Event {self.handle:#x}{'' if self._alive else ', destroyed'}>"
