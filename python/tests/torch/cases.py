"""Cases: named functions that every rank of a job runs together, and the groups that they run on.

A test file makes one `Cases` and decorates functions with it. Under pytest the names become tests; under torchrun the
same file is imported by `worker.py`, which calls the functions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist

BACKEND = os.environ.get("PENNY_TEST_BACKEND", "penny")
"""What is tested. `gloo` compares gloo with itself, which tests the tests."""

PATIENCE = timedelta(seconds=20)
"""How long a rank waits in a collective for others whose case has failed. Nothing passes or fails by it."""

if BACKEND == "penny":
    import penny.torch  # noqa: F401  (registers the backend)


class Skip(Exception):
    """Raised by a case on all ranks: it does not apply here, for the reason given."""


@dataclass(frozen=True)
class Job:
    """This rank, and two groups of all ranks: the default group, which is tested, and gloo's."""

    rank: int
    size: int
    tested: dist.ProcessGroup
    gloo: dist.ProcessGroup
    store: dist.Store

    @property
    def right(self) -> int:
        return (self.rank + 1) % self.size

    @property
    def left(self) -> int:
        return (self.rank - 1) % self.size


@dataclass(frozen=True)
class Case:
    name: str
    body: Callable[[Job], None]
    ranks: tuple[int, ...]


class Cases:
    """The cases of one file, in the order in which they stand there."""

    def __init__(self) -> None:
        self._cases: dict[str, Case] = {}

    def add(self, name: str, body: Callable[[Job], None], ranks: tuple[int, ...] = (2, 4)) -> None:
        """Adds a case under a name that says what is expected of it."""
        if name in self._cases:
            raise ValueError(f"two cases are called {name!r}; give one of them another name")
        self._cases[name] = Case(name, body, ranks)

    def __call__(self, body: Callable[[Job], None]) -> Callable[[Job], None]:
        """Adds a function under its own name, for two ranks and for four."""
        self.add(body.__name__, body)
        return body

    def on(self, *ranks: int) -> Callable[[Callable[[Job], None]], Callable[[Job], None]]:
        """Adds a function for these numbers of ranks only."""

        def register(body: Callable[[Job], None]) -> Callable[[Job], None]:
            self.add(body.__name__, body, ranks)
            return body

        return register

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases.values())

    def __getitem__(self, name: str) -> Case:
        return self._cases[name]
