"""Calls of the C interface as data: what is to be called with what, alone or as one group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._errors import PennyError
from .._library import lib
from .errors import check

# A function of the C interface and its arguments up to the communicator and the stream, which come last.
Call = tuple[Callable[..., int], tuple[Any, ...]]


def run(calls: Sequence[Call], comm: int, stream: int | None = None) -> None:
    """Makes the calls, as one group if they are several; on a stream they are queued. Raises what the library says."""
    if len(calls) == 1:
        function, arguments = calls[0]
        check(function(*arguments, comm, stream), comm)
        return
    if not calls:
        return
    check(lib.pennyGroupStart())
    first_failure = None
    for function, arguments in calls:
        try:
            check(function(*arguments, comm, stream), comm)
        except PennyError as error:
            first_failure = error
            break
    # Where a call was refused the group runs nothing, and says so again; the first sentence is the better one.
    result = lib.pennyGroupEnd()
    if first_failure is not None:
        raise first_failure
    check(result)
