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

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SMALL = ["--layers", "2", "--hidden", "64", "--tokens", "6"]


def printed(script: str, *options: str) -> str:
    """What an example prints on two ranks; the timeout only keeps one that hangs from hanging the tests.

    On a loaded machine a process of torch's own gloo backend can abort while the interpreter ends, when all is done and printed
    (pytorch/pytorch#179291), so only what it has printed counts.
    """
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command = [*launch, str(EXAMPLES / script), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 or ("gloo" in options and done.stdout), done.stdout + done.stderr
    return done.stdout


def decoded(*options: str) -> dict[str, Any]:
    pytest.importorskip("transformers", reason="the Llama needs transformers and accelerate")
    pytest.importorskip("accelerate", reason="transformers' tensor parallelism needs accelerate")
    report: dict[str, Any] = json.loads(printed("tp_llama.py", *SMALL, "--rounds", "1", "--json", *options))
    return report


def test_digits_are_learnt_and_shareable_memory_and_gloo_learn_the_same_bits() -> None:
    fingerprints = set()
    for options in (["--heap"], ["--backend", "gloo"]):
        text = printed("ddp_digits.py", *options)
        right = re.search(r"held out: \d+ of 359 right \(([\d.]+) %\)", text)
        assert right and float(right[1]) > 95, text
        assert "the networks of all ranks are the same" in text
        fingerprints.update(re.findall(r"fingerprint: (\w{16})", text))
    assert len(fingerprints) == 1, fingerprints


def test_a_llama_decodes_the_same_tokens_by_plan_by_hand_in_shareable_memory_and_by_gloo() -> None:
    by_plan, by_hand, by_gloo = decoded(), decoded("--hand-written", "--heap"), decoded("--backend", "gloo")
    assert by_plan["same"] and len(by_plan["ids"]) == 6
    assert by_plan["ids"] == by_hand["ids"] == by_gloo["ids"]
    # Each of the two layers all-reduces twice a token.
    assert by_plan["all_reduces_per_token"] == by_hand["all_reduces_per_token"] == 4


def test_a_small_gpt_learns_the_same_whether_its_gradients_are_reduced_meanwhile_or_at_once() -> None:
    small = ["--steps", "20", "--width", "32", "--layers", "2", "--bucket-mib", "0.02", "--json"]
    ways = [[], ["--no-overlap"], ["--backend", "gloo"]]
    reports = [json.loads(printed("char_gpt.py", *small, *way)) for way in ways]
    assert reports[0]["last_loss"] < reports[0]["first_loss"]
    assert all(report["last_loss"] == pytest.approx(reports[0]["last_loss"], rel=1e-3) for report in reports)


def test_machines_that_are_not_here_are_compared_and_equal_runs_tell_equal_times() -> None:
    pytest.importorskip("transformers", reason="the Llama needs transformers")
    text = printed("fabric_what_if.py", *SMALL, "--machines", "dgx-h100", "dgx-h100", "t3000")
    assert "a token on 2 ranks: 4 all-reduces, 1024 bytes" in text
    assert "ids on all machines the same" in text
    times = re.findall(
        r"^(.*): ([\d.]+) us a token, [\d.]+ us an all-reduce, [\d.]+ times dgx-h100$", text, re.M
    )
    assert [machine for machine, _ in times] == ["dgx-h100", "dgx-h100", "t3000"]
    assert times[0] == times[1] and 0 < float(times[0][1]) != float(times[2][1])
