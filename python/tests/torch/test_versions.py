"""A torch that is too old is refused in one sentence, and the package asks for the same version."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

import torch
from installed import PYPROJECT
from penny.torch import versions


def test_an_older_torch_is_refused_in_one_sentence() -> None:
    program = "import torch; torch.__version__ = '2.13.0+cu130'; import penny.torch"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = "penny.torch needs torch 2.14 or later, and this is torch 2.13.0+cu130: update torch"
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == f"ImportError: {said}", done.stderr


@pytest.mark.parametrize(
    ("version", "is_taken"),
    [("1.14.1", False), ("2.9.1", False), ("2.14.0", True), ("2.15.0a0+gitd0f2af8", True), ("3.0.1", True)],
)
def test_versions_are_compared_as_numbers(
    version: str, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    if is_taken:
        runpy.run_path(versions.__file__)
    else:
        with pytest.raises(ImportError, match=f"this is torch {version}"):
            runpy.run_path(versions.__file__)


def test_the_package_asks_for_the_same_version() -> None:
    assert f'torch = ["torch>={versions.OLDEST}"]\n' in PYPROJECT.read_text()
