"""Tells whether another rank's process lives, for threads that wait for it outside of the library's calls."""

from __future__ import annotations

import os
from pathlib import Path


def identity() -> str:
    """This process, as the others may ask for it: its number, and when it was started, for numbers are used again."""
    return f"{os.getpid()} {_started(os.getpid())}"


def is_dead(process: str) -> bool:
    """Is it certain that a process, by its identity, has ended?"""
    pid, started = process.split()
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """The start time of a process in the kernel's ticks; text that is no number if the process is over."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "gone"
    # The name, in parentheses, may contain anything; behind it come the state and, 19 fields later, the start.
    state, *fields = text.rpartition(")")[2].split()
    return "gone" if state in "ZX" else fields[18]
