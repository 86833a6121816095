"""Accelerate, the Trainer of transformers, Lightning and torch's own tests with Penny in gloo's place.

They need packages and minutes that the other tests do not, so they run where PENNY_TORCH_FRAMEWORKS is 1.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from installed import write_metadata
from launching import HERE

pytestmark = pytest.mark.skipif(
    os.environ.get("PENNY_TORCH_FRAMEWORKS") != "1",
    reason="PENNY_TORCH_FRAMEWORKS=1 runs them, after .ci/packages python/requirements-frameworks.txt",
)

# Only keeps a job that hangs from hanging the tests.
GUARD = 1200

BY_TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

# Torch's tests that fail over Penny, and why.
KNOWN_FAILURES = {
    # torch's code in C++ takes a group that says that it is gloo for its own class, so this one says `custom` there.
    "test_ddp_logging_data_cpu",
}
TESTS_OF_TORCH = 91


def printed(arguments: list[str], folder: Path, replaced: bool) -> str:
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(write_metadata(folder))]),
        "PENNY_TORCH_REPLACE": "gloo" if replaced else "",
    }
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=GUARD, env=environment
    )
    # torch's gloo can abort while a program ends, when all is done and printed (pytorch/pytorch#179291).
    assert done.returncode == 0 or (not replaced and done.stdout), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("script", "launch"),
    [
        ("accelerate_script.py", BY_TORCHRUN),
        ("trainer_script.py", BY_TORCHRUN),
        ("lightning_script.py", BY_TORCHRUN),
        ("lightning_script.py", []),
    ],
    ids=["accelerate", "trainer", "lightning", "lightning by itself"],
)
def test_a_training_has_the_losses_that_it_has_over_gloo(
    script: str, launch: list[str], tmp_path: Path
) -> None:
    losses, makers = {}, {}
    for replaced in (False, True):
        folder = tmp_path / str(replaced)
        folder.mkdir()
        text = printed([*launch, str(HERE / "frameworks" / script)], folder, replaced)
        losses[replaced] = re.findall(r"^losses (.*)$", text, re.M)
        makers[replaced] = re.findall(r"^groups of (\w+)", text, re.M)
    assert makers == {False: ["torch"], True: ["penny"]}
    assert len(losses[False]) == 1 and losses[False] == losses[True], losses


def test_torchs_own_tests_pass(tmp_path: Path) -> None:
    ends = dict(
        line.split(" ", 1)
        for line in printed([str(HERE / "torchs_own.py")], tmp_path, True).splitlines()
        if line.startswith("test_")
    )
    failed = {name: end for name, end in ends.items() if end != "ok"}
    assert failed.keys() == KNOWN_FAILURES, failed
    assert len(ends) == TESTS_OF_TORCH, sorted(ends)
