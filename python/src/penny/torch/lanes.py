"""Queues of jobs in Python, for what has to wait for more than the library: transfers, whose two ends first have to meet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from torch.distributed import DistBackendError

from .completion import Flag


class Ticket(Flag):
    """The completion of a job. Who waits for it helps."""

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self._lane = lane

    def wait(self) -> None:
        self._lane.help(self)
        super().wait()


class Lane:
    """Jobs that run in order: on a thread of their own, or faster on a thread that waits for one of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: deque[tuple[Callable[[], None], Ticket]] = deque()
        self._arrived = threading.Semaphore(0)
        self._working = threading.Lock()
        self._thread: threading.Thread | None = None
        self._newest: Ticket | None = None
        self._closed = False

    def submit(self, job: Callable[[], None], will_wait: bool = False) -> Ticket:
        """Queues a job. What it refers to is kept until it is over. will_wait: no thread is woken, for the caller waits."""
        ticket = self._newest = Ticket(self)
        self._jobs.append((job, ticket))
        if will_wait:
            return ticket
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._arrived.release()
        return ticket

    def is_idle(self) -> bool:
        """Is all over that was queued?"""
        return self._newest is None or self._newest.done()

    def help(self, ticket: Ticket) -> None:
        """Runs jobs on the calling thread until one of them is over, if no other thread is running any."""
        while not ticket.done() and self._working.acquire(blocking=False):
            try:
                self._do_next()
            finally:
                self._working.release()
        if self._jobs:
            # The thread may have found the lane taken, and gone back to sleep.
            self._arrived.release()

    def now(self, job: Callable[[], None]) -> bool:
        """Does a job in the calling thread, which raises what fails; False if others come before it."""
        if not self._working.acquire(blocking=False):
            return False
        try:
            if self._jobs:
                return False
            job()
            return True
        finally:
            self._working.release()
            if self._jobs:
                self._arrived.release()

    def close(self) -> None:
        """Ends the thread after what is queued."""
        self._closed = True
        if self._thread is not None:
            self._arrived.release()
            self._thread.join()

    def _work(self) -> None:
        while not self._closed or self._jobs:
            self._arrived.acquire()
            # No thread waits for the one at work: when that one is done, it looks for jobs that have come meanwhile.
            while self._jobs and self._working.acquire(blocking=False):
                try:
                    self._do_next()
                finally:
                    self._working.release()

    def _do_next(self) -> None:
        if not self._jobs:
            return
        job, ticket = self._jobs.popleft()
        error = None
        try:
            job()
        except Exception as failure:  # noqa: BLE001, it is raised where the job is waited for
            error = failure
        except BaseException:
            # A thread that helps was interrupted in the middle of the job, which no other thread can finish.
            ticket.end(DistBackendError("the transfer was interrupted by a signal handler of the program"))
            raise
        ticket.end(error)
