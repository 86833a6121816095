"""Every collective with every element type and operation, against gloo with the same inputs and against computed results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch.distributed as dist

import torch
from cases import BACKEND, Cases, Job, Skip
from operations import MOVEMENTS, SUMS, Operation, Tensors, all_reduce, folded
from samples import (
    COMPLEX,
    DTYPES,
    FLOATS,
    FLOATS8,
    GLOO_DTYPES,
    INTEGERS,
    assert_close,
    assert_same,
    name,
    of_rank,
)

CASES = Cases()


def test_collective(run_case: Callable[[], None]) -> None:
    run_case()


def compare(operation: Operation, dtype: torch.dtype, exact: bool, job: Job) -> None:
    """The tested group has the computed result, and gloo's where gloo can."""
    inputs = [of_rank(rank, (job.size * 3, 5), dtype, operation.name) for rank in range(job.size)]
    if BACKEND == "gloo" and not operation.in_gloo(dtype):
        raise Skip(f"gloo has no {operation.name} of {name(dtype)}")
    results: Tensors = operation.run(job.tested, inputs[job.rank].clone())
    same = assert_same if exact else assert_close
    expected = {"computed": operation.computed(inputs, job.rank)}
    if operation.in_gloo(dtype):
        expected["gloo's"] = operation.run(job.gloo, inputs[job.rank].clone())
    for source, tensors in expected.items():
        assert len(results) == len(tensors), f"{len(results)} tensors instead of {len(tensors)}"
        for number, (got, wanted) in enumerate(zip(results, tensors, strict=True)):
            same(got, wanted, f"tensor {number} against the {source} result")


for dtype in DTYPES:
    for operation in MOVEMENTS:
        CASES.add(f"{operation.name} of {name(dtype)}", partial(compare, operation, dtype, True))
    for operation in SUMS:
        CASES.add(f"{operation.name} of {name(dtype)}", partial(compare, operation, dtype, False))

OPS = dist.ReduceOp
for dtype in (*INTEGERS, *FLOATS, *FLOATS8, *COMPLEX):
    operation = all_reduce(OPS.AVG)
    CASES.add(f"{operation.name} of {name(dtype)}", partial(compare, operation, dtype, False))
for dtype in (torch.bool, *INTEGERS, *FLOATS, *FLOATS8):
    for op in (OPS.PRODUCT, OPS.MIN, OPS.MAX):
        operation = all_reduce(op)
        CASES.add(f"{operation.name} of {name(dtype)}", partial(compare, operation, dtype, op != OPS.PRODUCT))
for dtype in (torch.bool, *INTEGERS):
    for op in (OPS.BAND, OPS.BOR, OPS.BXOR):
        operation = all_reduce(op)
        CASES.add(f"{operation.name} of {name(dtype)}", partial(compare, operation, dtype, True))


def premultiplied_sum(dtype: torch.dtype, factor: float, job: Job) -> None:
    """Gloo has none, so it is held against the sum of the multiplied inputs."""
    if BACKEND == "gloo":
        raise Skip("gloo has no PREMUL_SUM")
    inputs = [of_rank(rank, (7, 5), dtype, "premul") for rank in range(job.size)]
    mine = inputs[job.rank].clone()
    dist.all_reduce(mine, dist._make_nccl_premul_sum(factor), group=job.tested)
    assert_close(mine, folded([(i.to(torch.float64) * factor).to(dtype) for i in inputs], OPS.SUM), "the sum")


for dtype in FLOATS:
    CASES.add(f"all_reduce, PREMUL_SUM of {name(dtype)}", partial(premultiplied_sum, dtype, 0.5))


def splits_of(rank: int, size: int) -> list[int]:
    """How many rows rank `rank` sends to each: some none, all different."""
    return [(rank + 2 * peer) % 5 for peer in range(size)]


