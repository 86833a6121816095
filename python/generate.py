"""Writes the declarations of the C interface for ctypes, `_structs.py` and `_prototypes.py`, from include/penny.h.

python python/generate.py [FOLDER]      FOLDER: where to write; unset: python/src/penny
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = re.sub(r"/\*.*?\*/|//[^\n]*", "", (ROOT / "include" / "penny.h").read_text(), flags=re.DOTALL)

NUMBERS = {
    "int": "c_int",
    "unsigned int": "c_uint",
    "size_t": "c_size_t",
    "ptrdiff_t": "c_ssize_t",
    "uint64_t": "c_uint64",
    "float": "c_float",
    "double": "c_double",
    "char": "c_char",
}
# Enums cross the boundary as numbers, and handles as addresses.
ENUMS = set(
    re.findall(
        r"^\} (penny\w+_t);", "".join(re.findall(r"typedef enum \{.*?\} \w+;\n", HEADER, re.DOTALL)), re.M
    )
)
HANDLES = set(re.findall(r"^typedef struct \w+ \*?(?:const )?(penny\w+_t);", HEADER, re.M)) | {
    f"{name}_t" for name in re.findall(r"^typedef struct (penny\w+) \1;", HEADER, re.M)
}
CALLBACKS = re.findall(r"^typedef (.*?) \(\*(penny\w+_t)\)\((.*?)\);", HEADER, re.M)
STRUCTS = re.findall(r"typedef struct \{([^{}]*)\} (penny\w+);", HEADER)
DEFINED = dict(re.findall(r"^#define PENNY_(\w+) \(?(-?(?:0x)?[0-9A-Fa-f]+|INT_MIN)\)?\s*$", HEADER, re.M))
INITIALIZERS = dict(re.findall(r"\{sizeof\((penny\w+)\),([^}]*)\}", HEADER.replace("\\\n", " ")))

STRUCTS_HEAD = '''"""The structs and constants of the C interface, each with the initializer that its header gives it.

Written by python/generate.py from include/penny.h.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)

'''
VERSIONED = '''

class _Versioned(ctypes.Structure):
    """A struct that begins with its size, a magic number and the version of the header it was declared by."""

    MAGIC = 0
    # Fields whose value, unless it is given, is left to the library.
    UNDEFINED: tuple[str, ...] = ()

    def __init__(self, **values: object) -> None:
        undefined = dict.fromkeys(self.UNDEFINED, CONFIG_UNDEF_INT)
        head = {"size": ctypes.sizeof(self), "magic": self.MAGIC, "version": _VERSION_CODE}
        super().__init__(**{**head, **undefined, **values})


_HEAD = [("size", c_size_t), ("magic", c_uint), ("version", c_uint)]
'''
PROTOTYPES_HEAD = '''"""The parameters of each function of the C interface.

Written by python/generate.py from include/penny.h.
"""

from __future__ import annotations

from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_ssize_t, c_uint, c_uint64, c_void_p

from . import _structs as s

_P = c_void_p  # an address, or a handle
_I = c_int  # a number, or an enum
_Z = c_size_t
_U = c_uint
_U64 = c_uint64
_OUT_P = POINTER(c_void_p)
_OUT_I = POINTER(c_int)
_OUT_Z = POINTER(c_size_t)
_OUT_U64 = POINTER(c_uint64)

