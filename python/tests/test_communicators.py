"""How ranks meet and part: launchers, unique ids, threads, communicators made of others, groups of calls."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import penny
from on_ranks import environment, on_ranks, run

FROM_THE_LAUNCHER = """
import sys, numpy, penny
with penny.init(name="mine", timeout=30) as comm:
    total = int(comm.all_reduce(numpy.array([comm.rank + 1]))[0])
    sys.stdout.write(f"{comm.size} {total}\\n")  # at once: the ranks share a pipe
"""


def test_ranks_under_penny_run_find_each_other():
    assert sorted(run(3, ["-c", FROM_THE_LAUNCHER]).splitlines()) == ["3 6"] * 3


def test_a_rank_of_several_threads_has_the_same_bits():
    values = np.random.default_rng(5).standard_normal(300_001, "float32")
    results = []
    for threads in (1, 2, 3):
        with penny.init(1, 0, penny.unique_id(), threads=threads) as comm:
            results.append(comm.all_reduce(values.copy()).tobytes())
    assert results == [values.tobytes()] * 3


def test_ranks_with_the_variables_of_torchrun_find_each_other():
    ranks = []
    for rank in range(2):
        variables = {
            "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29517",
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": "2",
        }
        command = [sys.executable, "-c", FROM_THE_LAUNCHER]
        ranks.append(
            subprocess.Popen(command, env=environment(**variables), stdout=subprocess.PIPE, text=True)
        )
    assert [process.communicate(timeout=60)[0] for process in ranks] == ["2 3\n"] * 2


def on_threads(comms, body):
    """Runs a body once for each rank, each in a thread of its own; the first exception of one is raised."""
    errors = []

    def guarded(comm):
        try:
            with comm:
                body(comm)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(comm,)) for comm in comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_ranks_may_be_threads_of_one_process():
    sums = {}

    def body(comm):
        sums[comm.rank] = comm.all_reduce(np.full(3, comm.rank, "f4")).tolist()

    on_threads(penny.init_all(3), body)
    assert sums == {rank: [3.0] * 3 for rank in range(3)}


def test_ranks_meet_by_a_unique_id():
    secret = penny.unique_id()
    assert isinstance(secret, bytes) and len(secret) == 128
    sizes = []

    def join(rank):
        with penny.init(nranks=2, rank=rank, unique_id=secret) as comm:
            sizes.append((comm.rank, comm.size, comm.all_reduce(np.ones(1))[0]))

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sizes) == [(0, 2, 2.0), (1, 2, 2.0)]


def test_one_thread_makes_several_ranks_in_a_group():
    secret = penny.unique_id()
    with penny.group():
        comms = [penny.init(nranks=2, rank=rank, unique_id=secret) for rank in range(2)]
    assert [str(comm) for comm in comms] == ["rank 0 of 2", "rank 1 of 2"]
    values = [np.full(2, rank + 1.0) for rank in range(2)]
    with penny.group():
        for comm, value in zip(comms, values, strict=True):
            comm.all_reduce(value)
    assert [value.tolist() for value in values] == [[3.0, 3.0]] * 2
    for comm in comms:
        comm.destroy()


@on_ranks(4)
def test_communicators_are_made_of_others(comm):
    with comm.dup() as twin:
        assert (twin.rank, twin.size) == (comm.rank, 4)
        assert twin.all_reduce(np.ones(1))[0] == comm.all_reduce(np.ones(1))[0] == 4
    halves = comm.split(comm.rank % 2, key=-comm.rank, name="half")
    assert (halves.size, halves.rank) == (2, 1 - comm.rank // 2)
    assert halves.all_reduce(np.array([comm.rank]))[0] == (2 if comm.rank % 2 == 0 else 4)
    alone = comm.split(0 if comm.rank == 3 else None)
    assert (alone is None) == (comm.rank != 3)
    pairs = {"consecutive": [1, 5][comm.rank // 2], "orthogonal": [2, 4][comm.rank % 2]}
    for kind, expected in pairs.items():
        with comm.group(kind, 2) as part:
            assert part.all_reduce(np.array([comm.rank]))[0] == expected, kind
    with comm.group(penny.GroupKind.ALL) as everybody:
        assert everybody.size == 4
    halves.destroy()
    if alone is not None:
        alone.destroy()
    assert comm.device == comm.rank
    comm.finalize()


@on_ranks(2)
def test_a_group_that_raises_runs_nothing(comm):
    values = np.ones(2)
    with pytest.raises(KeyError), penny.group():
        comm.all_reduce(values)
        raise KeyError
    assert values.tolist() == [1, 1]
    with penny.group():
        comm.all_reduce(values)
        with penny.group():
            comm.all_reduce(values)
        assert values.tolist() == [1, 1]
    assert values.tolist() == [4, 4]


@on_ranks(2)
def test_buffers_of_a_group_live_until_it_ends(comm):
    received = penny.zeros(4)
    with penny.group():
        # Nobody but the group holds these two arrays.
        comm.send(np.full(4, comm.rank + 1, "f4"), 1 - comm.rank)
        comm.recv(received.view(), 1 - comm.rank)
    assert received.tolist() == [2.0 - comm.rank] * 4


@on_ranks(2)
def test_threads_go_on_while_a_rank_waits(comm):
    """A call that waits gives up the interpreter's lock: else the thread it depends on would never run."""
    part = comm.split(0)
    if comm.rank == 0:
        about_to_wait = threading.Event()

        def answer():
            about_to_wait.wait()
            for _ in range(1000):
                comm.recv(np.zeros(1), 1)
                comm.send(np.ones(1), 1)

        thread = threading.Thread(target=answer)
        thread.start()
        about_to_wait.set()
        # Rank 1 sends this when the thread has given it a thousand answers.
        assert part.recv(np.zeros(1), 1)[0] == 1000
        thread.join()
    else:
        answers = 0
        for _ in range(1000):
            comm.send(np.ones(1), 0)
            answers += comm.recv(np.zeros(1), 0)
        part.send(answers, 0)
    part.destroy()


