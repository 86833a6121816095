"""Ctrl-C while the main thread waits in torch.distributed: KeyboardInterrupt, and a process that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

# A guard against hanging: importing torch takes long where many processes share a core.
GUARD = 120

# Torch is imported once; each line of its input is the wait of another process.
PROGRAM = """
import os
import sys
import time
import torch
import torch.distributed as dist

rank, folder = int(sys.argv[1]), sys.argv[2]
for number, wait in enumerate(sys.stdin):
    process = os.fork()
    if process == 0:
        break
    print("ended", os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
else:
    sys.exit()

import penny.torch

store = dist.FileStore(f"{folder}/{number}", 2)
dist.init_process_group("penny", store=store, rank=rank, world_size=2)
values = torch.ones(100_000)
print(os.getpid(), flush=True)
if rank == 1:
    time.sleep(1000)
try:
    exec(wait)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    raise
"""

WAITS = {
    "all_reduce": "dist.all_reduce(values)",
    "work": "dist.all_reduce(values, async_op=True).wait()",
    "barrier": "dist.barrier()",
    "recv": "dist.recv(values, 1)",
    "irecv": "dist.irecv(values, 1).wait()",
    "monitored_barrier": "dist.monitored_barrier()",
    "new_group": "dist.new_group()",
    "sparse": "dist.all_reduce(values.to_sparse())",
}


def line_of(rank: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert rank.stdout is not None
    return rank.stdout.readline().rstrip()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.Popen[str]]]:
    """Two ranks, each of which forks for a wait."""
    folder = str(tmp_path_factory.mktemp("stores"))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    yield ranks
    for rank in ranks:
        rank.communicate(timeout=GUARD)
        assert rank.returncode == 0


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_wait_ends_with_a_keyboard_interrupt(wait: str, ranks: list[subprocess.Popen[str]]) -> None:
    for rank in ranks:
        assert rank.stdin is not None
        print(wait, file=rank.stdin, flush=True)
    waiting, other = [int(line_of(rank)) for rank in ranks]
    guard = threading.Timer(GUARD, os.kill, (waiting, signal.SIGKILL))
    guard.start()
    try:
        time.sleep(0.5)
        begin = time.monotonic()
        os.kill(waiting, signal.SIGINT)
        assert line_of(ranks[0]) == "KeyboardInterrupt"
        print(f"KeyboardInterrupt {time.monotonic() - begin:.2f} s after Ctrl-C")
        assert line_of(ranks[0]) == f"ended {-signal.SIGINT}"
    finally:
        guard.cancel()
        os.kill(other, signal.SIGKILL)
        assert line_of(ranks[1]) == f"ended {-signal.SIGKILL}"


def test_a_wait_for_rank_0_that_does_not_come_ends_with_a_keyboard_interrupt(tmp_path) -> None:
    program = """
import sys, torch.distributed as dist, penny.torch
store = dist.FileStore(sys.argv[1], 2)
print("waiting", flush=True)
dist.init_process_group("penny", store=store, rank=1, world_size=2)
"""
    rank = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert rank.stdout is not None and rank.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        rank.send_signal(signal.SIGINT)
        rank.communicate(timeout=GUARD)
        assert rank.returncode == -signal.SIGINT
    finally:
        rank.kill()
        rank.communicate()


def test_a_wait_for_a_late_rank_0_prints_nothing() -> None:
    """Torch prints two warnings for each wait at its store that ends by its time limit."""
    program = """
import sys, torch, torch.distributed as dist, penny.torch
rank, port = int(sys.argv[1]), int(sys.argv[2])
store = dist.TCPStore("localhost", port, is_master=rank == 0, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.readline()
dist.init_process_group("penny", store=store, rank=rank, world_size=2)
values = torch.ones(1)
dist.all_reduce(values)
print(values.item(), flush=True)
dist.destroy_process_group()
"""

    def start(rank: int, port: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, str(rank), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    ranks = [start(0, 0)]
    try:
        port = int(line_of(ranks[0]))
        ranks.append(start(1, port))
        line_of(ranks[1])
        for rank, pause in ((ranks[1], 1.5), (ranks[0], 0)):
            assert rank.stdin is not None
            rank.stdin.write("\n")
            rank.stdin.flush()
            time.sleep(pause)
        for rank in ranks:
            assert rank.communicate(timeout=GUARD) == ("2.0\n", "")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
