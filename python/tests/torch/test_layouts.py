"""Tensors of every form: scalars, empty, strided, large, at any place, in shareable memory; the neighbours stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch.distributed as dist

import torch
from cases import BACKEND, Cases, Job, Skip
from operations import MOVEMENTS, SUMS, Operation
from samples import assert_close, assert_same, of_rank

CASES = Cases()
MEBI = 1 << 20


def test_layout(run_case: Callable[[], None]) -> None:
    run_case()


def compare(
    operation: Operation,
    shape: tuple[int, ...],
    place: Callable[[torch.Tensor], torch.Tensor],
    surroundings: Callable[[], AbstractContextManager[object]],
    job: Job,
) -> None:
    """The call with inputs laid out by `place`, and what it makes itself made in `surroundings`, against the computed result."""
    if BACKEND == "gloo" and not operation.in_gloo(torch.float32):
        raise Skip(f"gloo has no {operation.name}")
    shape = (shape[0] * job.size, *shape[1:])
    inputs = [of_rank(rank, shape, torch.float32, operation.name) for rank in range(job.size)]
    with surroundings():
        results = operation.run(job.tested, place(inputs[job.rank]))
    expected = operation.computed(inputs, job.rank)
    assert len(results) == len(expected)
    for number, (got, wanted) in enumerate(zip(results, expected, strict=True)):
        assert_close(got, wanted, f"tensor {number}", rounding=0.0 if operation in MOVEMENTS else 4.0)


def heap() -> AbstractContextManager[object]:
    if BACKEND != "penny":
        raise Skip("only penny has shareable memory")
    import penny.torch

    return penny.torch.heap()


def in_heap(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in memory that other ranks can see."""
    if BACKEND != "penny":
        raise Skip("only penny has shareable memory")
    import penny.torch

    copy = penny.torch.empty(tensor.shape, dtype=tensor.dtype)
    copy.copy_(tensor)
    return copy


def needs_strides() -> None:
    if BACKEND == "gloo":
        raise Skip("gloo takes contiguous tensors only, and does not always say so")


def every_second_column(tensor: torch.Tensor) -> torch.Tensor:
    needs_strides()
    spread = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), float("nan"))
    spread[..., ::2] = tensor
    return spread[..., ::2]


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    needs_strides()
    return tensor.t().contiguous().t()


def negated(tensor: torch.Tensor) -> torch.Tensor:
    """A view whose elements are those in memory with their signs changed: what `imag` of a conjugate is."""
    needs_strides()
    return torch.view_as_complex(torch.stack([tensor, -tensor], dim=-1)).conj().imag


def odd_offset(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, but begins one element into its storage, so that it is aligned to no cache line."""
    storage = torch.full((tensor.numel() + 2,), float("nan"))
    view = storage[1:-1].view(tensor.shape)
    view.copy_(tensor)
    return view


FORMS: dict[
    str,
    tuple[
        tuple[int, ...], Callable[[torch.Tensor], torch.Tensor], Callable[[], AbstractContextManager[object]]
    ],
] = {
    "empty": ((0, 3), torch.clone, nullcontext),
    "rows without columns": ((3, 0), torch.clone, nullcontext),
    "one element each": ((1,), torch.clone, nullcontext),
    "every second column": ((3, 5), every_second_column, nullcontext),
    "transposed": ((3, 5), transposed, nullcontext),
    "negated": ((3, 5), negated, nullcontext),
    "at an odd offset": ((33, 31), odd_offset, nullcontext),
    "2 MiB": ((MEBI // 8, 1), torch.clone, nullcontext),
    "2 MiB in shareable memory": ((MEBI // 8, 1), in_heap, heap),
    "small in shareable memory": ((3, 5), in_heap, heap),
    "made under heap()": ((2048, 3), torch.clone, heap),
    "input only in shareable memory": ((2048, 3), in_heap, nullcontext),
}

for form, (shape, place, surroundings) in FORMS.items():
    for operation in (*MOVEMENTS, *SUMS):
        if form == "empty" and operation.name == "all_reduce_coalesced":
            continue  # it takes its first row
        CASES.add(f"{operation.name}, {form}", partial(compare, operation, shape, place, surroundings))


@CASES
def scalars(job: Job) -> None:
    """Tensors without dimensions."""
    value = torch.tensor(float(job.rank))
    dist.all_reduce(value, group=job.tested)
    assert_same(value, torch.tensor(float(sum(range(job.size)))), "all_reduce")
    value = torch.tensor(float(job.rank))
    dist.broadcast(value, group=job.tested, group_src=1)
    assert_same(value, torch.tensor(1.0), "broadcast")
    parts = [torch.tensor(-1) for _ in range(job.size)]
    dist.all_gather(parts, torch.tensor(job.rank), group=job.tested)
    assert [int(part) for part in parts] == list(range(job.size))
    dist.reduce(value := torch.tensor(2), group=job.tested, group_dst=0)
    assert job.rank != 0 or int(value) == 2 * job.size
    if job.rank == 0:
        dist.send(torch.tensor(7), 1, group=job.tested)
    if job.rank == 1:
        dist.recv(received := torch.tensor(0), 0, group=job.tested)
        assert int(received) == 7


@CASES
def what_lies_beside_a_strided_result_is_not_touched(job: Job) -> None:
    needs_strides()
    whole = torch.full((6, 8), 9.0)
    view = whole[1:5, ::2]
    view.fill_(float(job.rank))
    for call, expected in (
        (lambda: dist.all_reduce(view, group=job.tested), float(sum(range(job.size)))),
        (lambda: dist.broadcast(view.fill_(job.rank), group=job.tested, group_src=1), 1.0),
    ):
        call()
        wanted = torch.full((6, 8), 9.0)
        wanted[1:5, ::2] = expected
        assert_same(whole, wanted, "the whole tensor")


@CASES
def strided_outputs(job: Job) -> None:
    """Outputs that are views with gaps: lists of rows of a transposed tensor, a column as the place of a sum."""
    needs_strides()
    mine = of_rank(job.rank, (4,), torch.float32, "strided")
    columns = torch.zeros(4, job.size)
    dist.all_gather(list(columns.unbind(1)), mine, group=job.tested)
    expected = torch.stack([of_rank(rank, (4,), torch.float32, "strided") for rank in range(job.size)], dim=1)
    assert_same(columns, expected, "all_gather into columns")
    board = torch.zeros(4, 2)
    if job.rank == 0:
        dist.send(mine, 1, group=job.tested)
    if job.rank == 1:
        dist.recv(board[:, 1], 0, group=job.tested)
        assert_same(board[:, 1], expected[:, 0], "recv into a column")
        assert_same(board[:, 0], torch.zeros(4), "the other column")


@CASES
def a_tensor_expanded_from_one_row_can_be_sent(job: Job) -> None:
    """Elements that share memory are read as often as they stand there."""
    row = torch.arange(3.0) + job.rank
    parts = [torch.empty(4, 3) for _ in range(job.size)]
    dist.all_gather(parts, row.expand(4, 3), group=job.tested)
    for rank, part in enumerate(parts):
        assert_same(part, (torch.arange(3.0) + rank).expand(4, 3).contiguous(), f"of rank {rank}")


@CASES
def gradients_are_left_out_of_it(job: Job) -> None:
    """A leaf that wants a gradient can be broadcast, as torch's own modules do under no_grad."""
    weight = torch.nn.Parameter(torch.full((3,), float(job.rank)))
    with torch.no_grad():
        dist.broadcast(weight, group=job.tested, group_src=0)
    assert_same(weight.detach(), torch.zeros(3), "the parameter")
    assert weight.requires_grad
