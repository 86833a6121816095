"""A function of the program that a waiting call invokes, so that another library makes progress meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ._library import check, lib
from ._structs import PROGRESS

# What the library may call must outlive its calls: each thread keeps its own.
_kept = threading.local()


def set_progress(function: Callable[[], Any] | None) -> None:
    """Sets the calling thread's progress hook; None removes it.

    While this thread waits in a call, `function()` is called on it again and again, and once more when the wait ends; the
    thread does not sleep meanwhile. For programs that use another communication library beside Penny, which moves data only
    inside its own functions: with mpi4py, `penny.set_progress(MPI.COMM_WORLD.Iprobe)`.

    The function must return soon, and may not call Penny, which raises InvalidUsageError. An exception in it is printed and
    has no other effect. Short waits do not call it.
    """

    def hook(_: object) -> None:
        if function:
            function()

    kept = PROGRESS(hook) if function else PROGRESS()
    check(lib.pennySetProgress(kept, None))
    _kept.hook = kept
