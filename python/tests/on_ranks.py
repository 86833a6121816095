"""Runs a test's body on several ranks, each a process, and shows what they said if one of them fails.

    @on_ranks(2)
    def test_a_sum_is_the_same_on_all_ranks(comm): ...

Pytest sees a function without arguments, which starts this file once for each rank; there the body is called
with the communicator. A name left in /dev/shm is a failure too.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# A guard against hanging, not a measurement.
LIMIT = 120


def penny_command() -> str:
    """The launcher of this build: beside the library that is tested, or where PENNY_COMMAND says."""
    named = os.environ.get("PENNY_COMMAND")
    if named:
        return named
    library = os.environ.get("PENNY_LIBRARY")
    folder = Path(library).parent if library else ROOT / "target" / "debug"
    return str(folder / "penny")


def environment(**variables: str) -> dict[str, str]:
    """Variables of a rank: those of this process without what another launch may have left."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    path = os.pathsep.join(filter(None, [str(HERE), kept.get("PYTHONPATH")]))
    kept.update(PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1", PENNY_TIMEOUT="60", OMP_NUM_THREADS="1")
    return {**kept, **variables}


def names_in_shared_memory() -> set[str]:
    """Penny's names in /dev/shm."""
    return {name for name in os.listdir("/dev/shm") if "penny" in name}


def start(rank: int, ranks: int, job: str, arguments: list[str], **variables: str) -> subprocess.Popen[str]:
    """Starts one rank with the variables of `penny run`, for tests that do something to single ranks."""
    own = {
        "PENNY_JOB_ID": job,
        "PENNY_RANK": str(rank),
        "PENNY_WORLD_SIZE": str(ranks),
        "PENNY_LOCAL_RANK": str(rank),
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(**own, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def new_job() -> str:
    """A number for a launch."""
    return uuid.uuid4().hex


def run(ranks: int, arguments: list[str], **variables: str) -> str:
    """Runs Python with these arguments as `ranks` ranks under `penny run`, and returns all their output."""
    before = names_in_shared_memory()
    done = subprocess.run(
        [penny_command(), "run", "-n", str(ranks), sys.executable, *arguments],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, (
        f"{ranks} ranks of {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}"
    )
    left = names_in_shared_memory() - before
    assert not left, f"{' '.join(arguments)} left {left} in /dev/shm"
    return done.stdout


def on_ranks(ranks: int, **variables: str) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Runs the body on `ranks` ranks, with further environment variables."""

    def decorate(body: Callable[..., None]) -> Callable[[], None]:
        @functools.wraps(body)
        def test() -> None:
            run(ranks, [__file__, inspect.getfile(body), body.__name__], **variables)

        del test.__wrapped__  # pytest would ask the body for its arguments
        test.body = body  # type: ignore[attr-defined]
        return test

    return decorate


def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _main(path: str, name: str) -> None:
    import penny

    with penny.init() as comm:
        getattr(_load(path), name).body(comm)


if __name__ == "__main__":
    _main(*sys.argv[1:])
