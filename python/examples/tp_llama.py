"""Decodes with a small Llama whose layers are divided among the ranks, by transformers or by hand.

    torchrun --nproc_per_node 2 tp_llama.py --backend penny
    torchrun --nproc_per_node 2 tp_llama.py --backend gloo
    torchrun --nproc_per_node 2 tp_llama.py --backend penny --hand-written --heap

The model (small_llama.py) has 8 layers of 256 features in float32 and decodes one sequence: a token takes
this host a few milliseconds and carries 16 small all-reduces. That is where a large model stands when it is
served on fast devices, with little arithmetic between two collectives. Where the matrices keep a CPU busy for
longer, communication matters less.

Every rank has one thread. The time in all_reduce includes waiting for the other ranks to come. It is that of
the layers; transformers also divides the embedding and the scores, whose collectives take another path and
count as other work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from unittest import mock

import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.distributed import DistributedConfig
from transformers.utils import logging

import torch
from small_llama import decode, prompt, small_llama, whole
from tensor_parallel import Team, parallelise


def by_plan(config: LlamaConfig) -> LlamaForCausalLM:
    """The model as transformers divides it: its plan says which layers go by columns, and which by rows.

    Each rank loads its part from a checkpoint, as a rule from the hub; here rank 0 makes one. Needs
    `accelerate`.
    """
    with tempfile.TemporaryDirectory() as directory:
        if dist.get_rank() == 0:
            whole(config).save_pretrained(directory)
        checkpoint = [directory]
        dist.broadcast_object_list(checkpoint, src=0)
        plan = DistributedConfig(tp_plan="auto")
        model = LlamaForCausalLM.from_pretrained(checkpoint[0], distributed_config=plan, dtype=torch.float32)
        dist.barrier()  # before rank 0 takes the checkpoint away
    return model.eval()


@dataclass
class Times:
    """The parts of the time for decoding some tokens, in seconds."""

    total: float = 0.0
    all_reduce: float = 0.0
    all_reduces: int = 0


@contextmanager
def timed() -> Iterator[Times]:
    """Times the block, and dist.all_reduce in it, by which layers add up their outputs."""
    plain: Callable[..., object] = dist.all_reduce
    times = Times()

    def all_reduce(*args: object, **kwargs: object) -> object:
        start = time.perf_counter()
        work = plain(*args, **kwargs)
        times.all_reduce += time.perf_counter() - start
        times.all_reduces += 1
        return work

    with mock.patch.object(dist, "all_reduce", all_reduce):
        start = time.perf_counter()
        yield times
        times.total = time.perf_counter() - start


def decode_timed(model: LlamaForCausalLM, tokens: int) -> tuple[list[int], Times]:
    """Decodes `tokens` tokens. The first one takes most of its time for the prompt, so it is left out of the times."""
    ids = decode(model, prompt(model.config))
    first = next(ids)
    with timed() as times:
        rest = list(islice(ids, tokens - 1))
    return [first, *rest], times


@dataclass
class Report:
    """The results of a run; medians over its rounds."""

    backend: str
    ranks: int
    hand_written: bool
    heap: bool
    tokens_per_second: float
    all_reduce_share: float
    all_reduce_us: float
    all_reduces_per_token: float
    ids: list[int]
    same: bool  # the ids, on all ranks and in all rounds

    def print(self) -> None:
        way = "by hand" if self.hand_written else "by plan"
        print(f"{self.ranks} ranks, {self.backend}, {way}{', heap' if self.heap else ''}")
        print(f"{self.tokens_per_second:.1f} tokens/s")
        print(
            f"all_reduce: {100 * self.all_reduce_share:.0f} % of the time, "
            f"{self.all_reduces_per_token:.0f} a token, {self.all_reduce_us:.0f} us each"
        )
        print(f"ids, on all ranks and in all rounds {'the same' if self.same else 'DIFFERENT'}:", *self.ids)


def measure(model: LlamaForCausalLM, arguments: argparse.Namespace) -> Report:
    decode_timed(model, 4)  # so that nothing is done for the first time below
    rounds = [decode_timed(model, arguments.tokens) for _ in range(arguments.rounds)]
    everywhere: list[list[list[int]]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(everywhere, [ids for ids, _ in rounds])
    ids = rounds[0][0]
    times = [times for _, times in rounds]
    decoded = arguments.tokens - 1
    return Report(
        backend=arguments.backend,
        ranks=dist.get_world_size(),
        hand_written=arguments.hand_written,
        heap=arguments.heap,
        tokens_per_second=statistics.median(decoded / t.total for t in times),
        all_reduce_share=statistics.median(t.all_reduce / t.total for t in times),
        all_reduce_us=statistics.median(1e6 * t.all_reduce / t.all_reduces for t in times),
        all_reduces_per_token=times[0].all_reduces / decoded,
        ids=ids,
        same=all(other == ids for of_rank in everywhere for other in of_rank),
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=["penny", "gloo"], default="penny")
    parser.add_argument("--hand-written", action="store_true", help="divide the layers by tensor_parallel.py")
    parser.add_argument(
        "--heap", action="store_true", help="outputs in memory that the other ranks can reach"
    )
    parser.add_argument("--tokens", type=int, default=64, help="to decode, at least 2 (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are told (%(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="features of a layer (%(default)s)")
    parser.add_argument("--layers", type=int, default=8, help="decoder layers (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one line for programs")
    arguments = parser.parse_args()
    if arguments.tokens < 2 or arguments.rounds < 1:
        parser.error("--tokens must be at least 2 and --rounds at least 1, or nothing is measured")
    if arguments.heap and not (arguments.hand_written and arguments.backend == "penny"):
        parser.error(
            "--heap needs --hand-written and --backend penny: only our layers choose where outputs lie"
        )
    return arguments


def main() -> int:
    arguments = parse()
    if arguments.backend == "penny":
        import penny.torch
    logging.disable_progress_bar()
    torch.set_num_threads(1)  # a rank has one core
    dist.init_process_group(arguments.backend)
    config = small_llama(arguments.hidden, arguments.layers)
    if arguments.hand_written:
        model = whole(config)
        # Looked up at each call, so that `timed` sees it.
        team = Team(dist.get_rank(), dist.get_world_size(), lambda tensor: dist.all_reduce(tensor))
        parallelise(model, team, penny.torch.empty if arguments.heap else None)
    else:
        model = by_plan(config)
    report = measure(model, arguments)
    if dist.get_rank() == 0:
        print(json.dumps(asdict(report))) if arguments.json else report.print()
    dist.destroy_process_group()
    return 0 if report.same else 1


if __name__ == "__main__":
    sys.exit(main())
