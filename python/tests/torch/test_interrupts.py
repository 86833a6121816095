"""Ctrl-C while the main thread waits in torch.distributed: KeyboardInterrupt, and a process that ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

# A guard against hanging: importing torch takes long where many processes share a core.
GUARD = 120

PROGRAM = """
import sys
import time
import torch
import torch.distributed as dist
import penny.torch

store = dist.FileStore(sys.argv[2], 2)
dist.init_process_group("penny", store=store, rank=int(sys.argv[1]), world_size=2)
values = torch.ones(100_000)
if sys.argv[1] == "1":
    time.sleep(1000)
print("waiting", flush=True)
try:
    {wait}
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


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_wait_ends_with_a_keyboard_interrupt(wait: str, tmp_path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(wait=wait), str(rank), str(tmp_path / "store")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert ranks[0].stdout is not None
        assert ranks[0].stdout.readline() == "waiting\n"
        time.sleep(0.5)
        begin = time.monotonic()
        ranks[0].send_signal(signal.SIGINT)
        assert ranks[0].stdout.readline() == "KeyboardInterrupt\n"
        print(f"KeyboardInterrupt {time.monotonic() - begin:.2f} s after Ctrl-C")
        ranks[0].communicate(timeout=GUARD)
        assert ranks[0].returncode == -signal.SIGINT
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


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
