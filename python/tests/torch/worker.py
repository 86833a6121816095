"""What torchrun starts: runs the named cases on this rank and writes down how each ended.

    torchrun --nproc-per-node 2 worker.py PLAN REPORTS

PLAN is a JSON list of [file, case]; the outcomes go to REPORTS/rank<r>, a line of JSON each. After every case the
ranks tell each other through torchrun's store how it went, so that all know of a failure, and meet afresh: a group in
which a collective failed on one rank is of no use to the next case.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

import torch.distributed as dist

import torch
from cases import BACKEND, PATIENCE, Case, Job, Skip

HANG_SECONDS = 90
"""A case that takes longer hangs: its stacks are printed and the job is ended."""


class Ranks:
    """How the ranks meet, and meet again after a failure."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._store = dist.TCPStore(
            os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False
        )
        self._meetings = 0

    def meet(self) -> Job:
        """The first time as every program does; later in a part of the store where nothing is left from before."""
        if self._meetings == 0:
            dist.init_process_group(BACKEND, timeout=PATIENCE)
        else:
            store = dist.PrefixStore(f"meeting{self._meetings}", self._store)
            dist.init_process_group(
                BACKEND, store=store, rank=self.rank, world_size=self.size, timeout=PATIENCE
            )
        self._meetings += 1
        sys.excepthook = sys.__excepthook__  # each meeting puts another "[rank0]:" before each line
        gloo = dist.new_group(backend="gloo", timeout=PATIENCE)
        store = dist.PrefixStore(f"cases{self._meetings}", self._store)
        return Job(self.rank, self.size, dist.group.WORLD, gloo, store)

    def part(self) -> None:
        """Leaves whatever groups there are, in whatever state."""
        try:
            dist.destroy_process_group()
        except Exception:
            traceback.print_exc()

    def all_well(self, number: int, well: bool) -> bool:
        """Whether case `number` went well on every rank."""
        store = dist.PrefixStore(f"outcome{number}", self._store)
        store.set(str(self.rank), "well" if well else "failed")
        return [store.get(str(peer)) for peer in range(self.size)] == [b"well"] * self.size


def run(case: Case, job: Job) -> tuple[str, str]:
    """The state of the case on this rank, and the text that belongs to it."""
    torch.manual_seed(0)
    try:
        case.body(job)
    except Skip as reason:
        return "skipped", str(reason)
    except BaseException:
        return "failed", traceback.format_exc()
    return "passed", ""


def main(plan: Path, reports: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ranks = Ranks()
    job = ranks.meet()
    with open(reports / f"rank{ranks.rank}", "a", buffering=1) as report:
        for number, (file, name) in enumerate(json.loads(plan.read_text())):
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            print(f"rank {ranks.rank} begins {file}: {name}", flush=True)
            state, text = run(importlib.import_module(file).CASES[name], job)
            print(json.dumps([file, name, state, text]), file=report)
            if not ranks.all_well(number, state != "failed"):
                ranks.part()
                job = ranks.meet()
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    ranks.part()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
