"""Penny in the place of another backend of torch.distributed, for programs that name that one.

`PENNY_TORCH_REPLACE=gloo` or `python -m penny.torch script.py` makes the process groups that a program asks of gloo Penny's.
They keep the name: `dist.get_backend()` says gloo, which frameworks look for. docs/decisions/0055 has the alternatives.
"""

from __future__ import annotations

import torch.distributed as dist

from .process_group import create

REPLACEABLE = "gloo"


def replace(name: str) -> None:
    """Makes Penny the backend of this name. Groups that are there keep their own."""
    if name != REPLACEABLE:
        raise ValueError(
            f"PENNY_TORCH_REPLACE is {name!r}, but Penny takes the place of gloo only: set it to gloo, or unset it"
        )
    dist.Backend.register_backend(
        name, create, extended_api=True, devices=dist.Backend.backend_capability[name]
    )
