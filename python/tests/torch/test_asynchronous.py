"""Calls that return before they are done: what their Work tells, in which order they may be waited for, who may run meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import torch
from cases import BACKEND, PATIENCE, Cases, Job, Skip
from samples import assert_same

CASES = Cases()


def test_asynchronous(run_case: Callable[[], None]) -> None:
    run_case()


def ones(count: int = 4) -> torch.Tensor:
    return torch.ones(count)


def whole(job: Job) -> torch.Tensor:
    return torch.ones(4 * job.size)


def parts(job: Job) -> list[torch.Tensor]:
    return [ones() for _ in range(job.size)]


def parts_at(root: int, job: Job) -> list[torch.Tensor] | None:
    return parts(job) if job.rank == root else None


Call = Callable[[Job], dist.Work]

CALLS: dict[str, Call] = {
    "all_reduce": lambda job: dist.all_reduce(ones(), group=job.tested, async_op=True),
    "broadcast": lambda job: dist.broadcast(ones(), group=job.tested, group_src=1, async_op=True),
    "reduce": lambda job: dist.reduce(ones(), group=job.tested, group_dst=0, async_op=True),
    "all_gather": lambda job: dist.all_gather(parts(job), ones(), group=job.tested, async_op=True),
    "all_gather_into_tensor": lambda job: dist.all_gather_into_tensor(
        whole(job), ones(), group=job.tested, async_op=True
    ),
    "reduce_scatter": lambda job: dist.reduce_scatter(ones(), parts(job), group=job.tested, async_op=True),
    "reduce_scatter_tensor": lambda job: dist.reduce_scatter_tensor(
        ones(), whole(job), group=job.tested, async_op=True
    ),
    "all_to_all": lambda job: dist.all_to_all(parts(job), parts(job), group=job.tested, async_op=True),
    "all_to_all_single": lambda job: dist.all_to_all_single(
        whole(job), whole(job), group=job.tested, async_op=True
    ),
    "gather": lambda job: dist.gather(ones(), parts_at(0, job), group=job.tested, group_dst=0, async_op=True),
    "scatter": lambda job: dist.scatter(
        ones(), parts_at(1, job), group=job.tested, group_src=1, async_op=True
    ),
    "barrier": lambda job: dist.barrier(group=job.tested, async_op=True),
}


def returns_before_the_others_come(called: str, job: Job) -> None:
    """Rank 0 has its Work in hand, unfinished, before any other rank makes the call."""
    if BACKEND == "gloo" and called.startswith("reduce_scatter"):
        raise Skip("gloo's reduce_scatter blocks")
    if job.rank == 0:
        work = CALLS[called](job)
        assert not work.is_completed(), "it is done although nobody else has taken part"
        job.store.set(f"{called} began", "yes")
    else:
        job.store.wait([f"{called} began"], PATIENCE)
        work = CALLS[called](job)
    assert work.wait() is not False
    assert work.is_completed()
    assert work.exception() is None
    if BACKEND == "penny":
        assert work.is_success()


for called in CALLS:
    CASES.add(f"{called} returns before the others come", partial(returns_before_the_others_come, called))


@CASES
def works_are_waited_for_in_another_order(job: Job) -> None:
    tensors = [torch.full((1000,), float(number + job.rank)) for number in range(12)]
    works = [dist.all_reduce(tensor, group=job.tested, async_op=True) for tensor in tensors]
    for number in (5, 11, 0, 7, 1, 2, 10, 3, 4, 9, 6, 8):
        works[number].wait()
        expected = float(number * job.size + sum(range(job.size)))
        assert_same(tensors[number], torch.full((1000,), expected), f"sum {number}")


@CASES
def different_collectives_are_outstanding_together(job: Job) -> None:
    total, sent, everything = torch.ones(3), torch.full((2,), float(job.rank)), torch.zeros(job.size)
    works = [
        dist.all_reduce(total, group=job.tested, async_op=True),
        dist.broadcast(sent, group=job.tested, group_src=1, async_op=True),
        dist.all_gather_into_tensor(
            everything, torch.tensor([float(job.rank)]), group=job.tested, async_op=True
        ),
        dist.barrier(group=job.tested, async_op=True),
    ]
    for work in reversed(works):
        work.wait()
    assert_same(total, torch.full((3,), float(job.size)), "all_reduce")
    assert_same(sent, torch.ones(2), "broadcast")
    assert_same(everything, torch.arange(float(job.size)), "all_gather_into_tensor")


@CASES
def a_blocking_call_comes_after_those_outstanding(job: Job) -> None:
    """Both work on one tensor, so their order shows."""
    if BACKEND == "gloo":
        raise Skip("gloo runs two calls at a time")
    tensor = torch.ones(1 << 16)
    works = [dist.all_reduce(tensor, group=job.tested, async_op=True) for _ in range(3)]
    dist.all_reduce(tensor, group=job.tested)
    for work in works:
        work.wait()
    assert_same(tensor, torch.full((1 << 16,), float(job.size**4)), "four sums of sums")


@CASES
def a_chain_of_calls_on_one_tensor_keeps_its_order(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo runs two calls at a time")
    tensor = torch.full((100,), float(job.rank))
    works = []
    for root in range(job.size):
        works.append(dist.broadcast(tensor, group=job.tested, group_src=root, async_op=True))
        works.append(dist.all_reduce(tensor, group=job.tested, async_op=True))
    works[-1].wait()
    assert_same(tensor, torch.zeros(100), "rank 0's zeros, summed and spread")


@CASES
def computing_between_call_and_wait(job: Job) -> None:
    weights = torch.eye(64) * 2
    tensors = [torch.full((64, 64), float(job.rank)) for _ in range(5)]
    works, product = [], torch.ones(64, 64)
    for tensor in tensors:
        works.append(dist.all_reduce(tensor, group=job.tested, async_op=True))
        product = product @ weights
    for work in works:
        work.wait()
    assert_same(product, torch.full((64, 64), 32.0), "what was computed")
    for tensor in tensors:
        assert_same(tensor, torch.full((64, 64), float(sum(range(job.size)))), "what was summed")


@CASES
def is_completed_becomes_true_without_a_wait(job: Job) -> None:
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, group=job.tested, async_op=True)
    while not work.is_completed():  # ends with the call, or with the job's watchdog
        pass
    assert_same(tensor, torch.full((1000,), float(job.size)), "the sum")


@CASES
def nothing_needs_to_be_kept(job: Job) -> None:
    """Work and tensors may be dropped at once; the call still takes part, and reads memory that is still there."""
    for _ in range(50):
        dist.all_reduce(torch.ones(5000), group=job.tested, async_op=True)
    sends = dist.isend(torch.full((5000,), float(job.rank)), job.right, group=job.tested)
    torch.zeros(5000)  # takes the memory of the message, if that was freed
    dist.recv(received := torch.empty(5000), job.left, group=job.tested)
    sends.wait()
    assert_same(received, torch.full((5000,), float(job.left)), "the message")
    dist.barrier(group=job.tested)


@CASES
def futures(job: Job) -> None:
    """get_future gives the outputs, runs callbacks, and may be asked for before and after the end."""
    tensor = torch.full((10,), float(job.rank))
    work = dist.all_reduce(tensor, group=job.tested, async_op=True)
    doubled = work.get_future().then(lambda future: [output * 2 for output in future.value()])
    expected = torch.full((10,), float(sum(range(job.size))))
    assert_same(doubled.wait()[0], expected * 2, "the callback's result")
    assert_same(work.get_future().wait()[0], expected, "the future's value")
    work.wait()
    assert work.get_future().done()
    futures = [dist.all_reduce(torch.ones(3), group=job.tested, async_op=True).get_future() for _ in range(5)]
    for outputs in torch.futures.wait_all(futures):
        assert_same(outputs[0], torch.full((3,), float(job.size)), "one of several")


def waits_for_another(job: Job, group: dist.ProcessGroup | None) -> None:
    # Large enough to be under way when the callback is hung on it.
    work = dist.all_reduce(torch.ones(1 << 20), group=group, async_op=True)

    def another(_: object) -> float:
        second = dist.all_reduce(torch.ones(1000), group=group, async_op=True)
        dist.all_reduce(torch.ones(10), group=group, async_op=True).wait()
        return second.get_future().wait()[0][0].item()

    assert work.get_future().then(another).wait() == job.size


@CASES
def a_callback_waits_for_another_collective(job: Job) -> None:
    waits_for_another(job, job.tested)


@CASES
def a_callback_waits_where_works_are_wrapped_by_a_dispatch_mode(job: Job) -> None:
    with FlopCounterMode(display=False):
        for _ in range(5):
            waits_for_another(job, job.tested)


@CASES
def a_callback_waits_where_works_are_wrapped_by_a_group_of_two_backends(job: Job) -> None:
    group = dist.new_group(backend="cpu:penny,cuda:gloo")
    for _ in range(5):
        waits_for_another(job, group)
    dist.destroy_process_group(group)


@CASES
def a_future_of_a_gather_has_the_outputs(job: Job) -> None:
    everything = torch.zeros(job.size)
    mine = torch.tensor([float(job.rank)])
    work = dist.all_gather_into_tensor(everything, mine, group=job.tested, async_op=True)
    work.get_future().wait()
    assert_same(everything, torch.arange(float(job.size)), "the tensor")


@CASES
def a_future_waited_for_in_another_thread(job: Job) -> None:
    tensor = torch.ones(10)
    future = dist.all_reduce(tensor, group=job.tested, async_op=True).get_future()
    thread = threading.Thread(target=future.wait)
    thread.start()
    thread.join()
    assert_same(tensor, torch.full((10,), float(job.size)), "the sum")


@CASES
def a_work_is_waited_for_twice_and_by_two_threads(job: Job) -> None:
    tensor = torch.ones(10)
    work = dist.all_reduce(tensor, group=job.tested, async_op=True)
    threads = [threading.Thread(target=work.wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work.wait()
    assert_same(tensor, torch.full((10,), float(job.size)), "the sum")


@CASES
def threads_use_groups_of_their_own(job: Job) -> None:
    groups = [dist.new_group(backend=BACKEND, timeout=PATIENCE) for _ in range(2)]
    tensors = [torch.full((100,), float(number + 1)) for number in range(2)]

    def repeat(number: int) -> None:
        for _ in range(20):
            dist.all_reduce(tensors[number], dist.ReduceOp.MAX, group=groups[number])

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, tensor in enumerate(tensors):
        assert_same(tensor, torch.full((100,), float(number + 1)), f"of thread {number}")


@CASES
def other_threads_run_while_a_call_waits(job: Job) -> None:
    """Rank 0 waits in a collective that the others join only after a long talk with another of its threads."""
    if job.rank == 0:

        def talk() -> None:
            for number in range(100):
                job.store.set(f"said {number}", "yes")
                job.store.wait([f"heard {number}"], PATIENCE)

        thread = threading.Thread(target=talk)
        thread.start()
        dist.barrier(group=job.tested)
        thread.join()
    else:
        for number in range(100):
            job.store.wait([f"said {number}"], PATIENCE)
            if job.rank == 1:
                job.store.set(f"heard {number}", "yes")
        dist.barrier(group=job.tested)


def ranges(call: Callable[[], object]) -> set[str]:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    return {event.name for event in profiler.events()}


@CASES
def profiler_ranges_are_named_after_backend_and_operation(job: Job) -> None:
    def blocking() -> None:
        dist.all_reduce(torch.ones(5), group=job.tested)
        dist.broadcast(torch.ones(5), group=job.tested, group_src=0)
        dist.barrier(group=job.tested)

    def asynchronous() -> None:
        dist.all_reduce(torch.ones(5), group=job.tested, async_op=True).wait()

    names = ranges(blocking)
    for operation in ("all_reduce", "broadcast", "barrier"):
        assert f"{BACKEND}:{operation}" in names, f"no range {BACKEND}:{operation} among {sorted(names)}"
    names = ranges(asynchronous)
    assert f"{BACKEND}:all_reduce" in names, f"no range {BACKEND}:all_reduce among {sorted(names)}"
