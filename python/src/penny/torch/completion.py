"""The completion of operations that do not block their caller: whether one is over, and how it ended."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch

from . import future_threads

_SHORTEST_NAP, _LONGEST_NAP = 0.00002, 0.001


class Completion:
    """An operation that a work can ask whether it is over."""

    error: Exception | None = None
    # The rank that a receive is from.
    source = -1

    def done(self) -> bool:
        """Is it over? Waits for nothing."""
        raise NotImplementedError

    def wait(self) -> None:
        """Waits until it is over."""
        raise NotImplementedError

    def complete(self, future: Future) -> None:
        """Has the future, which is one of this completion, completed when it is over."""
        raise NotImplementedError

    def wait_for(self, seconds: float) -> bool:
        """Waits until it is over, for at most `seconds`. Returns False if it is not over then."""
        deadline = time.monotonic() + seconds
        nap = _SHORTEST_NAP
        while not self.done():
            if time.monotonic() >= deadline:
                return False
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
        return True


class Future(torch.futures.Future[Any]):
    """A future of what a call writes. Who waits for it in Python goes on with the call, and completes it.

    The program's callbacks may wait for other works. Whether there are any is not known: torch hands on the future without this object
    where a work is wrapped, as in groups of several backends."""

    def __init__(self, completion: Completion, outputs: list[Any]) -> None:
        super().__init__()
        self._completion = completion
        self._outputs = outputs
        self._lock = threading.Lock()
        self._is_ending = False

    def wait(self) -> Any:
        """torch.futures.Future.wait."""
        if not self._is_ending:
            self._completion.wait()
            self.end(may_wait=True)
        return super().wait()

    def end(self, may_wait: bool) -> None:
        """Completes it, in another thread if this one may not wait for what callbacks wait for. Its completion is over."""
        with self._lock:
            if self._is_ending:
                return
            self._is_ending = True
        if may_wait:
            self._end()
        else:
            future_threads.run(self._end)

    def end_in_a_thread(self) -> None:
        """Completes it from a thread that waits for nothing else."""

        def wait() -> None:
            self._completion.wait()
            self.end(may_wait=True)

        future_threads.run(wait)

    def _end(self) -> None:
        if self._completion.error is None:
            self.set_result(self._outputs)
        else:
            self.set_exception(self._completion.error)


class Flag(Completion):
    """A completion that some thread of this process declares."""

    def __init__(self) -> None:
        self._done = threading.Event()

    def done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        self._done.wait()

    def wait_for(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def end(self, error: Exception | None = None) -> None:
        """Marks it as over. Called once."""
        self.error = error
        self._done.set()

    def complete(self, future: Future) -> None:
        if self.done():
            future.end(may_wait=True)
        else:
            future.end_in_a_thread()
