"""Finds the memory of an argument's elements: buffer protocol, numpy arrays, torch tensors, DLPack tensors.

What is looked up for a type of object once is remembered, so that a call costs little more than reading the
address.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import (
    POINTER,
    Structure,
    addressof,
    byref,
    c_char,
    c_char_p,
    c_int,
    c_ssize_t,
    c_void_p,
    py_object,
    pythonapi,
)
from typing import Any

from . import datatypes, dlpack
from ._enums import DataType
from ._errors import InvalidArgumentError

# Address, bytes, element type (None: Penny has none such), may it be written, and what keeps the memory in
# place.
Resolved = tuple[int, int, "DataType | None", bool, object]
Resolver = Callable[[Any], Resolved]

# How to look at objects of a type, by the type.
RESOLVERS: dict[type, Resolver] = {}


class Buffer:
    """A buffer that was looked up once, for calls that are made again and again on the same memory.

    While it lives the object keeps its memory: a bytearray cannot be resized, an array is not freed.
    """

    __slots__ = ("owner", "resolved")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.resolved = resolve(owner)

    def __repr__(self) -> str:
        _, nbytes, dtype, _, _ = self.resolved
        return f"penny.Buffer({nbytes} bytes of {dtype.name.lower() if dtype is not None else 'no type'})"


def resolve(owner: Any) -> Resolved:
    """Returns the memory of the elements. The error says why there is none that can be used."""
    return (RESOLVERS.get(type(owner)) or _resolver_for(owner))(owner)


def _resolver_for(owner: Any) -> Resolver:
    """Returns the reader for objects of this type, and remembers it."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    resolver: Resolver
    if numpy is not None and isinstance(owner, numpy.ndarray):
        resolver = _of_numpy
    elif torch is not None and isinstance(owner, torch.Tensor):
        resolver = _of_torch
    elif _has_buffer_protocol(owner):
        resolver = _of_memory
    elif hasattr(owner, "__dlpack__"):
        resolver = _of_dlpack
    elif hasattr(owner, "__array_interface__"):
        resolver = _of_array_interface
    else:
        raise TypeError(
            f"{type(owner).__name__} is no buffer: pass a bytearray, array.array, memoryview, ctypes array, "
            "numpy array, torch tensor, or what has __dlpack__ or __array_interface__"
        )
    RESOLVERS[type(owner)] = resolver
    return resolver


RESOLVERS[Buffer] = lambda buffer: buffer.resolved


def _has_buffer_protocol(owner: Any) -> bool:
    try:
        memoryview(owner).release()
    except TypeError:
        return False
    except (BufferError, ValueError):
        pass
    return True


def _not_contiguous(owner: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the elements of this {type(owner).__name__} do not follow one another in memory: "
        "pass a contiguous copy (numpy.ascontiguousarray, Tensor.contiguous())"
    )


_NUMPY_DTYPES: dict[Any, DataType | None] = {}
_TORCH_DTYPES: dict[Any, DataType | None] = {}
_of_writable = c_char.from_buffer


def _of_numpy(array: Any) -> Resolved:
    dtype = array.dtype
    try:
        element = _NUMPY_DTYPES[dtype]
    except KeyError:
        element = _NUMPY_DTYPES[dtype] = datatypes.known(dtype)
    try:
        anchor = _of_writable(array)
    except (TypeError, ValueError):
        return _of_other_numpy(array, element)
    return addressof(anchor), array.nbytes, element, True, anchor


def _of_other_numpy(array: Any, element: DataType | None) -> Resolved:
    """Arrays that are read-only, empty, or of a type without a letter in the buffer protocol."""
    if not array.flags.c_contiguous:
        raise _not_contiguous(array)
    address, read_only = array.__array_interface__["data"]
    return address, array.nbytes, element, not read_only, array


def _of_torch(tensor: Any) -> Resolved:
    if not tensor.is_cpu:
        raise InvalidArgumentError(
            f"this tensor lies on {tensor.device}, and Penny moves tensors of the CPU: pass tensor.cpu()"
        )
    if not tensor.is_contiguous():
        raise _not_contiguous(tensor)
    dtype = tensor.dtype
    try:
        element = _TORCH_DTYPES[dtype]
    except KeyError:
        element = _TORCH_DTYPES[dtype] = datatypes.known(dtype)
    return tensor.data_ptr(), tensor.nbytes, element, True, tensor


def _of_dlpack(tensor: Any) -> Resolved:
    try:
        found = dlpack.layout(tensor)
    except BufferError as error:
        raise InvalidArgumentError(f"this {type(tensor).__name__} cannot be passed: {error}") from error
    if not found.contiguous:
        raise _not_contiguous(tensor)
    return found.address, found.nbytes, found.dtype, found.writable, (tensor, found.capsule)


def _of_array_interface(array: Any) -> Resolved:
    found = array.__array_interface__
    if found.get("data") is None:
        raise InvalidArgumentError(f"the __array_interface__ of this {type(array).__name__} tells no address")
    address, read_only = found["data"]
    kind, itemsize = found["typestr"][:2], int(found["typestr"][2:])
    nbytes = itemsize
    for side in found["shape"]:
        nbytes *= side
    strides = found.get("strides")
    if strides is not None and not dlpack.is_contiguous(list(found["shape"]), list(strides), itemsize):
        raise _not_contiguous(array)
    letter = {"i": "q", "u": "Q", "f": "d", "b": "?"}.get(kind[1], "")
    return (
        address,
        nbytes,
        datatypes.of_format(kind[0].replace("|", "@") + letter, itemsize),
        not read_only,
        array,
    )


class _PyBuffer(Structure):
    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get_buffer = pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (py_object, POINTER(_PyBuffer), c_int)
_get_buffer.restype = c_int
_release_buffer = pythonapi.PyBuffer_Release
_release_buffer.argtypes = (POINTER(_PyBuffer),)
_release_buffer.restype = None


def _of_memory(owner: Any) -> Resolved:
    view = memoryview(owner)
    if not view.c_contiguous:
        raise _not_contiguous(owner)
    element = datatypes.of_format(view.format, view.itemsize)
    if view.nbytes and not view.readonly:
        anchor = _of_writable(view)
        return addressof(anchor), view.nbytes, element, True, anchor
    # The view keeps the memory in place, so the address stays good after the buffer has been released.
    raw = _PyBuffer()
    _get_buffer(view, byref(raw), 0)
    address = raw.buf or 0
    _release_buffer(byref(raw))
    return address, view.nbytes, element, not view.readonly, view
