"""Receives from any source: each takes the next message that comes under its tag, from any rank.

The senders of a rank have channels of their own, so a receive from any source asks each in turn whether a message waits there,
and begins with the one behind the sender that was served last: no sender is passed over twice. Receives are served in the order
of their calls. One from a named rank that is called later begins when those from any source before it are over: the message that
it could take is theirs as well.

    irecv(any)    irecv(any)    irecv(1)    irecv(any)      of one tag
    looks         waits         is held     waits
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from .._enums import Result
from .completion import Completion, Flag, Future
from .errors import TimeoutError
from .lanes import Lane, Ticket
from .tensors import Finish

if TYPE_CHECKING:
    from .point_to_point import Channels

# How long a receive looks without a pause, and the pauses between later looks: at the channels, and at the store.
_EAGER_SECONDS = 0.0002
_SHORTEST_NAP, _LONGEST_NAP = 0.00005, 0.001
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01


class Held(Completion):
    """The completion of a receive from a named rank that stands behind one from any source."""

    def __init__(self, source: int, behind: Ticket, begin: Callable[[], Completion]) -> None:
        self.source = source
        self._behind = behind
        self._begin = begin
        self._begun: Completion | None = None

    def begin(self) -> None:
        """Begins it; called once."""
        try:
            self._begun = self._begin()
        except RuntimeError as error:
            self._begun = failed = Flag()
            failed.end(error)

    def done(self) -> bool:
        if self._begun is None or not self._begun.done():
            return False
        self.error = self._begun.error
        return True

    def wait(self) -> None:
        self._behind.wait()
        # It was begun before the receive in front of it was over.
        assert self._begun is not None
        self._begun.wait()
        self.error = self._begun.error

    def complete(self, future: Future) -> None:
        if self.done():
            future.end(may_wait=True)
        else:
            future.end_in_a_thread()


class AnySource:
    """The receives of one tag from any source, and those from named ranks behind them."""

    def __init__(self, channels: Channels, tag: int) -> None:
        self._channels = channels
        self._tag = tag
        self._lane = Lane(f"any>{channels.rank}/{tag}")
        self._lock = threading.Lock()
        # In the order of the calls; a receive from any source is its ticket.
        self._calls: deque[Ticket | Held] = deque()
        self._first = 0
        self._offers = -1

    def receive(self, buffer: Tensor, finish: Finish | None, blocking: bool) -> Ticket:
        """Receives from any source. blocking: the caller waits for the ticket at once."""

        def job() -> None:
            source = -1
            try:
                source = self._take(buffer, finish)
            finally:
                self._is_over(source)

        with self._lock:
            ticket = self._lane.submit(job, will_wait=blocking)
            self._calls.append(ticket)
        return ticket

    def hold(self, source: int, begin: Callable[[], Completion]) -> Completion | None:
        """Puts a receive from a named rank behind those from any source; None if there are none."""
        with self._lock:
            newest = next((call for call in reversed(self._calls) if isinstance(call, Ticket)), None)
            if newest is None:
                return None
            held = Held(source, newest, begin)
            self._calls.append(held)
            return held

    def close(self) -> None:
        """Ends its thread; the channels are closed, which ends what is under way."""
        self._lane.close()

    def _is_over(self, source: int) -> None:
        """Says who has sent to the oldest receive, and begins what stands between it and the next from any source."""
        with self._lock:
            self._calls.popleft().source = source
            while self._calls and isinstance(self._calls[0], Held):
                held = self._calls.popleft()
                assert isinstance(held, Held)
                held.begin()

    def _take(self, buffer: Tensor, finish: Finish | None) -> int:
        """Receives the next message; returns who has sent it."""
        began = time.monotonic()
        deadline = began + self._channels.timeout.total_seconds()
        nap, pause = _SHORTEST_NAP, _SHORTEST_PAUSE
        # Who has never sent, and who will not any more, is known from the store, which takes longer to ask than the channels.
        next_look = began + (_EAGER_SECONDS if self._offers >= 0 else 0)
        peer: int
        while True:
            now = time.monotonic()
            if now >= next_look:
                self._find_new_senders()
                next_look, pause = now + pause, min(2 * pause, _LONGEST_PAUSE)
            for peer in (*range(self._first, self._channels.size), *range(self._first)):
                if self._channels.take(peer, self._tag, buffer, finish):
                    self._first = (peer + 1) % self._channels.size
                    return peer
            if now >= deadline:
                raise self._nobody_sends()
            if now - began < _EAGER_SECONDS:
                os.sched_yield()
            else:
                time.sleep(nap)
                nap = min(2 * nap, _LONGEST_NAP)

    def _find_new_senders(self) -> None:
        self._channels.check_senders(self._tag, self._name())
        offers = self._channels.offers()
        if offers != self._offers:
            self._offers = offers
            self._channels.meet_senders(self._tag)

    def _name(self) -> str:
        return (
            f"recv on rank {self._channels.rank} from any source under tag {self._tag}, {self._channels.name}"
        )

    def _nobody_sends(self) -> TimeoutError:
        seconds = self._channels.timeout.total_seconds()
        error = TimeoutError(f"{self._name()}: no rank has called send in {seconds:g} s")
        error.result = Result.TIMEOUT
        return error
