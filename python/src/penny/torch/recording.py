"""Counts what PyTorch's operators compute and move, for `penny record --flops`.

The library records when calls begin and end; this adds what was computed between them. Each operator is a line with the time at which
it ended, its floating-point operations by PyTorch's own formulas, and the bytes of the tensors that it reads and writes.
Views, and operators that only communicate, are left out. Only the thread that makes the first process group is counted, which
on a CPU computes the backward pass as well.
"""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import flop_registry

from torch import Tensor

# `penny record --flops` leaves a file of this name in the folder of the record.
_MARK = "count-work"

_counter: WorkCounter | None = None


class WorkCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operator from when it is entered until the process ends."""

    def __init__(self, file: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._file = file
        self._lines: list[tuple[int, int, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func.is_view or func.namespace != "aten":
            return result
        formula = flop_registry.get(func._overloadpacket)
        flops = int(formula(*args, **kwargs, out_val=result)) if formula else 0
        moved = sum(leaf.nbytes for leaf in tree_iter((args, kwargs, result)) if isinstance(leaf, Tensor))
        self._lines.append((time.monotonic_ns(), flops, moved))
        return result

    def write(self) -> None:
        """Writes the lines."""
        with self._file.open("w") as file:
            for at_ns, flops, moved in self._lines:
                file.write(f'{{"at_ns":{at_ns},"flops":{flops},"bytes":{moved}}}\n')


def begin() -> None:
    """Begins to count, once, where `penny record --flops` asks for it."""
    global _counter
    folder = os.environ.get("PENNY_RECORD")
    if _counter is not None or not folder or not Path(folder, _MARK).exists():
        return
    _counter = WorkCounter(Path(folder, f"{os.getpid()}.work"))
    _counter.__enter__()  # type: ignore[no-untyped-call]
    atexit.register(_counter.write)
