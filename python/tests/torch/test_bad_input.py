"""What is wrong with a call is said in a sentence, on every rank that has to know, and the group works on afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
import torch.distributed as dist

import torch
from cases import BACKEND, PATIENCE, Cases, Job, Skip
from samples import assert_same

CASES = Cases()


def test_bad_input(run_case: Callable[[], None]) -> None:
    run_case()


def assert_still_works(job: Job) -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=job.tested)
    assert_same(tensor, torch.full((3,), float(job.size)), "the sum afterwards")


Call = Callable[[Job], object]


def refused(call: Call, words: tuple[str, ...], job: Job) -> None:
    """Every rank makes the same bad call and is told at once, with `words` in the sentence."""
    if BACKEND == "gloo":
        raise Skip("gloo has words of its own, and waits where it does not look")
    with pytest.raises((ValueError, TypeError, RuntimeError)) as raised:
        call(job)
    for word in words:
        assert word in str(raised.value), f"no {word!r} in: {raised.value}"
    assert_still_works(job)


def three() -> torch.Tensor:
    return torch.ones(3)


def wrong_list(job: Job) -> object:
    return dist.all_gather([three() for _ in range(job.size - 1)], three(), group=job.tested)


def scatter_without_list(job: Job) -> object:
    parts = [three() for _ in range(job.size - 1)] if job.rank == 0 else None
    return dist.scatter(three(), parts, group=job.tested, group_src=0)


def uneven_halves(job: Job) -> object:
    return dist.all_to_all_single(torch.ones(job.size + 1), torch.ones(job.size + 1), group=job.tested)


def wrong_splits(job: Job) -> object:
    splits = [1] * job.size
    return dist.all_to_all_single(
        torch.ones(job.size), torch.ones(job.size + 1), splits, splits, group=job.tested
    )


REFUSED: dict[str, tuple[Call, tuple[str, ...]]] = {
    "sparse tensor": (
        lambda job: dist.broadcast(torch.eye(3).to_sparse(), group=job.tested, group_src=0),
        ("parse",),
    ),
    "sparse tensor of another layout to sum": (
        lambda job: dist.all_reduce(torch.eye(3).to_sparse_csr(), group=job.tested),
        ("parse",),
    ),
    "maximum of sparse tensors": (
        lambda job: dist.all_reduce(torch.eye(3).to_sparse(), dist.ReduceOp.MAX, group=job.tested),
        ("MAX", "SUM"),
    ),
    "sparse tensor to broadcast": (
        lambda job: dist.broadcast(torch.eye(3).to_sparse_csr(), group=job.tested, group_src=0),
        ("parse",),
    ),
    "tensor without memory": (
        lambda job: dist.all_reduce(torch.empty(3, device="meta"), group=job.tested),
        ("meta",),
    ),
    "quantized tensor": (
        lambda job: dist.all_reduce(
            torch.quantize_per_tensor(three(), 0.1, 0, torch.quint8), group=job.tested
        ),
        ("quantized",),
    ),
    "sum in elements that share memory": (
        lambda job: dist.all_reduce(torch.ones(1).expand(4), group=job.tested),
        ("all_reduce", "tensor has 4 elements that share memory", "clone()"),
    ),
    "gathered into elements that share memory": (
        lambda job: dist.all_gather_into_tensor(
            torch.ones(1).expand(3 * job.size), three(), group=job.tested
        ),
        ("all_gather", "output has", "share memory"),
    ),
    "received in elements that share memory": (
        lambda job: dist.recv(torch.ones(3, 1).expand(3, 2), group_src=0, group=job.tested),
        ("recv", "tensor has 6 elements that share memory"),
    ),
    "bits of floats": (
        lambda job: dist.all_reduce(three(), dist.ReduceOp.BAND, group=job.tested),
        ("all_reduce", "float32"),
    ),
    "root beyond the ranks": (
        lambda job: dist.broadcast(three(), group=job.tested, group_src=99),
        ("broadcast", "99"),
    ),
    "negative root": (
        lambda job: dist.reduce(three(), group=job.tested, group_dst=-1),
        ("reduce", "-1"),
    ),
    "global root beyond the ranks": (lambda job: dist.broadcast(three(), src=99, group=job.tested), ("99",)),
    "peer beyond the ranks": (lambda job: dist.send(three(), group_dst=99, group=job.tested), ("send", "99")),
    "output too small": (
        lambda job: dist.all_gather_into_tensor(torch.empty(job.size * 3 - 1), three(), group=job.tested),
        ("all_gather",),
    ),
    "input that does not divide": (
        lambda job: dist.reduce_scatter_tensor(three(), torch.ones(job.size * 3 + 1), group=job.tested),
        ("reduce_scatter",),
    ),
    "output of another type": (
        lambda job: dist.all_gather_into_tensor(
            torch.empty(job.size * 3, dtype=torch.int32), three(), group=job.tested
        ),
        (),
    ),
    "list that is too short": (wrong_list, ("all_gather",)),
    "blocks of unequal rows": (uneven_halves, ()),
    "splits that do not add up": (wrong_splits, ("plit",)),
}

for what, (call, words) in REFUSED.items():
    CASES.add(f"refused: {what}", partial(refused, call, words))


@CASES
def a_list_for_scatter_that_is_too_short_is_told_to_all(job: Job) -> None:
    """Only the root can see it; the others are told, or find nobody, but do not wait for ever."""
    if BACKEND == "gloo":
        raise Skip("gloo's other ranks wait for the deadline")
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE / 10)
    parts = [three() for _ in range(job.size - 1)] if job.rank == 0 else None
    with pytest.raises((ValueError, RuntimeError)):
        dist.scatter(three(), parts, group=group, group_src=0)
    assert_still_works(job)


@CASES
def tensors_on_a_gpu_are_refused(job: Job) -> None:
    if not torch.cuda.is_available():
        raise Skip("no GPU here")
    refused(lambda job: dist.all_reduce(three().cuda(), group=job.tested), ("cuda",), job)


def disagreement(call: Call, words: tuple[str, ...], job: Job) -> None:
    """Ranks make calls that do not go together: all of them are told what the others passed.

    Who had done its part before the others came is told by its next call, which is carried out all the same.
    """
    if BACKEND == "gloo":
        raise Skip("gloo does not compare calls")
    told: list[RuntimeError] = []
    tensor = three()
    for each in (call, lambda job: dist.all_reduce(tensor, group=job.tested)):
        try:
            each(job)
        except RuntimeError as error:
            told.append(error)
    assert len(told) == 1, f"told {len(told)} times: {told}"
    assert isinstance(told[0], dist.DistBackendError), type(told[0])
    for word in ("rank", *words):
        assert word in str(told[0]), f"no {word!r} in: {told[0]}"
    assert_same(tensor, torch.full((3,), float(job.size)), "the next call's sum")
    assert_still_works(job)


def by_rank(job: Job, *choices: object) -> object:
    """The last rank differs from the others."""
    return choices[1] if job.rank == job.size - 1 else choices[0]


def another_call(job: Job) -> object:
    if job.rank == job.size - 1:
        return dist.barrier(group=job.tested)
    return dist.all_reduce(three(), group=job.tested)


DISAGREEMENTS: dict[str, tuple[Call, tuple[str, ...]]] = {
    "sizes": (lambda job: dist.all_reduce(torch.ones(by_rank(job, 5, 7)), group=job.tested), ("5", "7")),
    "types": (
        lambda job: dist.all_reduce(
            torch.ones(4, dtype=by_rank(job, torch.float32, torch.int32)), group=job.tested
        ),
        ("float", "int32"),
    ),
    "operations": (
        lambda job: dist.all_reduce(
            three(), by_rank(job, dist.ReduceOp.SUM, dist.ReduceOp.MAX), group=job.tested
        ),
        ("sum", "max"),
    ),
    "roots": (lambda job: dist.broadcast(three(), group=job.tested, group_src=by_rank(job, 0, 1)), ("root",)),
    "calls": (another_call, ("all_reduce", "barrier")),
    "block sizes": (
        lambda job: dist.all_gather_into_tensor(
            torch.empty(job.size * int(by_rank(job, 2, 3))),
            torch.ones(by_rank(job, 2, 3)),
            group=job.tested,
        ),
        ("2", "3"),
    ),
}

for what, (call, words) in DISAGREEMENTS.items():
    CASES.add(f"ranks disagree about {what}", partial(disagreement, call, words))


@CASES
def an_asynchronous_disagreement_is_raised_by_wait(job: Job) -> None:
    """The call itself returns; wait, exception and the future all know."""
    if BACKEND == "gloo":
        raise Skip("gloo does not compare calls")
    work = dist.all_reduce(torch.ones(by_rank(job, 5, 7)), group=job.tested, async_op=True)
    with pytest.raises(RuntimeError, match="all_reduce"):
        work.wait()
    assert work.is_completed()
    assert not work.is_success()
    assert "all_reduce" in str(work.exception())
    with pytest.raises(RuntimeError, match="all_reduce"):
        work.get_future().wait()
    assert_still_works(job)


@CASES
def what_stands_behind_a_failed_call_is_still_done(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo does not compare calls")
    tensor = torch.ones(3)
    bad = dist.all_reduce(torch.ones(by_rank(job, 5, 7)), group=job.tested, async_op=True)
    good = dist.all_reduce(tensor, group=job.tested, async_op=True)
    good.wait()
    assert_same(tensor, torch.full((3,), float(job.size)), "the call behind")
    with pytest.raises(RuntimeError):
        bad.wait()


@CASES
def nobody_comes_to_a_collective(job: Job) -> None:
    """The deadline of the group ends the wait, with the numbers of those who were awaited."""
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE / 20)
    if job.rank == 0:
        with pytest.raises(RuntimeError) as raised:
            dist.all_reduce(three(), group=group)
        if BACKEND == "penny":
            assert "all_reduce" in str(raised.value) and "rank 1" in str(raised.value), str(raised.value)
    dist.barrier(group=job.tested)


@CASES
def a_monitored_barrier_names_who_has_not_come(job: Job) -> None:
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE)
    if job.rank != 1:
        with pytest.raises(RuntimeError) as raised:
            dist.monitored_barrier(group=group, timeout=PATIENCE / 20)
        if job.rank == 0:
            assert "Rank 1 failed to pass monitoredBarrier" in str(raised.value), str(raised.value)
        else:
            assert f"Rank {job.rank} successfully reached" in str(raised.value), str(raised.value)
    dist.barrier(group=job.tested)


@CASES
def a_monitored_barrier_without_time_says_so(job: Job) -> None:
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE)
    if job.rank == 0:
        with pytest.raises(RuntimeError, match="Rank 0 timed out in monitoredBarrier"):
            group.monitored_barrier(timedelta(0))
    dist.barrier(group=job.tested)


@CASES
def nobody_receives_a_message(job: Job) -> None:
    """The sentence has the call that waits and the number, in the group, of the rank that does not come."""
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE / 20)
    if job.rank == job.size - 1:
        for call, named in ((dist.recv, "recv"), (dist.send, "send")):
            with pytest.raises(RuntimeError) as raised:
                call(torch.ones(1 << 20), 0, group=group)
            if BACKEND == "penny":
                assert named in str(raised.value) and "rank 0" in str(raised.value), str(raised.value)
    dist.barrier(group=job.tested)


@CASES
def a_destroyed_group_is_refused(job: Job) -> None:
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE)
    dist.all_reduce(three(), group=group)
    dist.destroy_process_group(group)
    with pytest.raises((ValueError, RuntimeError)):
        dist.all_reduce(three(), group=group)
    assert_still_works(job)
