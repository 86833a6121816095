"""Trains a small GPT on characters with DistributedDataParallel.

    torchrun --nproc_per_node 2 char_gpt.py --backend penny
    torchrun --nproc_per_node 2 char_gpt.py --backend gloo --no-overlap

The text is made here: sums of two numbers written out, such as "37+48=85;", so that a lower loss means that the
model has learnt to add, and nothing is downloaded. Every rank reads other sums. With --no-overlap each bucket of
gradients is all-reduced before the backward pass goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import Tensor, nn

ALPHABET = "0123456789+=;"
CONTEXT = 36


def sums(count: int, generator: torch.Generator) -> Tensor:
    """Makes `count` texts of sums, as numbers of characters. Each is one longer than the context, for the next character."""
    texts = []
    for _ in range(count):
        pairs = torch.randint(0, 100, (CONTEXT, 2), generator=generator).tolist()
        text = "".join(f"{a}+{b}={a + b};" for a, b in pairs)[: CONTEXT + 1]
        texts.append([ALPHABET.index(character) for character in text])
    return torch.tensor(texts)


class Block(nn.Module):
    """Attention to what came before, then an MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attended(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class CharGPT(nn.Module):
    """A decoder of characters."""

    def __init__(self, width: int = 128, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), width)
        self.places = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.scores = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(ALPHABET)))

    def forward(self, text: Tensor) -> Tensor:
        x = self.characters(text) + self.places.weight[: text.shape[1]]
        return self.scores(self.blocks(x))


def reduce_at_once(state, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations, and not those in quotes
    """A communication hook that waits for its bucket, so that nothing overlaps."""
    gradients = bucket.buffer().div_(dist.get_world_size())
    dist.all_reduce(gradients)
    future: torch.futures.Future[Tensor] = torch.futures.Future()
    future.set_result(gradients)
    return future


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=["penny", "gloo"], default="penny")
    parser.add_argument("--no-overlap", action="store_true")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8, help="texts of each rank (%(default)s)")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--bucket-mib", type=float, default=0.5)
    parser.add_argument("--json", action="store_true", help="one line for programs")
    arguments = parser.parse_args()
    if arguments.steps < 20:
        parser.error("--steps must be at least 20, or nothing is learnt")
    if arguments.backend == "penny":
        import penny.torch  # noqa: F401  (registers the backend)
    torch.set_num_threads(1)  # a rank has one core
    dist.init_process_group(arguments.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    model = DistributedDataParallel(
        CharGPT(arguments.width, arguments.layers),
        gradient_as_bucket_view=True,
        bucket_cap_mb=arguments.bucket_mib,
    )
    if arguments.no_overlap:
        model.register_comm_hook(None, reduce_at_once)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(rank)
    losses, seconds = [], []
    for _ in range(arguments.steps):
        texts = sums(arguments.batch, generator)
        start = time.perf_counter()
        scores = model(texts[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), texts[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # all-reduces the gradients
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    mean = torch.tensor([losses[0], sum(losses[-10:]) / 10], dtype=torch.float64)
    dist.all_reduce(mean.div_(ranks))
    first, last = mean.tolist()
    step_ms = 1e3 * statistics.median(seconds[5:])  # the first steps arrange the buckets
    if rank == 0:
        report = {"first_loss": first, "last_loss": last, "step_ms": step_ms, "ranks": ranks}
        way = "no overlap" if arguments.no_overlap else "overlap"
        text = f"{ranks} ranks, {arguments.backend}, {way}: loss {first:.3f} -> {last:.3f}, {step_ms:.1f} ms a step"
        print(json.dumps(report) if arguments.json else text)
    dist.destroy_process_group()
    return 0 if last < first else 1


if __name__ == "__main__":
    sys.exit(main())
