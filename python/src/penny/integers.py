"""Integers on their way into C: ctypes cuts what does not fit, so that 2**40 would become rank 0."""

from __future__ import annotations

from operator import index
from typing import Any

from ._errors import InvalidArgumentError


def number(name: str, value: Any) -> int:
    """An `int` of C: a rank, a root, a color, an index. `name` is that of the argument, for the sentence."""
    if type(value) is int and -0x80000000 <= value <= 0x7FFFFFFF:
        return value
    return within(name, value, -0x80000000, 0x7FFFFFFF)


def size(name: str, value: Any) -> int:
    """A `size_t` of C: a number of bytes or elements."""
    return within(name, value, 0, 0xFFFFFFFFFFFFFFFF)


def mask(name: str, value: Any) -> int:
    """An `unsigned int` of C."""
    return within(name, value, 0, 0xFFFFFFFF)


def word(name: str, value: Any) -> int:
    """A `uint64_t` of C: a signal, an amount, a time."""
    return within(name, value, 0, 0xFFFFFFFFFFFFFFFF)


def within(name: str, value: Any, least: int, most: int) -> int:
    """An integer in a range, both ends included."""
    try:
        given = index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but must be an integer") from None
    if not least <= given <= most:
        raise InvalidArgumentError(f"{name} is {given}, but must be in {least}..{most}")
    return given
