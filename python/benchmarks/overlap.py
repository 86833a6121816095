"""What it saves to all-reduce gradients while they are still being computed, by gloo and by Penny.

    torchrun --nproc_per_node 2 overlap.py

`overlap` is a step of DistributedDataParallel: it all-reduces a bucket as soon as its gradients are there,
beside the backward pass. `waits` is the same step with a hook that waits for each bucket before the pass goes
on. `after` is a step of the same network without DistributedDataParallel, whose own work it saves: it all-reduces
each gradient when the backward pass is over. In the row `penny, heap` the buckets (and the gradients, which are views of them) lie
in memory that the other ranks can reach.

On CPUs the collective needs the very cores that compute, so overlap hides waiting, not work; with as many
ranks as cores there is little to gain, and what is gained tells how little the backend is in the way.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import penny.torch
import torch
from torch import nn
from turns import Ratio, in_turns, table

BUCKET_MIB = 1
HEAD = ["backend", "overlap", "waits", "after", "waits/overlap", "after/overlap", "gloo/this, overlap"]


@dataclass(frozen=True)
class Row:
    backend: str
    overlap_ms: float
    waits_ms: float
    after_ms: float
    least_overlap_ms: float
    least_waits_ms: float
    least_after_ms: float
    waits_to_overlap: Ratio
    after_to_overlap: Ratio
    gloo_to_this: Ratio  # of the steps with overlap


def network(features: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(features, features), nn.ReLU()) for _ in range(layers)))


def parallel_step(
    model: nn.Module, x: torch.Tensor, group: dist.ProcessGroup, heap: bool, waits: bool
) -> Callable[[], None]:
    with penny.torch.heap() if heap else contextlib.nullcontext():
        parallel = DistributedDataParallel(
            copy.deepcopy(model), process_group=group, bucket_cap_mb=BUCKET_MIB, gradient_as_bucket_view=True
        )

    def wait_for_bucket(state, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations, and not those in quotes
        gradients = bucket.buffer().div_(dist.get_world_size(group))
        dist.all_reduce(gradients, group=group)
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(gradients)
        return future

    if waits:
        parallel.register_comm_hook(None, wait_for_bucket)

    def step() -> None:
        parallel.zero_grad(set_to_none=False)
        parallel(x).square().mean().backward()

    return step


def step_after(model: nn.Module, x: torch.Tensor, group: dist.ProcessGroup, heap: bool) -> Callable[[], None]:
    plain, ranks = copy.deepcopy(model), dist.get_world_size(group)
    for parameter in plain.parameters():
        zeros = penny.torch.zeros if heap else torch.zeros
        parameter.grad = zeros(parameter.shape)

    def step() -> None:
        plain.zero_grad(set_to_none=False)
        plain(x).square().mean().backward()
        for parameter in plain.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad.div_(ranks), group=group)

    return step


def medians(row: Row) -> list[object]:
    return [
        row.backend,
        f"{row.overlap_ms:.1f}",
        f"{row.waits_ms:.1f}",
        f"{row.after_ms:.1f}",
        row.waits_to_overlap,
        row.after_to_overlap,
        row.gloo_to_this,
    ]


def leasts(row: Row) -> list[object]:
    ratios = (
        f"{ratio.least:.2f}" for ratio in (row.waits_to_overlap, row.after_to_overlap, row.gloo_to_this)
    )
    times = (f"{ms:.1f}" for ms in (row.least_overlap_ms, row.least_waits_ms, row.least_after_ms))
    return [row.backend, *times, *ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--steps", type=int, default=1, help="of a round")
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a rank has one core
    dist.init_process_group("penny")
    world, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    assert world is not None and isinstance(gloo, dist.ProcessGroup)
    model = network(arguments.features, arguments.layers)
    x = torch.randn(
        arguments.batch, arguments.features, generator=torch.Generator().manual_seed(dist.get_rank())
    )
    kinds = {"gloo": (gloo, False), "penny": (world, False), "penny, heap": (world, True)}
    ways = {("overlap", kind): parallel_step(model, x, *of, waits=False) for kind, of in kinds.items()}
    ways |= {("waits", kind): parallel_step(model, x, *of, waits=True) for kind, of in kinds.items()}
    ways |= {("after", kind): step_after(model, x, *of) for kind, of in kinds.items()}
    seconds = in_turns(ways, arguments.rounds, arguments.steps)
    rows = [
        Row(
            backend=kind,
            overlap_ms=1e3 * statistics.median(seconds["overlap", kind]),
            waits_ms=1e3 * statistics.median(seconds["waits", kind]),
            after_ms=1e3 * statistics.median(seconds["after", kind]),
            least_overlap_ms=1e3 * min(seconds["overlap", kind]),
            least_waits_ms=1e3 * min(seconds["waits", kind]),
            least_after_ms=1e3 * min(seconds["after", kind]),
            waits_to_overlap=Ratio.of(seconds["waits", kind], seconds["overlap", kind]),
            after_to_overlap=Ratio.of(seconds["after", kind], seconds["overlap", kind]),
            gloo_to_this=Ratio.of(seconds["overlap", "gloo"], seconds["overlap", kind]),
        )
        for kind in kinds
    ]
    ranks, mib = dist.get_world_size(), sum(p.numel() for p in model.parameters()) * 4 / 2**20
    if dist.get_rank() == 0 and arguments.json:
        print(json.dumps({"ranks": ranks, "gradients_mib": mib, "rows": [asdict(row) for row in rows]}))
    elif dist.get_rank() == 0:
        print(
            f"a step with {mib:.1f} MiB of gradients in {BUCKET_MIB} MiB buckets, {ranks} ranks, ms: medians"
        )
        print(table(HEAD, [medians(row) for row in rows]))
        print("\nthe least")
        print(table(HEAD, [leasts(row) for row in rows]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
