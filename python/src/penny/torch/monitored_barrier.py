"""A barrier over the store, at which rank 0 finds out who does not come. It leaves the communicator alone.

Its sentences begin as those of torch's gloo do, because programs look for these words.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, NoReturn

from torch.distributed import DistBackendError

from .rendezvous import comes

_ALL_HERE = b"all here"


class Gathering:
    """The monitored barriers of one rank of a process group."""

    def __init__(self, store: Any, rank: int, size: int, name: str) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._name = name
        self._turn = 0

    def meet(self, timeout: timedelta, wait_all_ranks: bool) -> None:
        """Returns when every rank has come; else raises, on each rank that has, which have not."""
        self._turn += 1
        if self._rank == 0:
            self._await_others(timeout, wait_all_ranks)
        else:
            self._await_first(timeout)

    def _key(self, turn: int, what: object) -> str:
        return f"monitored_barrier/{turn}/{what}"

    def _await_others(self, timeout: timedelta, wait_all_ranks: bool) -> None:
        within = f"{timeout.total_seconds() * 1000:g} ms"
        deadline = time.monotonic() + timeout.total_seconds()
        missing = []
        for rank in range(1, self._size):
            left = deadline - time.monotonic()
            if left <= 0 and not wait_all_ranks:
                self._refuse(
                    f"Rank 0 timed out in monitoredBarrier after {within}: {rank - 1} of the {self._size - 1} other ranks "
                    f"of {self._name} had come; pass a longer timeout, or wait_all_ranks=True to learn of all ranks"
                )
            if not comes(self._store, self._key(self._turn, rank), timedelta(seconds=max(left, 0.001))):
                missing.append(rank)
                if not wait_all_ranks:
                    break
        # A rank that is here has read the answer of the turn before.
        self._store.delete_key(self._key(self._turn - 1, "answer"))
        if not missing:
            self._store.set(self._key(self._turn, "answer"), _ALL_HERE)
            return
        who = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {', '.join(map(str, missing))}"
        more = "" if wait_all_ranks or self._size == 2 else "; wait_all_ranks=True looks for others"
        self._refuse(
            f"{who} failed to pass monitoredBarrier in {within}: not at the monitored_barrier of {self._name}{more}"
        )

    def _refuse(self, sentence: str) -> NoReturn:
        """Tells the ranks that are here why the barrier failed, and raises the same."""
        self._store.set(self._key(self._turn, "answer"), sentence)
        raise DistBackendError(sentence)

    def _await_first(self, timeout: timedelta) -> None:
        self._store.set(self._key(self._turn, self._rank), b"here")
        answer = self._key(self._turn, "answer")
        begun = (
            f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
            "send/recv from rank 0: "
        )
        # Rank 0 answers at the end of its own wait, which may have begun later.
        if not comes(self._store, answer, 2 * timeout):
            raise DistBackendError(
                f"{begun}rank 0 did not come to the monitored_barrier of {self._name} within "
                f"{2 * timeout.total_seconds():g} s"
            )
        said = self._store.get(answer)
        if said != _ALL_HERE:
            raise DistBackendError(begun + said.decode())
