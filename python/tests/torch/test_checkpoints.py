"""Distributed checkpoints: what some ranks save, another number of ranks loads."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import torch
from cases import BACKEND, PATIENCE, Cases, Job
from samples import assert_same
from torch import nn

CASES = Cases()


def test_checkpoint(run_case: Callable[[], None]) -> None:
    run_case()


@contextmanager
def folder(job: Job) -> Iterator[str]:
    """A folder that all ranks know, gone when all are done with it."""
    paths = [tempfile.mkdtemp(prefix="checkpoint") if job.rank == 0 else None]
    dist.broadcast_object_list(paths, src=0, group=job.gloo)
    assert paths[0] is not None
    try:
        yield paths[0]
        dist.barrier(group=job.gloo)
    finally:
        if job.rank == 0:
            shutil.rmtree(paths[0])


def mesh_of(ranks: int, job: Job) -> DeviceMesh:
    return dist.device_mesh.init_device_mesh("cpu", (job.size,)) if ranks == job.size else DeviceMesh(
        "cpu", list(range(ranks))
    )  # fmt: skip


def whole() -> dict[str, torch.Tensor]:
    return {"weight": torch.arange(70.0).view(10, 7), "bias": torch.arange(5, dtype=torch.bfloat16)}


@CASES
def tensors_saved_by_all_ranks_are_loaded_by_half_of_them(job: Job) -> None:
    half = job.size // 2
    few = dist.new_group(list(range(half)), backend=BACKEND, timeout=PATIENCE)
    few_mesh = mesh_of(half, job)
    with folder(job) as path:
        mesh = mesh_of(job.size, job)
        saved = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in whole().items()}
        checkpoint.save(saved, checkpoint_id=path, process_group=job.tested)
        if job.rank < half:
            empty = {name: torch.zeros_like(tensor) for name, tensor in whole().items()}
            loaded = {name: distribute_tensor(tensor, few_mesh, [Shard(0)]) for name, tensor in empty.items()}
            checkpoint.load(loaded, checkpoint_id=path, process_group=few)
            for name, tensor in whole().items():
                assert_same(loaded[name].full_tensor(), tensor, name)


@CASES
def tensors_saved_by_half_of_the_ranks_are_loaded_by_all(job: Job) -> None:
    half = job.size // 2
    few = dist.new_group(list(range(half)), backend=BACKEND, timeout=PATIENCE)
    few_mesh = mesh_of(half, job)
    with folder(job) as path:
        if job.rank < half:
            saved = {
                name: distribute_tensor(tensor, few_mesh, [Shard(0)]) for name, tensor in whole().items()
            }
            checkpoint.save(saved, checkpoint_id=path, process_group=few)
        dist.barrier(group=job.tested)
        mesh = mesh_of(job.size, job)
        empty = {name: torch.zeros_like(tensor) for name, tensor in whole().items()}
        loaded = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in empty.items()}
        checkpoint.load(loaded, checkpoint_id=path, process_group=job.tested)
        for name, tensor in whole().items():
            assert_same(loaded[name].full_tensor(), tensor, name)


def trained(mesh: DeviceMesh) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model in shards after one step, so that its optimizer has state."""
    torch.manual_seed(9)
    model = fully_shard(nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 2)), mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3, 6)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def values(state: dict[str, object]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in state.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", tensor) for inner, tensor in values(value))
        elif isinstance(value, DTensor):
            yield name, value.full_tensor()


@CASES
def a_model_and_its_optimizer_come_back(job: Job) -> None:
    mesh = mesh_of(job.size, job)
    model, optimizer = trained(mesh)
    weights, state = get_state_dict(model, optimizer)
    expected = dict(values({"model": weights, "optimizer": state}))
    assert len(expected) >= 12, "four parameters with two moments each"
    with folder(job) as path:
        checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=path, process_group=job.tested)
        model, optimizer = trained(mesh)
        for parameter in model.parameters():
            parameter.data.zero_()
        weights, state = get_state_dict(model, optimizer)
        loaded = {"model": weights, "optimizer": state}
        checkpoint.load(loaded, checkpoint_id=path, process_group=job.tested)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    weights, state = get_state_dict(model, optimizer)
    found = dict(values({"model": weights, "optimizer": state}))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert_same(found[name], tensor, name)


@CASES
def a_checkpoint_is_saved_while_training_goes_on(job: Job) -> None:
    mesh = mesh_of(job.size, job)
    saver = dist.new_group(backend=BACKEND, timeout=PATIENCE)
    tensor = distribute_tensor(torch.arange(10.0), mesh, [Shard(0)])
    with folder(job) as path:
        done = checkpoint.async_save({"tensor": tensor}, checkpoint_id=path, process_group=saver)
        dist.all_reduce(torch.ones(1000), group=job.tested)
        done.result()
        loaded = {"tensor": distribute_tensor(torch.zeros(10), mesh, [Shard(0)])}
        checkpoint.load(loaded, checkpoint_id=path, process_group=job.tested)
        assert_same(loaded["tensor"].full_tensor(), torch.arange(10.0), "what was saved")
