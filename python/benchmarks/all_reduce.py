"""All-reduce of small and large tensors: through torch.distributed by gloo and by Penny, and by C function.

    torchrun --nproc_per_node 2 all_reduce.py
    torchrun --nproc_per_node 4 all_reduce.py --json

Both backends are groups of one job and take turns, each turn a few calls long. `heap` is Penny with the
tensor in memory that the other ranks can reach, `C` the function pennyAllReduce called through ctypes; what
`penny` takes beyond that is torch's and the backend's share. Two tables: medians over the turns, where ratios
have their quartiles, and the least. Times are of this host on this day; where there are fewer idle cores than
ranks, medians tell how soon the host lets the other rank run, and the least what a call takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch.distributed as dist

import penny.torch
import torch
from penny._enums import DataType, RedOp
from penny._library import check, lib
from turns import Ratio, in_turns, table

# Bytes, and how many rounds of how many calls.
SIZES = {8: (201, 20), 4096: (201, 20), 65536: (101, 10), 1 << 20: (51, 4), 64 << 20: (7, 1)}


WAYS = ["gloo", "penny", "heap", "C"]


@dataclass(frozen=True)
class Row:
    bytes: int
    us: dict[str, float]  # a call's median
    least_us: dict[str, float]
    gloo_to_penny: Ratio
    gloo_to_heap: Ratio
    overhead_us: float  # of penny's call beyond that of its C function, at the least of both


def direct_call(tensor: torch.Tensor, communicator: int) -> Callable[[], None]:
    """pennyAllReduce on the tensor, with nothing of torch around it."""
    all_reduce, address, count = lib.pennyAllReduce, tensor.data_ptr(), tensor.numel()
    datatype, operation = int(DataType.FLOAT32), int(RedOp.SUM)

    def call() -> None:
        check(all_reduce(address, address, count, datatype, operation, communicator, None))

    return call


def measure(size: int, rounds: int, calls: int, gloo: dist.ProcessGroup, communicator: int) -> Row:
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
    least = {name: 1e6 * min(of) for name, of in seconds.items()}
    return Row(
        bytes=size,
        us={name: 1e6 * statistics.median(of) for name, of in seconds.items()},
        least_us=least,
        gloo_to_penny=Ratio.of(seconds["gloo"], seconds["penny"]),
        gloo_to_heap=Ratio.of(seconds["gloo"], seconds["heap"]),
        overhead_us=least["penny"] - least["C"],
    )


def medians(row: Row) -> list[object]:
    return [row.bytes, *(f"{row.us[way]:.1f}" for way in WAYS), row.gloo_to_penny, row.gloo_to_heap]


def leasts(row: Row) -> list[object]:
    ratios = (f"{ratio.least:.2f}" for ratio in (row.gloo_to_penny, row.gloo_to_heap))
    return [row.bytes, *(f"{row.least_us[way]:.1f}" for way in WAYS), *ratios, f"{row.overhead_us:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=201, help="at most; large sizes have fewer")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="leave out what is larger, in bytes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a rank has one core
    dist.init_process_group("penny")
    gloo = dist.new_group(backend="gloo")
    assert isinstance(gloo, dist.ProcessGroup)
    with penny.init() as communicator:
        rows = [
            measure(size, min(rounds, arguments.rounds), calls, gloo, communicator.handle)
            for size, (rounds, calls) in SIZES.items()
            if size <= arguments.largest
        ]
    if dist.get_rank() == 0 and arguments.json:
        print(json.dumps({"ranks": dist.get_world_size(), "rows": [asdict(row) for row in rows]}))
    elif dist.get_rank() == 0:
        print(f"all_reduce of float32, {dist.get_world_size()} ranks, us a call: medians")
        print(table(["bytes", *WAYS, "gloo/penny", "gloo/heap"], [medians(row) for row in rows]))
        print("\nthe least")
        print(table(["bytes", *WAYS, "gloo/penny", "gloo/heap", "penny - C"], [leasts(row) for row in rows]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