def all_to_all_with_splits(dtype: torch.dtype, job: Job) -> None:
    splits = [splits_of(rank, job.size) for rank in range(job.size)]
    inputs = [of_rank(rank, (sum(splits[rank]), 3), dtype, "splits") for rank in range(job.size)]
    incoming = [splits[peer][job.rank] for peer in range(job.size)]
    expected = torch.cat([inputs[peer].split(splits[peer])[job.rank] for peer in range(job.size)])
    if BACKEND == "gloo" and dtype not in GLOO_DTYPES:
        raise Skip(f"gloo does not move {name(dtype)}")
    for group in [job.tested] + [job.gloo] * (dtype in GLOO_DTYPES):
        received = torch.empty(sum(incoming), 3, dtype=dtype)
        dist.all_to_all_single(received, inputs[job.rank], incoming, splits[job.rank], group=group)
        assert_same(received, expected, "lists of rows")


for dtype in DTYPES:
    CASES.add(f"all_to_all with splits of {name(dtype)}", partial(all_to_all_with_splits, dtype))


@CASES
def complex_minimum_is_refused(job: Job) -> None:
    for op in (OPS.MIN, OPS.MAX, OPS.PRODUCT):
        with pytest.raises(ValueError, match="complex"):
            dist.all_reduce(torch.zeros(3, dtype=torch.complex64), op, group=job.tested)


@CASES
def every_rank_has_the_same_bits_of_a_sum(job: Job) -> None:
    for dtype in FLOATS:
        mine = of_rank(job.rank, (1000,), dtype, "bits")
        dist.all_reduce(mine, group=job.tested)
        all_bits = [torch.empty_like(mine) for _ in range(job.size)]
        dist.all_gather(all_bits, mine, group=job.gloo)
        for rank, bits in enumerate(all_bits):
            assert_same(bits, mine, f"the {name(dtype)} sum of rank {rank}")


@CASES
def barriers_return(job: Job) -> None:
    for _ in range(3):
        dist.barrier(group=job.tested)


@CASES
def monitored_barriers_return(job: Job) -> None:
    """Torch calls them gloo's own, but passes them on to whatever serves the CPU."""
    for _ in range(3):
        dist.monitored_barrier(group=job.tested)
        dist.monitored_barrier(group=job.tested, wait_all_ranks=True)


@CASES
def a_barrier_holds_back_until_all_have_come(job: Job) -> None:
    """No rank leaves before the last one has come, which writes this to the store just before."""
    for number in range(2 * job.size):
        late = number % job.size
        if job.rank == late:
            job.store.set(f"late {number}", "comes")
            job.store.get(f"late {number}")  # set returns before it is done
        dist.barrier(group=job.tested)
        assert job.store.check([f"late {number}"])


@CASES
def lists_of_tensors_of_different_sizes(job: Job) -> None:
    """What gloo asks to be of one size may differ, as long as both sides of a transfer agree."""
    if BACKEND == "gloo":
        raise Skip("gloo takes tensors of one size only")
    rows = [rank + 1 for rank in range(job.size)]
    inputs = [of_rank(rank, (rows[rank], 3), torch.float32, "uneven") for rank in range(job.size)]
    gathered = [torch.empty(count, 3) for count in rows]
    dist.all_gather(gathered, inputs[job.rank], group=job.tested)
    assert_same(torch.cat(gathered), torch.cat(inputs), "all_gather")

    wholes = [of_rank(rank, (sum(rows), 3), torch.float32, "uneven") for rank in range(job.size)]
    total = torch.empty(rows[job.rank], 3)
    dist.reduce_scatter(total, list(wholes[job.rank].split(rows)), group=job.tested)
    assert_close(total, folded(wholes, OPS.SUM).split(rows)[job.rank], "reduce_scatter")

    splits = [splits_of(rank, job.size) for rank in range(job.size)]
    sent = [of_rank(rank, (sum(splits[rank]), 3), torch.float32, "parts") for rank in range(job.size)]
    received = [torch.empty(splits[peer][job.rank], 3) for peer in range(job.size)]
    dist.all_to_all(received, list(sent[job.rank].split(splits[job.rank])), group=job.tested)
    for peer, part in enumerate(received):
        assert_same(part, sent[peer].split(splits[peer])[job.rank], f"all_to_all from rank {peer}")
