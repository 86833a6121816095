"""DTensor: layouts change into each other, layers divided by rows and columns compute what whole layers compute; pipelines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

import torch
from cases import BACKEND, Cases, Job
from samples import assert_close, assert_same
from torch import nn

CASES = Cases()
ROUNDING = 1000.0


def test_tensor_parallel(run_case: Callable[[], None]) -> None:
    run_case()


def line(job: Job) -> DeviceMesh:
    return init_device_mesh("cpu", (job.size,), mesh_dim_names=("tensor",))


PLACEMENTS: tuple[Placement, ...] = (Replicate(), Shard(0), Shard(1))


def redistribute(source: Placement, target: Placement, rows: int, job: Job) -> None:
    """The whole stays what it was, whether its rows divide by the ranks or not."""
    whole = torch.arange(rows * 7.0).view(rows, 7)
    divided = distribute_tensor(whole, line(job), [source])
    moved = divided.redistribute(placements=[target])
    assert moved.placements == (target,)
    assert_same(moved.full_tensor(), whole, f"{source} to {target}")
    if isinstance(target, Shard):
        chunks = (
            whole.tensor_split(job.size, target.dim) if rows % job.size == 0 and target.dim == 0 else None
        )
        if chunks:
            assert_same(moved.to_local(), chunks[job.rank], "my part")


for source in PLACEMENTS:
    for target in PLACEMENTS:
        for rows in (8, 5):
            CASES.add(
                f"{rows} rows from {source} to {target}",
                partial(redistribute, source, target, rows),
            )


@CASES
def partial_sums_become_whole(job: Job) -> None:
    mesh = line(job)
    mine = torch.full((8, 3), float(job.rank))
    expected = torch.full((8, 3), float(sum(range(job.size))))
    for target in PLACEMENTS:
        total = DTensor.from_local(mine, mesh, [Partial()]).redistribute(placements=[target])
        assert_same(total.full_tensor(), expected, f"the sum as {target}")
    largest = DTensor.from_local(mine, mesh, [Partial("max")]).full_tensor()
    assert_same(largest, torch.full((8, 3), float(job.size - 1)), "the maximum")
    mean = DTensor.from_local(mine, mesh, [Partial("avg")]).full_tensor()
    assert_close(mean, expected / job.size, "the mean")


@CASES
def products_of_divided_matrices(job: Job) -> None:
    mesh = line(job)
    a, b = torch.randn(8, 12), torch.randn(12, 4)
    for pa in PLACEMENTS:
        for pb in PLACEMENTS:
            product = distribute_tensor(a, mesh, [pa]) @ distribute_tensor(b, mesh, [pb])
            assert_close(product.full_tensor(), a @ b, f"{pa} times {pb}", ROUNDING)


class FeedForward(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


def feed_forward() -> FeedForward:
    torch.manual_seed(4)
    return FeedForward()


def inputs() -> torch.Tensor:
    return torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(5))


def gradient_of(parameter: nn.Parameter) -> torch.Tensor:
    gradient = parameter.grad
    assert gradient is not None
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def assert_same_step(model: nn.Module, alone: nn.Module) -> None:
    """One step forward and backward of the divided model against the whole one."""
    x, y = inputs().requires_grad_(), inputs().requires_grad_()
    output, expected = model(x), alone(y)
    assert_close(output.detach(), expected.detach(), "the output", ROUNDING)
    output.square().sum().backward()
    expected.square().sum().backward()
    assert_close(x.grad, y.grad, "the gradient of the input", ROUNDING)
    for (name, mine), whole in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert_close(gradient_of(mine), gradient_of(whole), f"the gradient of {name}", ROUNDING)


@CASES
def layers_divided_by_columns_then_rows(job: Job) -> None:
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(feed_forward(), line(job), plan)
    assert model.up.weight.to_local().shape == (32 // job.size, 8)
    assert_same_step(model, feed_forward())


@CASES
def sequences_divided_between_the_layers(job: Job) -> None:
    plan = {
        "norm": SequenceParallel(),
        "up": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "down": RowwiseParallel(),
    }
    model = feed_forward()
    mesh = line(job)
    parallelize_module(model.up, mesh, ColwiseParallel())
    parallelize_module(model, mesh, plan)
    divide = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1))
    parallelize_module(model, mesh, divide)
    assert_same_step(model, feed_forward())


@CASES
def layers_divided_by_rows_with_results_divided_by_sequence(job: Job) -> None:
    model = parallelize_module(
        feed_forward(),
        line(job),
        {"up": ColwiseParallel(), "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False)},
    )
    output = model(inputs())
    assert isinstance(output, DTensor)
    assert_close(output.full_tensor().detach(), feed_forward()(inputs()).detach(), "the output", ROUNDING)


@CASES
def an_embedding_divided_by_rows(job: Job) -> None:
    torch.manual_seed(6)
    alone = nn.Embedding(10, 8)
    torch.manual_seed(6)
    model = parallelize_module(nn.Embedding(10, 8), line(job), RowwiseParallel(input_layouts=Replicate()))
    tokens = torch.tensor([[0, 9, 5], [3, 3, 1]])
    output, expected = model(tokens), alone(tokens)
    assert_close(output.detach(), expected.detach(), "the embedding")
    output.sum().backward()
    expected.sum().backward()
    assert_close(gradient_of(model.weight), gradient_of(alone.weight), "its gradient")


@CASES
def a_loss_over_divided_classes(job: Job) -> None:
    torch.manual_seed(7)
    alone = nn.Linear(8, 12)
    torch.manual_seed(7)
    head = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    model = parallelize_module(nn.Linear(8, 12), line(job), head)
    x, targets = inputs().flatten(0, 1), torch.arange(16) % 12
    expected = nn.functional.cross_entropy(alone(x), targets)
    expected.backward()
    with loss_parallel():
        loss = nn.functional.cross_entropy(model(x), targets)
        loss.backward()
    value = loss.full_tensor() if isinstance(loss, DTensor) else loss
    assert_close(value.detach(), expected.detach(), "the loss", ROUNDING)
    assert_close(gradient_of(model.weight), gradient_of(alone.weight), "its gradient", ROUNDING)


@CASES.on(4)
def tensor_parallel_within_data_parallel(job: Job) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(feed_forward(), mesh["tensor"], plan)
    fully_shard(model, mesh=mesh["data"])
    alone = feed_forward()
    mine = job.rank // 2
    model(inputs()[mine : mine + 1]).square().sum().backward()
    (alone(inputs()).square().sum() / 2).backward()
    for (name, parameter), whole in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert_close(gradient_of(parameter), gradient_of(whole), f"the gradient of {name}", ROUNDING)


def pipeline(schedule_of: type[ScheduleGPipe | Schedule1F1B], job: Job) -> None:
    """A layer per rank: activations go right, gradients left."""
    torch.manual_seed(8)
    layers = [nn.Linear(8, 8) for _ in range(job.size)]
    alone = nn.Sequential(*[nn.Linear(8, 8) for _ in range(job.size)])
    alone.load_state_dict(nn.Sequential(*layers).state_dict())
    x, targets = inputs().flatten(0, 1), torch.ones(16, 8)
    stage = PipelineStage(layers[job.rank], job.rank, job.size, torch.device("cpu"), group=job.tested)
    schedule = schedule_of(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    last = job.rank == job.size - 1
    losses: list[torch.Tensor] = []
    options: dict[str, object] = {"target": targets, "losses": losses} if last else {}
    output = schedule.step(*([x] if job.rank == 0 else []), **options)
    expected = alone(x)
    nn.functional.mse_loss(expected, targets).backward()
    if last:
        assert_close(output.detach(), expected.detach(), "the output", ROUNDING)
    for mine, whole in zip(layers[job.rank].parameters(), alone[job.rank].parameters(), strict=True):
        assert_close(mine.grad, whole.grad, "a gradient", ROUNDING)


CASES.add("a_pipeline_with_all_forwards_first", partial(pipeline, ScheduleGPipe))
CASES.add("a_pipeline_with_one_forward_one_backward", partial(pipeline, Schedule1F1B))


@CASES
def the_mesh_runs_on_the_tested_backend(job: Job) -> None:
    assert dist.get_backend(line(job).get_group()) == BACKEND
