"""A group's queue of calls that do not wait: a worker thread makes them in order, each with a completion of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Completion:
    """Whether something that was queued is over, and how it ended."""

    __slots__ = ("_callbacks", "_done", "_lock", "error")

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] | None = []

    def done(self) -> bool:
        """Is it over? Waits for nothing."""
        return self._done.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it is over, at most for so long; False if it is not."""
        return self._done.wait(seconds)

    def then(self, callback: Callable[[], None]) -> None:
        """Calls back when it is over: at once if it is, else in the thread that ends it."""
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback()

    def end(self, error: Exception | None = None) -> None:
        """It is over; called once, by the thread that did it."""
        self.error = error
        with self._lock:
            callbacks, self._callbacks = self._callbacks or [], None
        self._done.set()
        for callback in callbacks:
            callback()


class Stream:
    """A worker thread that does one job after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Callable[[], None], Completion] | None] = SimpleQueue()
        self._last: Completion | None = None
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None]) -> Completion:
        """Queues a job. What it refers to is kept until it is over."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        completion = self._last = Completion()
        self._jobs.put((job, completion))
        return completion

    def is_idle(self) -> bool:
        """Is all over that was queued?"""
        return self._last is None or self._last.done()

    def synchronize(self) -> None:
        """Waits until all is over that was queued."""
        if self._last is not None:
            self._last.wait()

    def close(self) -> None:
        """Ends the worker after what is queued."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, completion = entry
            error = None
            try:
                job()
            except Exception as failure:  # noqa: BLE001, it is raised where the job is waited for
                error = failure
            del entry, job
            completion.end(error)
