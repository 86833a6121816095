"""A group's stream: calls are queued on it, and an event behind each call says when it is over and how it went."""

from __future__ import annotations

import ctypes
import itertools
from collections import deque
from collections.abc import Callable, Sequence

from .._enums import Result
from .._library import lib
from .._structs import HOST_FN
from .backward import PassEnd
from .calls import Call, run
from .completion import Completion, Future
from .errors import check, error_of
from .tensors import Finish

_query = lib.pennyEventQuery
_synchronize = lib.pennyEventSynchronize


class Stream:
    """The stream of a process group. It keeps what its calls use until they are over."""

    def __init__(self) -> None:
        self._handle = 0
        self._unused_events: list[int] = []
        self._under_way: deque[EventCompletion] = deque()
        self._newest: EventCompletion | None = None
        self.pass_end = PassEnd()

    def submit(
        self, calls: Sequence[Call], comm: int, finishes: Sequence[Finish], keep: object
    ) -> Completion:
        """Queues calls, then what is to be done after them. Raises what is wrong with their arguments."""
        if not self._handle:
            self._handle = _made(lib.pennyStreamCreate)
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft()
        run(calls, comm, self._handle)
        completion = EventCompletion(self, self._recorded(), comm, keep)
        if finishes:
            completion = FinishedCompletion(self, self._after(completion, finishes), comm, completion)
        self._under_way.append(completion)
        self._newest = completion
        return completion

    def is_idle(self) -> bool:
        """Is all over that was queued?"""
        return self._newest is None or self._newest.done()

    def synchronize(self) -> None:
        """Waits until all is over that was queued. How it went is told by each work."""
        if self._newest is not None:
            self._newest.wait()

    def close(self) -> None:
        """Ends the stream after what is queued."""
        self.synchronize()
        handle, self._handle = self._handle, 0
        if handle:
            # What failed has been told by the works.
            lib.pennyStreamDestroy(handle)
        self._under_way.clear()
        self._newest = None
        while self._unused_events:
            lib.pennyEventDestroy(self._unused_events.pop())

    def call_back(self, completion: Completion, callback: Callable[[], None]) -> bool:
        """Has the stream's thread call back when something is over; False where it would come too late for that."""
        if completion is not self._newest or not self._handle:
            return False
        _call_back(self._handle, callback)
        return True

    def give_back(self, event: int) -> None:
        """Takes an event that is not used any more."""
        if self._handle:
            self._unused_events.append(event)
        else:
            lib.pennyEventDestroy(event)

    def _recorded(self) -> int:
        event = self._unused_events.pop() if self._unused_events else _made(lib.pennyEventCreate)
        check(lib.pennyEventRecord(event, self._handle))
        return event

    def _after(self, calls: EventCompletion, finishes: Sequence[Finish]) -> int:
        def finish() -> None:
            # The calls are over when the stream comes here; what failed has nothing to be finished.
            if calls.done() and calls.error is None:
                try:
                    for each in finishes:
                        each()
                except RuntimeError as error:
                    calls.error = error

        _call_back(self._handle, finish)
        return self._recorded()


class EventCompletion(Completion):
    """A completion that an event of the library tells."""

    def __init__(self, stream: Stream, event: int, comm: int, keep: object) -> None:
        self._stream = stream
        self._event = event
        self._comm = comm
        self._keep = keep
        self._over = False

    def __del__(self) -> None:
        self._stream.give_back(self._event)

    def done(self) -> bool:
        if not self._over:
            result = _query(self._event)
            if result != Result.IN_PROGRESS:
                self._settle(result)
        return self._over

    def wait(self) -> None:
        if not self._over:
            self._settle(_synchronize(self._event))

    def complete(self, future: Future) -> None:
        is_done = self.done()
        if is_done and self.error is None:
            self._stream.pass_end.came_in_time()
            future.end(may_wait=True)
            return
        if self._stream.pass_end.add(self, future):
            return
        if is_done:
            future.end(may_wait=True)
            return

        def end() -> None:
            self.wait()
            future.end(may_wait=False)

        if not self._stream.call_back(self, end):
            future.end_in_a_thread()

    def _settle(self, result: int) -> None:
        error = error_of(result, self._comm) if result else None
        if not self._over:
            self.error = error
            self._over = True
            self._keep = None


class FinishedCompletion(EventCompletion):
    """The completion of calls behind which something is done in Python; they say how it went."""

    def __init__(self, stream: Stream, event: int, comm: int, calls: EventCompletion) -> None:
        super().__init__(stream, event, comm, calls)
        self._calls = calls

    def _settle(self, result: int) -> None:
        self._calls.wait()
        if not self._over:
            self.error = self._calls.error
            self._over = True
            self._keep = None


# The one function that streams call, and what it calls in turn, by the number that it is given.
_callbacks: dict[int, Callable[[], None]] = {}
_numbers = itertools.count(1)


def _dispatch(number: int) -> None:
    _callbacks.pop(number)()


_dispatcher = HOST_FN(_dispatch)


def _call_back(stream: int, callback: Callable[[], None]) -> None:
    number = next(_numbers)
    _callbacks[number] = callback
    result = lib.pennyStreamLaunchHostFunc(stream, _dispatcher, number)
    if result:
        del _callbacks[number]
        check(result)


def _made(make: Callable[..., int]) -> int:
    handle = ctypes.c_void_p()
    check(make(ctypes.byref(handle)))
    assert handle.value is not None
    return handle.value
