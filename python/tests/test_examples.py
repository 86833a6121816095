"""Every example runs on two ranks under torchrun, at a small size, and prints what it promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the examples need torch: pip install 'penny[torch]'")

PYTHON = Path(__file__).resolve().parents[1]
SMALL = ["--layers", "2", "--hidden", "64", "--tokens", "6"]


def start(script: str, *options: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """Runs a script of examples/; the timeout only keeps a job that hangs from hanging the tests."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    return subprocess.run(
        [*launch, str(PYTHON / "examples" / script), *options], capture_output=True, text=True, timeout=240
    )


def printed(script: str, *options: str) -> str:
    done = start(script, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def decoded(*options: str) -> dict[str, Any]:
    pytest.importorskip("transformers", reason="the Llama needs transformers and accelerate")
    pytest.importorskip("accelerate", reason="transformers' tensor parallelism needs accelerate")
    report: dict[str, Any] = json.loads(printed("tp_llama.py", *SMALL, "--rounds", "1", "--json", *options))
    return report


def test_digits_are_learnt_and_both_backends_learn_the_same_bits() -> None:
    fingerprints = []
    for backend in ("penny", "gloo"):
        text = printed("ddp_digits.py", "--backend", backend)
        right = re.search(r"held out: \d+ of 359 right \(([\d.]+) %\)", text)
        assert right and float(right[1]) > 95, text
        assert "the networks of all ranks are the same" in text
        fingerprints.append(re.search(r"fingerprint: (\w{16})", text))
    penny, gloo = fingerprints
    assert penny and gloo and penny[1] == gloo[1]


def test_digits_are_learnt_with_gradients_in_shareable_memory() -> None:
    assert "the networks of all ranks are the same" in printed("ddp_digits.py", "--heap")


def test_a_llama_decodes_the_same_tokens_by_plan_by_hand_in_shareable_memory_and_by_gloo() -> None:
    by_plan = decoded()
    by_hand, on_heap = decoded("--hand-written"), decoded("--hand-written", "--heap")
    by_gloo = decoded("--backend", "gloo")
    assert by_plan["same"] and len(by_plan["ids"]) == 6
    assert by_plan["ids"] == by_hand["ids"] == on_heap["ids"] == by_gloo["ids"]
    # Each of the two layers all-reduces twice a token.
    assert by_plan["all_reduces_per_token"] == by_hand["all_reduces_per_token"] == 4


def test_shareable_memory_is_refused_where_nothing_would_lie_in_it() -> None:
    done = start("tp_llama.py", "--heap", ranks=1)
    assert done.returncode != 0
    assert "--heap needs --hand-written and --backend penny" in done.stderr
