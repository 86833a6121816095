"""Checks of the arguments of a collective, made before any other rank is involved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .tensors import moved_as


class Arguments:
    """The checks of one rank of a process group. The sentences name the operation, the rank and the argument."""

    def __init__(self, rank: int, size: int, group: str) -> None:
        self._rank = rank
        self._size = size
        self._group = group

    def refuse(self, operation: str, name: str, tensors: Sequence[Tensor]) -> None:
        """Raises if the memory of one of the tensors is out of Penny's reach."""
        for tensor in tensors:
            if not (
                isinstance(tensor, Tensor)
                and tensor.is_cpu
                and tensor.layout is torch.strided
                and not tensor.is_quantized
            ):
                self._say_what_is_wrong(f"{operation} on rank {self._rank}: {name}", name, tensor)

    def refuse_result(self, operation: str, name: str, tensors: Sequence[Tensor]) -> None:
        """refuse for tensors that get a result. Each of its elements needs memory of its own."""
        self.refuse(operation, name, tensors)
        for tensor in tensors:
            if not tensor.is_contiguous() and _repeats_elements(tensor):
                raise ValueError(
                    f"{operation} on rank {self._rank}: {name} has {tensor.numel()} elements that share memory, as "
                    f"expand() makes them, and cannot hold as many results; pass a clone() of it"
                )

    def _say_what_is_wrong(self, where: str, name: str, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{where} is of the type {type(tensor).__name__}; pass a tensor")
        if tensor.layout is not torch.strided:
            raise TypeError(
                f"{where} has the layout {tensor.layout}; pass a dense tensor, such as {name}.to_dense()"
            )
        if not tensor.is_cpu:
            raise ValueError(
                f"{where} is on {tensor.device}, but the backend penny serves the memory of the CPU; pass "
                f"{name}.cpu(), or make the group with a backend for each device, such as 'cpu:penny,cuda:nccl'"
            )
        raise TypeError(f"{where} is quantized; pass {name}.int_repr()")

    def root(self, operation: str, opts: Any) -> int:
        """The root of an operation."""
        return self.peer(operation, "the root", opts.rootRank)

    def peer(self, operation: str, name: str, peer: int) -> int:
        """A rank of the group."""
        if 0 <= peer < self._size:
            return peer
        raise ValueError(
            f"{operation} on rank {self._rank}: {name} is {peer}, but {self._group} has the ranks 0 to {self._size - 1}"
        )

    def list_of(self, operation: str, name: str, lists: list[list[Tensor]]) -> list[Tensor]:
        """The one list that the root of a gather or a scatter passes."""
        if len(lists) != 1:
            raise ValueError(f"{operation} on rank {self._rank}: {name} is missing; the root has to pass it")
        self.refuse(operation, name, lists[0])
        return lists[0]

    def check_length(self, operation: str, name: str, tensors: Sequence[Tensor]) -> None:
        """A list has a tensor for each rank."""
        if len(tensors) != self._size:
            raise ValueError(
                f"{operation} on rank {self._rank}: {name} has {len(tensors)} tensors, but there are {self._size} ranks"
            )

    def check_list(
        self, operation: str, name: str, tensors: Sequence[Tensor], mine: Tensor, equal: bool = False
    ) -> None:
        """A list has a tensor for each rank, of one type, and this rank's is as large as its own tensor; or all are."""
        self.check_length(operation, name, tensors)
        for place, tensor in enumerate(tensors):
            where = f"{operation} on rank {self._rank}: {name}[{place}]"
            if tensor.dtype is not mine.dtype:
                raise TypeError(f"{where} is of {tensor.dtype}, but the rank's own tensor is of {mine.dtype}")
            if (equal or place == self._rank) and tensor.numel() != mine.numel():
                raise ValueError(
                    f"{where} has {tensor.numel()} elements, but the rank's own tensor has {mine.numel()}"
                )

    def check_types(self, operation: str, name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
        """Two tensors are of one type."""
        if tensor.dtype is not other.dtype:
            raise TypeError(
                f"{operation} on rank {self._rank}: {name} is of {tensor.dtype}, but {other_name} is of {other.dtype}"
            )

    def check_sizes(self, operation: str, large: str, whole: Tensor, small: str, part: Tensor) -> None:
        """One tensor has as many elements as the others of all ranks together."""
        self.check_types(operation, large, whole, small, part)
        if whole.numel() != part.numel() * self._size:
            raise ValueError(
                f"{operation} on rank {self._rank}: {large} has {whole.numel()} elements, but {small} has "
                f"{part.numel()} and there are {self._size} ranks, so {large} must have {part.numel() * self._size}"
            )

    def check_equal(self, operation: str, name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
        """Two tensors have the same type and as many elements."""
        self.check_types(operation, name, tensor, other_name, other)
        if tensor.numel() != other.numel():
            raise ValueError(
                f"{operation} on rank {self._rank}: {name} has {tensor.numel()} elements, but {other_name} has "
                f"{other.numel()}"
            )

    def check_divisible(self, operation: str, name: str, tensor: Tensor) -> None:
        """The ranks can share the rows of a tensor equally."""
        if _rows(tensor) % self._size:
            raise ValueError(
                f"{operation} on rank {self._rank}: {name} has {_rows(tensor)} rows, which {self._size} ranks cannot "
                "share equally; pass the split sizes"
            )

    def parts(self, operation: str, name: str, tensor: Tensor, splits: Sequence[int]) -> list[int]:
        """The number of Penny's elements in each rank's rows of a tensor."""
        rows = _rows(tensor)
        if not splits:
            self.check_divisible(operation, name, tensor)
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows or min(splits) < 0:
            raise ValueError(
                f"{operation} on rank {self._rank}: the split sizes of {name} are {list(splits)}, but they must be "
                f"{self._size}, one for each rank, and add up to its {rows} rows"
            )
        _, count = moved_as(tensor)
        return [length * count // rows if rows else 0 for length in splits]


def _rows(tensor: Tensor) -> int:
    return tensor.shape[0] if tensor.dim() else 1


def _repeats_elements(tensor: Tensor) -> bool:
    return any(step == 0 and length > 1 for length, step in zip(tensor.shape, tensor.stride(), strict=True))
