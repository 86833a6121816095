"""The package's entry points as they are where it is installed: torch finds Penny by them."""

from __future__ import annotations

import re
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def write_metadata(folder: Path) -> Path:
    """Writes the package's metadata with the entry points of pyproject.toml. Returns the folder for PYTHONPATH."""
    groups = re.findall(
        r'^\[project\.entry-points\."([\w.]+)"\]\n((?:\w+ = .*\n)+)', PYPROJECT.read_text(), re.M
    )
    assert {name for name, _ in groups} == {"torch.backends", "torch.distributed.backends"}
    place = folder / "penny_ccl-0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: penny-ccl\nVersion: 0\n")
    (place / "entry_points.txt").write_text(
        "".join(f"[{name}]\n{entries.replace(chr(34), '')}\n" for name, entries in groups)
    )
    return folder
