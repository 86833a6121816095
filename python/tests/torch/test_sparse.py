"""Sums of sparse tensors: with any numbers of values, dense dimensions, beside other calls, and under DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from cases import BACKEND, PATIENCE, Cases, Job, Skip
from samples import assert_close, assert_same, name
from torch import nn

CASES = Cases()


def test_sparse(run_case: Callable[[], None]) -> None:
    run_case()


def of_rank(
    rank: int,
    shape: tuple[int, ...],
    values: int,
    dense: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Rank `rank`'s tensor: some of its values stand in one place, and some in a place of another rank's."""
    generator = torch.Generator().manual_seed(rank)
    rows = [torch.randint(0, extent, (values,), generator=generator) for extent in shape]
    indices = torch.stack(rows) if rows else torch.zeros(0, values, dtype=torch.int64)
    numbers = torch.randint(1, 9, (values, *dense), generator=generator).to(dtype)
    return torch.sparse_coo_tensor(indices, numbers, (*shape, *dense), check_invariants=True)


def expected(job: Job, make: Callable[[int], torch.Tensor]) -> torch.Tensor:
    return sum((make(rank).to_dense() for rank in range(1, job.size)), make(0).to_dense())


def summed(make: Callable[[int], torch.Tensor], asynchronous: bool, job: Job) -> None:
    tensor = make(job.rank)
    work = dist.all_reduce(tensor, group=job.tested, async_op=asynchronous)
    if asynchronous:
        assert work is not None
        work.wait()
        assert work.is_completed()
    assert tensor.is_sparse and tensor.is_coalesced()
    assert_same(tensor.to_dense(), expected(job, make), "the sum")


MAKES: dict[str, Callable[[int], torch.Tensor]] = {
    "a matrix": lambda rank: of_rank(rank, (5, 4), 6),
    "a vector": lambda rank: of_rank(rank, (7,), 3),
    "three dimensions": lambda rank: of_rank(rank, (3, 4, 5), 9),
    "dense rows": lambda rank: of_rank(rank, (5,), 4, dense=(3, 2)),
    "another number of values on each rank": lambda rank: of_rank(rank, (6, 6), 3 * rank + 1),
    "no values on rank 0": lambda rank: of_rank(rank, (6, 6), 5 * rank),
    "no values on rank 1, dense rows": lambda rank: of_rank(rank, (6,), 0 if rank == 1 else 4, dense=(2,)),
    "no values at all": lambda rank: of_rank(rank, (4, 4), 0),
    "rows without elements": lambda rank: of_rank(rank, (4,), 3, dense=(0,)),
    "many values": lambda rank: of_rank(rank, (100_000,), 30_000 + rank),
}
for about, make in MAKES.items():
    CASES.add(f"sum of {about}", partial(summed, make, False))
    CASES.add(f"sum of {about}, asynchronous", partial(summed, make, True))
for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.complex64):
    CASES.add(
        f"sum of {name(dtype)}",
        partial(summed, lambda rank, dtype=dtype: of_rank(rank, (4, 4), 5, dtype=dtype), False),
    )


@CASES
def all_ranks_get_the_same_bits(job: Job) -> None:
    generator = torch.Generator().manual_seed(job.rank)
    indices = torch.randint(0, 50, (1, 200), generator=generator)
    tensor = torch.sparse_coo_tensor(indices, torch.randn(200, generator=generator), (50,))
    dist.all_reduce(tensor, group=job.tested)
    everywhere: list[object] = [None] * job.size
    dist.all_gather_object(everywhere, tensor.values().numpy().tobytes(), group=job.tested)
    assert len(set(everywhere)) == 1


@CASES
def an_asynchronous_sum_returns_before_the_others_come(job: Job) -> None:
    tensor = of_rank(job.rank, (4, 4), 5)
    if job.rank == 0:
        work = dist.all_reduce(tensor, group=job.tested, async_op=True)
        assert not work.is_completed()
        job.store.set("sparse began", "yes")
    else:
        job.store.wait(["sparse began"], PATIENCE)
        work = dist.all_reduce(tensor, group=job.tested, async_op=True)
    work.wait()
    assert_same(tensor.to_dense(), expected(job, lambda rank: of_rank(rank, (4, 4), 5)), "the sum")


