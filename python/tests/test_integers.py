"""Integers that C has no room for are refused by name, and none is cut: with ctypes 2**40 is rank 0."""

import numpy
import pytest

import penny
from on_ranks import on_ranks

BEYOND = [2**40, 2**31, -(2**31) - 1, 2**64]


def values():
    return numpy.ones(4, "float32")


def calls_with(comm, rank):
    """Calls in which an argument, a rank in most of them, is this number."""
    yield lambda: comm.broadcast(values(), root=rank)
    yield lambda: comm.reduce(values(), root=rank)
    yield lambda: comm.gather(values(), None, root=rank)
    yield lambda: comm.scatter(None, values(), root=rank)
    yield lambda: comm.send(values(), rank)
    yield lambda: comm.recv(values(), rank)
    yield lambda: comm.permute(values(), values(), [rank, 0])
    yield lambda: comm.split(rank)
    yield lambda: comm.split(0, rank)
    yield lambda: comm.group("consecutive", rank)
    yield lambda: comm.all_reduce(values(), count=2**64 + abs(rank))


@on_ranks(2)
def test_ranks_that_no_int_holds_are_refused_and_the_communicator_stays_usable(comm):
    for beyond in BEYOND:
        for call in calls_with(comm, beyond):
            with pytest.raises(penny.InvalidArgumentError):
                call()
    with pytest.raises(penny.InvalidArgumentError, match=str(2**40)):
        comm.broadcast(values(), root=2**40)
    with pytest.raises(TypeError, match=r"root is 0\.5"):
        comm.broadcast(values(), root=0.5)
    for negative in (-1, -2):
        with pytest.raises(penny.InvalidArgumentError, match="root"):
            comm.broadcast(values(), root=negative)
    result = values()
    comm.all_reduce(result)
    assert result[0] == 2


@on_ranks(2)
def test_arguments_of_the_other_models_are_refused_alike(comm):
    with penny.SymmetricHeap(comm) as heap:
        words, small = heap.zeros(4, "uint64"), heap.zeros(4, "int32")
        with penny.Semaphore(heap) as semaphore, penny.Mailbox(comm) as mailbox:
            for call in (
                lambda: words.put(numpy.ones(1, "uint64"), 2**40),
                lambda: words.fetch_add(2**40, 1),
                lambda: words.signal(0, -1),
                lambda: words.signal(0, 2**64),
                lambda: small.set(0, 2**40),
                lambda: semaphore.signal(2**40),
                lambda: semaphore.signal(0, -1),
                lambda: semaphore.wait(2**64),
                lambda: semaphore.read(index=2**40),
                lambda: mailbox.send(b"x", 2**40),
                lambda: mailbox.try_receive(thread=2**40),
                lambda: mailbox.key([penny.Receivers(2**40, [0])]),
                lambda: mailbox.key([penny.Receivers(0, [0], -1)]),
            ):
                with pytest.raises(penny.InvalidArgumentError, match="must be in"):
                    call()
    with comm.window(penny.zeros(4)) as window:
        for call in (
            lambda: window.put_signal(values(), 2**40),
            lambda: window.put_signal(values(), 0, offset=-1),
            lambda: window.signal(0, index=2**40),
            lambda: window.wait_signal([penny.Signals(0, count=2**32 + 1)]),
        ):
            with pytest.raises(penny.InvalidArgumentError, match="must be in"):
                call()


def test_the_first_calls_are_refused_alike():
    for ranks in (2**40, 2**31 - 1, 0, -1):
        with pytest.raises(penny.InvalidArgumentError):
            penny.init_all(ranks)
    for timeout in (-1.0, 1e300, float("nan"), 2**31 / 1000):
        with pytest.raises(penny.InvalidArgumentError, match="timeout"):
            penny.init(timeout=timeout)
    for threads in (0, -1, 4097, 2**32 + 2):
        with pytest.raises(penny.InvalidArgumentError, match="threads"):
            penny.init(1, 0, penny.unique_id(), threads=threads)
    with pytest.raises(penny.InvalidArgumentError, match="nbytes"):
        penny.allocate(-1)
    with pytest.raises(penny.InvalidArgumentError, match="rank is 4294967296"):
        penny.init(1, 2**32, penny.unique_id())
