"""Sums of scaled inputs: reductions with a number of each rank's own."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ._enums import DataType, ScalarResidence
from ._library import check, lib
from .buffers import resolve

if TYPE_CHECKING:
    from types import TracebackType


class PreMulSum:
    """A reduction of one communicator: this rank's input times a number, added to those of the other ranks.

    Pass it as `op`. It lasts until `destroy`, the end of its `with` block, or the communicator's end.
    """

    def __init__(self, comm: Any, factor: Any) -> None:
        source = resolve(factor)
        if source[2] is None:
            raise TypeError("factor: pass an array of one element, such as numpy.float32(0.5) in an array")
        self.dtype = DataType(source[2])
        self._comm = comm
        made = ctypes.c_int()
        check(
            lib.pennyRedOpCreatePreMulSum(
                made, source[0], self.dtype, ScalarResidence.SCALAR_HOST_IMMEDIATE, comm._handle
            ),
            comm._handle,
        )
        self.number = made.value

    def destroy(self) -> None:
        """Frees the reduction. Calls that are queued with it are made."""
        check(lib.pennyRedOpDestroy(self.number, self._comm._handle), self._comm._handle)

    def __enter__(self) -> PreMulSum:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._comm._handle is not None:
            self.destroy()