@CASES
def sums_of_sparse_and_dense_tensors_are_outstanding_together(job: Job) -> None:
    sparse = [of_rank(job.rank, (5, 5), 3 + number) for number in range(3)]
    dense = [torch.full((1000,), float(number)) for number in range(3)]
    works = []
    for number in range(3):
        works.append(dist.all_reduce(sparse[number], group=job.tested, async_op=True))
        works.append(dist.all_reduce(dense[number], group=job.tested, async_op=True))
    for work in reversed(works):
        work.wait()
    for number in range(3):
        total = expected(job, lambda rank, values=3 + number: of_rank(rank, (5, 5), values))
        assert_same(sparse[number].to_dense(), total, f"sparse sum {number}")
        assert_same(dense[number], torch.full((1000,), float(number * job.size)), f"dense sum {number}")


def assert_still_works(job: Job) -> None:
    summed(lambda rank: of_rank(rank, (3, 3), 2), False, job)
    dist.all_reduce(tensor := torch.ones(3), group=job.tested)
    assert_same(tensor, torch.full((3,), float(job.size)), "the dense sum afterwards")


@CASES
def other_shapes_are_told_to_every_rank(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo has words of its own")
    last = job.rank == job.size - 1
    for tensor, words in (
        (of_rank(job.rank, (4, 5) if last else (5, 4), 3), ("[5, 4]", "[4, 5]")),
        (
            of_rank(job.rank, (4, 4), 3, dtype=torch.float32 if last else torch.float64),
            ("float32", "float64"),
        ),
        (
            of_rank(job.rank, (4,), 3, (4,)) if last else of_rank(job.rank, (4, 4), 3),
            ("1 sparse", "2 sparse"),
        ),
    ):
        for asynchronous in (False, True):
            with pytest.raises(RuntimeError, match="ranks disagree in all_reduce") as raised:
                work = dist.all_reduce(tensor, group=job.tested, async_op=asynchronous)
                assert work is not None
                work.wait()
            for word in (*words, "rank 0", f"rank {job.size - 1}"):
                assert word in str(raised.value), f"no {word!r} in: {raised.value}"
    assert_still_works(job)


@CASES
def a_rank_with_a_dense_tensor_is_told_to_every_rank(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo does not compare calls")
    tensor = torch.ones(3) if job.rank else of_rank(0, (3,), 2)
    with pytest.raises(RuntimeError, match="all_reduce"):
        dist.all_reduce(tensor, group=job.tested)
    assert_still_works(job)


@CASES
def other_reductions_are_refused_by_name(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo has words of its own")
    for op in ("MAX", "AVG", "PRODUCT", "BAND"):
        with pytest.raises(ValueError, match=f"all_reduce on rank {job.rank}: {op} .*SUM"):
            dist.all_reduce(of_rank(job.rank, (3,), 2), getattr(dist.ReduceOp, op), group=job.tested)
    assert_still_works(job)


@CASES
def ddp_with_a_sparse_embedding(job: Job) -> None:
    """Each rank uses rows of its own and one that all use."""

    def network() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Embedding(20, 6, sparse=True), nn.Linear(6, 3))

    def words(rank: int) -> torch.Tensor:
        return torch.tensor([rank, 10 + rank, 19, 19])

    model = DistributedDataParallel(network(), process_group=job.tested)
    for _ in range(2):
        model.zero_grad()
        model(words(job.rank)).square().mean().backward()
    plain = network()
    for rank in range(job.size):
        (plain(words(rank)).square().mean() / job.size).backward()
    for got, wanted in zip(model.module.parameters(), plain.parameters(), strict=True):
        assert got.grad is not None and wanted.grad is not None
        assert got.grad.is_sparse == wanted.grad.is_sparse
        assert_close(got.grad.to_dense(), wanted.grad.to_dense(), "a gradient", rounding=64)
