"""Futures that the end of a backward pass completes: those that DistributedDataParallel's reducer asks for.

The reducer queues a call for each bucket of gradients, asks the work for its future, and waits for all futures in a callback
at the end of the pass. It waits in C++, where nothing of a stream is gone on with, so a thread of the library would have to
make each call and to take the interpreter's lock for each future. But the engine runs callbacks in the order in which they
were queued, and the one queued here comes before the reducer's. It waits for the calls, and so makes them itself.

    hook of a bucket's last gradient    all_reduce is queued; get_future: the future is added, this callback is queued
    ...                                 calls that were queued before go on whenever another is queued
    end of the pass                     this callback: waits for the calls, completes their futures
                                        the reducer's callback: finds the futures completed

A communication hook in Python asks for a future, too, and may wait for it at once, in C++, so such a future cannot wait for the end of
the pass. The stream's thread completes it, which costs more than many a call where that thread has no core of its own. There the hook
goes on with the call for a moment first: peers that are in step come meanwhile.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from typing import Any

from torch._C import _current_autograd_node, _current_graph_task_id
from torch.autograd import Variable
from torch.autograd.graph import _engine_run_backward

from .completion import Completion, Future

_queue_callback: Any = Variable._execution_engine.queue_callback
_RUNS_THE_ENGINE = _engine_run_backward.__code__
_NO_PASS = -1

# Seconds for which a hook goes on with its call: as long as a large bucket takes.
_MOMENT = 0.002
# Calls in a row whose peers came late, after which the next are left to the stream, but each of this many.
_LATE, _TRIED = 4, 16
# Where launchers tell how many ranks this host has.
_LOCAL_RANKS = ("PENNY_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


class PassEnd:
    """The futures of one stream that wait for the end of a backward pass."""

    def __init__(self) -> None:
        self._futures: deque[tuple[Completion, Future]] = deque()
        self._pass = _NO_PASS
        self._late = 0

    def add(self, completion: Completion, future: Future) -> bool:
        """Takes a future, if the reducer asks for it; False if it has to be completed in another way.

        Raises what went wrong, if that is known already: the reducer takes a future that has failed for one of tensors."""
        if _current_graph_task_id() == _NO_PASS:
            return False
        if not _is_asked_for_by_the_reducer():
            return self._ends_in_a_moment(completion, future)
        # Where a callback of the engine asks, as with a static graph, the reducer waits before any other callback comes.
        if _current_autograd_node() is None or completion.done():
            completion.wait()
            if completion.error is not None:
                raise completion.error
            future.end(may_wait=True)
            return True
        self._futures.append((completion, future))
        # A pass within a pass, as of a checkpoint, has callbacks of its own, and either may be the one where the reducer waits.
        this_pass = _current_graph_task_id()
        if this_pass != self._pass:
            self._pass = this_pass
            _queue_callback(self._complete)
        return True

    def came_in_time(self) -> None:
        """The peers of a call that was queued in a pass were there already."""
        self._late = 0

    def _ends_in_a_moment(self, completion: Completion, future: Future) -> bool:
        """Goes on with a call for a moment, where no core is left for the stream's thread. Completes the future if that ends it."""
        if not _fill_cores():
            return False
        if self._late >= _LATE and self._late % _TRIED:
            self._late += 1
            return False
        until = time.perf_counter() + _MOMENT
        while not completion.done():
            if time.perf_counter() > until:
                self._late += 1
                return False
        self._late = 0
        future.end(may_wait=True)
        return True

    def _complete(self) -> None:
        """Completes all futures; raises the first failure, which keeps the reducer's callback from being called."""
        self._pass = _NO_PASS
        error = None
        while self._futures:
            completion, future = self._futures.popleft()
            completion.wait()
            if completion.error is None:
                future.end(may_wait=True)
            error = error or completion.error
        if error is not None:
            raise error


def _fill_cores() -> bool:
    """Do the ranks of this host keep its cores busy? False where that is not known, and on a declared machine, whose clock goes on while
    a program asks."""
    if os.environ.get("PENNY_FABRIC"):
        return False
    found = (os.environ.get(name, "") for name in _LOCAL_RANKS)
    ranks = next((int(number) for number in found if number.isdecimal()), 0)
    cores = len(os.sched_getaffinity(0))
    # A process that may use some of the cores only has them for itself, as far as can be seen.
    return cores == 1 if cores < (os.cpu_count() or 1) else ranks >= cores


def _is_asked_for_by_the_reducer() -> bool:
    """Has the engine called C++ code that asks for a future? A caller in Python may wait for it at once, also in C++."""
    asks = sys._getframe()
    while asks is not None and asks.f_globals.get("__package__") == __package__:
        asks = asks.f_back  # type: ignore[assignment]
    return asks is not None and asks.f_code is _RUNS_THE_ENGINE
