"""The progress hook: a program's own function is called while a call waits."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy
import pytest

import penny
from on_ranks import on_ranks


@on_ranks(2)
def test_a_rank_that_waits_calls_its_progress_hook(comm: penny.Communicator) -> None:
    calls = 0
    # Rank 1 comes when the hook has been called twice.
    called = Path(tempfile.gettempdir()) / f"penny-progress-{os.environ['PENNY_JOB_ID']}"

    def progress() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            called.touch()
        with pytest.raises(penny.InvalidUsageError, match="may not call Penny"):
            comm.barrier()

    if comm.rank == 0:
        penny.set_progress(progress)
    else:
        while not called.exists():
            time.sleep(0.01)
        called.unlink()
    values = numpy.full(3, comm.rank, "int32")
    comm.all_reduce(values)
    assert values.tolist() == [1, 1, 1]
    if comm.rank == 0:
        assert calls > 1
        penny.set_progress(None)
        calls = 0
    else:
        time.sleep(0.1)
    comm.barrier()
    assert calls == 0
