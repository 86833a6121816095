"""Threads in which futures are completed, and with that the program's callbacks are called.

A callback may wait for further works, and these for further callbacks, so a job never waits for another: it gets a thread that has
nothing to do, or a new one."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable

# Seconds after which a thread without a job ends.
_IDLE = 1.0
# Seconds for which the interpreter's end waits for callbacks: a thread that is in torch's C++ code then would end the process.
_LAST = 2.0


class FutureThreads:
    """A set of threads that grows with the jobs that run at the same time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._idle = 0
        self._busy = 0

    def run(self, job: Callable[[], None]) -> None:
        """Runs a job in another thread, or here where the system gives no thread."""
        with self._changed:
            self._busy += 1
            if self._idle > len(self._jobs):
                self._jobs.append(job)
                self._changed.notify()
                return
        try:
            # The thread's arguments live as long as it does; the job is taken out of them.
            threading.Thread(target=self._work, args=([job],), name="penny future", daemon=True).start()
        except RuntimeError:
            with self._changed:
                self._busy -= 1
            job()

    def wait_until_idle(self, seconds: float) -> None:
        """Waits until no job runs, for at most `seconds`."""
        deadline = time.monotonic() + seconds
        while self._busy and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _work(self, handed: list[Callable[[], None]]) -> None:
        job: Callable[[], None] | None = handed.pop()
        while job is not None:
            try:
                job()
            finally:
                # What it refers to is freed while it counts as running: torch's C++ code, in this thread at the interpreter's end, would
                # end the process.
                job = None
                with self._changed:
                    self._busy -= 1
            job = self._next()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs, _IDLE)
            self._idle -= 1
            return self._jobs.popleft() if self._jobs else None


_threads = FutureThreads()


def run(job: Callable[[], None]) -> None:
    """Runs a job in a thread that waits for no other job."""
    _threads.run(job)


def _forget() -> None:
    global _threads
    _threads = FutureThreads()


os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _threads.wait_until_idle(_LAST))
