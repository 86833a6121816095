"""What the collectives of a tensor-parallel Llama would take on machines that are not here.

    torchrun --nproc_per_node 2 fabric_what_if.py --machines dgx-h100 tpu-v4:shape=4x4x4
    penny run -n 2 python fabric_what_if.py
    PENNY_FABRIC=./my-node.toml penny run -n 2 python fabric_what_if.py --machines

The same model as in tp_llama.py, divided by hand, decodes for real on this host, once for each machine. Its
ranks stand on the declared machine: every all-reduce moves its bytes and adds them up, and the rank's clock
there says what it takes. Only the collectives take time on that clock, what is computed between them takes
none. Equal runs give equal times, however busy this host is. `penny topo list` names the machines; a TOML
file describes another.

This is Penny's own interface: a communicator takes torch's tensors as they are, and torch.distributed is not
used.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass

import penny
import torch
from small_llama import decode, prompt, small_llama, whole
from tensor_parallel import Team, parallelise


@dataclass(frozen=True)
class Stay:
    """A decoding on a declared machine, as one rank saw it."""

    machine: str
    rank: int
    ranks: int
    all_reduces: list[int]  # of one token, each with its bytes
    us: list[float]  # on the machine's clock, of every token but the first, which is the prompt's
    ids: list[int]


def stay(machine: str | None, arguments: argparse.Namespace) -> Stay:
    """Decodes on the machine; None is the one that PENNY_FABRIC declares."""
    all_reduces: list[int] = []
    us: list[float] = []
    with penny.init(fabric=machine) as comm:

        def all_reduce(tensor: torch.Tensor) -> None:
            all_reduces.append(tensor.nbytes)
            comm.all_reduce(tensor)

        model = whole(small_llama(arguments.hidden, arguments.layers))
        parallelise(model, Team(comm.rank, comm.size, all_reduce))
        tokens = decode(model, prompt(model.config))
        ids = [next(tokens)]
        for _ in range(arguments.tokens - 1):
            all_reduces.clear()
            before = comm.fabric.now()
            ids.append(next(tokens))
            us.append((comm.fabric.now() - before) / 1e6)
        name = comm.fabric.account().name
        return Stay(name, comm.rank, comm.size, all_reduces, us, ids)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--machines",
        nargs="*",
        default=["dgx-h100", "t3000"],
        help="presets or TOML files, each held against the first; none: PENNY_FABRIC's",
    )
    parser.add_argument("--tokens", type=int, default=8, help="to decode on each, at least 2 (%(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="features of a layer (%(default)s)")
    parser.add_argument("--layers", type=int, default=8, help="decoder layers (%(default)s)")
    arguments = parser.parse_args()
    if arguments.tokens < 2:
        parser.error("--tokens must be at least 2: the first is the prompt's and is not counted")
    torch.set_num_threads(1)  # a rank has one core
    stays = [stay(machine, arguments) for machine in arguments.machines or [None]]
    first = stays[0]
    same = all(other.ids == first.ids for other in stays)
    if first.rank == 0:
        calls = len(first.all_reduces)
        print(f"a token on {first.ranks} ranks: {calls} all-reduces, {sum(first.all_reduces)} bytes")
        for there in stays:
            us = statistics.median(there.us)
            print(
                f"{there.machine}: {us:.3f} us a token, {us / calls:.3f} us an all-reduce, "
                f"{us / statistics.median(first.us):.2f} times {first.machine}"
            )
        print(f"ids on all machines {'the same' if same else 'DIFFERENT'}:", *first.ids)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
