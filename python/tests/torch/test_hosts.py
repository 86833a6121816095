"""Torch's collectives between ranks of several hosts: this machine under several names."""

from __future__ import annotations

import ctypes.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HOSTS = ["a", "b", "a"]

RANK = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import penny.torch

dist.init_process_group("penny")
rank, ranks = dist.get_rank(), dist.get_world_size()
values = torch.full((1000,), float(rank + 1))
dist.all_reduce(values)
assert values.eq(ranks * (ranks + 1) / 2).all()
blocks = [torch.zeros(3) for _ in range(ranks)]
dist.all_gather(blocks, torch.full((3,), float(rank)))
assert [block[0].item() for block in blocks] == list(range(ranks))
ends = dist.new_group([0, ranks - 1])
if rank in (0, ranks - 1):
    pair = torch.ones(2)
    dist.all_reduce(pair, group=ends)
    assert pair.eq(2).all()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 4, bias=False))
model(torch.full((1, 4), float(rank))).sum().backward()
assert model.module.weight.grad.eq((ranks - 1) / 2).all()
dist.destroy_process_group()
print("right")
"""


def libfabric() -> str | None:
    """The file of a libfabric: the one that is named, the system's, or one that an MPI library has brought along."""
    named = os.environ.get("PENNY_LIBFABRIC") or ctypes.util.find_library("fabric")
    if named:
        return named
    library = os.environ.get("PENNY_LIBRARY")
    targets = [folder / "mpi" for folder in Path(library).parents] if library else []
    found = (file for target in targets for file in target.glob("*/lib/*/libfabric.so.1"))
    return next(map(str, found), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("carrier", ["tcp", "libfabric:tcp"])
def test_ranks_of_two_hosts_train_together(carrier: str) -> None:
    engine = libfabric()
    if engine is None and carrier != "tcp":
        pytest.skip("there is no libfabric, over which ranks of several hosts can communicate, too")
    common = os.environ | {
        "PENNY_NET": carrier,
        "WORLD_SIZE": str(len(HOSTS)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "PENNY_LIBFABRIC": engine or "",
        "PENNY_TIMEOUT": "60",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            env=common
            | {
                "RANK": str(rank),
                "LOCAL_RANK": str(HOSTS[:rank].count(host)),
                "LOCAL_WORLD_SIZE": str(HOSTS.count(host)),
                "PENNY_HOST_ID": host,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, host in enumerate(HOSTS)
    ]
    try:
        said = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), "\n---\n".join(said)
    assert all(text.endswith("right\n") for text in said), said
