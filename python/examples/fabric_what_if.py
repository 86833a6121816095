"""What the collectives of a tensor-parallel Llama would take on machines that are not here.

    torchrun --nproc_per_node 2 fabric_what_if.py --machines dgx-h100 tpu-v4:shape=4x4x4
    penny run -n 2 python fabric_what_if.py
    PENNY_FABRIC=./my-node.toml penny run -n 2 python fabric_what_if.py --machines

The same model as in tp_llama.py, divided by hand, decodes for real on this host, once for each machine. Its ranks stand
on the declared machine: every all-reduce moves its bytes and adds them up, and the rank's clock there says what it takes.
Only the collectives take time on that clock, what is computed between them takes none. Equal runs give equal times,
however busy this host is. `penny topo list` names the machines; a TOML file describes another.

This is Penny's own interface: a communicator takes torch's tensors as they are, and torch.distributed is not used.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from dataclasses import dataclass

import penny
import torch
from small_llama import decode, prompt, small_llama, whole
from tensor_parallel import Team, parallelise


@dataclass(frozen=True)
class Stay:
    """A decoding on a declared machine."""

    machine: str
    places: int
    us_a_token: float
    all_reduces_a_token: int
    bytes_a_token: int
    ids: list[int]


def stay(machine: str | None, hidden: int, layers: int, tokens: int) -> Stay:
    """Decodes on the machine; None is the one that PENNY_FABRIC declares."""
    sizes: list[int] = []
    with penny.init(fabric=machine) as comm:

        def all_reduce(tensor: torch.Tensor) -> None:
            sizes.append(tensor.nbytes)
            comm.all_reduce(tensor)

        model = whole(small_llama(hidden, layers))
        parallelise(model, Team(comm.rank, comm.size, all_reduce))
        ids, times = [], [comm.fabric.now()]
        for token in itertools.islice(decode(model, prompt(model.config)), tokens):
            ids.append(token)
            times.append(comm.fabric.now())
        account = comm.fabric.account()
    # The first token is that of the prompt, whose messages are longer.
    a_token = [after - before for before, after in itertools.pairwise(times[1:])]
    calls = 2 * layers
    return Stay(account.name, account.places, statistics.median(a_token) / 1e6, calls, sum(sizes[-calls:]), ids)
