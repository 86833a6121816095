"""Element types by any of their names: Penny's, numpy's, torch's, the buffer protocol's, DLPack's."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from ._enums import DataType
from ._errors import InvalidArgumentError

_BY_NAME: dict[str, DataType] = {
    **{dtype.name.lower(): dtype for dtype in DataType},
    "float8_e4m3fn": DataType.FLOAT8E4M3,
    "float8_e5m2": DataType.FLOAT8E5M2,
    "half": DataType.FLOAT16,
    "float": DataType.FLOAT32,
    "double": DataType.FLOAT64,
}

# The struct module's letters. Those whose size depends on the machine are told apart by the size of an item.
_SIGNED = {1: DataType.INT8, 2: DataType.INT16, 4: DataType.INT32, 8: DataType.INT64}
_UNSIGNED = {1: DataType.UINT8, 2: DataType.UINT16, 4: DataType.UINT32, 8: DataType.UINT64}
_FLOATING = {2: DataType.FLOAT16, 4: DataType.FLOAT32, 8: DataType.FLOAT64}
_LETTERS: dict[str, dict[int, DataType]] = {
    **dict.fromkeys("bhilqn", _SIGNED),
    **dict.fromkeys("BHILQNc", _UNSIGNED),
    **dict.fromkeys("efd", _FLOATING),
    "?": {1: DataType.BOOL},
}
_FOREIGN_ORDER = ">!" if sys.byteorder == "little" else "<"

# DLPack's codes with the bits of an element.
_DLPACK: dict[tuple[int, int], DataType] = {
    **{(0, 8 * size): dtype for size, dtype in _SIGNED.items()},
    **{(1, 8 * size): dtype for size, dtype in _UNSIGNED.items()},
    **{(2, 8 * size): dtype for size, dtype in _FLOATING.items()},
    (4, 16): DataType.BFLOAT16,
    (6, 8): DataType.BOOL,
    (10, 8): DataType.FLOAT8E4M3,
    (12, 8): DataType.FLOAT8E5M2,
}

# Types that one element can be passed by address in.
SCALARS: dict[int, Any] = {
    DataType.INT8: ctypes.c_int8,
    DataType.UINT8: ctypes.c_uint8,
    DataType.INT16: ctypes.c_int16,
    DataType.UINT16: ctypes.c_uint16,
    DataType.INT32: ctypes.c_int32,
    DataType.UINT32: ctypes.c_uint32,
    DataType.INT64: ctypes.c_int64,
    DataType.UINT64: ctypes.c_uint64,
    DataType.FLOAT32: ctypes.c_float,
    DataType.FLOAT64: ctypes.c_double,
    DataType.BOOL: ctypes.c_bool,
}


def data_type(name: Any) -> DataType:
    """The element type that a DataType, a name like "bfloat16", or a dtype of numpy or torch stands for."""
    if isinstance(name, DataType):
        return name
    text = name if isinstance(name, str) else getattr(name, "name", None) or getattr(name, "__name__", None)
    if not isinstance(text, str):
        text = str(name)
    found = _BY_NAME.get(text.removeprefix("torch.").removesuffix("_"))
    if found is None or getattr(name, "isnative", True) is False:
        known = ", ".join(dtype.name.lower() for dtype in DataType)
        raise InvalidArgumentError(f"dtype: {name!r} is no element type of Penny; those are {known}")
    return found


def known(name: Any) -> DataType | None:
    """The same, or None where Penny has no such type: such a buffer can be passed with a dtype of its own."""
    try:
        return data_type(name)
    except InvalidArgumentError:
        return None


def of_format(text: str, itemsize: int) -> DataType | None:
    """The element type of a buffer by the format that its memoryview tells."""
    if text[:1] in _FOREIGN_ORDER and itemsize > 1:
        return None
    return _LETTERS.get(text.lstrip("@=<>!"), {}).get(itemsize)


def of_dlpack(code: int, bits: int) -> DataType | None:
    """The element type of a DLPack tensor."""
    return _DLPACK.get((code, bits))
