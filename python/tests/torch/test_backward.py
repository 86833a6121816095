"""Collectives in a backward pass: DistributedDataParallel's buckets, and others that ask for futures there."""

from __future__ import annotations

import os
from collections.abc import Callable
from unittest import mock

import pytest
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import torch
from cases import BACKEND, PATIENCE, Cases, Job, Skip
from samples import assert_close, assert_same
from torch import nn

if BACKEND == "penny":
    from penny.torch import backward, completion, streams

CASES = Cases()
WIDTH = 64


def test_backward(run_case: Callable[[], None]) -> None:
    run_case()


class Network(nn.Module):
    """Layers that are computed again in the backward pass, if so wished: each is a pass within the pass."""

    def __init__(self, layers: int = 4, again: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if self.again:
                x = checkpoint(layer, x, use_reentrant=True)
            else:
                x = layer(x)
        return x.square().mean()


def of_rank(rank: int) -> torch.Tensor:
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(rank)).requires_grad_()


def parallel(job: Job, network: nn.Module, **options: object) -> DistributedDataParallel:
    """With a bucket for each layer."""
    return DistributedDataParallel(network, process_group=job.tested, bucket_cap_mb=0.01, **options)


def assert_gradients(model: nn.Module, job: Job, steps: int = 1) -> None:
    """They are the means of what each rank computes by itself."""
    plain = Network()
    for rank in range(job.size):
        (plain(of_rank(rank)) / job.size).backward()
    for got, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert got.grad is not None and expected.grad is not None
        assert_close(got.grad, steps * expected.grad, "a gradient", rounding=64)


@CASES
def no_thread_is_called_back_for_a_bucket(job: Job) -> None:
    """Rank 1 computes late, so rank 0's buckets are not over when their futures are asked for."""
    if BACKEND == "gloo":
        raise Skip("about penny's streams")
    model = parallel(job, Network(), gradient_as_bucket_view=True)
    if job.rank:
        job.store.wait(["first bucket"], PATIENCE)

    def queue_callback(callback: Callable[[], None]) -> None:
        job.store.set("first bucket", "queued")
        plain(callback)

    plain = backward._queue_callback
    with (
        mock.patch.object(backward, "_queue_callback", side_effect=queue_callback) as queued,
        mock.patch.object(streams, "_call_back", side_effect=AssertionError("a thread is called back")),
    ):
        model(of_rank(job.rank)).backward()
    assert job.rank or queued.call_count == 1
    assert_gradients(model.module, job)


@CASES
def passes_within_the_pass(job: Job) -> None:
    model = parallel(job, Network(again=True))
    for _ in range(3):
        model.zero_grad()
        model(of_rank(job.rank)).backward()
        assert_gradients(model.module, job)


@CASES
def buckets_that_are_reduced_at_the_end_of_the_pass(job: Job) -> None:
    """With a static graph the first pass queues all of them in its last callback, and waits for them there."""
    model = parallel(job, Network(), static_graph=True)
    for _ in range(3):
        model.zero_grad()
        model(of_rank(job.rank)).backward()
        assert_gradients(model.module, job)


@CASES
def a_hook_that_waits_for_a_future_within_the_pass(job: Job) -> None:
    """A program's own hook may wait for a future before the pass is over, in C++ as wait_all does."""
    network = Network()

    def mean(gradient: torch.Tensor) -> torch.Tensor:
        total = gradient.clone()
        work = dist.all_reduce(total, group=job.tested, async_op=True)
        torch.futures.wait_all([work.get_future()])
        return total / job.size

    for parameter in network.parameters():
        parameter.register_hook(mean)
    network(of_rank(job.rank)).backward()
    assert_gradients(network, job)


