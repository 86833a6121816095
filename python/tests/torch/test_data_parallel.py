"""DDP and FSDP2: gradients and parameters equal those of one process that sees the whole batch."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import torch
from cases import BACKEND, Cases, Job, Skip
from samples import assert_close, assert_same, shareable
from torch import nn

CASES = Cases()
WIDTH = 48
STEPS = 3
ROUNDING = 1000.0
"""Units in the last place by which three steps of training may differ: sums are made in another order."""


def test_data_parallel(run_case: Callable[[], None]) -> None:
    run_case()


def network() -> nn.Sequential:
    """The same on all ranks, with a width that no number of ranks divides evenly in one of its layers."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 31), nn.Tanh(), nn.Linear(31, 3))


def batch(step: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole batch of a step, four samples for each rank."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(4 * size, 8, generator=generator), torch.randn(4 * size, 3, generator=generator)


def loss(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(model(inputs), targets)


def my_loss(model: nn.Module, step: int, job: Job) -> torch.Tensor:
    inputs, targets = batch(step, job.size)
    mine = slice(4 * job.rank, 4 * job.rank + 4)
    return loss(model, inputs[mine], targets[mine])


def trained_alone(size: int, steps: int = STEPS) -> nn.Sequential:
    """What one process gets from the same batches. Its last gradients are left in place."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss(model, *batch(step, size)).backward()
        optimizer.step()
    return model


def train(model: nn.Module, job: Job, optimizer: torch.optim.Optimizer | None = None) -> None:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        my_loss(model, step, job).backward()
        optimizer.step()


def assert_trained(model: nn.Module, job: Job, rounding: float = ROUNDING) -> None:
    """Parameters and gradients against those of one process."""
    for (name, parameter), expected in zip(
        model.named_parameters(), trained_alone(job.size).parameters(), strict=True
    ):
        values, gradient = parameter.detach(), parameter.grad
        assert gradient is not None and expected.grad is not None
        if isinstance(values, DTensor):
            values, gradient = values.full_tensor(), gradient.full_tensor()
        assert_close(values, expected.detach(), name, rounding)
        assert_close(gradient, expected.grad, f"the gradient of {name}", rounding)


def ddp(model: nn.Module, **options: object) -> DistributedDataParallel:
    """With buckets so small that there are several."""
    return DistributedDataParallel(model, bucket_cap_mb=0.004, **options)


@CASES
def ddp_trains_as_one_process_does(job: Job) -> None:
    model = ddp(network())
    train(model, job)
    assert_trained(model.module, job)


@CASES
def ddp_has_rank_0s_parameters(job: Job) -> None:
    model = network()
    for parameter in model.parameters():
        parameter.data.add_(job.rank)
    model = ddp(model)
    for parameter, expected in zip(model.module.parameters(), network().parameters(), strict=True):
        assert_same(parameter.detach(), expected.detach(), "a parameter")


@CASES
def ddp_with_gradients_as_views_of_buckets(job: Job) -> None:
    model = ddp(network(), gradient_as_bucket_view=True, static_graph=True)
    train(model, job)
    assert_trained(model.module, job)


def heap() -> AbstractContextManager[object]:
    if BACKEND != "penny":
        return nullcontext()
    import penny.torch

    return penny.torch.heap()


@CASES
def ddp_with_buckets_in_shareable_memory(job: Job) -> None:
    """What is reduced lies where the other ranks can reach it, once the buckets were rebuilt after the first step."""
    with heap():
        model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
        reachable = []

        def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            reachable.append(shareable(bucket.buffer()))
            return default_hooks.allreduce_hook(job.tested, bucket)

        model.register_comm_hook(None, hook)
        train(model, job)
    assert_trained(model.module, job)
    if BACKEND == "penny":
        assert reachable[-1], f"the bucket of each step is shareable or not: {reachable}"


@CASES
def ddp_reduces_several_buckets_by_a_hook_that_chains_futures(job: Job) -> None:
    model = ddp(network())
    buckets: list[int] = []

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buckets.append(bucket.index())
        work = dist.all_reduce(bucket.buffer(), group=job.tested, async_op=True)
        return work.get_future().then(lambda future: future.value()[0].div_(job.size))

    model.register_comm_hook(None, hook)
    train(model, job)
    assert len(set(buckets)) > 1, "one bucket only, so nothing was shown about several"
    assert_trained(model.module, job)


@CASES
def ddp_with_gradients_sent_as_bfloat16(job: Job) -> None:
    model = ddp(network())
    model.register_comm_hook(job.tested, default_hooks.bf16_compress_hook)
    train(model, job)
    assert_trained(model.module, job, rounding=0.02 / torch.finfo(torch.float32).eps)


@CASES
def ddp_accumulates_without_communication(job: Job) -> None:
    model = ddp(network())
    with model.no_sync():
        my_loss(model, 0, job).backward()
    my_loss(model, 1, job).backward()
    alone = network()
    for step in range(2):
        loss(alone, *batch(step, job.size)).backward()
    for parameter, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert_close(parameter.grad, expected.grad, "a gradient", ROUNDING)


class Branches(nn.Module):
    """Uses one of its two layers, which one depends on the rank."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3)])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers[dist.get_rank() % 2](inputs)


@CASES
def ddp_finds_parameters_that_some_ranks_do_not_use(job: Job) -> None:
    torch.manual_seed(2)
    model = ddp(Branches(), find_unused_parameters=True)
    for step in range(2):
        model.zero_grad()
        my_loss(model, step, job).backward()
    inputs, targets = batch(1, job.size)
    torch.manual_seed(2)
    alone = Branches()
    for rank in range(job.size):
        mine = slice(4 * rank, 4 * rank + 4)
        (nn.functional.mse_loss(alone.layers[rank % 2](inputs[mine]), targets[mine]) / job.size).backward()
    for parameter, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert_close(parameter.grad, expected.grad, "a gradient", ROUNDING)


@CASES
def ddp_broadcasts_buffers(job: Job) -> None:
    """Batch normalisation's running means are rank 0's on all ranks."""
    torch.manual_seed(3)
    model = ddp(nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)))
    for step in range(2):
        my_loss(model, step, job).backward()
    model(batch(2, job.size)[0][:4])  # buffers are broadcast at the begin of forward
    means = [torch.empty(6) for _ in range(job.size)]
    before = model.module[1].running_mean.clone()
    dist.all_gather(means, before, group=job.gloo)
    for mean in means[1:]:
        assert_close(mean, means[0], "a running mean", ROUNDING)


