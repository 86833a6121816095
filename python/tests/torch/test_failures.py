"""Jobs that go wrong under torchrun: who is left is told who is missing, a restarted job works, nothing stays behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cases import BACKEND
from launching import Torchrun

Run = Callable[..., tuple[int, str, dict[str, str]]]


def names_in_shared_memory() -> set[str]:
    """Penny's names in /dev/shm, where other programs have some, too."""
    return {name for name in os.listdir("/dev/shm") if "penny" in name}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a scenario to its end: torchrun's exit code, what was printed, what the ranks noted."""
    jobs = []

    def run(scenario: str, ranks: int, *options: str) -> tuple[int, str, dict[str, str]]:
        notes = tmp_path / "notes"
        notes.mkdir()
        job = Torchrun("scenarios.py", [scenario, notes], ranks, tmp_path / "output", options)
        jobs.append(job)
        code = job.wait()
        return code, job.output, {note.name: note.read_text() for note in notes.iterdir()}

    yield run
    for job in jobs:
        job.end()


def assert_names(text: str, rank: int, output: str) -> None:
    """One of torch's own exceptions, whose sentence has the number of the rank."""
    assert text.startswith("True ") or BACKEND == "gloo", f"not one of torch's exceptions: {text}\n{output}"
    if BACKEND == "penny":
        assert f"rank {rank}" in text, f"rank {rank} is not named: {text}\n{output}"


def test_a_rank_that_does_not_come_is_named_and_the_next_meeting_succeeds(run: Run) -> None:
    code, output, notes = run("missing", 2)
    assert code == 0, output
    assert_names(notes["without0.1"], 0, output)
    assert_names(notes["without1.0"], 1, output)
    assert [notes[f"sum.{rank}"] for rank in range(2)] == ["1", "1"]


@pytest.mark.skipif(BACKEND == "gloo", reason="gloo tells that a connection was closed, not whose")
def test_a_killed_rank_is_named_by_all_who_wait_for_it(run: Run) -> None:
    before = names_in_shared_memory()
    code, output, notes = run("killed", 4)
    assert code != 0, "torchrun did not notice that a worker was killed"
    for victim, what in ((3, "all_reduce"), (2, "asynchronous"), (1, "recv")):
        for rank in range(victim):
            assert f"{what}.{rank}" in notes, f"rank {rank} has not come back from {what}\n{output}"
            assert_names(notes[f"{what}.{rank}"], victim, output)
    assert names_in_shared_memory() <= before


@pytest.mark.skipif(BACKEND == "gloo", reason="gloo connects to the addresses of the first attempt")
def test_a_restarted_job_works_and_nothing_stays_behind(run: Run) -> None:
    before = names_in_shared_memory()
    code, output, notes = run("restarted", 2, "--max-restarts=1")
    assert code == 0, output
    assert [notes[f"sum1.{rank}"] for rank in range(2)] == ["1", "1"]
    assert "sum0.0" not in notes and "sum0.1" not in notes, "the first attempt did not fail"
    for attempt in range(2):
        for rank in range(2):
            pid = notes[f"pid{attempt}.{rank}"]
            assert not Path(f"/proc/{pid}").exists(), f"process {pid} of attempt {attempt} is still there"
    assert names_in_shared_memory() <= before


def test_ranks_may_end_with_calls_under_way(run: Run) -> None:
    code, output, notes = run("unfinished", 2)
    assert code == 0, output
    assert set(notes) == {"end.0", "end.1"}