@on_ranks(3)
def test_the_ranks_that_remain_make_a_communicator(comm):
    if comm.rank != 1:
        rest = comm.shrink([1])
        assert (rest.rank, rest.size) == (comm.rank // 2, 2)
        assert rest.all_reduce(np.ones(1))[0] == 2
        rest.destroy()
        with pytest.raises(penny.InvalidArgumentError, match="is the caller"):
            comm.shrink([comm.rank])
    assert comm.all_reduce(np.ones(1))[0] == 3
    part = comm.dup()
    if comm.rank == 0:
        part.revoke()
    with pytest.raises(penny.PennyError, match="rank 0"):
        # One of the others may have come before.
        for _ in range(1000):
            part.barrier()
    again = part.shrink([], abort=True)
    assert again.all_reduce(np.ones(1))[0] == 3
    again.destroy()
    part.destroy()


@on_ranks(2)
def test_a_suspended_communicator_takes_no_calls_until_it_is_resumed(comm):
    part = comm.dup()
    assert part.all_reduce(np.ones(1 << 16))[0] == 2
    before = part.memory_statistics()
    assert before["suspend"] > 0 and before["suspended"] == 0
    assert before["total"] == before["suspend"] + before["persist"]
    part.suspend()
    during = part.memory_statistics()
    assert during["suspend"] == before["suspend"] and during["suspended"] == 1
    with pytest.raises(penny.PennyError, match="suspended"):
        part.barrier()
    part.resume()
    assert part.memory_statistics()["suspended"] == 0
    assert part.all_reduce(np.ones(1 << 16))[0] == 2
    part.destroy()


def test_a_communicator_that_is_forgotten_is_warned_about():
    comm = penny.init_all(1)[0]
    with pytest.warns(ResourceWarning, match="rank 0 of 1 was not destroyed"):
        del comm
