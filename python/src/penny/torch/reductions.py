"""Reductions: what torch's `ReduceOp` means in Penny for each type of element."""

from __future__ import annotations

from typing import Any

from torch.distributed import ReduceOp

import torch

from .._enums import RedOp
from .tensors import REDUCED

SUM: Any = ReduceOp.SUM
# Torch's stubs know neither the members of the enum nor what is kept with a PREMUL_SUM.
_KINDS: Any = ReduceOp.RedOpType

_ARITHMETIC: dict[int, int] = {
    int(_KINDS.SUM): RedOp.SUM,
    int(_KINDS.AVG): RedOp.AVG,
    int(_KINDS.PRODUCT): RedOp.PROD,
    int(_KINDS.MIN): RedOp.MIN,
    int(_KINDS.MAX): RedOp.MAX,
    int(_KINDS.PREMUL_SUM): RedOp.SUM,
}
_BITWISE: dict[int, int] = {
    int(_KINDS.BAND): RedOp.BIT_AND,
    int(_KINDS.BOR): RedOp.BIT_OR,
    int(_KINDS.BXOR): RedOp.BIT_XOR,
}
# Of truth values the sum and the largest are "any", the product and the smallest are "all".
_LOGICAL: dict[int, int] = {
    int(_KINDS.SUM): RedOp.LOGICAL_OR,
    int(_KINDS.MAX): RedOp.LOGICAL_OR,
    int(_KINDS.BOR): RedOp.LOGICAL_OR,
    int(_KINDS.PRODUCT): RedOp.LOGICAL_AND,
    int(_KINDS.MIN): RedOp.LOGICAL_AND,
    int(_KINDS.BAND): RedOp.LOGICAL_AND,
    int(_KINDS.BXOR): RedOp.LOGICAL_XOR,
}
# A complex number is a pair of real ones, for which only what acts on each part by itself is right.
_BY_PARTS: dict[int, int] = {
    int(_KINDS.SUM): RedOp.SUM,
    int(_KINDS.AVG): RedOp.AVG,
    int(_KINDS.PREMUL_SUM): RedOp.SUM,
}


def reduction(operation: str, op: Any, dtype: torch.dtype) -> int:
    """Penny's number for a reduction of elements of a type, or the sentence that says why there is none."""
    if op == SUM and dtype in REDUCED:
        return int(RedOp.SUM)
    if dtype is torch.bool:
        table = _LOGICAL
    elif dtype.is_complex:
        table = _BY_PARTS
    elif dtype.is_floating_point:
        table = _ARITHMETIC
    else:
        table = _ARITHMETIC | _BITWISE
    kind = kind_of(op)
    number = table.get(int(kind))
    if number is None:
        allowed = ", ".join(each.name for each in _KINDS.__members__.values() if int(each) in table)
        raise ValueError(
            f"{operation}: {kind.name} is not defined for elements of {dtype}; defined for them are {allowed}"
        )
    return number


def factor(op: Any) -> Any:
    """The factor with which PREMUL_SUM multiplies the rank's input; None for all other reductions."""
    if kind_of(op) != _KINDS.PREMUL_SUM:
        return None
    return op.factor if hasattr(op, "factor") else op.__getstate__()[1]


def kind_of(op: Any) -> Any:
    """Which reduction it is, without the factor that a PREMUL_SUM has."""
    return op.op if isinstance(op, ReduceOp) else op
