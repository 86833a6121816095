"""Trains a small network on handwritten digits with DistributedDataParallel.

    torchrun --nproc_per_node 2 ddp_digits.py --backend penny
    torchrun --nproc_per_node 2 ddp_digits.py --backend gloo

Every rank takes its share of each batch. The gradients of all ranks are averaged while they are still being
computed, so every rank takes the same step and the networks stay the same. The fingerprint at the end stands
for every bit of the trained parameters; on two ranks it does not depend on the backend, because the sum of
two numbers does not depend on their order.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import sys
import time
from pathlib import Path

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import Tensor, nn

DIGITS = Path(__file__).resolve().parents[2] / "c-examples" / "05_data_parallel_digits" / "digits.csv"
BATCH = 32


def read_digits(path: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The pixels and digits of the training set, and of every fifth row, which is held out."""
    rows = torch.tensor(
        [[float(value) for value in line.split(",")] for line in path.read_text().splitlines()]
    )
    pixels, digits = rows[:, :-1] / 16, rows[:, -1].long()
    held_out = torch.arange(len(rows)) % 5 == 4
    return pixels[~held_out], digits[~held_out], pixels[held_out], digits[held_out]


def train(model: nn.Module, pixels: Tensor, digits: Tensor, epochs: int) -> list[float]:
    """Takes this rank's share of every batch; returns the mean loss of that share, epoch by epoch."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    shuffle = torch.Generator().manual_seed(1)  # the same order on every rank
    losses = []
    for _ in range(epochs):
        # An incomplete batch is left out: its shares would differ in size, and their mean would not be the
        # batch's.
        batches = torch.randperm(len(digits), generator=shuffle).split(BATCH)[: len(digits) // BATCH]
        total = 0.0
        for batch in batches:
            mine = batch[rank::ranks]
            loss = nn.functional.cross_entropy(model(pixels[mine]), digits[mine])
            optimizer.zero_grad()
            loss.backward()  # all-reduces the gradients
            optimizer.step()
            total += loss.item()
        schedule.step()
        losses.append(total / len(batches))
    return losses


def fingerprint(model: nn.Module) -> str:
    """Tells two networks apart: a hash over the bytes of all parameters."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=["penny", "gloo"], default="penny")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument(
        "--heap", action="store_true", help="gradients in memory that the other ranks can reach (penny)"
    )
    arguments = parser.parse_args()
    if arguments.heap and arguments.backend != "penny":
        parser.error("--heap places the gradients in Penny's memory, so it needs --backend penny")
    if arguments.backend == "penny":
        import penny.torch
    torch.set_num_threads(1)  # a rank has one core
    dist.init_process_group(arguments.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if BATCH % ranks:
        raise SystemExit(f"{ranks} ranks cannot share batches of {BATCH} evenly; start 1, 2, 4, 8, 16 or 32")

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    with penny.torch.heap() if arguments.heap else contextlib.nullcontext():
        model = DistributedDataParallel(network, gradient_as_bucket_view=True)
    pixels, digits, held_out_pixels, held_out_digits = read_digits(DIGITS)
    start = time.perf_counter()
    losses = train(model, pixels, digits, arguments.epochs)
    seconds = time.perf_counter() - start

    with torch.no_grad():
        right = int((model(held_out_pixels).argmax(1) == held_out_digits).sum())
    accuracy = right / len(held_out_digits)
    prints: list[str | None] = [None] * ranks
    dist.all_gather_object(prints, fingerprint(network))
    same = len(set(prints)) == 1
    if rank == 0:
        print(
            f"{ranks} ranks, {arguments.backend}: loss {losses[0]:.3f} -> {losses[-1]:.3f} in {seconds:.1f} s"
        )
        print(f"held out: {right} of {len(held_out_digits)} right ({100 * accuracy:.1f} %)")
        print(f"the networks of all ranks are {'the same' if same else 'different'}")
        print(f"fingerprint: {prints[0]}")
    dist.destroy_process_group()
    return 0 if same and accuracy > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
