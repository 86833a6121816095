"""Puts the package of this checkout on the path of every process that a test starts, as pytest does for itself."""

import os
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