'''
SHORT = {
    "c_void_p": "_P",
    "c_int": "_I",
    "c_size_t": "_Z",
    "c_uint": "_U",
    "c_uint64": "_U64",
    "POINTER(c_void_p)": "_OUT_P",
    "POINTER(c_int)": "_OUT_I",
    "POINTER(c_size_t)": "_OUT_Z",
    "POINTER(c_uint64)": "_OUT_U64",
}


def class_of(name: str) -> str:
    """The class of a struct: pennyConfig_t is Config."""
    return name.removeprefix("penny").removesuffix("_t")


def constant_of(name: str) -> str:
    """A name in capitals: pennyHostFn_t is HOST_FN."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_of(name)).upper()


def in_ctypes(declared: str, prefix: str = "") -> str:
    """The type in ctypes that a type in C stands for; `prefix` stands before names of _structs.py."""
    base = re.sub(r"\bconst\b", "", declared)
    stars = base.count("*")
    base = " ".join(base.replace("*", " ").split())
    if base in HANDLES:
        base, stars = "void", stars + 1
    if base in ("void", "char") and stars:
        told = {"void": "c_void_p", "char": "c_char_p"}[base]
        stars -= 1
    elif base in ENUMS:
        told = "c_int"
    elif any(base == name for _, name, _ in CALLBACKS):
        told = prefix + constant_of(base)
    elif any(base == name for _, name in STRUCTS):
        told = prefix + class_of(base)
    else:
        told = NUMBERS[base]
    return "POINTER(" * stars + told + ")" * stars


def parameters(declared: str, prefix: str = "") -> list[str]:
    """The types of a list of parameters."""
    each = [parameter.strip() for parameter in declared.split(",")]
    return [in_ctypes(re.sub(r"\w+$", "", parameter), prefix) for parameter in each if parameter != "void"]


def structs() -> str:
    """The text of _structs.py."""
    lines = [STRUCTS_HEAD]
    for name, value in DEFINED.items():
        if not name.endswith("_MAGIC") and name not in ("MAJOR", "MINOR", "PATCH"):
            lines.append(f"{name} = {'-(2**31)' if value == 'INT_MIN' else value}\n")
    version = ", ".join(DEFINED[part] for part in ("MAJOR", "MINOR", "PATCH"))
    lines.append(
        "# The version of the header that these declarations follow, as PENNY_VERSION_CODE counts.\n"
    )
    lines.append(f"HEADER_VERSION = ({version})\n")
    lines.append(
        "_VERSION_CODE = HEADER_VERSION[0] * 10000 + HEADER_VERSION[1] * 100 + HEADER_VERSION[2]\n\n"
    )
    for returned, name, taken in CALLBACKS:
        result = "None" if returned == "void" else in_ctypes(returned)
        lines.append(f"{constant_of(name)} = CFUNCTYPE({', '.join([result, *parameters(taken)])})\n")
    lines.append(VERSIONED)
    for body, name in ordered(STRUCTS):
        lines.append(struct(name, body))
    return "".join(lines)


def ordered(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The structs, those behind that have another as a field."""
    names = {name for _, name in found}
    return sorted(found, key=lambda each: any(re.search(rf"\b{name}\b(?! *\*)", each[0]) for name in names))


def struct(name: str, body: str) -> str:
    """The class of a struct."""
    fields = []
    for declared in filter(str.strip, body.split(";")):
        kind, field, length = re.fullmatch(r"\s*(.*?)(\w+)\s*(?:\[(\w+)\])?\s*", declared, re.DOTALL).groups()
        told = in_ctypes(kind)
        fields.append((field, f"{told} * {length.removeprefix('PENNY_')}" if length else told))
    lines = [f'\n\nclass {class_of(name)}(ctypes.Structure):\n    """{name}."""\n\n']
    if name in INITIALIZERS:
        lines = [line.replace("ctypes.Structure", "_Versioned") for line in lines]
        magic = f"{constant_of(name)}_MAGIC"
        lines.append(f"    MAGIC = {DEFINED[magic]}\n")
        values = INITIALIZERS[name].split(",")
        undefined = [
            field for (field, _), value in zip(fields[1:], values, strict=True) if "UNDEF_INT" in value
        ]
        if undefined:
            lines.append(
                f"    UNDEFINED = ({', '.join(f'{chr(34)}{field}{chr(34)}' for field in undefined)})\n"
            )
        fields = fields[3:]
    lines.append("    _fields_ = [\n")
    if name in INITIALIZERS:
        lines.append("        *_HEAD,\n")
    lines += [f'        ("{field}", {kind}),\n' for field, kind in fields]
    return "".join([*lines, "    ]\n"])


def prototypes() -> str:
    """The text of _prototypes.py."""
    found = re.findall(r"^(pennyResult_t|const char \*)\s*(penny\w+)\((.*?)\);", HEADER, re.M | re.DOTALL)
    tables = {
        "RESULTS": ("pennyResult_t", "Functions that return a result."),
        "TEXTS": ("const char *", "Functions that return text."),
    }
    lines = [PROTOTYPES_HEAD]
    for table, (wanted, sentence) in tables.items():
        lines.append(f"# {sentence}\n{table}: dict[str, tuple[type, ...]] = {{\n")
        for returned, name, taken in found:
            if returned == wanted:
                kinds = [SHORT.get(kind, kind) for kind in parameters(taken, "s.")]
                lines.append(f'    "{name}": ({", ".join(kinds)}{"," if len(kinds) == 1 else ""}),\n')
        lines.append("}\n\n")
    return "".join(lines).rstrip("\n") + "\n"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "python" / "src" / "penny"
    (folder / "_structs.py").write_text(structs())
    (folder / "_prototypes.py").write_text(prototypes())


main()
