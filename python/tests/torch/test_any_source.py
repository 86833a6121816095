"""Receives from any source: who is served, in which order, beside named sources and tags, and what ends a wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch.distributed as dist

import torch
from cases import BACKEND, PATIENCE, Cases, Job, Skip
from samples import assert_same

CASES = Cases()


def test_any_source(run_case: Callable[[], None]) -> None:
    run_case()


def message(sender: int, number: int, tag: int = 0) -> torch.Tensor:
    """No two alike."""
    return torch.tensor([sender, number, tag])


def from_any(job: Job, tag: int = 0) -> tuple[int, torch.Tensor]:
    source = dist.recv(received := torch.empty(3, dtype=torch.int64), group=job.tested, tag=tag)
    return source, received


def everybody_else(job: Job) -> range:
    return range(1, job.size)


def said(job: Job, what: str) -> None:
    job.store.set(f"{what} {job.rank}", "yes")


def await_all(job: Job, what: str) -> None:
    job.store.wait([f"{what} {peer}" for peer in everybody_else(job)], PATIENCE)


@CASES
def the_sender_of_each_message_is_told_and_its_messages_keep_their_order(job: Job) -> None:
    if job.rank:
        for number in range(10):
            dist.send(message(job.rank, number), 0, group=job.tested)
        return
    numbers = dict.fromkeys(everybody_else(job), 0)
    for _ in range(10 * len(numbers)):
        source, received = from_any(job)
        assert_same(received, message(source, numbers[source]), f"from rank {source}")
        numbers[source] += 1
    assert set(numbers.values()) == {10}


@CASES.on(4)
def of_senders_that_all_wait_none_is_passed_over(job: Job) -> None:
    """Each sender has several messages waiting: if the same one were always asked first, only that one would be served."""
    if BACKEND == "gloo":
        raise Skip("gloo promises no order among senders")
    rounds = 3
    if job.rank:
        for number in range(1 + rounds):
            dist.send(message(job.rank, number), 0, group=job.tested)
        said(job, "fair: sent")
        return
    for sender in everybody_else(job):  # The first message of each: room for the others.
        dist.recv(torch.empty(3, dtype=torch.int64), sender, group=job.tested)
    await_all(job, "fair: sent")
    for turn in range(rounds):
        served = [from_any(job)[0] for _ in everybody_else(job)]
        assert sorted(served) == [1, 2, 3], f"turn {turn} served {served}"


@CASES
def several_receives_are_served_in_the_order_of_their_calls(job: Job) -> None:
    if job.rank:
        for number in range(5):
            dist.send(message(job.rank, number), 0, group=job.tested)
        return
    received = [torch.empty(3, dtype=torch.int64) for _ in range(5 * (job.size - 1))]
    works = [dist.irecv(tensor, group=job.tested) for tensor in received]
    for work in reversed(works):
        work.wait()
    for sender in everybody_else(job):
        numbers = [int(tensor[1]) for tensor in received if int(tensor[0]) == sender]
        assert numbers == list(range(5)), f"rank {sender}'s messages came as {numbers}"
    for tensor, work in zip(received, works, strict=True):
        assert work._source_rank() == int(tensor[0])


@CASES
def tags_are_kept_apart(job: Job) -> None:
    if job.rank:
        for tag in (7, 3):
            dist.isend(message(job.rank, 0, tag), 0, group=job.tested, tag=tag)
        dist.barrier(group=job.tested)
        return
    for tag in (3, 7):
        for _ in everybody_else(job):
            source, received = from_any(job, tag)
            assert_same(received, message(source, 0, tag), f"tag {tag} from rank {source}")
    dist.barrier(group=job.tested)


def receives_are_served_in_the_order_of_calls(job: Job, tag: int, sources: list[int | None]) -> None:
    """Rank 0 calls a receive for each source, and waits for the receives in the opposite order. Rank 1 sends the messages."""
    if BACKEND == "gloo":
        raise Skip("gloo matches in an order of its own")
    posted = f"receives posted: {tag}"
    if job.rank == 0:
        tensors = [torch.empty(3, dtype=torch.int64) for _ in sources]
        works = [
            dist.irecv(tensor, source, group=job.tested, tag=tag)
            for tensor, source in zip(tensors, sources, strict=True)
        ]
        job.store.set(posted, "yes")
        for work in reversed(works):
            work.wait()
        for number, source in enumerate(sources):
            assert works[number]._source_rank() == 1
            assert_same(tensors[number], message(1, number), f"what came to the receive from {source}")
    if job.rank == 1:
        job.store.wait([posted], PATIENCE)
        for number in range(len(sources)):
            dist.send(message(1, number), 0, group=job.tested, tag=tag)


@CASES
def a_receive_from_a_named_rank_stands_behind_one_from_any_that_was_called_before(job: Job) -> None:
    receives_are_served_in_the_order_of_calls(job, 1, [None, 1])


@CASES
def a_receive_from_any_stands_behind_one_from_a_named_rank_that_was_called_before(job: Job) -> None:
    receives_are_served_in_the_order_of_calls(job, 2, [1, None])


@CASES
def is_completed_becomes_true_without_a_wait(job: Job) -> None:
    if job.rank == 0:
        received = torch.empty(3, dtype=torch.int64)
        work = dist.irecv(received, group=job.tested, tag=3)
        assert not work.is_completed()
        job.store.set("unwaited: posted", "yes")
        while not work.is_completed():  # ends with the call, or with the job's watchdog
            pass
        assert_same(received, message(1, 0), "from rank 1")
        assert work.get_future().wait()[0] is received
    if job.rank == 1:
        job.store.wait(["unwaited: posted"], PATIENCE)
        dist.send(message(1, 0), 0, group=job.tested, tag=3)


@CASES
def large_messages_sent_in_a_batch(job: Job) -> None:
    count = 1 << 18
    if job.rank:
        batch = [
            dist.P2POp(dist.isend, torch.full((count,), float(job.rank + number)), 0, group=job.tested)
            for number in range(2)
        ]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        return
    sums = dict.fromkeys(everybody_else(job), 0.0)
    for _ in range(2 * len(sums)):
        source = dist.recv(received := torch.empty(count), group=job.tested)
        assert_same(received, torch.full((count,), float(received[0])), f"from rank {source}")
        sums[source] += float(received[0])
    assert sums == {sender: 2.0 * sender + 1 for sender in sums}


@CASES
def a_strided_tensor_receives(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo receives contiguous tensors only")
    if job.rank == 0:
        board = torch.zeros(3, 2, dtype=torch.int64)
        assert dist.recv(board[:, 1], group=job.tested, tag=4) == 1
        assert_same(board, torch.stack([torch.zeros(3, dtype=torch.int64), message(1, 5)], 1), "the board")
    if job.rank == 1:
        dist.send(message(1, 5), 0, group=job.tested, tag=4)


@CASES
def a_message_to_oneself_is_from_any_source_too(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo has no messages to oneself")
    sent = dist.isend(message(job.rank, 0), job.rank, group=job.tested, tag=5)
    received = torch.empty(3, dtype=torch.int64)
    work = dist.irecv(received, group=job.tested, tag=5)
    work.wait()
    sent.wait()
    assert work._source_rank() == job.rank
    assert_same(received, message(job.rank, 0), "my own message")


@CASES
def a_message_of_another_length_is_refused_and_the_next_is_received(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo does not compare lengths")
    if job.rank == 0:
        with pytest.raises(RuntimeError, match="rank"):
            dist.recv(torch.empty(5), group=job.tested, tag=6)
        assert dist.recv(received := torch.empty(3), group=job.tested, tag=6) == 1
        assert_same(received, torch.ones(3), "the next message")
    if job.rank == 1:
        for _ in range(2):
            try:
                dist.send(torch.ones(3), 0, group=job.tested, tag=6)
            except RuntimeError as error:
                assert "rank 1" in str(error), str(error)
    dist.barrier(group=job.tested)


@CASES
def a_tensor_that_cannot_receive_is_refused(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo has words of its own")
    with pytest.raises(TypeError, match="recv"):
        dist.irecv(torch.eye(3).to_sparse(), group=job.tested)


@CASES
def nobody_sends(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo has words of its own")
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE / 20)
    if job.rank == 0:
        with pytest.raises(RuntimeError) as raised:
            dist.recv(torch.empty(3), group=group, tag=8)
        for word in ("recv", "rank 0", "tag 8", "no rank has called send"):
            assert word in str(raised.value), f"no {word!r} in: {raised.value}"
    dist.barrier(group=job.tested)


@CASES
def the_others_have_left(job: Job) -> None:
    """The messages that were sent before are received. Then no sender is left, and the error comes at once."""
    if BACKEND == "gloo":
        raise Skip("gloo has words of its own")
    group = dist.new_group(backend=BACKEND, timeout=10 * PATIENCE)
    if job.rank:
        dist.send(message(job.rank, 0), 0, group=group)
        dist.destroy_process_group(group)
    else:
        for _ in everybody_else(job):
            dist.recv(torch.empty(3, dtype=torch.int64), group=group)
        with pytest.raises(RuntimeError, match="no other rank is left"):
            dist.recv(torch.empty(3, dtype=torch.int64), group=group)
        dist.destroy_process_group(group)
    job.store.set(f"left {job.rank}", "yes")
    job.store.wait([f"left {peer}" for peer in range(job.size)], PATIENCE)


@CASES
def a_group_that_is_destroyed_ends_a_receive(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo's destroyed groups wait on")
    group = dist.new_group(backend=BACKEND, timeout=10 * PATIENCE)
    work = dist.irecv(torch.empty(3), group=group)
    dist.destroy_process_group(group)
    with pytest.raises(RuntimeError, match="process group is over"):
        work.wait()
    dist.barrier(group=job.tested)


@CASES
def a_watched_group_receives_too(job: Job) -> None:
    """A hook sends calls through torch's dispatcher."""
    if BACKEND == "gloo":
        raise Skip("about penny's process group")
    group = dist.new_group(backend=BACKEND, timeout=PATIENCE)
    assert isinstance(group, dist.ProcessGroup)
    group.register_pre_hook(1, lambda *_, **__: None)
    if job.rank == 0:
        assert dist.recv(received := torch.empty(3, dtype=torch.int64), group=group) == 1
        assert_same(received, message(1, 0), "from rank 1")
    if job.rank == 1:
        dist.send(message(1, 0), 0, group=group)
    dist.barrier(group=job.tested)
