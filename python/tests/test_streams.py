"""Streams and events: calls return at once, run in order, keep their buffers, and tell their failures."""

import gc
import weakref

import numpy as np
import pytest

import penny
from on_ranks import on_ranks


class Tensor:
    """A buffer whose end can be watched."""

    def __init__(self, value):
        self.values = np.full(4, value, "f4")
        self.__array_interface__ = self.values.__array_interface__


@on_ranks(2)
def test_a_call_on_a_stream_returns_before_the_other_rank_has_come(comm):
    meeting = comm.split(0)
    values = np.full(4, comm.rank + 1.0)
    with penny.Stream() as stream:
        if comm.rank == 0:
            comm.all_reduce(values, stream=stream)
            event = penny.Event().record(stream)
            # Rank 1 reduces only when this rank has come here: had the call waited for it, neither would go
            # on.
            assert not event.query()
            assert not stream.query()
            meeting.barrier()
            event.synchronize()
        else:
            meeting.barrier()
            comm.all_reduce(values, stream=stream)
            stream.synchronize()
    assert values.tolist() == [3.0] * 4
    meeting.destroy()


@on_ranks(2)
def test_calls_on_streams_run_in_order_and_events_join_streams(comm):
    first, second = penny.Stream(), penny.Stream()
    values, copy = np.full(1000, 1.0), np.zeros(2000)
    for _ in range(5):
        comm.all_reduce(values, stream=first)
    event = penny.Event().record(first)
    second.wait_event(event)
    comm.all_gather(values, copy, stream=second)
    second.synchronize()
    assert event.query() and first.query()
    assert (copy == 32.0).all()
    # A call without a stream waits for those that were queued before.
    comm.all_reduce(values, stream=first)
    comm.barrier()
    assert (values == 64.0).all()
    later = penny.Event().record(second)
    later.synchronize()
    assert event.seconds_until(later) >= 0
    first.destroy()
    second.destroy()


@on_ranks(2)
def test_buffers_live_until_the_stream_has_used_them(comm):
    stream, other = penny.Stream(), penny.Stream()
    tensor = Tensor(comm.rank + 1)
    alive = weakref.ref(tensor)
    comm.all_reduce(tensor, stream=stream)
    event = penny.Event().record(stream)
    del tensor
    gc.collect()
    assert alive() is not None
    other.wait_event(event)
    other.synchronize()
    gc.collect()
    assert alive() is None
    tensor = Tensor(1)
    alive = weakref.ref(tensor)
    with penny.group():
        comm.all_reduce(tensor, stream=stream)
    del tensor
    assert alive() is not None
    event.record(stream).synchronize()
    gc.collect()
    assert alive() is None
    stream.destroy()
    other.destroy()


@on_ranks(2)
def test_what_fails_on_a_stream_is_told_by_the_event_behind_it(comm):
    stream = penny.Stream()
    with pytest.raises(penny.InvalidArgumentError, match="recv has 3 elements"):
        comm.all_reduce(np.zeros(4), np.zeros(3), stream=stream)
    comm.all_reduce(np.zeros(4 + comm.rank), stream=stream)
    failed = penny.Event().record(stream)
    comm.all_reduce(np.zeros(4), stream=stream)
    fine = penny.Event().record(stream)
    with pytest.raises(penny.InvalidUsageError, match="rank"):
        failed.synchronize()
    fine.synchronize()
    with pytest.raises(penny.InvalidUsageError, match="rank"):
        stream.synchronize()
    stream.synchronize()
    stream.destroy()


def test_a_stream_that_is_gone_is_refused_and_is_not_taken_for_none():
    stream, event = penny.Stream(), penny.Event()
    stream.destroy()
    stream.destroy()
    event.destroy()
    with penny.init_all(1)[0] as comm, pytest.raises(penny.InvalidArgumentError, match="stream"):
        comm.barrier(stream=stream)
    with pytest.raises(penny.InvalidArgumentError, match="event"):
        event.query()
    assert "destroyed" in repr(stream) and "destroyed" in repr(event)
