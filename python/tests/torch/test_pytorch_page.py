"""Every program of docs/pytorch.md runs on two ranks and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "pytorch.md"
PROGRAMS = re.findall(r"^## (.*?)\n.*?^```python\n(.*?)^```\n\nprints `(.*?)`", PAGE.read_text(), re.M | re.S)

# Only keeps a job that hangs from hanging the tests.
GUARD = 240


def test_every_program_of_the_page_is_run() -> None:
    assert len(PROGRAMS) == PAGE.read_text().count("```python") == 6


@pytest.mark.parametrize(
    ("section", "program", "promised"), PROGRAMS, ids=[section for section, _, _ in PROGRAMS]
)
def test_a_program_prints_what_the_page_says(
    section: str, program: str, promised: str, tmp_path: Path
) -> None:
    if section == "Lightning" and os.environ.get("PENNY_TORCH_FRAMEWORKS") != "1":
        pytest.skip("PENNY_TORCH_FRAMEWORKS=1 runs it, after .ci/packages python/requirements-frameworks.txt")
    script = tmp_path / "program.py"
    # torch finds the backend by the package's entry point, which a checkout does not have.
    script.write_text("import penny.torch\n" + program)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)],
        capture_output=True,
        text=True,
        timeout=GUARD,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert promised in done.stdout.splitlines(), done.stdout + done.stderr
