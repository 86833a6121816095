"""The collectives of torch.distributed as one kind of thing: run on a group, computed from all inputs, known to gloo or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.distributed as dist

import torch
from samples import COMPLEX, GLOO_DTYPES, INTEGERS, wide

Tensors = list[torch.Tensor]


@dataclass(frozen=True)
class Operation:
    """A collective of which each rank's input is one tensor whose rows divide by the number of ranks."""

    name: str
    run: Callable[[dist.ProcessGroup, torch.Tensor], Tensors]
    """Makes the call on a group with this rank's input, which it may overwrite, and returns what this rank has then."""
    computed: Callable[[Tensors, int], Tensors]
    """What a rank has to have, from the inputs of all."""
    in_gloo: Callable[[torch.dtype], bool] = GLOO_DTYPES.__contains__


def never(dtype: torch.dtype) -> bool:
    return False


def rank_of(group: dist.ProcessGroup) -> int:
    return dist.get_rank(group)


def blocks(tensor: torch.Tensor, group: dist.ProcessGroup) -> Tensors:
    return list(tensor.chunk(dist.get_world_size(group)))


def empties(tensor: torch.Tensor, group: dist.ProcessGroup) -> Tensors:
    return [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]


# Movement


def broadcast(root: int) -> Operation:
    def run(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
        dist.broadcast(mine, group=group, group_src=root)
        return [mine]

    return Operation(f"broadcast from {root}", run, lambda inputs, rank: [inputs[root]])


def all_gather(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    parts = empties(mine, group)
    dist.all_gather(parts, mine, group=group)
    return parts


def all_gather_into_tensor(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    whole = torch.empty(dist.get_world_size(group) * mine.shape[0], *mine.shape[1:], dtype=mine.dtype)
    dist.all_gather_into_tensor(whole, mine, group=group)
    return [whole]


def all_gather_into_stacked_tensor(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    whole = torch.empty(dist.get_world_size(group), *mine.shape, dtype=mine.dtype)
    dist.all_gather_into_tensor(whole, mine, group=group)
    return list(whole)


def all_gather_in_place(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    whole = torch.zeros(dist.get_world_size(group) * mine.shape[0], *mine.shape[1:], dtype=mine.dtype)
    my_part = blocks(whole, group)[rank_of(group)]
    my_part.copy_(mine)
    dist.all_gather_into_tensor(whole, my_part, group=group)
    return [whole]


def all_gather_coalesced(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    outputs = [[torch.empty_like(mine), torch.empty_like(mine)] for _ in range(dist.get_world_size(group))]
    dist.all_gather_coalesced(outputs, [mine, mine.flip(0)], group=group)
    return [tensor for of_rank in outputs for tensor in of_rank]


def gather(root: int) -> Operation:
    def run(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
        parts = empties(mine, group) if rank_of(group) == root else None
        dist.gather(mine, parts, group=group, group_dst=root)
        return parts or []

    def computed(inputs: Tensors, rank: int) -> Tensors:
        return inputs if rank == root else []

    return Operation(f"gather at {root}", run, computed, lambda dtype: dtype in GLOO_DTYPES - set(COMPLEX))


def scatter(root: int) -> Operation:
    def run(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
        parts = blocks(mine, group)
        received = torch.empty_like(parts[0])
        dist.scatter(received, parts if rank_of(group) == root else None, group=group, group_src=root)
        return [received]

    def computed(inputs: Tensors, rank: int) -> Tensors:
        return [inputs[root].chunk(len(inputs))[rank]]

    return Operation(f"scatter from {root}", run, computed, lambda dtype: dtype in GLOO_DTYPES - set(COMPLEX))


def all_to_all(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    parts = blocks(mine, group)
    received = [torch.empty_like(part) for part in parts]
    dist.all_to_all(received, parts, group=group)
    return [torch.cat(received)]


def all_to_all_single(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    received = torch.empty_like(mine)
    dist.all_to_all_single(received, mine, group=group)
    return [received]


def exchanged(inputs: Tensors, rank: int) -> Tensors:
    return [torch.cat([whole.chunk(len(inputs))[rank] for whole in inputs])]


MOVEMENTS = (
    broadcast(0),
    broadcast(1),
    Operation("all_gather", all_gather, lambda inputs, rank: inputs),
    Operation("all_gather_into_tensor", all_gather_into_tensor, lambda inputs, rank: [torch.cat(inputs)]),
    Operation(
        "all_gather_into_tensor, stacked", all_gather_into_stacked_tensor, lambda inputs, rank: inputs, never
    ),
    Operation(
        "all_gather_into_tensor, in place", all_gather_in_place, lambda inputs, rank: [torch.cat(inputs)]
    ),
    Operation(
        "all_gather_coalesced",
        all_gather_coalesced,
        lambda inputs, _: [t for i in inputs for t in (i, i.flip(0))],
    ),
    gather(0),
    gather(1),
    scatter(0),
    scatter(1),
    Operation("all_to_all", all_to_all, exchanged),
    Operation("all_to_all_single", all_to_all_single, exchanged),
)

# Reductions


def folded(inputs: Tensors, op: dist.ReduceOp.RedOpType) -> torch.Tensor:
    """The reduction of all inputs, computed in a wide type and rounded once. Truth values add up as `or`."""
    stack = torch.stack([wide(tensor) for tensor in inputs])
    dtype = inputs[0].dtype
    if dtype == torch.bool:
        every = op in (dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.BAND)
        return stack.all(0) if every else stack.any(0) if op != dist.ReduceOp.BXOR else stack.sum(0) % 2 == 1
    result = stack[0]
    for other in stack[1:]:
        result = PAIRWISE[op](result, other)
    if op == dist.ReduceOp.AVG:
        rounding = "trunc" if dtype in INTEGERS else None
        result = torch.div(result, len(inputs), rounding_mode=rounding)
    return result.to(dtype)


PAIRWISE: dict[dist.ReduceOp.RedOpType, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.AVG: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def all_reduce(op: dist.ReduceOp.RedOpType) -> Operation:
    def run(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
        dist.all_reduce(mine, op, group=group)
        return [mine]

    def in_gloo(dtype: torch.dtype) -> bool:
        return dtype in GLOO_DTYPES and not (op == dist.ReduceOp.AVG and dtype in (torch.bool, *INTEGERS))

    return Operation(f"all_reduce, {op.name}", run, lambda inputs, rank: [folded(inputs, op)], in_gloo)


def all_reduce_coalesced(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    tensors = [mine, mine.flip(0), mine[0].clone()]
    dist.all_reduce_coalesced(tensors, group=group)
    return tensors


def coalesced_sums(inputs: Tensors, rank: int) -> Tensors:
    total = folded(inputs, dist.ReduceOp.SUM)
    return [total, total.flip(0), total[0]]


def reduce(root: int) -> Operation:
    def run(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
        dist.reduce(mine, group=group, group_dst=root)
        return [mine] if rank_of(group) == root else []

    def computed(inputs: Tensors, rank: int) -> Tensors:
        return [folded(inputs, dist.ReduceOp.SUM)] if rank == root else []

    return Operation(f"reduce to {root}", run, computed)


def reduce_scatter(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    parts = blocks(mine, group)
    total = torch.empty_like(parts[0])
    dist.reduce_scatter(total, parts, group=group)
    return [total]


def reduce_scatter_tensor(group: dist.ProcessGroup, mine: torch.Tensor) -> Tensors:
    total = torch.empty_like(blocks(mine, group)[0])
    dist.reduce_scatter_tensor(total, mine, group=group)
    return [total]


def my_sum(inputs: Tensors, rank: int) -> Tensors:
    return [folded(inputs, dist.ReduceOp.SUM).chunk(len(inputs))[rank]]


SUMS = (
    all_reduce(dist.ReduceOp.SUM),
    Operation("all_reduce_coalesced", all_reduce_coalesced, coalesced_sums),
    reduce(0),
    reduce(1),
    Operation("reduce_scatter", reduce_scatter, my_sum),
    Operation("reduce_scatter_tensor", reduce_scatter_tensor, my_sum),
)
