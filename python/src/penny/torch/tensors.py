"""Tensors as the C interface sees them: types, addresses, and copies where a tensor does not lie in one piece."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .._enums import DataType

# Types whose elements Penny can reduce as they are, with its number. Truth values have operations of their own.
REDUCED: dict[torch.dtype, int] = {
    torch.int8: int(DataType.INT8),
    torch.uint8: int(DataType.UINT8),
    torch.int16: int(DataType.INT16),
    torch.uint16: int(DataType.UINT16),
    torch.int32: int(DataType.INT32),
    torch.uint32: int(DataType.UINT32),
    torch.int64: int(DataType.INT64),
    torch.uint64: int(DataType.UINT64),
    torch.float16: int(DataType.FLOAT16),
    torch.bfloat16: int(DataType.BFLOAT16),
    torch.float32: int(DataType.FLOAT32),
    torch.float64: int(DataType.FLOAT64),
    torch.float8_e4m3fn: int(DataType.FLOAT8E4M3),
    torch.float8_e5m2: int(DataType.FLOAT8E5M2),
}
# Types that are reduced, with Penny's number and how many of Penny's elements make one of torch's.
_REDUCED_AS: dict[torch.dtype, tuple[int, int]] = {
    **{dtype: (number, 1) for dtype, number in REDUCED.items()},
    torch.bool: (int(DataType.BOOL), 1),
    torch.complex32: (int(DataType.FLOAT16), 2),
    torch.complex64: (int(DataType.FLOAT32), 2),
    torch.complex128: (int(DataType.FLOAT64), 2),
}
_BYTE = int(DataType.UINT8)

# What is done after a call: the copy out of a buffer into the tensor that could not be written directly.
Finish = Callable[[], None]


def reduced_as(operation: str, tensor: Tensor) -> tuple[int, int]:
    """Penny's type of a tensor's elements and how many there are, for a reduction."""
    found = _REDUCED_AS.get(tensor.dtype)
    if found is None:
        raise TypeError(
            f"{operation}: Penny does not reduce elements of {tensor.dtype}; convert the tensor first"
        )
    return found[0], tensor.numel() * found[1]


def moved_as(tensor: Tensor) -> tuple[int, int]:
    """Penny's type of a tensor's elements and how many there are, for a call that only moves them: bytes if need be."""
    found = _REDUCED_AS.get(tensor.dtype)
    if found is None:
        return _BYTE, tensor.numel() * tensor.element_size()
    return found[0], tensor.numel() * found[1]


def sizes(counts: Sequence[int]) -> ctypes.Array[ctypes.c_size_t]:
    """Numbers of elements as the C interface takes them."""
    return (ctypes.c_size_t * len(counts))(*counts)


def is_plain(tensor: Tensor) -> bool:
    """Do the tensor's elements lie one behind another in the memory of this process, just as they are read?"""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def source(tensor: Tensor) -> Tensor:
    """A tensor with the same elements that can be read in one piece; the very same where it can."""
    return tensor if is_plain(tensor) else _copied(tensor)


def target(tensor: Tensor) -> tuple[Tensor, Finish | None]:
    """A tensor that can be read and written in one piece, and what brings its elements back afterwards."""
    if is_plain(tensor):
        return tensor, None
    buffer = _copied(tensor)
    return buffer, lambda: _put_back(tensor, buffer)


def joined(tensors: Sequence[Tensor], fill: bool) -> tuple[Tensor, bool]:
    """One flat tensor of tensors of one type behind one another, and whether it is their own memory rather than a copy.

    fill: the copy begins with the elements of the tensors."""
    first = tensors[0]
    if all(map(is_plain, tensors)) and _are_neighbours(tensors):
        total = sum(each.numel() for each in tensors)
        return (first.as_strided((total,), (1,)) if total else first.view(-1)), True
    if fill:
        return torch.cat([each.reshape(-1) for each in tensors]).resolve_conj().resolve_neg(), False
    return torch.empty(sum(each.numel() for each in tensors), dtype=first.dtype), False


def split_back(tensors: Sequence[Tensor], whole: Tensor) -> None:
    """Copies the pieces of a flat tensor into the tensors that it stands for."""
    for tensor, piece in zip(
        tensors, torch.split_with_sizes(whole, [each.numel() for each in tensors]), strict=True
    ):
        _put_back(tensor, piece.view(tensor.shape))


def _copied(tensor: Tensor) -> Tensor:
    buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
    return buffer.copy_(tensor.detach())


def _put_back(tensor: Tensor, buffer: Tensor) -> None:
    with torch.no_grad():
        tensor.copy_(buffer)


def _are_neighbours(tensors: Sequence[Tensor]) -> bool:
    storage = tensors[0].untyped_storage().data_ptr()
    expected = tensors[0].data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != expected or tensor.untyped_storage().data_ptr() != storage:
            return False
        expected += tensor.numel() * tensor.element_size()
    return True
