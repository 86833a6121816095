"""Every collective against numpy, over types and operations, in place and not."""

from functools import reduce

import numpy as np
import pytest

import penny
from on_ranks import on_ranks

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
OPS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
BITS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}


def inputs(comm, count, dtype, seed=0):
    """What each rank passes, known to all: small numbers, so that floats are exact."""
    numbers = np.random.default_rng(seed)
    return [numbers.integers(0, 4, count).astype(dtype) for _ in range(comm.size)]


def all_reduce_against_numpy(comm):
    for dtype in TYPES:
        ops = OPS if dtype.startswith("f") else {**OPS, **BITS}
        for op, fold in ops.items():
            given = inputs(comm, 37, dtype)
            expected = reduce(fold, given)
            out = np.empty(37, dtype)
            assert comm.all_reduce(given[comm.rank], out, op) is out
            np.testing.assert_array_equal(out, expected, err_msg=f"{op} of {dtype}")
            comm.all_reduce(given[comm.rank], op=penny.RedOp[op.upper()])
            np.testing.assert_array_equal(given[comm.rank], expected, err_msg=f"{op} of {dtype} in place")


@on_ranks(2)
def test_all_reduce_gives_what_numpy_gives_on_two_ranks(comm):
    all_reduce_against_numpy(comm)


@on_ranks(3)
def test_all_reduce_gives_what_numpy_gives_on_three_ranks(comm):
    all_reduce_against_numpy(comm)


@on_ranks(3)
def test_averages_squares_and_logical_operations_are_those_of_the_header(comm):
    given = inputs(comm, 16, "f4")
    # Each rank's input is multiplied by 1/ranks before the sum: the last place may differ from that of the mean.
    shares = [mine * np.float32(1 / comm.size) for mine in given]
    averages = comm.all_reduce(given[comm.rank].copy(), op="avg")
    np.testing.assert_array_max_ulp(averages, np.sum(shares, axis=0, dtype=np.float32))
    squares = sum(values * values for values in given)
    np.testing.assert_array_equal(comm.all_reduce(given[comm.rank].copy(), op="square_add"), squares)
    truths = inputs(comm, 16, "?")
    for op, fold in (
        ("logical_and", np.logical_and),
        ("logical_or", np.logical_or),
        ("logical_xor", np.logical_xor),
    ):
        result = comm.all_reduce(truths[comm.rank].copy(), op=op)
        np.testing.assert_array_equal(result, reduce(fold, truths), err_msg=op)


@on_ranks(3)
def test_every_other_collective_moves_what_numpy_says(comm):
    n, me = comm.size, comm.rank
    for dtype in ("i4", "f8", "u1"):
        blocks = inputs(comm, 5, dtype)
        wide = inputs(comm, 5 * n, dtype, seed=1)
        part = slice(5 * me, 5 * me + 5)

        gathered = comm.all_gather(blocks[me], np.empty(5 * n, dtype))
        np.testing.assert_array_equal(gathered, np.concatenate(blocks))

        folded = comm.reduce_scatter(wide[me], np.empty(5, dtype))
        np.testing.assert_array_equal(folded, sum(wide)[part].astype(dtype))

        swapped = comm.all_to_all(wide[me], np.empty(5 * n, dtype))
        np.testing.assert_array_equal(swapped, np.concatenate([values[part] for values in wide]))
        np.testing.assert_array_equal(comm.all_to_all(wide[me].copy()), swapped)

        for root in range(n):
            mine = blocks[me].copy()
            np.testing.assert_array_equal(comm.broadcast(mine, root=root), blocks[root])
            out = np.empty(5, dtype)
            comm.broadcast(blocks[me] if me == root else None, out, root)
            np.testing.assert_array_equal(out, blocks[root])

            comm.reduce(blocks[me], out if me == root else None, root=root)
            collected = comm.gather(blocks[me], np.empty(5 * n, dtype) if me == root else None, root)
            if me == root:
                np.testing.assert_array_equal(out, sum(blocks).astype(dtype))
                np.testing.assert_array_equal(collected, np.concatenate(blocks))
            else:
                assert collected is None

            comm.scatter(wide[root] if me == root else None, out, root)
            np.testing.assert_array_equal(out, wide[root][part])


@on_ranks(3)
def test_calls_in_place_are_those_of_the_header(comm):
    n, me = comm.size, comm.rank
    wide = inputs(comm, 4 * n, "i8")
    part = slice(4 * me, 4 * me + 4)
    everything = np.zeros(4 * n, "i8")
    everything[part] = wide[me][part]
    comm.all_gather(everything[part], everything)
    np.testing.assert_array_equal(everything, np.concatenate([wide[r][4 * r : 4 * r + 4] for r in range(n)]))
    mine = wide[me].copy()
    np.testing.assert_array_equal(comm.reduce_scatter(mine, mine[part]), sum(wide)[part])
    mine = wide[me].copy()
    comm.reduce(mine, root=1)
    if me == 1:
        np.testing.assert_array_equal(mine, sum(wide))


@on_ranks(3)
def test_a_padded_reduce_scatter_fills_up_with_zeros(comm):
    given = inputs(comm, 7, "i4")
    out = comm.reduce_scatter_padded(given[comm.rank], np.full(3, -1, "i4"))
    padded = np.concatenate([sum(given), [0, 0]])
    np.testing.assert_array_equal(out, padded[3 * comm.rank : 3 * comm.rank + 3])