@CASES
def ddp_joins_ranks_with_different_numbers_of_batches(job: Job) -> None:
    model = ddp(network())
    with Join([model]):
        for step in range(job.rank + 1):
            model.zero_grad()
            my_loss(model, step, job).backward()
    for parameter in model.parameters():
        everyone = [torch.empty_like(parameter.grad) for _ in range(job.size)]
        dist.all_gather(everyone, parameter.grad, group=job.gloo)
        assert_same(everyone[-1], everyone[-1], "the last rank's gradient")
        assert torch.isfinite(everyone[-1]).all()


@CASES
def zero_redundancy_optimizer_trains_as_one_process_does(job: Job) -> None:
    model = ddp(network())
    train(model, job, ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1))
    assert_trained(model.module, job)


def sharded(job: Job, **options: object) -> nn.Sequential:
    """Each linear layer is a unit of its own."""
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, **options)
    return fully_shard(model, **options)


@CASES
def fsdp_trains_as_one_process_does(job: Job) -> None:
    model = sharded(job)
    train(model, job)
    assert_trained(model, job)


@CASES
def fsdp_keeps_parameters_whole_after_forward(job: Job) -> None:
    model = sharded(job, reshard_after_forward=False)
    train(model, job)
    assert_trained(model, job)


@CASES
def fsdp_communicates_in_memory_of_the_process_group(job: Job) -> None:
    """FSDP resizes its own memory, so it asks the group for what goes through collectives."""
    if BACKEND == "gloo":
        raise Skip("gloo has no memory of its own")
    model = sharded(job)
    model.set_allocate_memory_from_process_group_for_comm(True)
    train(model, job)
    assert_trained(model, job)


@CASES
def fsdp_with_bfloat16_parameters_in_flight(job: Job) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(job, mp_policy=policy)
    train(model, job)
    assert_trained(model, job, rounding=0.1 / torch.finfo(torch.float32).eps)


@CASES
def fsdp_shards_in_one_dimension_and_replicates_in_the_other(job: Job) -> None:
    mesh = init_device_mesh("cpu", (2, job.size // 2), mesh_dim_names=("replicate", "shard"))
    model = sharded(job, mesh=mesh)
    train(model, job)
    assert_trained(model, job)


@CASES
def fsdp_clips_gradients_by_their_whole_norm(job: Job) -> None:
    model, alone = sharded(job), network()
    my_loss(model, 0, job).backward()
    loss(alone, *batch(0, job.size)).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    expected = nn.utils.clip_grad_norm_(alone.parameters(), 0.01)
    assert isinstance(norm, DTensor)
    assert_close(norm.full_tensor(), expected, "the norm", ROUNDING)


@CASES
def fsdp_accumulates_without_communication(job: Job) -> None:
    model, alone = sharded(job), copy.deepcopy(network())
    model.set_requires_gradient_sync(False)
    my_loss(model, 0, job).backward()
    model.set_requires_gradient_sync(True)
    my_loss(model, 1, job).backward()
    for step in range(2):
        loss(alone, *batch(step, job.size)).backward()
    for parameter, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert_close(parameter.grad.full_tensor(), expected.grad, "a gradient", ROUNDING)
