"""PREMUL_SUM: sums of inputs that each rank multiplies with a factor of its own, which the library does in passing."""

from __future__ import annotations

import ctypes
from typing import Any

from torch import Tensor

from .._enums import DataType, ScalarResidence
from .._library import lib
from .errors import check
from .reductions import factor
from .tensors import reduced_as

# Types whose factor loses nothing worth mentioning when it is rounded to them, as the library wants it. Narrower ones would: their
# tensors are multiplied beforehand, with the factor in full.
_FACTORS: dict[int, type[ctypes.c_float | ctypes.c_double]] = {
    int(DataType.FLOAT32): ctypes.c_float,
    int(DataType.FLOAT64): ctypes.c_double,
}
# A program has a factor or two. Of one that changes it with each call the oldest reductions are given back.
_MOST = 32


class ScaledSums:
    """The reductions of one communicator that multiply, by type and factor."""

    def __init__(self, comm: int) -> None:
        self._comm = comm
        self._numbers: dict[tuple[int, float], int] = {}

    def number(self, operation: str, op: Any, tensor: Tensor) -> int | None:
        """The library's number for a PREMUL_SUM of a tensor; None where the tensor has to be multiplied beforehand."""
        datatype, _ = reduced_as(operation, tensor)
        scalar = _FACTORS.get(datatype)
        by = factor(op)
        if (
            scalar is None
            or isinstance(by, complex)
            or (isinstance(by, Tensor) and (by.numel() != 1 or by.is_complex()))
        ):
            return None
        key = (datatype, float(by))
        number = self._numbers.get(key)
        if number is None:
            made = ctypes.c_int()
            immediate = ScalarResidence.SCALAR_HOST_IMMEDIATE
            value = ctypes.byref(scalar(key[1]))
            check(lib.pennyRedOpCreatePreMulSum(made, value, datatype, immediate, self._comm), self._comm)
            number = self._numbers[key] = made.value
        return number

    def forget_oldest(self) -> None:
        """Gives back what has not been asked for first, if there are many. Nothing that is not queued may refer to them."""
        while len(self._numbers) > _MOST:
            lib.pennyRedOpDestroy(self._numbers.pop(next(iter(self._numbers))), self._comm)
