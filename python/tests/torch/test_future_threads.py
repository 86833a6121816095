"""Threads that complete futures: as many as jobs run at once, and none where none can be had."""

from __future__ import annotations

import threading
import weakref
from functools import partial

import pytest

from penny.torch.future_threads import FutureThreads


def test_futures_are_completed_where_no_thread_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    threads, done = FutureThreads(), list[int]()
    for number in range(3):
        threads.run(partial(done.append, number))
    threads.wait_until_idle(60)
    assert done == [0, 1, 2]


def test_jobs_that_wait_for_each_other_run_at_the_same_time() -> None:
    threads, all_here, done = FutureThreads(), threading.Barrier(8, timeout=60), list[int]()

    def job() -> None:
        done.append(all_here.wait())

    for _ in range(8):
        threads.run(job)
    threads.wait_until_idle(60)
    assert sorted(done) == list(range(8))


def test_what_a_job_refers_to_is_gone_when_no_job_runs() -> None:
    class Tensor:
        """What is freed by torch's C++ code, which must not happen in a thread of ours at the interpreter's end."""

    threads = FutureThreads()
    for _ in range(3):
        tensor = Tensor()
        freed = weakref.ref(tensor)
        threads.run(partial(lambda kept: None, tensor))
        del tensor
        threads.wait_until_idle(60)
        assert freed() is None
