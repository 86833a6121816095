"""The oldest version of torch that Penny works with; importing this module refuses older ones.

Before 2.14 torch's backends are written in C++: no class of Python can be derived from torch's class `Backend`.
"""

from __future__ import annotations

import torch

OLDEST = "2.14"

if tuple(map(int, torch.__version__.split(".")[:2])) < tuple(map(int, OLDEST.split("."))):
    raise ImportError(
        f"penny.torch needs torch {OLDEST} or later, and this is torch {torch.__version__}: update torch"
    )
