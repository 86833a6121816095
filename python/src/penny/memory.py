"""Memory that the other ranks reach where it lies, so that calls on it copy less: arrays, registrations."""

from __future__ import annotations

import ctypes
import math
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._errors import InvalidArgumentError
from ._library import check, lib
from .buffers import Buffer
from .integers import size

if TYPE_CHECKING:
    import numpy

    from .communicator import Communicator


def empty(shape: int | tuple[int, ...], dtype: Any = "float32") -> numpy.ndarray[Any, Any]:
    """A numpy array in shareable memory, with undefined contents. The memory is freed when its last view is.

    dtype: anything that numpy takes for one.
    """
    try:
        import numpy
    except ImportError as error:
        raise ImportError(
            "penny.empty and penny.zeros make numpy arrays, and there is no numpy: pip install numpy, "
            "or use penny.allocate"
        ) from error

    element = numpy.dtype(dtype)
    sides = (shape,) if isinstance(shape, int) else tuple(shape)
    if min(sides, default=0) < 0:
        raise InvalidArgumentError(f"empty: shape is {shape}, but no side may be negative")
    nbytes = math.prod(sides) * element.itemsize
    if nbytes == 0:
        return numpy.empty(sides, element)
    array: numpy.ndarray[Any, Any] = numpy.frombuffer(memoryview(allocate(nbytes)), element).reshape(sides)
    return array


def zeros(shape: int | tuple[int, ...], dtype: Any = "float32") -> numpy.ndarray[Any, Any]:
    """A numpy array of zeros in shareable memory. The memory is freed when its last view is."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def allocate(nbytes: int) -> ctypes.Array[ctypes.c_char]:
    """Shareable memory as a ctypes array, for those who do without numpy.

    It is freed when its last view is.
    """
    address = ctypes.c_void_p()
    check(lib.pennyMemAlloc(address, size("nbytes", nbytes)))
    assert address.value is not None
    memory = (ctypes.c_char * nbytes).from_address(address.value)
    # At the end of the process nothing is freed: views may outlive this, and the memory goes with the
    # process.
    weakref.finalize(memory, lib.pennyMemFree, address.value).atexit = False
    return memory


class Registration:
    """Ordinary memory that the other ranks reach where it lies, until `deregister` or the `with` block's end.

    Made by `Communicator.register`. The memory must not be freed while it is registered, so this keeps the
    buffer.
    """

    def __init__(self, comm: Communicator, buffer: Any) -> None:
        self._comm = comm
        self._buffer = buffer if isinstance(buffer, Buffer) else Buffer(buffer)
        self._handle = ctypes.c_void_p()
        address, nbytes, _, _, _ = self._buffer.resolved
        check(lib.pennyCommRegister(comm.handle, address, nbytes, self._handle), comm.handle)

    def deregister(self) -> None:
        """Makes the buffer private memory again, with its contents. Does nothing after the first time."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        check(lib.pennyCommDeregister(self._comm.handle, handle), self._comm.handle)

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.deregister()
