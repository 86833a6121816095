"""Signals that arrive while the main thread waits in the library.

Python runs the handlers of signals in the main thread between two instructions of the program, hence not during a
call of the library. While the main thread waits, the library asks the check below about five times a second. The
check lets Python run the handlers of the signals that have arrived. If a handler raises, as Python's own handler of
Ctrl-C does, the call ends and the exception is raised from it; if none does, the wait goes on.

No handler is installed here, and no signal is looked at: whatever the program has set with `signal.signal` holds.
docs/decisions/0019-interrupts.md has the alternatives.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import thread as _executor_threads
from typing import Any

from ._structs import INTERRUPT_CHECK

# What a handler has raised during the present call of the main thread.
_raised: BaseException | None = None


def _run_handlers() -> Generator[int, None, None]:
    """Says, each time that it is resumed, whether a handler has raised.

    It is a generator because Python runs the handlers when a frame starts or is resumed. The start of a function
    lies before its first `try`, so an exception would be lost in the callback; a generator is resumed inside of it.
    """
    global _raised
    while True:
        try:
            while True:
                yield int(_raised is not None)
        except GeneratorExit:
            return
        except BaseException as error:
            _raised = _raised or error


_handlers: Any = _run_handlers()
next(_handlers)
_check = INTERRUPT_CHECK(_handlers.send)
_armed_thread: int | None = None


def is_checking() -> bool:
    """Is a signal handler running in the check, hence inside of a call of the main thread?"""
    return _handlers.gi_running and threading.current_thread() is threading.main_thread()


def arm(lib: Any) -> None:
    """Gives the main thread its check. In other threads this does nothing: Python runs no handlers there."""
    global _armed_thread
    if _armed_thread != threading.get_ident() and threading.current_thread() is threading.main_thread():
        _armed_thread = threading.get_ident()
        lib.pennySetInterruptCheck(_check, None)


def raise_interrupt(error: BaseException | None = None) -> None:
    """After a call that failed: raises what a handler raised during the call, if one did, with the call's error as its cause."""
    global _raised
    if _raised is not None and threading.current_thread() is threading.main_thread():
        raised, _raised = _raised, None
        raise raised from error


# Communicators that are aborted when Ctrl-C ends the program.
_ended_by_interrupt: weakref.WeakSet[Any] = weakref.WeakSet()


def abort_at_interrupt(communicator: Any) -> None:
    """Has `communicator.abort()` called when the program ends by a KeyboardInterrupt that nothing has caught."""
    _ended_by_interrupt.add(communicator)


def _abort_all() -> None:
    """At the end of the main thread, before Python waits for the other threads.

    A thread that waits in a call would keep the interrupted program from ending, up to the call's deadline.
    """
    last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if isinstance(last, KeyboardInterrupt):
        for communicator in list(_ended_by_interrupt):
            try:
                communicator.abort()
            except RuntimeError:
                pass


# The functions that are registered last are called first, so that of the thread pools, which waits for their threads,
# must have been registered before.
assert _executor_threads
_at_end_of_main_thread: Callable[[Callable[[], None]], None] | None = getattr(
    threading, "_register_atexit", None
)
if _at_end_of_main_thread is not None:
    _at_end_of_main_thread(_abort_all)
