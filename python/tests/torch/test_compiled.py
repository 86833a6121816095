"""Functional collectives, with and without gradients, and what torch.compile makes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable

import torch
from cases import Cases, Job
from samples import assert_close, assert_same

CASES = Cases()


def test_compiled(run_case: Callable[[], None]) -> None:
    run_case()


def mine(job: Job, rows: int = 4) -> torch.Tensor:
    return torch.arange(rows * 3.0).view(rows, 3) + job.rank


def total(job: Job, rows: int = 4) -> torch.Tensor:
    return job.size * torch.arange(rows * 3.0).view(rows, 3) + sum(range(job.size))


@CASES
def functional_collectives(job: Job) -> None:
    group = job.tested
    assert_same(functional.all_reduce(mine(job), "sum", group) + 0, total(job), "all_reduce")
    assert_close(functional.all_reduce(mine(job), "avg", group) + 0, total(job) / job.size, "the mean")
    gathered = functional.all_gather_tensor(mine(job), 0, group) + 0
    everything = torch.cat([mine(job) - job.rank + rank for rank in range(job.size)])
    assert_same(gathered, everything, "all_gather_tensor")
    assert_same(
        functional.all_gather_tensor(mine(job), 1, group) + 0,
        torch.cat(list(everything.chunk(job.size)), dim=1),
        "all_gather_tensor along columns",
    )
    scattered = functional.reduce_scatter_tensor(mine(job), "sum", 0, group) + 0
    assert_same(scattered, total(job).chunk(job.size)[job.rank], "reduce_scatter_tensor")
    assert_same(functional.broadcast(mine(job), 1, group) + 0, mine(job) - job.rank + 1, "broadcast")
    rows = 4 // job.size
    exchanged = functional.all_to_all_single(mine(job), [rows] * job.size, [rows] * job.size, group) + 0
    expected = torch.cat([mine(job)[:0]] + [
        (mine(job) - job.rank + rank)[job.rank * rows : (job.rank + 1) * rows] for rank in range(job.size)
    ])  # fmt: skip
    assert_same(exchanged, expected, "all_to_all_single")
    ring = [(rank + 1) % job.size for rank in range(job.size)]
    shifted = functional.permute_tensor(torch.full((4,), float(job.rank)), ring, group) + 0
    assert_same(shifted, torch.full((4,), float(job.left)), "permute_tensor")


@CASES
def functional_collectives_of_several_tensors(job: Job) -> None:
    tensors = [mine(job), mine(job, rows=8)]
    for got, rows in zip(functional.all_reduce_coalesced(tensors, "sum", job.tested), (4, 8), strict=True):
        assert_same(got + 0, total(job, rows), "all_reduce_coalesced")
    gathered = functional.all_gather_into_tensor_coalesced(tensors, job.tested)
    for got, rows in zip(gathered, (4, 8), strict=True):
        expected = torch.cat([mine(job, rows) - job.rank + rank for rank in range(job.size)])
        assert_same(got + 0, expected, "all_gather_into_tensor_coalesced")
    scattered = functional.reduce_scatter_tensor_coalesced(tensors, "sum", [0, 0], job.tested)
    for got, rows in zip(scattered, (4, 8), strict=True):
        assert_same(got + 0, total(job, rows).chunk(job.size)[job.rank], "reduce_scatter_tensor_coalesced")


@CASES
def a_result_is_waited_for_when_it_is_used(job: Job) -> None:
    results = [functional.all_reduce(mine(job) + number, "sum", job.tested) for number in range(5)]
    for number, result in reversed(list(enumerate(results))):
        assert isinstance(result, functional.AsyncCollectiveTensor)
        assert_same(result * 1, total(job) + number * job.size, f"sum {number}")


@CASES
def gradients_flow_through_collectives(job: Job) -> None:
    x = mine(job).requires_grad_()
    gathered = functional.all_gather_tensor_autograd(x, 0, job.tested)
    (gathered * (job.rank + 1)).sum().backward()
    weight = sum(rank + 1 for rank in range(job.size))
    assert_same(x.grad, torch.full((4, 3), float(weight)), "through all_gather_tensor")

    x = mine(job).requires_grad_()
    functional.reduce_scatter_tensor_autograd(x, "sum", 0, job.tested).sum().mul(job.rank + 1).backward()
    rows = torch.arange(job.size).repeat_interleave(4 // job.size).view(4, 1) + 1.0
    assert_same(x.grad, rows.expand(4, 3).contiguous(), "through reduce_scatter_tensor")

    x = mine(job).requires_grad_()
    (differentiable.all_reduce(x, group=job.tested) * (job.rank + 1)).sum().backward()
    assert_same(x.grad, torch.full((4, 3), float(weight)), "through all_reduce")

    x = mine(job).requires_grad_()
    output = differentiable.all_to_all_single(torch.empty(4, 3), x, group=job.tested)
    (output * (job.rank + 1)).sum().backward()
    assert_same(x.grad, rows.expand(4, 3).contiguous(), "through all_to_all_single")


def body(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Several collectives, with something computed before, between and after."""
    doubled = functional.all_reduce(x * 2, "sum", group)
    everything = functional.all_gather_tensor(doubled + 1, 0, group)
    return functional.reduce_scatter_tensor(everything.relu(), "sum", 0, group) * 3


def compiled(backend: str, job: Job) -> None:
    """The compiled function is one graph and gives what the function gives, also for a second input."""
    function = torch.compile(partial(body, group=job.tested), backend=backend, fullgraph=True)
    for x in (mine(job), mine(job) - 5):
        assert_close(function(x) + 0, body(x, job.tested) + 0, backend)


CASES.add("a compiled function, aot_eager", partial(compiled, "aot_eager"))
CASES.add("a compiled function, inductor", partial(compiled, "inductor"), ranks=(2,))


@CASES
def plain_collectives_inside_a_compiled_function(job: Job) -> None:
    """dist.all_reduce and friends are rewritten by the tracer to functional ones."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, group=job.tested)
        everything = torch.empty(4 * job.size, 3)
        dist.all_gather_into_tensor(everything, y, group=job.tested)
        return everything + 1

    expected = function(mine(job))
    assert_same(torch.compile(function, backend="aot_eager", fullgraph=True)(mine(job)), expected, "compiled")


@CASES
def a_compiled_step_with_gradients(job: Job) -> None:
    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        hidden = functional.all_gather_tensor_autograd(x @ weight, 0, job.tested)
        return hidden.square().sum()

    gradients = []
    for function in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
        weight = torch.full((3, 2), 0.5, requires_grad=True)
        function(mine(job), weight).backward()
        gradients.append(weight.grad)
    assert_close(gradients[1], gradients[0], "the gradient")
