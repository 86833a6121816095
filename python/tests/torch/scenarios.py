"""What torchrun starts for jobs that go wrong: ranks that do not come, die, or leave without a word.

    torchrun --nproc-per-node 2 scenarios.py SCENARIO NOTES

Each rank writes what it was told to files NOTES/<what>.<rank>, and leaves with an exit code of 0 if all went as it had to.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

import torch
from cases import BACKEND, PATIENCE

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ATTEMPT = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
SHORT = timedelta(seconds=2)


def agents_store() -> dist.Store:
    """A connection of its own to the store that torchrun keeps."""
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)


def together(store: dist.Store, what: str) -> None:
    """Returns when all ranks are here, so that no deadline has to allow for how long imports take."""
    store.set(f"{what} {RANK}", "here")
    store.wait([f"{what} {peer}" for peer in range(SIZE)], timedelta(minutes=2))


def note(notes: Path, what: str, text: object) -> None:
    (notes / f"{what}.{RANK}").write_text(str(text))


def sum_of_ranks(group: dist.ProcessGroup | None = None) -> int:
    tensor = torch.tensor([RANK])
    dist.all_reduce(tensor, group=group)
    return int(tensor)


def missing(notes: Path) -> None:
    """Each rank in turn stays away; then all come, and the job is as good as new."""
    store = agents_store()
    for absent in range(SIZE):
        meeting = dist.PrefixStore(f"without{absent}", store)
        together(store, f"ready {absent}")
        if RANK == absent:
            store.wait([f"gave up {absent} {peer}" for peer in range(SIZE) if peer != absent], PATIENCE)
            continue
        try:
            dist.init_process_group(BACKEND, store=meeting, rank=RANK, world_size=SIZE, timeout=SHORT)
            note(notes, f"without{absent}", "init_process_group went through")
        except Exception as error:
            note(notes, f"without{absent}", f"{isinstance(error, dist.DistError)} {error}")
        store.set(f"gave up {absent} {RANK}", "yes")
    meeting = dist.PrefixStore("all", store)
    dist.init_process_group(BACKEND, store=meeting, rank=RANK, world_size=SIZE, timeout=PATIENCE)
    note(notes, "sum", sum_of_ranks())
    dist.destroy_process_group()


def waits(group: dist.ProcessGroup, peer: int) -> dict[str, Callable[[], object]]:
    """Calls that wait for the rank that dies."""
    return {
        "all_reduce": lambda: dist.all_reduce(torch.ones(1 << 20), group=group),
        "asynchronous": lambda: dist.all_reduce(torch.ones(8), group=group, async_op=True).wait(),
        "recv": lambda: dist.recv(torch.ones(8), peer, group=group),
        "barrier": lambda: dist.barrier(group=group),
    }


def killed(notes: Path) -> None:
    """The last rank is killed while all others wait for it; then the last of those, and so on."""
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # torchrun ends who is left of a job; they have things to write down
    dist.init_process_group(BACKEND, timeout=timedelta(minutes=5))
    for victim, what in zip(range(SIZE - 1, 0, -1), waits(dist.group.WORLD, 0), strict=False):
        group = dist.new_group(
            list(range(victim + 1)),
            backend=BACKEND,
            timeout=timedelta(minutes=5),
            use_local_synchronization=True,
        )
        call = waits(group, victim)[what]
        sum_of_ranks(group)
        if RANK == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            call()
            note(notes, what, "the call went through")
        except Exception as error:
            note(notes, what, f"{isinstance(error, dist.DistError)} {error}")


def restarted(notes: Path) -> None:
    """Rank 1 is killed in the middle of a job; torchrun starts all anew, and they leave without a word at the end."""
    note(notes, f"pid{ATTEMPT}", os.getpid())
    dist.init_process_group(BACKEND, timeout=timedelta(minutes=5))
    for _ in range(10):
        sum_of_ranks()
    if ATTEMPT == 0:
        if RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1 << 20))
    note(notes, f"sum{ATTEMPT}", sum_of_ranks())


def unfinished(notes: Path) -> None:
    """Ranks end with calls under way that nobody will ever complete, and without destroying their group."""
    dist.init_process_group(BACKEND, timeout=timedelta(minutes=5))
    sum_of_ranks()
    if RANK == 0:
        dist.irecv(torch.ones(8), 1)
        dist.isend(torch.ones(8), 1)
        dist.all_reduce(torch.ones(8), async_op=True)
    note(notes, "end", "reached")


if __name__ == "__main__":
    torch.set_num_threads(1)
    {each.__name__: each for each in (missing, killed, restarted, unfinished)}[sys.argv[1]](Path(sys.argv[2]))
