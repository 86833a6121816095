"""Checks of a call's buffers: one element type, lengths that fit, writable outputs.

Checked before the library is called, so that a mistake is told in the words of the Python call and nothing is
touched.
"""

from __future__ import annotations

from operator import index
from typing import Any

from ._enums import ITEMSIZE, DataType, RedOp
from ._errors import InvalidArgumentError
from .buffers import Resolved, resolve
from .datatypes import data_type
from .premul import PreMulSum

# A buffer that is not looked at on this rank.
NOTHING: Resolved = (0, 0, None, True, None)

_OPS: dict[Any, RedOp] = {
    **{op: op for op in RedOp},
    **{op.name.lower(): op for op in RedOp},
    "product": RedOp.PROD,
}


def reduction(op: Any) -> int:
    """The number of a reduction, by a RedOp or its name in small letters."""
    if isinstance(op, PreMulSum):
        return op.number
    try:
        return _OPS[op]
    except (KeyError, TypeError):
        names = ", ".join(known.name.lower() for known in RedOp)
        raise InvalidArgumentError(f"op: {op!r} is no reduction; those are {names}") from None


def prepare(
    where: Any,
    call: str,
    send: Any,
    recv: Any,
    dtype: Any,
    count: int | None,
    send_blocks: int,
    recv_blocks: int,
) -> tuple[Resolved, Resolved, int, int]:
    """Returns both buffers, the element type and a block's elements, for a call that moves these numbers of blocks.

    Zero blocks: the buffer means nothing on this rank and is not looked at. `where` is the communicator, for
    sentences.
    """
    try:
        source = resolve(send) if send_blocks else NOTHING
        target = (source if send_blocks and recv is send else resolve(recv)) if recv_blocks else NOTHING
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{call}: {error} ({where})") from None
    except TypeError as error:
        # MPI's and torch's calls take the root where recv stands here.
        remedy = f"; a root is passed by its name, root={recv}" if isinstance(recv, int) else ""
        raise TypeError(f"{call}: {error}{remedy} ({where})") from None
    if dtype is None:
        element = source[2] if send_blocks else target[2]
        if element is None or (recv_blocks and target[2] != element):
            raise _no_common_type(where, call, source, target, send_blocks, recv_blocks)
    else:
        element = dtype if type(dtype) is DataType else data_type(dtype)
    size = ITEMSIZE[element]
    if recv_blocks and not target[3]:
        raise InvalidArgumentError(f"{call}: recv is read-only, and the result is written there ({where})")
    if count is None:
        # The smaller buffer of the two says how long a block is.
        if send_blocks and (send_blocks == 1 or recv_blocks != 1):
            count = source[1] // size // send_blocks
        else:
            count = target[1] // size // recv_blocks
        block = count * size
        if (send_blocks and source[1] != send_blocks * block) or (
            recv_blocks and target[1] != recv_blocks * block
        ):
            raise _wrong_length(where, call, source, target, element, count, send_blocks, recv_blocks, True)
    else:
        count = index(count)
        block = count * size
        if block < 0 or source[1] < send_blocks * block or target[1] < recv_blocks * block:
            raise _wrong_length(where, call, source, target, element, count, send_blocks, recv_blocks, False)
    return source, target, element, count


def _no_common_type(
    where: Any, call: str, source: Resolved, target: Resolved, send_blocks: int, recv_blocks: int
) -> InvalidArgumentError:
    for name, resolved, blocks in (("send", source, send_blocks), ("recv", target, recv_blocks)):
        if blocks and resolved[2] is None:
            return InvalidArgumentError(
                f"{call}: the elements of {name} have a type that Penny does not know: pass dtype=, such as "
                f'dtype="uint8" to move bytes ({where})'
            )
    return InvalidArgumentError(
        f"{call}: send is of {_name(source)} and recv of {_name(target)}: "
        f"pass buffers of one type, or dtype= ({where})"
    )


def _name(resolved: Resolved) -> str:
    return resolved[2].name.lower() if resolved[2] is not None else "an unknown type"


def _wrong_length(
    where: Any,
    call: str,
    source: Resolved,
    target: Resolved,
    element: int,
    count: int,
    send_blocks: int,
    recv_blocks: int,
    exactly: bool,
) -> InvalidArgumentError:
    """The sentence about the buffer that does not fit: exactly, or because it is too short."""
    dtype, size = DataType(element).name.lower(), ITEMSIZE[element]
    if count < 0:
        return InvalidArgumentError(f"{call}: count is {count}, but must not be negative ({where})")
    for name, resolved, blocks in (("send", source, send_blocks), ("recv", target, recv_blocks)):
        have, rest = divmod(resolved[1], size)
        if blocks and (have < blocks * count or (exactly and (rest or have != blocks * count))):
            has = f"{resolved[1]} bytes" if rest else f"{have} elements"
            each = f" ({blocks} blocks of {count})" if blocks > 1 else ""
            return InvalidArgumentError(
                f"{call}: {name} has {has}, but must have {blocks * count} elements of {dtype}{each} "
                f"({where}): pass buffers of these lengths, or count= to use the beginning of longer ones"
            )
    raise AssertionError("both buffers fit")
