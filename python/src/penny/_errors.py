"""Exceptions: one class for each result of the C interface, whose text is the library's own sentence."""

from __future__ import annotations

import builtins

from ._enums import Result


class PennyError(RuntimeError):
    """A call failed.

    The text says what is wrong, on which rank, and what to do; `result` is the C interface's number.
    """

    result: Result = Result.INTERNAL_ERROR


class InvalidArgumentError(PennyError, ValueError):
    """One argument is wrong by itself. Nothing was done, and the communicator stays usable."""

    result = Result.INVALID_ARGUMENT


class InvalidUsageError(PennyError):
    """The arguments do not go together, not now, or not with what the other ranks passed.

    The communicator stays usable.
    """

    result = Result.INVALID_USAGE


class RemoteError(PennyError, ConnectionError):
    """Another rank died, left or gave up. The communicator serves `abort` and `destroy` only."""

    result = Result.REMOTE_ERROR


class TimeoutError(PennyError, builtins.TimeoutError):
    """The deadline passed; the text names who was awaited.

    The communicator serves `abort` and `destroy` only.
    """

    result = Result.TIMEOUT


class SystemError(PennyError, OSError):
    """The operating system refused memory, a socket or a limit."""

    result = Result.SYSTEM_ERROR


class InternalError(PennyError):
    """A defect in Penny. The communicator serves `abort` and `destroy` only."""

    result = Result.INTERNAL_ERROR


class InProgressError(PennyError):
    """The work has not finished yet, and the caller did not want to wait."""

    result = Result.IN_PROGRESS


_BY_RESULT: dict[int, type[PennyError]] = {
    error.result: error
    for error in (
        InvalidArgumentError,
        InvalidUsageError,
        RemoteError,
        TimeoutError,
        SystemError,
        InternalError,
        InProgressError,
    )
}


def error_for(result: int, sentence: str) -> PennyError:
    """The exception of a result with the library's sentence as its text."""
    return _BY_RESULT.get(result, PennyError)(sentence)
