"""Failures as torch's exceptions: Penny's sentence under a class that is also `DistBackendError` or `ValueError`."""

from __future__ import annotations

import torch.distributed as dist

from .. import _errors, _interrupts
from .._enums import Result
from .._library import last_error, lib


class BackendError(_errors.PennyError, dist.DistBackendError):
    """A collective failed, for one of the reasons that have no class of their own."""


class InvalidUsageError(_errors.InvalidUsageError, dist.DistBackendError):
    """The ranks disagree, or the call does not go with what went before. The group stays usable."""


class RemoteError(_errors.RemoteError, dist.DistBackendError):
    """Another rank died, left or gave up. The group can only be destroyed."""


class TimeoutError(_errors.TimeoutError, dist.DistBackendError):
    """The deadline passed; the text names who was awaited."""


class RendezvousError(_errors.TimeoutError, dist.DistStoreError):
    """A rank did not come when the group was made."""


_CLASSES: dict[int, type[_errors.PennyError]] = {
    Result.INVALID_ARGUMENT: _errors.InvalidArgumentError,
    Result.INVALID_USAGE: InvalidUsageError,
    Result.REMOTE_ERROR: RemoteError,
    Result.TIMEOUT: TimeoutError,
}


# What the sentences about a communicator are followed by: whom its ranks are in the whole job, if they are not all of it.
members: dict[int, str] = {}


def error_of(result: int, comm: int | None = None) -> _errors.PennyError:
    """The exception of a result that the calling thread has just been given.

    Raises the exception of a signal handler, where one has raised during the call.
    """
    sentence = (last_error(comm) or lib.pennyGetErrorString(result).decode()) + members.get(comm or 0, "")
    if result == Result.TIMEOUT:
        sentence += "; a group's timeout is that of init_process_group or new_group"
    error = _CLASSES.get(result, BackendError)(sentence)
    error.result = Result(result)
    _interrupts.raise_interrupt(error)
    return error


def check(result: int, comm: int | None = None) -> None:
    """Raises the exception of a result other than success."""
    if result:
        raise error_of(result, comm)