@on_ranks(3)
def test_blocks_of_any_lengths_go_to_all_ranks(comm):
    n, me = comm.size, comm.rank

    def length(source, target):
        return (source + 2 * target) % 4  # some of them are 0

    def value(source, target):
        return 10 * source + target

    out = [length(me, peer) for peer in range(n)]
    into = [length(peer, me) for peer in range(n)]
    send = np.concatenate([np.full(out[peer], value(me, peer), "f4") for peer in range(n)])
    recv = comm.all_to_all_v(send, out, np.empty(sum(into), "f4"), into)
    expected = np.concatenate([np.full(into[peer], value(peer, me), "f4") for peer in range(n)])
    np.testing.assert_array_equal(recv, expected)


@on_ranks(3)
def test_blocks_of_any_lengths_are_gathered_scattered_and_reduced(comm):
    n, me = comm.size, comm.rank
    counts = [0, 5, 2]
    own = np.full(counts[me], me, "i4")
    everything = np.repeat(np.arange(n, dtype="i4"), counts)
    np.testing.assert_array_equal(comm.all_gather_v(own, np.full(7, -1, "i4"), counts), everything)
    for root in range(n):
        here = me == root
        got = comm.gather_v(own, np.full(7, -1, "i4") if here else None, counts if here else None, root)
        assert (got is not None) == here
        if here:
            np.testing.assert_array_equal(got, everything)
        block = comm.scatter_v(everything if here else None, counts if here else None, own.copy() - 9, root)
        np.testing.assert_array_equal(block, own)
    total = comm.reduce_scatter_v(everything + me, np.zeros(counts[me], "i4"), counts)
    np.testing.assert_array_equal(total, np.full(counts[me], n * me + 3, "i4"))
    lists = [0, 5, 2] if me else [5, 0, 2]
    with pytest.raises(penny.InvalidUsageError, match="recvcounts"):
        comm.reduce_scatter_v(everything, np.zeros(lists[me], "i4"), lists)


@on_ranks(3)
def test_inputs_are_scaled_by_a_number_of_each_ranks_own(comm):
    for dtype in ["f2", "f4", "f8", "i4", "u1"]:
        values = np.arange(20, dtype=dtype) % 5
        with comm.premul_sum(np.array([comm.rank + 1], dtype)) as op:
            out = comm.all_reduce(values, np.zeros(20, dtype), op)
            np.testing.assert_array_equal(out, values * 6)
            got = comm.reduce(values, np.zeros(20, dtype) if comm.rank == 1 else None, op, 1)
            assert (got is None) == (comm.rank != 1)
            if got is not None:
                np.testing.assert_array_equal(got, values * 6)
        with pytest.raises(penny.InvalidArgumentError, match="destroyed already"):
            comm.all_reduce(values, None, op)


@on_ranks(3)
def test_a_permutation_sends_round_the_ring_and_zeros_to_who_gets_nothing(comm):
    me = comm.rank
    out = np.full(4, -1, "i4")
    comm.permute(np.full(4, me, "i4"), out, [1, 2, 0])
    assert (out == (me - 1) % 3).all()
    comm.permute(np.full(4, me + 1, "i4") if me == 0 else None, out, [2, -1, -1])
    assert (out == (1 if me == 2 else 0)).all()


@on_ranks(2)
def test_send_and_receive_keep_their_order_and_cross_in_a_group(comm):
    peer = 1 - comm.rank
    if comm.rank == 0:
        for value in range(3):
            comm.send(np.full(2, value, "i2"), peer)
    else:
        for value in range(3):
            assert (comm.recv(np.empty(2, "i2"), peer) == value).all()
    mine, theirs = np.full(1000, comm.rank, "f8"), np.empty(1000)
    with penny.group():
        comm.send(mine, peer)
        comm.recv(theirs, peer)
    assert (theirs == peer).all()


@on_ranks(2)
def test_a_count_uses_the_beginning_of_longer_buffers(comm):
    values = np.arange(10, dtype="i4")
    comm.all_reduce(values, count=3)
    np.testing.assert_array_equal(values, [0, 2, 4, 3, 4, 5, 6, 7, 8, 9])
    gathered = np.full(9, -1, "i4")
    comm.all_gather(np.full(5, comm.rank, "i4"), gathered, count=2)
    np.testing.assert_array_equal(gathered, [0, 0, 1, 1, -1, -1, -1, -1, -1])


@on_ranks(2)
def test_numbers_may_be_numpys(comm):
    one = np.int64(1)
    values = np.full(4, comm.rank + 1.0)
    comm.broadcast(values, root=one, count=2 * one)
    assert values.tolist() == [2, 2, comm.rank + 1, comm.rank + 1]
    out = np.empty(4)
    comm.permute(values, out, np.array([1, 0]))
    counts = np.array([2, 2])
    comm.all_to_all_v(values, counts, out, counts)
    with penny.group():
        comm.send(values, one - comm.rank)
        comm.recv(out, one - comm.rank)
    assert out.tolist() == [2, 2, 2 - comm.rank, 2 - comm.rank]
    with pytest.raises(TypeError):
        comm.all_reduce(values, count=1.5)


@on_ranks(2)
def test_nothing_to_send_is_fine(comm):
    empty = np.empty(0, "f4")
    comm.all_reduce(empty)
    comm.all_gather(empty, np.empty(0, "f4"))
    comm.broadcast(bytearray(), root=1)
    comm.barrier()
