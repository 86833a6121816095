"""Says where the library is that this package uses, for programs in C: `python -m penny [library|include|pkg-config]`."""

from __future__ import annotations

import sys
from pathlib import Path

from . import __version__, lib

_PACKAGE = Path(__file__).parent
_PLACES = {
    "library": lib.path,
    "include": str(_PACKAGE / "include"),
    "pkg-config": str(_PACKAGE / "lib" / "pkgconfig"),
}


def main(arguments: list[str]) -> int:
    """Prints one of the places, or all."""
    if not arguments:
        print(f"penny {__version__}")
        for name, place in _PLACES.items():
            print(f"{name}: {place}")
        return 0
    if len(arguments) > 1 or arguments[0] not in _PLACES:
        print(f"usage: python -m penny [{'|'.join(_PLACES)}]", file=sys.stderr)
        return 2
    print(_PLACES[arguments[0]])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