@CASES
def a_communication_hook_in_python(job: Job) -> None:
    model = parallel(job, Network())

    def scaled(state, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations, and not those in quotes
        gradients = bucket.buffer().div_(job.size)
        future = dist.all_reduce(gradients, group=job.tested, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    model.register_comm_hook(None, scaled)
    model(of_rank(job.rank)).backward()
    assert_gradients(model.module, job)


@CASES
def a_communication_hook_goes_on_with_its_calls_where_no_core_is_left(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("of penny's own")

    def at_once(state, bucket):  # type: ignore[no-untyped-def]  # as above
        gradients = bucket.buffer().div_(job.size)
        future = dist.all_reduce(gradients, group=job.tested, async_op=True).get_future()
        assert future.done()
        return future.then(lambda done: done.value()[0])

    # However late the peers are, and were before, they come.
    patient = {"_fill_cores": lambda: True, "_MOMENT": 60, "_LATE": 1 << 30}
    with mock.patch.multiple(backward, **patient):
        model = parallel(job, Network())
        model.register_comm_hook(None, at_once)
        model(of_rank(job.rank)).backward()
    assert_gradients(model.module, job)


@pytest.mark.skipif(BACKEND == "gloo", reason="of penny's own")
def test_a_hook_whose_peers_come_late_goes_on_with_each_sixteenth_call_only() -> None:
    class Never(completion.Completion):
        asked = 0

        def done(self) -> bool:
            self.asked += 1
            return False

    def tried(end: backward.PassEnd) -> bool:
        never = Never()
        assert not end.add(never, completion.Future(never, []))
        return never.asked > 0

    end = backward.PassEnd()
    in_a_pass = {"_current_graph_task_id": lambda: 1, "_MOMENT": 0.0}
    with mock.patch.multiple(backward, _fill_cores=lambda: True, **in_a_pass):
        assert [call for call in range(40) if tried(end)] == [0, 1, 2, 3, 16, 32]
        end.came_in_time()
        assert tried(end)
    with mock.patch.multiple(backward, _fill_cores=lambda: False, **in_a_pass):
        assert not tried(end)


@pytest.mark.skipif(BACKEND == "gloo", reason="of penny's own")
def test_the_ranks_of_a_host_fill_the_cores_that_they_may_use_and_none_on_a_declared_machine() -> None:
    def fill(cores: int, of: int, **variables: str) -> bool:
        with (
            mock.patch.object(os, "sched_getaffinity", lambda _: set(range(cores))),
            mock.patch.object(os, "cpu_count", lambda: of),
            mock.patch.dict(os.environ, variables, clear=True),
        ):
            return backward._fill_cores()

    assert fill(2, 2, LOCAL_WORLD_SIZE="2")
    assert fill(2, 2, OMPI_COMM_WORLD_LOCAL_SIZE="3")
    assert not fill(4, 4, LOCAL_WORLD_SIZE="2")
    assert not fill(2, 2), "nobody says how many ranks are here"
    assert fill(1, 8, LOCAL_WORLD_SIZE="8"), "bound to one core"
    assert not fill(4, 32, LOCAL_WORLD_SIZE="8"), "bound to a share of them"
    assert not fill(2, 2, LOCAL_WORLD_SIZE="2", PENNY_FABRIC="dgx-h100")


@CASES
def a_pass_that_fails_half_way_and_one_after_it(job: Job) -> None:
    """The buckets of the first are under way when it fails on every rank; those of the next group are not its business."""
    model = parallel(job, network := Network())
    failing = network.layers[0].weight.register_hook(lambda gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(of_rank(job.rank)).backward()
    failing.remove()
    fresh = parallel(job, Network())
    fresh(of_rank(job.rank)).backward()
    assert_gradients(fresh.module, job)


@CASES
def a_failure_of_a_bucket_is_raised_by_the_pass(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo does not compare calls")
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE)
    model = DistributedDataParallel(Network(), process_group=group)
    loss = model(of_rank(job.rank))
    if job.rank == job.size - 1:
        work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
        with pytest.raises(RuntimeError, match="all_reduce"):
            work.wait()
    else:
        with pytest.raises(RuntimeError, match="all_reduce"):
            loss.backward()
    dist.barrier(group=job.tested)


@CASES
def a_pass_in_another_thread(job: Job) -> None:
    import threading

    model = parallel(job, Network())
    thread = threading.Thread(target=lambda: model(of_rank(job.rank)).backward())
    thread.start()
    thread.join()
    assert_gradients(model.module, job)


@CASES
def what_was_queued_before_the_pass_is_not_its_business(job: Job) -> None:
    before = torch.ones(1000)
    work = dist.all_reduce(before, group=job.tested, async_op=True)
    model = parallel(job, Network())
    model(of_rank(job.rank)).backward()
    work.wait()
    assert_same(before, torch.full((1000,), float(job.size)), "the sum")
    assert_gradients(model.module, job)
