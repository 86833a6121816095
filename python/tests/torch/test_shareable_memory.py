"""Tensors in memory that all ranks can reach: made like torch's, placed by `heap()`, given back when they die."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import torch
from cases import BACKEND, Cases, Job
from launching import HERE
from samples import DTYPES, assert_close, assert_same, of_rank, shareable
from torch import nn

if BACKEND != "penny":
    pytest.skip("only penny has shareable memory", allow_module_level=True)

import penny.torch

CASES = Cases()
LARGE = 4096


def test_shareable_memory(run_case: Callable[[], None]) -> None:
    run_case()


def test_memory_is_given_back_and_where_there_is_no_more_it_is_ordinary() -> None:
    """In a program of its own, whose heap is small."""
    ended = subprocess.run(
        [sys.executable, HERE / "exhaustion.py"],
        env=os.environ | {"PENNY_HEAP_SIZE": "20M"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.stdout == "done\n", ended.stderr


@CASES.on(2)
def factories_make_what_torchs_make(job: Job) -> None:
    for dtype in DTYPES:
        like = of_rank(0, (40, 50), dtype)
        pairs = (
            (penny.torch.zeros(40, 50, dtype=dtype), torch.zeros(40, 50, dtype=dtype)),
            (penny.torch.ones((40, 50), dtype=dtype), torch.ones(40, 50, dtype=dtype)),
            (penny.torch.full((40, 50), 1, dtype=dtype), torch.full((40, 50), 1, dtype=dtype)),
            (penny.torch.clone(like), like),
            (penny.torch.empty_like(like).copy_(like), like),
            (penny.torch.empty(40, 50, dtype=dtype).copy_(like), like),
        )
        for made, expected in pairs:
            assert_same(made, expected, f"{dtype}")
            assert made.is_contiguous()
            assert shareable(made), f"{dtype} is in ordinary memory"
    assert penny.torch.zeros(2, 3).dtype == torch.get_default_dtype()
    assert penny.torch.full((LARGE,), 3).dtype == torch.int64
    assert penny.torch.ones(LARGE, requires_grad=True).requires_grad
    assert penny.torch.empty(0, 3).shape == (0, 3)
    assert penny.torch.zeros(()).shape == ()


@CASES.on(2)
def shareable_tensors_are_ordinary_tensors(job: Job) -> None:
    """Views, numpy, pickles, copies, gradients."""
    tensor = penny.torch.clone(torch.arange(float(LARGE)))
    assert_same(tensor.view(64, 64)[1, :3], torch.tensor([64.0, 65.0, 66.0]), "a view")
    tensor.numpy()[0] = 7
    assert float(tensor[0]) == 7
    saved = io.BytesIO()
    torch.save(tensor, saved)
    saved.seek(0)
    assert_same(torch.load(saved), tensor, "what was saved")
    assert_same(copy.deepcopy(tensor), tensor, "a copy")
    weight = penny.torch.ones(LARGE, requires_grad=True)
    (weight * tensor).sum().backward()
    assert_same(weight.grad, tensor, "the gradient")


@CASES.on(2)
def a_view_keeps_the_memory(job: Job) -> None:
    views = [penny.torch.full((LARGE,), number)[5:10] for number in range(50)]
    for number, view in enumerate(views):
        assert_same(view, torch.full((5,), number), f"view {number}")


@CASES.on(2)
def tensors_die_in_other_threads(job: Job) -> None:
    for _ in range(20):
        tensors = [penny.torch.ones(LARGE)]
        thread = threading.Thread(target=tensors.clear)
        thread.start()
        thread.join()
    dist.barrier(group=job.tested)


@CASES.on(2)
def large_tensors_made_under_heap_are_shareable(job: Job) -> None:
    with penny.torch.heap():
        made = {
            "empty": torch.empty(LARGE),
            "zeros": torch.zeros(LARGE),
            "ones": torch.ones(LARGE),
            "full": torch.full((LARGE,), 2.5),
            "empty_like": torch.empty_like(torch.ones(LARGE)),
            "new_empty": torch.ones(3).new_empty(LARGE),
            "sum": torch.ones(LARGE) + 1,
        }
        small = torch.ones(3)
    for name, tensor in made.items():
        if name != "sum":
            assert shareable(tensor), f"{name} is in ordinary memory"
    assert_same(made["ones"], torch.ones(LARGE), "ones")
    assert_same(made["full"], torch.full((LARGE,), 2.5), "full")
    assert_same(made["sum"], torch.full((LARGE,), 2.0), "sum")
    assert not shareable(small)
    assert not shareable(torch.ones(LARGE)), "after the end of heap()"


@CASES.on(2)
def modules_made_under_heap_compute_the_same(job: Job) -> None:
    torch.manual_seed(10)
    expected = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    torch.manual_seed(10)
    with penny.torch.heap():
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        x = torch.randn(16, 64)
        output = model(x)
        output.sum().backward()
    assert shareable(model[0].weight)
    assert_same(output.detach(), expected(x).detach(), "the output")
    with torch.device("meta"):
        hollow = nn.Linear(64, 128)
    with penny.torch.heap():
        hollow.to_empty(device="cpu")
    assert shareable(hollow.weight)


@CASES
def activations_of_divided_layers_are_shareable(job: Job) -> None:
    """What a layer divided by rows adds up over the ranks is in memory that they all reach."""
    torch.manual_seed(11)
    layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    expected = layers(torch.ones(64, 64)).detach()
    mesh = init_device_mesh("cpu", (job.size,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    with penny.torch.heap():
        model = parallelize_module(layers, mesh, plan)
        output = model(torch.ones(64, 64))
    assert_close(output.detach(), expected, "the output", rounding=1000.0)


@CASES
def tensors_outlive_the_group_that_reduced_them(job: Job) -> None:
    tensor = penny.torch.ones(LARGE)
    group = dist.new_group(backend=BACKEND)
    dist.all_reduce(tensor, group=group)
    dist.destroy_process_group(group)
    dist.all_reduce(tensor, group=job.tested)
    assert_same(tensor, torch.full((LARGE,), float(job.size**2)), "the sum of sums")
