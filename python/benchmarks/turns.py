"""Measures ways of doing one thing in turns, so that whatever else the host does falls on all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Ratio:
    """How many times as large one series is as another."""

    median: float  # of the rounds' ratios: a round in which the host was busy counts no more than another
    low: float  # their quartiles
    high: float
    least: float  # of the least of each: on a host that is never quiet, what comes closest to quiet

    @classmethod
    def of(cls, one: Sequence[float], other: Sequence[float]) -> Ratio:
        ratios = [a / b for a, b in zip(one, other, strict=True)]
        low, median, high = (
            statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        )
        return cls(median, low, high, min(one) / min(other))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def in_turns(ways: Mapping[Name, Callable[[], object]], rounds: int, calls: int) -> dict[Name, list[float]]:
    """Seconds of one call of each way, round by round; every round begins with another way."""
    names = list(ways)
    seconds: dict[Name, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            call = ways[name]
            call()  # brings the ranks together, and warms up
            start = time.perf_counter()
            for _ in range(calls):
                call()
            seconds[name].append((time.perf_counter() - start) / calls)
    return seconds


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be; the first to the left, numbers to the right."""
    lines = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
