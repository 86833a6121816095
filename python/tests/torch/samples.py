"""Inputs of every element type, the same on all ranks, and when two results count as equal."""

from __future__ import annotations

import zlib

import torch

INTEGERS = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FLOATS8 = (torch.float8_e4m3fn, torch.float8_e5m2)
COMPLEX = (torch.complex64, torch.complex128)
DTYPES = (torch.bool, *INTEGERS, *FLOATS, *FLOATS8, *COMPLEX)

GLOO_DTYPES = frozenset(DTYPES) - {torch.int16, torch.uint16, torch.uint32, torch.uint64, *FLOATS8}
"""What gloo's collectives take. For other calls the computed result is all there is to compare with."""


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def of_rank(rank: int, shape: tuple[int, ...], dtype: torch.dtype, about: str = "") -> torch.Tensor:
    """Rank `rank`'s input of a case. Anyone can compute anyone's.

    Eight-bit floats and integers are small enough that sums and products of four of them are exact.
    """
    generator = torch.Generator().manual_seed(zlib.crc32(f"{about} {rank} {shape} {dtype}".encode()))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype in FLOATS or dtype in COMPLEX:
        return torch.randn(shape, generator=generator, dtype=torch.float64 if dtype in FLOATS else dtype).to(
            dtype
        )
    low = 0 if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else -2
    return torch.randint(low, 3, shape, generator=generator).to(dtype)


def shareable(tensor: torch.Tensor) -> bool:
    """Whether the kernel maps the tensor's memory as shared, which is what other ranks can reach."""
    address = tensor.data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, flags = line.split(maxsplit=2)[:2]
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= address < last:
                return flags[3] == "s"
    raise ValueError(f"no memory is mapped at {address:#x}")


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in the type in which torch computes them without loss."""
    if tensor.dtype == torch.bool:
        return tensor
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64)


def assert_same(got: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Equal to the last bit: nothing was computed, or exactly."""
    assert_close(got, expected, what, rounding=0.0)


def assert_close(got: torch.Tensor, expected: torch.Tensor, what: str, rounding: float = 4.0) -> None:
    """Equal up to `rounding` units in the last place of the largest element, which is what orders of adding differ by."""
    assert got.shape == expected.shape, f"{what}: shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
    assert got.dtype == expected.dtype, f"{what}: {got.dtype} instead of {expected.dtype}"
    if got.numel() == 0:
        return
    a, b = wide(got), wide(expected)
    exact = rounding == 0.0 or not (got.is_floating_point() or got.is_complex())
    allowed = 0.0 if exact else rounding * torch.finfo(got.dtype).eps * max(1.0, float(b.abs().max()))
    wrong = (a != b) if exact else ~((a - b).abs() <= allowed)
    if wrong.any():
        where = tuple(int(i) for i in wrong.nonzero()[0])
        count = int(wrong.sum())
        raise AssertionError(
            f"{what}: {count} of {got.numel()} elements differ, the first at {where}: "
            f"{got[where].item()} instead of {expected[where].item()}"
        )
