"""A context in which torch makes its tensors in memory that the other ranks can reach.

with penny.torch.heap():                 whatever torch makes meanwhile in memory of the CPU, from 4 KiB on
    model = DDP(model)                   here: the buckets that gradients are reduced in
    train(model)                         here: products of matrices, copies, what collectives write to
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

import torch
from torch import Tensor

from .allocation import bytes_of, contiguous, storage

SMALLEST = 4096
"""Bytes from which on a tensor lies in shareable memory: below, collectives copy so little that it does not matter."""


@contextmanager
def heap(smallest: int = SMALLEST) -> Iterator[None]:
    """While it lasts, what torch makes in memory of the CPU lies in shareable memory, from `smallest` bytes on.

    That holds for this thread and for what torch does on its behalf: factory functions, module.to_empty, the buckets of
    DistributedDataParallel, products of matrices, copies. Memory that is not used any more is used again, and given back at
    the end. It is not given back by resizing a storage to 0, as FSDP does with the parameters that it has gathered: let
    FSDP ask the process group for its buffers (set_allocate_memory_from_process_group_for_comm) where memory is short."""
    with _HeapMode(smallest):
        yield


_aten = torch.ops.aten
_GIVEN = object()
# Functions that make a tensor, with what they fill it with: nothing, a number, or the last of their arguments.
_OF_A_SIZE: dict[Any, Any] = {
    _aten.empty.memory_format: None,
    _aten.zeros.default: 0,
    _aten.ones.default: 1,
    _aten.full.default: _GIVEN,
}
_LIKE_ANOTHER: dict[Any, Any] = {
    _aten.empty_like.default: None,
    _aten.zeros_like.default: 0,
    _aten.ones_like.default: 1,
    _aten.full_like.default: _GIVEN,
}
_OF_A_SIZE_AND_ANOTHERS_TYPE: dict[Any, Any] = {
    _aten.new_empty.default: None,
    _aten.new_zeros.default: 0,
    _aten.new_ones.default: 1,
    _aten.new_full.default: _GIVEN,
}
# Functions whose result is made anew, and which can write it where they are told.
_INTO = {
    _aten.mm.default: _aten.mm.out,
    _aten.bmm.default: _aten.bmm.out,
    _aten.addmm.default: _aten.addmm.out,
}


class _Pool:
    """Storages of one heap, which are used again once nothing else refers to them: making shareable memory is slow.

    A program that trains makes the same sizes in each step, so a storage is used again for the very size it has."""

    def __init__(self) -> None:
        self._by_size: dict[int, deque[torch.UntypedStorage]] = {}

    def take(self, nbytes: int) -> torch.UntypedStorage | None:
        """Returns a storage of `nbytes` bytes, used or new; None if there is no more memory."""
        storages = self._by_size.setdefault(nbytes, deque())
        for _ in range(min(len(storages), _LOOKS)):
            storages.rotate(-1)
            if _is_unused(storages[-1]):
                return storages[-1]
        made = storage(nbytes)
        if made is None and self._give_back():
            made = storage(nbytes)
        if made is not None:
            self._by_size.setdefault(nbytes, deque()).append(made)
        return made

    def _give_back(self) -> int:
        """Releases the storages that are not used, and returns their number."""
        before = sum(map(len, self._by_size.values()))
        for storages in self._by_size.values():
            for _ in range(len(storages)):
                storages.rotate(-1)
                if _is_unused(storages[-1]):
                    storages.pop()
        return before - sum(map(len, self._by_size.values()))


# How many storages of a size are looked at before a new one is made: those that have rested longest come first.
_LOOKS = 8


def _is_unused(memory: torch.UntypedStorage) -> bool:
    """Tells whether only the pool refers to the storage: no tensor does, and no Python object of the program."""
    # Three hold the object: the pool, this function, and the function that counts.
    return torch._C._storage_Use_Count(memory._cdata) == 1 and sys.getrefcount(memory) <= 3


class _HeapMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers what makes tensors with tensors in shareable memory, and hands everything on that it cannot."""

    def __init__(self, smallest: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._smallest = smallest
        self._pool = _Pool()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = None
        if function in _OF_A_SIZE:
            made = self._of_a_size(function, args, kwargs)
        elif function in _LIKE_ANOTHER:
            made = self._like(function, args, kwargs)
        elif function in _OF_A_SIZE_AND_ANOTHERS_TYPE:
            made = self._new(function, args, kwargs)
        elif function is _aten.empty_strided.default:
            if _is_for_the_cpu(kwargs):
                made = self._make(args[0], args[1], kwargs.get("dtype"))
        elif function is _aten.new_empty_strided.default:
            if _is_for_the_cpu(_of_device(args[0], kwargs)):
                made = self._make(args[1], args[2], kwargs.get("dtype") or args[0].dtype)
        elif function is _aten.clone.default or function is _aten._to_copy.default:
            made = self._copy(args, kwargs)
        elif function in _INTO:
            made = self._product(function, args, kwargs)
        if made is not None:
            return made
        result = function(*args, **kwargs)
        return self._moved(result) if not types and _is_factory(args, result) else result

    def _make(self, size: Any, stride: Any, dtype: torch.dtype | None) -> Tensor | None:
        dtype = dtype or torch.get_default_dtype()
        nbytes = bytes_of(size, stride, dtype)
        memory = self._pool.take(nbytes) if nbytes >= self._smallest else None
        return None if memory is None else torch.empty(0, dtype=dtype).set_(memory, 0, size, stride)

    def _moved(self, tensor: Tensor) -> Tensor:
        """Copies the tensor that another factory function has made (random numbers, ranges) to shareable memory."""
        made = self._make(tensor.shape, tensor.stride(), tensor.dtype)
        return tensor if made is None else made.copy_(tensor)

    def _of_a_size(self, function: Any, args: Any, kwargs: Any) -> Tensor | None:
        size, dtype = args[0], kwargs.get("dtype")
        if not _is_for_the_cpu(kwargs) or kwargs.get("memory_format") not in _ROW_MAJOR:
            return None
        if function is _aten.full.default:
            dtype = dtype or torch.full((), args[1]).dtype
        return _filled(self._make(size, contiguous(size), dtype), _OF_A_SIZE[function], args)

    def _like(self, function: Any, args: Any, kwargs: Any) -> Tensor | None:
        like = args[0]
        if not (_is_ordinary(like) and _is_for_the_cpu(_of_device(like, kwargs))):
            return None
        stride = _stride_like(like, kwargs.get("memory_format"))
        made = self._make(like.shape, stride, kwargs.get("dtype") or like.dtype)
        return _filled(made, _LIKE_ANOTHER[function], args)

    def _new(self, function: Any, args: Any, kwargs: Any) -> Tensor | None:
        like, size = args[:2]
        if not (_is_ordinary(like) and _is_for_the_cpu(_of_device(like, kwargs))):
            return None
        made = self._make(size, contiguous(size), kwargs.get("dtype") or like.dtype)
        return _filled(made, _OF_A_SIZE_AND_ANOTHERS_TYPE[function], args)

    def _copy(self, args: Any, kwargs: Any) -> Tensor | None:
        like = args[0]
        if not (_is_ordinary(like) and _is_for_the_cpu(_of_device(like, kwargs))):
            return None
        stride = _stride_like(like, kwargs.get("memory_format"))
        made = self._make(like.shape, stride, kwargs.get("dtype") or like.dtype)
        return None if made is None else made.copy_(like)

    def _product(self, function: Any, args: Any, kwargs: Any) -> Tensor | None:
        left, right = args[-2:]
        if kwargs or not (_is_ordinary(left) and _is_ordinary(right)) or left.dtype is not right.dtype:
            return None
        size = (*left.shape[:-1], right.shape[-1])
        made = self._make(size, contiguous(size), left.dtype)
        return None if made is None else _INTO[function](*args, out=made)


_ROW_MAJOR = (None, torch.contiguous_format)


def _filled(made: Tensor | None, value: Any, args: Any) -> Tensor | None:
    if made is None or value is None:
        return made
    return made.fill_(args[-1] if value is _GIVEN else value)


def _of_device(like: Tensor, kwargs: Any) -> dict[str, Any]:
    """The arguments, with the device that they mean: where they name none, that of the other tensor."""
    return {**kwargs, "device": kwargs.get("device") or like.device}


def _is_for_the_cpu(kwargs: Any) -> bool:
    device = kwargs.get("device")
    return (
        (device is None or torch.device(device).type == "cpu")
        and kwargs.get("layout") in (None, torch.strided)
        and not kwargs.get("pin_memory")
        and not kwargs.get("names")
    )


def _is_factory(args: Any, result: Any) -> bool:
    """Has something been made out of no tensor, in memory of the CPU?"""
    if type(result) is not Tensor or not result.is_cpu or not _is_ordinary(result):
        return False
    return not any(isinstance(each, Tensor | list | tuple) and _has_tensor(each) for each in args)


def _has_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or any(isinstance(each, Tensor) for each in value)


def _is_ordinary(tensor: Tensor) -> bool:
    return (
        type(tensor) in (Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_quantized
    )


def _stride_like(tensor: Tensor, memory_format: torch.memory_format | None) -> tuple[int, ...]:
    """The memory layout of a tensor that is made like another one."""
    if memory_format is torch.contiguous_format or tensor.is_contiguous():
        return contiguous(tensor.shape)
    # Where it matters which of several layouts torch chooses, torch itself is asked, on a device without memory.
    return torch.empty_like(
        tensor, device="meta", memory_format=memory_format or torch.preserve_format
    ).stride()
