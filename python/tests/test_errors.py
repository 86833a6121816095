"""What goes wrong is told by a sentence that names the call, the argument, the rank, and what to do."""

import signal

import numpy as np
import pytest

import penny
from on_ranks import new_job, on_ranks, start


def refused(call, *arguments, match, kind=penny.InvalidArgumentError, **named):
    with pytest.raises(kind, match=match):
        call(*arguments, **named)


@on_ranks(2)
def test_bad_arguments_are_refused_before_anything_is_done(comm):
    me = f"rank {comm.rank} of 2"
    floats, ints = np.zeros(4, "f4"), np.zeros(4, "i4")
    refused(comm.all_reduce, floats, ints, match=f"send is of float32 and recv of int32.*{me}")
    refused(comm.all_reduce, floats, floats[:3], match=f"recv has 3 elements, but must have 4.*{me}")
    refused(
        comm.all_gather, floats, floats, match=r"recv has 4 elements, but must have 8.* \(2 blocks of 4\)"
    )
    refused(comm.reduce_scatter, np.zeros(5, "f4"), floats[:2], match="send has 5 elements, but must have 4")
    refused(comm.all_to_all, np.zeros(5, "f4"), match="send has 5 elements, but must have 4")
    refused(comm.all_reduce, floats, count=5, match="send has 4 elements, but must have 5")
    refused(comm.all_reduce, floats, floats[:2].copy(), count=3, match="recv has 2 elements, but must have 3")
    refused(comm.all_reduce, floats, count=-1, match="count is -1")
    refused(comm.all_reduce, np.zeros((4, 4))[:, 0], match=f"all_reduce: the elements of this ndarray.*{me}")
    refused(comm.all_reduce, b"abc", match="recv is read-only")
    refused(comm.broadcast, b"abc", root=1 - comm.rank, match="recv is read-only")
    refused(comm.all_reduce, floats, op="mean", match="'mean' is no reduction; those are sum, prod, max")
    refused(comm.all_reduce, floats, op="bit_and", match="pennyAllReduce")
    refused(comm.broadcast, floats, root=2, match="root")
    refused(comm.broadcast, floats, root=-1, match="root")
    refused(comm.send, floats, 7, match="peer")
    refused(
        comm.permute,
        floats,
        floats.copy(),
        [0],
        match="perm has 1 entries, but must have one for each rank: 2",
    )
    refused(comm.permute, floats, floats.copy(), [1, 1], match="perm")
    refused(comm.all_to_all_v, floats, [4], floats, [2, 2], match="send_counts")
    refused(comm.group, "diagonal", 2, match="'diagonal' is not one of all, consecutive, orthogonal")
    remedy = r"for ranks of your choice call comm.split\(color=...\)"
    for ranks in ([0, 1], (0, 1), range(2), None, b"all"):
        refused(
            comm.group, ranks, match=f"group: kind .* is not one of all, consecutive, orthogonal; {remedy}"
        )
    refused(comm.all_reduce, [1, 2], kind=TypeError, match="all_reduce: list is no buffer")
    refused(
        comm.broadcast,
        floats,
        0,
        kind=TypeError,
        match="int is no buffer.*; a root is passed by its name, root=0",
    )
    refused(comm.send, floats, comm.rank, kind=penny.InvalidUsageError, match="group")
    # None of it was told to the other rank, and all is as it was.
    assert comm.all_reduce(np.full(2, comm.rank + 1)).tolist() == [3, 3]


@on_ranks(2)
def test_ranks_that_disagree_are_told_both_sides(comm):
    with pytest.raises(penny.InvalidUsageError, match="rank"):
        comm.all_reduce(np.zeros(4 if comm.rank else 5, "f4"))
    comm.barrier()


@on_ranks(2)
def test_a_communicator_that_is_gone_is_refused(comm):
    other = comm.split(0)
    assert (other.rank, other.size) == (comm.rank, comm.size)
    other.destroy()
    other.destroy()
    with pytest.raises(penny.InvalidArgumentError, match="not a live communicator"):
        other.barrier()


@on_ranks(2, PENNY_TIMEOUT="1")
def test_who_is_awaited_in_vain_is_named_at_the_deadline(comm):
    if comm.rank == 0:
        with pytest.raises(penny.TimeoutError, match="rank 1"):
            comm.all_reduce(np.zeros(2))
        assert isinstance(comm.async_error(), penny.PennyError)
        comm.abort()
    else:
        # The other gives up first: then this rank's call fails as well.
        with pytest.raises(penny.PennyError, match="rank 0"):
            while comm.async_error() is None:
                pass
            comm.all_reduce(np.zeros(2))
        comm.abort()


@on_ranks(2, PENNY_TIMEOUT="10")
def test_an_exception_aborts_so_that_the_others_do_not_wait(comm):
    part = comm.split(0)
    if comm.rank == 0:
        with pytest.raises(KeyError), part:
            raise KeyError("mine")
    else:
        with pytest.raises(penny.RemoteError, match="rank 0"):
            part.barrier()
        part.abort()
    # Both live on: nothing but the abort has told rank 1.
    comm.barrier()
    assert part.rank == comm.rank


def test_a_launch_without_a_launcher_is_told(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(penny.InvalidUsageError, match="penny run"):
        penny.init()
    with pytest.raises(penny.InvalidArgumentError, match="pass all of nranks, rank and unique_id, or none"):
        penny.init(nranks=2)
    with pytest.raises(penny.InvalidArgumentError, match="unique_id has 3 bytes, but must have 128"):
        penny.init(2, 0, b"abc")


SURVIVOR = """
import sys, numpy, penny
comm = penny.init()
comm.barrier()
print("met", flush=True)
if comm.rank == 1:
    sys.stdin.read()
try:
    while True:
        comm.all_reduce(numpy.zeros(4))
except penny.RemoteError as error:
    print("told:", error, flush=True)
    comm.abort()
"""


def test_a_rank_that_is_killed_is_named_to_the_others(tmp_path):
    script = tmp_path / "survivor.py"
    script.write_text(SURVIVOR)
    job = new_job()
    ranks = [start(rank, 3, job, [str(script)]) for rank in range(3)]
    assert ranks[1].stdout.readline() == "met\n"
    ranks[1].send_signal(signal.SIGKILL)
    told = {rank: ranks[rank].communicate(timeout=60)[0] for rank in (0, 2)}
    ranks[1].communicate(timeout=60)
    for rank, text in told.items():
        assert "told:" in text and "rank 1" in text, f"rank {rank} said {text}"
        assert ranks[rank].returncode == 0
