"""Base class of the objects that all ranks of a communicator close together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

T = TypeVar("T", bound="ClosedByAll")


class ClosedByAll(ABC):
    """An object whose `close` is collective, and is called at the end of a `with` block.

    A block that ends with an exception does not close it: `close` waits for all ranks, and the others may be
    waiting in another call. The object then ends with its communicator.
    """

    @abstractmethod
    def close(self) -> None:
        """Closes the object on all ranks. Every rank calls."""

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
