"""All-reduce of small and large tensors: through torch.distributed by gloo and by Penny, and by C function.

    torchrun --nproc_per_node 2 all_reduce.py
    torchrun --nproc_per_node 4 all_reduce.py --json

Both backends are groups of one job and take turns. `heap` is Penny with the tensor in memory that the other
ranks can reach, `C` the function pennyAllReduce called through ctypes; what `penny` takes beyond that is
torch's and the backend's share. Ratios are medians over the rounds with their quartiles; the times are of
this host on this day.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

import penny.torch
import torch
import torch.distributed as dist
from turns import Ratio, in_turns, table

from penny._enums import DataType, RedOp
from penny._library import check, lib

# Bytes, and how many calls a round has: about as long for each.
SIZES = {8: 300, 4096: 300, 65536: 100, 1 << 20: 20, 64 << 20: 1}


@dataclass(frozen=True)
class Row:
    bytes: int
    us: dict[str, float]  # a call's median
    gloo_to_penny: Ratio
    gloo_to_heap: Ratio
    overhead_us: float  # penny's call through torch, beyond the call of its C function


def direct_call(tensor: torch.Tensor, communicator: int) -> Callable[[], None]:
    """pennyAllReduce on the tensor, with nothing of torch around it."""
    all_reduce, address, count = lib.pennyAllReduce, tensor.data_ptr(), tensor.numel()
    datatype, operation = int(DataType.FLOAT32), int(RedOp.SUM)

    def call() -> None:
        check(all_reduce(address, address, count, datatype, operation, communicator, None))

    return call


def measure(size: int, calls: int, rounds: int, gloo: dist.ProcessGroup, communicator: int) -> Row:
    plain = torch.zeros(size // 4)
    heap = penny.torch.empty(size // 4).zero_()
    seconds = in_turns(
        {
            "gloo": lambda: dist.all_reduce(plain, group=gloo),
            "penny": lambda: dist.all_reduce(plain),
            "heap": lambda: dist.all_reduce(heap),
            "C": direct_call(plain, communicator),
        },
        rounds,
        calls,
    )
    beyond = [torch_s - c_s for torch_s, c_s in zip(seconds["penny"], seconds["C"], strict=True)]
    return Row(
        bytes=size,
        us={name: 1e6 * statistics.median(of) for name, of in seconds.items()},
        gloo_to_penny=Ratio.of(seconds["gloo"], seconds["penny"]),
        gloo_to_heap=Ratio.of(seconds["gloo"], seconds["heap"]),
        overhead_us=1e6 * statistics.median(beyond),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--largest", type=int, default=max(SIZES), help="leave out what is larger, in bytes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a rank has one core
    dist.init_process_group("penny")
    gloo = dist.new_group(backend="gloo")
    assert isinstance(gloo, dist.ProcessGroup)
    with penny.init() as communicator:
        rows = [
            measure(size, calls, arguments.rounds, gloo, communicator.handle)
            for size, calls in SIZES.items()
            if size <= arguments.largest
        ]
    if dist.get_rank() == 0 and arguments.json:
        print(json.dumps({"ranks": dist.get_world_size(), "rows": [asdict(row) for row in rows]}))
    elif dist.get_rank() == 0:
        print(f"all_reduce of float32, {dist.get_world_size()} ranks, {arguments.rounds} rounds, us a call")
        head = ["bytes", "gloo", "penny", "heap", "C", "gloo/penny", "gloo/heap", "penny - C"]
        cells = [
            [
                row.bytes,
                *(f"{us:.1f}" for us in row.us.values()),
                row.gloo_to_penny,
                row.gloo_to_heap,
                f"{row.overhead_us:.1f}",
            ]
            for row in rows
        ]
        print(table(head, cells))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
