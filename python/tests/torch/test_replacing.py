"""Programs that ask for gloo get Penny, where the user says so, without a change to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from installed import write_metadata
from launching import HERE

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
SCRIPT = str(HERE / "replaced.py")

# Only keeps a job that hangs from hanging the tests.
GUARD = 240


def run(arguments: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=GUARD,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
    )


def installed(folder: Path) -> str:
    return os.pathsep.join([os.environ["PYTHONPATH"], str(write_metadata(folder))])


def lines(maker: str, *arguments: str) -> list[str]:
    """What the program prints: twice the sum of its ranks' values, and who has made its groups."""
    return [
        f"{list(arguments)} {backend} [6.0, 6.0, 6.0] [0, 1] {maker}"
        for backend in ("gloo", "undefined", "cpu:gloo")
    ]


def test_the_variable_puts_penny_in_gloos_place(tmp_path: Path) -> None:
    done = run([*TORCHRUN, SCRIPT, "a"], PENNY_TORCH_REPLACE="gloo", PYTHONPATH=installed(tmp_path))
    assert done.stdout.splitlines() == lines("penny", "a"), done.stdout + done.stderr


def test_without_the_variable_gloo_is_gloo_and_penny_is_not_loaded(tmp_path: Path) -> None:
    program = "import sys, torch; print([name for name in sys.modules if 'penny' in name])"
    done = run(["-c", program], PYTHONPATH=installed(tmp_path))
    assert done.stdout == "['_penny_autoload']\n", done.stdout + done.stderr


def test_torchrun_runs_a_program_by_the_module(tmp_path: Path) -> None:
    done = run([*TORCHRUN, "-m", "penny.torch", SCRIPT, "a", "b"])
    assert done.stdout.splitlines() == lines("penny", "a", "b"), done.stdout + done.stderr


def test_a_program_finds_its_arguments_its_folder_and_its_name(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("text = 'beside'\n")
    told = "print(__name__, sys.argv, beside.text, os.environ['PENNY_TORCH_REPLACE'])\n"
    script = tmp_path / "program.py"
    script.write_text("import os, sys\nimport beside\n" + told)
    done = run(["-m", "penny.torch", str(script), "-m", "x"])
    assert done.stdout == f"__main__ ['{script}', '-m', 'x'] beside gloo\n", done.stderr
    by_name = run(
        ["-m", "penny.torch", "-m", "program", "y"],
        PYTHONPATH=os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)]),
    )
    assert by_name.stdout == f"__main__ ['{script}', 'y'] beside gloo\n", by_name.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [([], 2, "usage:"), (["missing.py"], 1, "there is no file missing.py"), (["--help"], 0, "")],
)
def test_a_wrong_command_line_is_explained(arguments: list[str], code: int, said: str) -> None:
    done = run(["-m", "penny.torch", *arguments])
    assert done.returncode == code and said in done.stderr, done.stderr
    assert bool(done.stdout) == (code == 0)


def test_no_other_backend_is_replaced(tmp_path: Path) -> None:
    done = run(["-c", "import torch"], PENNY_TORCH_REPLACE="nccl", PYTHONPATH=installed(tmp_path))
    assert done.returncode == 1
    assert "PENNY_TORCH_REPLACE is 'nccl', but Penny takes the place of gloo only" in done.stderr
