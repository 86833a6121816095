"""Handles of what a process group is doing: a completed one for calls that block, and one per call that does not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Work

import torch
from torch import Tensor

from .._enums import Result
from .completion import Completion, Future
from .errors import TimeoutError

_NO_TIMEOUT = timedelta(0)


class PennyWork(Work):
    """A call that was queued, with the tensors that it uses."""

    def __init__(
        self,
        operation: str,
        completion: Completion,
        outputs: Sequence[Tensor],
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__()
        self._operation = operation
        self._completion = completion
        self._outputs = list(outputs)
        self._timeout = timeout
        self._future: Future | None = None

    def is_completed(self) -> bool:
        """Is it over, well or not? Waits for nothing."""
        return self._completion.done()

    def is_success(self) -> bool:
        """Is it over, and did it do what it should?"""
        return self._completion.done() and self._completion.error is None

    def exception(self) -> Exception | None:
        """The exception of a work that has failed; None for any other."""
        return self._completion.error if self._completion.done() else None

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Waits until it is over; raises what went wrong, or that it takes longer than it may."""
        limit = timeout or self._timeout
        if not limit:
            self._completion.wait()
        elif not self._completion.wait_for(limit.total_seconds()):
            error = TimeoutError(
                f"{self._operation} is not done after {limit.total_seconds():g} s; it goes on, "
                "and its tensors must not be touched until wait() has returned"
            )
            error.result = Result.TIMEOUT
            raise error
        if self._completion.error is not None:
            raise self._completion.error
        return True

    def synchronize(self) -> None:
        """Waits until it is over, as for all tensors of the CPU."""
        self.wait()

    def result(self) -> list[Tensor]:
        """The tensors that it writes."""
        return self._outputs

    def source_rank(self) -> int:
        """The rank that a receive is from; -1 where it may be from any and is not over."""
        return self._completion.source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the tensors that it writes."""
        if self._future is None:
            self._future = Future(self._completion, self._outputs)
            self._completion.complete(self._future)
        return self._future


class CompletedWork(Work):
    """The work that a blocking call returns. It is always over, so one object serves all calls."""

    def is_completed(self) -> bool:
        """Returns True: the work is over."""
        return True

    def is_success(self) -> bool:
        """Returns True: a call that fails raises instead."""
        return True

    def exception(self) -> None:
        """Nothing went wrong."""

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Returns at once."""
        return True

    def synchronize(self) -> None:
        """Returns at once."""

    def result(self) -> list[Tensor]:
        """Nothing: the caller has the tensors."""
        return []

    def get_future(self) -> torch.futures.Future[Any]:
        """A future that is over."""
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result([])
        return future


DONE = CompletedWork()
