"""torchrun as a process of the test: started, watched, and ended with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent

OVERALL_SECONDS = 240
"""After this a job hangs for certain. Nothing passes by the clock; this only ends what would never end."""

ONE_COMPILER = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Ranks compile at the same time already."""


class Torchrun:
    """One run of torchrun with `ranks` workers of `script`. Everything that is printed goes to `output`."""

    def __init__(
        self,
        script: str,
        arguments: Sequence[str | Path],
        ranks: int,
        output: Path,
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self._output = output
        with open(output, "wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
                + [*options, str(HERE / script), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {}),
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def pause(self) -> None:
        """Lets it work for a moment, or until it ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.05)

    def wait(self) -> int:
        """Its exit code; a job that hangs is ended and fails the test."""
        try:
            return self._process.wait(OVERALL_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"torchrun did not end:\n{self.output}") from None

    def end(self) -> None:
        """Ends it, its workers first: torchrun passes a SIGTERM on, and kills those whom that does not impress."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@dataclass(frozen=True)
class Outcome:
    """How a case ended on the ranks: the worst state of them, and what each had to say."""

    state: str
    text: str


class Report:
    """What one rank writes down, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._outcomes: dict[tuple[str, str], tuple[str, str]] = {}

    def outcome(self, file: str, name: str) -> tuple[str, str] | None:
        """State and text of a case that has ended on this rank."""
        if (file, name) not in self._outcomes and self._path.exists():
            with open(self._path) as lines:
                lines.seek(self._read)
                text = lines.read()
            whole = text[: text.rfind("\n") + 1]
            self._read += len(whole)
            for line in whole.splitlines():
                its_file, its_name, state, its_text = json.loads(line)
                self._outcomes[its_file, its_name] = (state, its_text)
        return self._outcomes.get((file, name))


class CaseJob:
    """Cases on a number of ranks, one start of torchrun for all of them as long as none takes it down."""

    def __init__(self, cases: Sequence[tuple[str, str]], ranks: int, folder: Path) -> None:
        self._ranks = ranks
        self._folder = folder
        self._open = list(cases)
        self._starts = 0
        self._run = self._start()

    def _start(self) -> Torchrun:
        self._starts += 1
        folder = self._folder / f"start{self._starts}"
        folder.mkdir()
        self._reports = [Report(folder / f"rank{rank}") for rank in range(self._ranks)]
        plan = folder / "plan"
        plan.write_text(json.dumps(self._open))
        return Torchrun("worker.py", [plan, folder], self._ranks, folder / "output", environment=ONE_COMPILER)

    def outcome(self, file: str, name: str) -> Outcome:
        """Waits for the case to end on all ranks, or for its ranks to end with it."""
        while True:
            running = self._run.running
            told = self._told(file, name)
            if len(told) == self._ranks:
                self._open.remove((file, name))
                return self._worst(told)
            if running:
                self._run.pause()
                continue
            self._open.remove((file, name))
            lost = self._run.output[-8000:]
            if self._open:
                self._run = self._start()
            return Outcome("failed", f"the job ended before the case did:\n{lost}")

    def _told(self, file: str, name: str) -> dict[int, tuple[str, str]]:
        """What the ranks have written about the case by now."""
        told = [report.outcome(file, name) for report in self._reports]
        return {rank: outcome for rank, outcome in enumerate(told) if outcome}

    def _worst(self, told: dict[int, tuple[str, str]]) -> Outcome:
        for state in ("failed", "skipped"):
            ranks: dict[str, list[str]] = {}
            for rank, (its_state, text) in sorted(told.items()):
                if its_state == state:
                    ranks.setdefault(text, []).append(str(rank))
            if ranks:
                return Outcome(
                    state, "\n".join(f"rank {', '.join(who)}: {text}" for text, who in ranks.items())
                )
        return Outcome("passed", "")

    def end(self) -> None:
        """Ends the ranks; if they had nothing left to do, they have to end by themselves, and well."""
        if self._open:
            self._run.end()
        elif code := self._run.wait():
            raise AssertionError(
                f"after its last case the job ended with {code}:\n{self._run.output[-8000:]}"
            )
