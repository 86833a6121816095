"""Programs that one start of torchrun runs one after the other, each in processes of its own.

    outcomes = run_in_turn([["ddp_digits.py", "--heap"], ["char_gpt.py"]], folder)

A rank imports torch once and forks for each program: importing takes most of the time of a short program. The programs of
all ranks meet at a port of their own, as after starts of torchrun of their own.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

RANKS = 2

# What programs import, if it is there.
IMPORTED = ["torch.distributed.fsdp", "torch.distributed.tensor.parallel", "transformers.models.llama"]

# A guard against hanging, and some more for each program.
GUARD = 240


@dataclass(frozen=True)
class Outcome:
    """What a program's ranks have printed, and the exit status of each."""

    stdout: str
    stderr: str
    statuses: list[int]


def run_in_turn(programs: Sequence[Sequence[str]], folder: Path) -> list[Outcome]:
    """Runs programs, each a script and its arguments, on two ranks; their output lies in `folder`, too."""
    # All are bound before one is let go, so that they differ.
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in programs]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    plan = folder / "plan"
    plan.write_text(
        json.dumps([[port, *map(str, program)] for port, program in zip(ports, programs, strict=True)])
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    done = subprocess.run(
        [*launch, __file__, str(plan), str(folder)],
        capture_output=True,
        text=True,
        timeout=GUARD + 20 * len(programs),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [
        Outcome(
            (folder / f"{number}.stdout").read_text(),
            (folder / f"{number}.stderr").read_text(),
            [int((folder / f"{number}.status{rank}").read_text()) for rank in range(RANKS)],
        )
        for number in range(len(programs))
    ]


def become(number: int, port: int, program: list[str], folder: Path) -> None:
    """Runs a program in this process as if it had been started by torchrun, which knows of one program only."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(folder / f"{number}.{name}", flags, 0o600), descriptor)
    # Rank 0 of the program holds its store; torchrun's own has the keys of the programs before it.
    own = {"TORCHELASTIC_USE_AGENT_STORE": "False", "TORCHELASTIC_RESTART_COUNT": str(number)}
    os.environ.update(own, MASTER_PORT=str(port))
    sys.argv = program
    sys.path[0] = str(Path(program[0]).parent)
    runpy.run_path(program[0], run_name="__main__")


def main(plan: Path, folder: Path) -> None:
    """Runs the plan's programs as one rank of them."""
    for name in IMPORTED:
        with suppress(ImportError):
            importlib.import_module(name)
    for number, (port, *program) in enumerate(json.loads(plan.read_text())):
        child = os.fork()
        if child == 0:
            return become(number, port, program, folder)
        _, status = os.waitpid(child, 0)
        status_file = folder / f"{number}.status{os.environ['RANK']}"
        status_file.write_text(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
