"""Send and receive: in any order, with tags, batched, both ways at once, blocking and not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.distributed as dist

import torch
from cases import BACKEND, Cases, Job, Skip
from samples import DTYPES, assert_same, name, of_rank

CASES = Cases()


def test_point_to_point(run_case: Callable[[], None]) -> None:
    run_case()


def message(source: int, destination: int, tag: int = 0, count: int = 6) -> torch.Tensor:
    """What goes from one rank to another under a tag: no two alike."""
    return torch.arange(count, dtype=torch.float64) + 1000 * source + 100 * destination + 10 * tag


def around_the_ring(dtype: torch.dtype, job: Job) -> None:
    """Everybody sends to the right and receives from the left; even ranks send first."""
    mine = of_rank(job.rank, (5, 3), dtype, "ring")
    received = torch.empty(5, 3, dtype=dtype)
    if job.rank % 2 == 0:
        dist.send(mine, job.right, group=job.tested)
        source = dist.recv(received, job.left, group=job.tested)
    else:
        source = dist.recv(received, job.left, group=job.tested)
        dist.send(mine, job.right, group=job.tested)
    assert source == job.left
    assert_same(received, of_rank(job.left, (5, 3), dtype, "ring"), "what came from the left")


for dtype in DTYPES:
    CASES.add(f"send and recv of {name(dtype)}", partial(around_the_ring, dtype))


@CASES
def everybody_sends_before_anybody_receives(job: Job) -> None:
    """isend returns before its message is taken, so all may begin with it, of any size."""
    for count in (1, 1000, 1 << 18):
        sends = [
            dist.isend(message(job.rank, peer, count=count), peer, group=job.tested)
            for peer in range(job.size)
            if peer != job.rank
        ]
        for peer in range(job.size):
            if peer != job.rank:
                dist.recv(received := torch.empty(count, dtype=torch.float64), peer, group=job.tested)
                assert_same(
                    received, message(peer, job.rank, count=count), f"{count} elements from rank {peer}"
                )
        for send in sends:
            send.wait()


@CASES
def everybody_receives_before_anybody_sends(job: Job) -> None:
    peers = [peer for peer in range(job.size) if peer != job.rank]
    received = {peer: torch.empty(6, dtype=torch.float64) for peer in peers}
    receives = {peer: dist.irecv(received[peer], peer, group=job.tested) for peer in peers}
    for peer in peers:
        dist.send(message(job.rank, peer), peer, group=job.tested)
    for peer in reversed(peers):
        receives[peer].wait()
        assert_same(received[peer], message(peer, job.rank), f"from rank {peer}")


@CASES
def tags_match_messages_sent_in_another_order(job: Job) -> None:
    tags = [3, 0, 7, 1]
    sends = [
        dist.isend(message(job.rank, job.right, tag), job.right, group=job.tested, tag=tag) for tag in tags
    ]
    received = {tag: torch.empty(6, dtype=torch.float64) for tag in tags}
    receives = {tag: dist.irecv(received[tag], job.left, group=job.tested, tag=tag) for tag in sorted(tags)}
    for tag in sorted(tags, reverse=True):
        receives[tag].wait()
        assert_same(received[tag], message(job.left, job.rank, tag), f"tag {tag}")
    for send in sends:
        send.wait()


@CASES
def blocking_receives_by_tag_against_the_order_of_sending(job: Job) -> None:
    sends = [
        dist.isend(message(job.rank, job.right, tag), job.right, group=job.tested, tag=tag)
        for tag in (1, 2, 3)
    ]
    for tag in (3, 1, 2):
        dist.recv(received := torch.empty(6, dtype=torch.float64), job.left, group=job.tested, tag=tag)
        assert_same(received, message(job.left, job.rank, tag), f"tag {tag}")
    for send in sends:
        send.wait()


@CASES
def messages_with_one_tag_keep_their_order(job: Job) -> None:
    sends = [dist.isend(torch.tensor([number]), job.right, group=job.tested, tag=5) for number in range(20)]
    received = [torch.tensor([-1]) for _ in range(20)]
    receives = [dist.irecv(tensor, job.left, group=job.tested, tag=5) for tensor in received]
    for work in [*reversed(receives), *sends]:
        work.wait()
    assert [int(tensor) for tensor in received] == list(range(20))


@CASES
def a_collective_between_send_and_receive(job: Job) -> None:
    """Transfers and collectives of one group do not wait for each other."""
    send = dist.isend(message(job.rank, job.right), job.right, group=job.tested)
    total = torch.tensor([job.rank])
    dist.all_reduce(total, group=job.tested)
    dist.recv(received := torch.empty(6, dtype=torch.float64), job.left, group=job.tested)
    send.wait()
    assert_same(received, message(job.left, job.rank), "what came from the left")
    assert int(total) == sum(range(job.size))


@CASES
def batches(job: Job) -> None:
    """batch_isend_irecv to both sides, receives listed before sends on some ranks and after them on others."""
    incoming = {job.left: torch.empty(6, dtype=torch.float64), job.right: torch.empty(6, dtype=torch.float64)}
    receives = [dist.P2POp(dist.irecv, tensor, peer, group=job.tested) for peer, tensor in incoming.items()]
    sends = [dist.P2POp(dist.isend, message(job.rank, peer), peer, group=job.tested) for peer in incoming]
    for _ in range(3):
        for tensor in incoming.values():
            tensor.zero_()
        for work in dist.batch_isend_irecv(receives + sends if job.rank % 2 else sends + receives):
            work.wait()
        for peer, tensor in incoming.items():
            assert_same(tensor, message(peer, job.rank), f"from rank {peer}")


@CASES
def a_batch_of_some_ranks_only(job: Job) -> None:
    if job.rank < 2:
        peer = 1 - job.rank
        received = torch.empty(6, dtype=torch.float64)
        batch = [
            dist.P2POp(dist.isend, message(job.rank, peer), peer, group=job.tested),
            dist.P2POp(dist.irecv, received, peer, group=job.tested),
        ]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        assert_same(received, message(peer, job.rank), f"from rank {peer}")


@CASES
def several_messages_between_two_ranks_in_a_batch(job: Job) -> None:
    received = [torch.empty(6, dtype=torch.float64) for _ in range(3)]
    batch = [dist.P2POp(dist.irecv, tensor, job.left, group=job.tested) for tensor in received]
    batch += [
        dist.P2POp(dist.isend, message(job.rank, 0, number), job.right, group=job.tested)
        for number in range(3)
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    for number, tensor in enumerate(received):
        assert_same(tensor, message(job.left, 0, number), f"message {number}")


@CASES
def a_message_without_elements(job: Job) -> None:
    send = dist.isend(torch.empty(0, 3), job.right, group=job.tested)
    dist.recv(torch.empty(0, 3), job.left, group=job.tested)
    send.wait()


@CASES
def a_message_to_oneself(job: Job) -> None:
    """isend allows it; with the receive before the send, and after it."""
    for send_first in (True, False):
        received = torch.empty(6, dtype=torch.float64)
        mine = message(job.rank, job.rank)
        if send_first:
            works = [dist.isend(mine, job.rank, group=job.tested)]
            works.append(dist.irecv(received, job.rank, group=job.tested))
        else:
            works = [dist.irecv(received, job.rank, group=job.tested)]
            works.append(dist.isend(mine, job.rank, group=job.tested))
        for work in works:
            work.wait()
        assert_same(received, mine, "my own message")


@CASES
def strided_messages(job: Job) -> None:
    if BACKEND == "gloo":
        raise Skip("gloo sends contiguous tensors only")
    board = torch.zeros(6, 2, dtype=torch.float64)
    source = torch.stack([message(job.rank, job.right), torch.zeros(6)], dim=1)[:, 0]
    send = dist.isend(source, job.right, group=job.tested)
    receive = dist.irecv(board[:, 1], job.left, group=job.tested)
    receive.wait()
    send.wait()
    assert_same(board, torch.stack([torch.zeros(6), message(job.left, job.rank)], dim=1), "the board")


@CASES
def object_lists_are_sent(job: Job) -> None:
    if job.rank == 0:
        dist.send_object_list([{"from": 0}, "text", 5], dst=1, group=job.tested)
    if job.rank == 1:
        objects: list[object] = [None, None, None]
        assert dist.recv_object_list(objects, src=0, group=job.tested) == 0
        assert objects == [{"from": 0}, "text", 5]


@CASES
def a_message_from_any_source_or_a_sentence_that_says_why_not(job: Job) -> None:
    """recv without a source: whose message came is returned, or the call says that one has to be named."""
    if job.rank != 0:
        dist.send(message(job.rank, 0, tag=9), 0, group=job.tested, tag=9)
        return
    try:
        sources = []
        for _ in range(job.size - 1):
            source = dist.recv(received := torch.empty(6, dtype=torch.float64), group=job.tested, tag=9)
            assert_same(received, message(source, 0, tag=9), f"from rank {source}")
            sources.append(source)
        assert sorted(sources) == list(range(1, job.size))
    except (NotImplementedError, ValueError) as refusal:
        assert "src" in str(refusal), str(refusal)
        for peer in range(1, job.size):
            dist.recv(received := torch.empty(6, dtype=torch.float64), peer, group=job.tested, tag=9)
            assert_same(received, message(peer, 0, tag=9), f"from rank {peer}")
