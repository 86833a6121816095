"""Finds, loads and declares libpenny.so: `lib.pennyAllReduce(...)`, then `check(result, comm)`.

Calls through `lib` give up the interpreter's lock while they are in the library, except for the few that wait
for nothing. The library is looked for in this order: the file that PENNY_LIBRARY names, beside this package,
the system's loader.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _interrupts, _prototypes
from ._enums import Result
from ._errors import error_for
from ._structs import HEADER_VERSION

# Functions that never wait and are over before another thread could have run: they keep the
# interpreter's lock, which costs less than giving it up and asking for it again. All others give it up.
QUICK = frozenset(
    {
        "pennyGetVersion",
        "pennyGetErrorString",
        "pennyGetLastError",
        "pennySetInterruptCheck",
        "pennySetProgress",
        "pennyCommGetAsyncError",
        "pennyCommCount",
        "pennyCommUserRank",
        "pennyCommDevice",
        "pennyGroupStart",
        "pennyEventCreate",
        "pennyEventRecord",
        "pennyShmemMyPe",
        "pennyShmemNPes",
        "pennyMailboxCanSend",
        "pennyMailboxCanRecv",
    }
)

SONAME = f"libpenny.so.{HEADER_VERSION[0]}"


def candidates() -> list[str]:
    """Where the library may be, the best place first."""
    named = os.environ.get("PENNY_LIBRARY")
    if named:
        return [named]
    beside = Path(__file__).parent / "lib" / SONAME
    return [str(beside), SONAME] if beside.exists() else [SONAME]


class Library:
    """The functions of a loaded libpenny.so, as attributes under their names in C."""

    def __init__(self, path: str) -> None:
        self.path = path
        waiting, quick = ctypes.CDLL(path), ctypes.PyDLL(path)
        for table, restype in ((_prototypes.RESULTS, c_int), (_prototypes.TEXTS, c_char_p)):
            for name, argtypes in table.items():
                try:
                    function = getattr(quick if name in QUICK else waiting, name)
                except AttributeError:
                    raise ImportError(
                        f"{path} has no {name}: it is older than this package. Build both from one checkout"
                    ) from None
                function.argtypes = argtypes
                function.restype = restype
                setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def load() -> Library:
    """Loads the library, or says where it was looked for and how to get it."""
    reasons = []
    for path in candidates():
        try:
            library = Library(path)
        except OSError as error:
            reasons.append(str(error))
            continue
        _refuse_another_version(library)
        return library
    raise ImportError(
        f"penny finds no {SONAME}: {'; '.join(reasons)}. Install the package with `pip install ./python`, "
        "or set PENNY_LIBRARY to a libpenny.so that was built by `cargo build --release -p penny`"
    )


def _refuse_another_version(library: Library) -> None:
    """Before 1.0 a minor version may change the interface, so both must be of the same."""
    code = c_int()
    library.pennyGetVersion(code)
    major, minor = code.value // 10000, code.value // 100 % 100
    if (major, minor) != HEADER_VERSION[:2]:
        wanted = ".".join(map(str, HEADER_VERSION[:2]))
        raise ImportError(
            f"{library.path} is Penny {major}.{minor}, but this package was made for {wanted}: "
            "install the two from the same checkout, or unset PENNY_LIBRARY"
        )


lib = load()
_interrupts.arm(lib)
os.register_at_fork(after_in_child=lambda: _interrupts.arm(lib))
_last_error = lib.pennyGetLastError


def last_error(comm: int | None = None) -> str:
    """The sentence of the calling thread's newest failure on a communicator, or on anything."""
    return (_last_error(comm) or b"").decode(errors="replace")


def check(result: int, comm: int | None = None) -> None:
    """Raises the exception of a result, unless it is success, with the library's sentence about it.

    Where a signal handler has raised during the call, its exception is raised instead.
    """
    if result:
        error = error_for(result, last_error(comm) or lib.pennyGetErrorString(result).decode())
        _interrupts.raise_interrupt(error)
        raise error


def version() -> tuple[int, int, int]:
    """The version of the library that is loaded."""
    code = c_int()
    check(lib.pennyGetVersion(code))
    return code.value // 10000, code.value // 100 % 100, code.value % 100


__all__ = ["Library", "Result", "check", "last_error", "lib", "load", "version"]
