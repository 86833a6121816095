"""Every program of docs/pytorch.md runs on two ranks and prints what the page says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from in_turn import Outcome, run_in_turn

PAGE = Path(__file__).resolve().parents[3] / "docs" / "pytorch.md"
PROGRAMS = re.findall(r"^## (.*?)\n.*?^```python\n(.*?)^```\n\nprints `(.*?)`", PAGE.read_text(), re.M | re.S)


def test_every_program_of_the_page_is_run() -> None:
    assert len(PROGRAMS) == PAGE.read_text().count("```python") == 6


def runs_here(section: str) -> bool:
    return section != "Lightning" or os.environ.get("PENNY_TORCH_FRAMEWORKS") == "1"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """How the programs of the page end, by their sections."""
    folder = tmp_path_factory.mktemp("page")
    chosen = [(section, program) for section, program, _ in PROGRAMS if runs_here(section)]
    scripts = [folder / f"program{number}.py" for number in range(len(chosen))]
    for script, (_, program) in zip(scripts, chosen, strict=True):
        # torch finds the backend by the package's entry point, which a checkout does not have.
        script.write_text("import penny.torch\n" + program)
    ends = run_in_turn([[str(script)] for script in scripts], folder)
    return dict(zip([section for section, _ in chosen], ends, strict=True))


@pytest.mark.parametrize(
    ("section", "promised"),
    [(section, promised) for section, _, promised in PROGRAMS],
    ids=[section for section, _, _ in PROGRAMS],
)
def test_a_program_prints_what_the_page_says(
    section: str, promised: str, outcomes: dict[str, Outcome]
) -> None:
    if not runs_here(section):
        pytest.skip("PENNY_TORCH_FRAMEWORKS=1 runs it, after .ci/packages python/requirements-frameworks.txt")
    outcome = outcomes[section]
    assert outcome.statuses == [0, 0], outcome.stdout + outcome.stderr
    assert promised in outcome.stdout.splitlines(), outcome.stdout + outcome.stderr
