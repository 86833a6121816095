"""A barrier over the store, at which rank 0 finds out who does not come. It leaves the communicator alone."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from torch.distributed import DistBackendError, DistStoreError

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
        deadline = time.monotonic() + timeout.total_seconds()
        missing = []
        for rank in range(1, self._size):
            key = self._key(self._turn, rank)
            left = max(deadline - time.monotonic(), 0.001)
            try:
                self._store.wait([key], timedelta(seconds=left))
            except DistStoreError:
                missing.append(rank)
                if not wait_all_ranks:
                    break
        # A rank that is here has read the answer of the turn before.
        self._store.delete_key(self._key(self._turn - 1, "answer"))
        if not missing:
            self._store.set(self._key(self._turn, "answer"), _ALL_HERE)
            return
        who = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {', '.join(map(str, missing))}"
        sentence = (
            f"monitored_barrier of {self._name}: {who} did not come within {timeout.total_seconds():g} s"
            + (
                ""
                if wait_all_ranks or len(missing) == self._size - 1
                else "; wait_all_ranks=True looks for others"
            )
        )
        self._store.set(self._key(self._turn, "answer"), sentence)
        raise DistBackendError(sentence)

    def _await_first(self, timeout: timedelta) -> None:
        self._store.set(self._key(self._turn, self._rank), b"here")
        answer = self._key(self._turn, "answer")
        try:
            # Rank 0 answers at the end of its own wait, which may have begun later.
            self._store.wait([answer], 2 * timeout)
        except DistStoreError as error:
            raise DistBackendError(
                f"monitored_barrier of {self._name}: rank {self._rank} is here, but rank 0 did not come within "
                f"{2 * timeout.total_seconds():g} s"
            ) from error
        said = self._store.get(answer)
        if said != _ALL_HERE:
            raise DistBackendError(said.decode())
