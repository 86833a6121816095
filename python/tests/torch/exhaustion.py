"""A program that uses up its shareable memory: what is dropped is given back, what exceeds it is ordinary memory."""

from __future__ import annotations

import warnings

import penny.torch
import torch
from samples import shareable

MEBI = 1 << 20


def main() -> None:
    """Expects PENNY_HEAP_SIZE to allow for two tensors of 8 MiB, not three."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(100):
            assert shareable(penny.torch.zeros(8 * MEBI, dtype=torch.uint8)), (
                "memory that was dropped has not come back"
            )
        assert not caught, caught[0].message
        kept = [penny.torch.ones(8 * MEBI, dtype=torch.uint8) for _ in range(6)]
        places = [shareable(tensor) for tensor in kept]
        assert places[0] and not places[-1], f"shareable are {places}"
        assert all(int(tensor.sum()) == 8 * MEBI for tensor in kept), (
            "the values are those of torch.ones in any memory"
        )
        assert len(caught) == 1, f"{len(caught)} warnings instead of one"
        assert "shareable memory" in str(caught[0].message)
        kept.clear()
        assert shareable(penny.torch.zeros(8 * MEBI, dtype=torch.uint8)), "it does not recover"


if __name__ == "__main__":
    main()
    print("done")
