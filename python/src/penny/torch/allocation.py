"""Tensors in memory that the other ranks can reach, so that collectives on them copy nothing on the way."""

from __future__ import annotations

import ctypes
import warnings
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any

import torch
from torch import Tensor

from .._library import last_error, lib


class _DLManagedTensor(ctypes.Structure):
    """DLPack's description of a tensor: one dimension of bytes, and the function that frees it."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("type_code", c_uint8),
        ("type_bits", c_uint8),
        ("type_lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
        ("manager_context", c_void_p),
        ("deleter", c_void_p),
        ("extent", c_int64),
    ]


_CPU, _UNSIGNED = 1, 1
# What stands before the elements in the same allocation; 128 keeps these aligned to 64.
_HEAD = 128
assert ctypes.sizeof(_DLManagedTensor) <= _HEAD

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (c_void_p, ctypes.c_char_p, c_void_p)
# Torch calls it with the address of the description, which is where the allocation begins: so pennyMemFree itself will
# do, and no Python runs where a storage dies, be it in another thread or after the interpreter.
_free = ctypes.cast(lib.pennyMemFree, c_void_p).value

_warned = False


class SharedStorage(torch.UntypedStorage):
    """A storage in shareable memory, which keeps its size."""

    def clone(self) -> torch.UntypedStorage:
        """A copy in ordinary memory, as deepcopy wants one."""
        return torch.UntypedStorage(self.nbytes()).copy_(self)  # type: ignore[no-untyped-call]

    def resize_(self, nbytes: int) -> SharedStorage:
        """Does nothing if there is room, so that who frees a storage and allocates it again, as FSDP does, keeps it."""
        if nbytes > self.nbytes():
            raise RuntimeError(
                f"penny: a storage in shareable memory has {self.nbytes()} bytes and cannot grow to {nbytes}; "
                "allocate a larger tensor, or make this one outside of penny.torch.heap()"
            )
        return self


def storage(nbytes: int) -> torch.UntypedStorage | None:
    """A storage in shareable memory, which is given back when the storage dies; None where there is no more."""
    block = c_void_p()
    if lib.pennyMemAlloc(ctypes.byref(block), _HEAD + nbytes):
        _warn(nbytes)
        return None
    assert block.value is not None
    head = _DLManagedTensor.from_address(block.value)
    head.data = block.value + _HEAD
    head.device_type, head.device_id = _CPU, 0
    head.ndim, head.type_code, head.type_bits, head.type_lanes = 1, _UNSIGNED, 8, 1
    head.extent = nbytes
    head.shape = block.value + _DLManagedTensor.extent.offset
    head.strides, head.byte_offset, head.manager_context = None, 0, None
    head.deleter = _free
    flat = torch.utils.dlpack.from_dlpack(_new_capsule(block, b"dltensor", None))
    memory = flat.untyped_storage()
    # The Python object lives as long as the storage, so a program that asks a tensor for its storage finds this class.
    memory.__class__ = SharedStorage
    return memory


def bytes_of(size: Any, stride: Any, dtype: torch.dtype) -> int:
    """Bytes from the first to the last element of a tensor."""
    extent = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    return 0 if 0 in size else extent * dtype.itemsize


def contiguous(size: Any) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for length in reversed(size):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _shape(size: tuple[Any, ...]) -> torch.Size:
    return torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)


def empty(*size: Any, dtype: torch.dtype | None = None, requires_grad: bool = False) -> Tensor:
    """torch.empty in shareable memory; in ordinary memory, with a warning, where there is no more."""
    shape = _shape(size)
    dtype = dtype or torch.get_default_dtype()
    stride = contiguous(shape)
    memory = storage(bytes_of(shape, stride, dtype))
    if memory is None:
        return torch.empty(shape, dtype=dtype, requires_grad=requires_grad)
    return torch.empty(0, dtype=dtype).set_(memory, 0, shape, stride).requires_grad_(requires_grad)


def zeros(*size: Any, dtype: torch.dtype | None = None, requires_grad: bool = False) -> Tensor:
    """torch.zeros in shareable memory."""
    return empty(*size, dtype=dtype).zero_().requires_grad_(requires_grad)


def ones(*size: Any, dtype: torch.dtype | None = None, requires_grad: bool = False) -> Tensor:
    """torch.ones in shareable memory."""
    return empty(*size, dtype=dtype).fill_(1).requires_grad_(requires_grad)


def full(
    size: Any, fill_value: Any, *, dtype: torch.dtype | None = None, requires_grad: bool = False
) -> Tensor:
    """torch.full in shareable memory."""
    if dtype is None:
        dtype = torch.full((), fill_value).dtype
    return empty(size, dtype=dtype).fill_(fill_value).requires_grad_(requires_grad)


def empty_like(tensor: Tensor, *, dtype: torch.dtype | None = None, requires_grad: bool = False) -> Tensor:
    """torch.empty_like in shareable memory, contiguous."""
    return empty(tensor.shape, dtype=dtype or tensor.dtype, requires_grad=requires_grad)


def clone(tensor: Tensor) -> Tensor:
    """tensor.clone() in shareable memory, contiguous and without its history."""
    return empty_like(tensor).copy_(tensor.detach())


def _warn(nbytes: int) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"penny: no shareable memory for a tensor of {nbytes} bytes, so this one and others may be ordinary tensors, "
            f"on which collectives copy more: {last_error()}",
            stacklevel=3,
        )
