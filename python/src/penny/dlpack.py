"""Tensors of other libraries by the DLPack protocol: where their elements lie, and of what type they are."""

from __future__ import annotations

import ctypes
import math
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from . import datatypes
from ._enums import DataType

# Kinds of device whose memory a processor reads and writes: the processor's own, and pinned memory of CUDA
# and ROCm.
_HOST_DEVICES = (1, 3, 11)
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, c_char_p)
_is_valid.restype = c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes = (ctypes.py_object, c_char_p)
_pointer.restype = c_void_p


class Layout(NamedTuple):
    """A tensor's memory. The capsule must be kept for as long as the memory is used."""

    address: int
    nbytes: int
    dtype: DataType | None
    writable: bool
    contiguous: bool
    capsule: object


def layout(tensor: Any) -> Layout:
    """Asks a tensor for its memory.

    The capsule is never consumed: its own destructor gives the memory back.
    """
    kind, _ = tensor.__dlpack_device__()
    if int(kind) not in _HOST_DEVICES:
        raise BufferError(f"it lies on a device of DLPack's kind {int(kind)}, not in this machine's memory")
    try:
        capsule = tensor.__dlpack__(max_version=(1, 1))
    except TypeError:
        capsule = tensor.__dlpack__()
    flags = 0
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        flags, found = versioned.flags, versioned.tensor
    else:
        found = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    shape = found.shape[: found.ndim]
    strides = found.strides[: found.ndim] if found.strides else None
    return Layout(
        (found.data or 0) + found.byte_offset,
        math.prod(shape) * found.bits * found.lanes // 8,
        datatypes.of_dlpack(found.code, found.bits) if found.lanes == 1 else None,
        not flags & _READ_ONLY,
        strides is None or is_contiguous(shape, strides),
        capsule,
    )


def is_contiguous(shape: list[int], strides: list[int], step: int = 1) -> bool:
    """Do elements follow one another, the last side fastest? `step` is what strides count an element as."""
    if 0 in shape:
        return True
    for side, stride in zip(reversed(shape), reversed(strides), strict=True):
        if side != 1 and stride != step:
            return False
        step *= side
    return True
