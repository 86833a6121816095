"""`penny record --flops`: what operators compute and move becomes part of the record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import torch
from penny.torch import recording

recording.begin()
recording.begin()
a = torch.ones(4, 8)
b = torch.ones(8, 16, requires_grad=True)
(a @ b).t().sum().backward()
"""


def run(folder: Path) -> None:
    environment = {**os.environ, "PENNY_RECORD": str(folder)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=120)


def test_operators_are_counted_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "count-work").touch()
    run(tmp_path)
    (file,) = tmp_path.glob("*.work")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # Forward 2 * 4 * 8 * 16, and the same for the gradient of b.
    assert [line["flops"] for line in lines if line["flops"]] == [1024, 1024]
    forward = next(line for line in lines if line["flops"])
    assert forward["bytes"] == 4 * (4 * 8 + 8 * 16 + 4 * 16)
    times = [line["at_ns"] for line in lines]
    assert times == sorted(times)


def test_nothing_is_counted_unless_it_is_asked_for(tmp_path: Path) -> None:
    run(tmp_path)
    assert list(tmp_path.iterdir()) == []
