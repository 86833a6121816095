"""Runs a program with Penny in Gloo's place, as it is.

python -m penny.torch script.py args...
python -m penny.torch -m module args...
torchrun --nproc-per-node 2 -m penny.torch script.py args...
"""

from __future__ import annotations

import os
import runpy
import sys

from .replacing import REPLACEABLE, replace

_USAGE = """usage: python -m penny.torch [-m] PROGRAM [ARGUMENT...]

Runs a script, or a module with -m, in which torch.distributed's backend gloo is Penny.
The same without this command, where the package is installed: PENNY_TORCH_REPLACE=gloo python PROGRAM"""


def main() -> None:
    """Runs the program that the command line names as `__main__`."""
    arguments = sys.argv[1:]
    as_module = arguments[:1] == ["-m"]
    program = arguments[as_module:]
    if not program or program[0].startswith("-"):
        print(_USAGE, file=sys.stdout if program[:1] in (["-h"], ["--help"]) else sys.stderr)
        sys.exit(program[:1] not in (["-h"], ["--help"]) and 2)
    # The processes that it starts find the variable.
    os.environ["PENNY_TORCH_REPLACE"] = REPLACEABLE
    replace(REPLACEABLE)
    sys.argv = program
    if as_module:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    if not os.path.exists(program[0]):
        sys.exit(f"python -m penny.torch: there is no file {program[0]}")
    # Python has put the working folder here, for `-m`; a script finds the modules beside it.
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")


main()
