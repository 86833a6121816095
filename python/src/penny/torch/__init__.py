"""Penny as a backend of torch.distributed: `dist.init_process_group("penny")`.

Importing this module registers the backend. Where the package is installed torch finds it by itself.
"""

from __future__ import annotations

import torch.distributed as dist

from . import versions  # noqa: F401  (before all others: it refuses versions of torch that are too old for them)
from .allocation import clone, empty, empty_like, full, ones, zeros
from .errors import BackendError, InvalidUsageError, RemoteError, RendezvousError, TimeoutError
from .heap import heap
from .process_group import create


def register() -> None:
    """Makes the backend known to torch under the name `penny`. Calling it again does nothing."""
    if "PENNY" not in dist.Backend._plugins:
        dist.Backend.register_backend("penny", create, extended_api=True, devices=["cpu"])


register()

__all__ = [
    "BackendError",
    "InvalidUsageError",
    "RemoteError",
    "RendezvousError",
    "TimeoutError",
    "clone",
    "empty",
    "empty_like",
    "full",
    "heap",
    "ones",
    "register",
    "zeros",
]
