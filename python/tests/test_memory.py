"""Shareable memory as numpy arrays, registered buffers, and that nothing is left behind."""

import gc

import numpy as np
import pytest

import penny
from on_ranks import names_in_shared_memory, on_ranks


def test_arrays_in_shareable_memory_are_as_asked_for():
    assert penny.zeros((2, 3), "i2").tolist() == [[0] * 3] * 2
    array = penny.empty(5, np.float64)
    assert (array.shape, array.dtype, array.flags.writeable) == ((5,), np.float64, True)
    assert array.ctypes.data % 64 == 0
    assert penny.empty((0, 3)).shape == (0, 3)
    assert penny.zeros(()).shape == ()
    with pytest.raises(penny.InvalidArgumentError, match="no side may be negative"):
        penny.empty(-1)


def test_the_memory_is_freed_with_the_last_view(monkeypatch):
    freed = []
    free = penny.lib.pennyMemFree
    monkeypatch.setattr(penny.lib, "pennyMemFree", lambda address: freed.append(address) or free(address))
    array = penny.zeros((4, 4))
    address = array.ctypes.data
    view = array[1:3]
    del array
    gc.collect()
    assert freed == []
    assert view.sum() == 0
    del view
    gc.collect()
    assert freed == [address]


def test_more_than_there_is_is_refused_with_a_sentence():
    with pytest.raises(penny.PennyError, match="pennyMemAlloc"):
        penny.allocate(1 << 60)


@on_ranks(2)
def test_large_calls_work_on_every_kind_of_memory(comm):
    count = 1 << 18
    ordinary = np.full(count, comm.rank + 1, "f4")
    shared = penny.empty(count)
    shared.fill(comm.rank + 1)
    comm.all_reduce(shared)
    with comm.register(ordinary):
        comm.all_reduce(ordinary)
    assert (ordinary == 3).all() and (shared == 3).all()
    registration = comm.register(ordinary)
    registration.deregister()
    registration.deregister()


def test_nothing_is_left_in_shared_memory():
    array = penny.zeros(1 << 16)
    assert not names_in_shared_memory(), array.size
