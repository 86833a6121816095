"""The declarations in Python against include/penny.h, argument by argument; how the library is found."""

import ctypes
import os
import re
import subprocess
import sys

import pytest

import penny
from on_ranks import ROOT, environment
from penny import _enums, _prototypes, _structs

HEADER = re.sub(r"/\*.*?\*/|//[^\n]*", "", (ROOT / "include" / "penny.h").read_text(), flags=re.DOTALL)

NUMBERS = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "size_t": ctypes.c_size_t,
    "ptrdiff_t": ctypes.c_ssize_t,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "char": ctypes.c_char,
    "pennyHostFn_t": _prototypes.HOST_FUNCTION,
    "pennyProgress_t": _prototypes.HOST_FUNCTION,
    "pennyInterruptCheck_t": _prototypes.INTERRUPT_CHECK,
    "pennyParallelFor_t": _structs.PARALLEL_FOR,
    **{
        f"penny{name}_t": ctypes.c_int
        for name in (
            "Result",
            "DataType",
            "RedOp",
            "GroupKind",
            "SignalOp",
            "Cmp",
            "SemaphoreKind",
            "DeviceKind",
            "ScalarResidence",
            "CommMemStat",
            "ChannelRole",
            "SignalMode",
            "Termination",
        )
    },
}
HANDLES = {
    f"penny{name}_t" for name in ("Comm", "Stream", "Event", "Window", "Mailbox", "Semaphore", "Recording")
}
STRUCTS = {
    "pennyUniqueId": _structs.UniqueId,
    "pennyConfig_t": _structs.Config,
    "pennyWaitSignalDesc_t": _structs.WaitSignalDesc,
    "pennyFabricInfo_t": _structs.FabricInfo,
    "pennyFabricPort_t": _structs.FabricPort,
    "pennySimInfo_t": _structs.SimInfo,
    "pennyLinkChannel_t": _structs.LinkChannel,
    "pennyShmemStats_t": _structs.ShmemStats,
    "pennyMailboxConfig_t": _structs.MailboxConfig,
    "pennyMailboxMessage_t": _structs.MailboxMessage,
    "pennyMailboxKeyEntry_t": _structs.MailboxKeyEntry,
    "pennyMailboxStats_t": _structs.MailboxStats,
    "pennyDevice_t": _structs.Device,
    "pennyRemoteCopy_t": _structs.RemoteCopy,
}
ENUMS = {
    "pennyResult_t": _enums.Result,
    "pennyDataType_t": _enums.DataType,
    "pennyRedOp_t": _enums.RedOp,
    "pennyGroupKind_t": _enums.GroupKind,
    "pennySignalOp_t": _enums.SignalOp,
    "pennyCmp_t": _enums.Cmp,
    "pennySemaphoreKind_t": _enums.SemaphoreKind,
    "pennyDeviceKind_t": _enums.DeviceKind,
    "pennyScalarResidence_t": _enums.ScalarResidence,
    "pennyCommMemStat_t": _enums.CommMemStat,
    "pennyChannelRole_t": _enums.ChannelRole,
    "pennySignalMode_t": _enums.SignalMode,
    "pennyTermination_t": _enums.Termination,
}


def in_python(text):
    """The type in ctypes that a declaration in C stands for."""
    base = re.sub(r"\bconst\b", "", text)
    stars = base.count("*")
    base = " ".join(base.replace("*", " ").split())
    if base in HANDLES:
        base, stars = "void", stars + 1
    if base == "void":
        assert stars, text
        pointed = ctypes.c_void_p
        stars -= 1
    elif base == "char" and stars:
        pointed = ctypes.c_char_p
        stars -= 1
    else:
        pointed = NUMBERS.get(base) or STRUCTS[base]
    for _ in range(stars):
        pointed = ctypes.POINTER(pointed)
    return pointed


def functions():
    """Each function of the header: its name, and what it returns and takes in ctypes."""
    for returned, name, arguments in re.findall(
        r"^(pennyResult_t|const char \*)\s*(penny\w+)\((.*?)\);", HEADER, re.MULTILINE | re.DOTALL
    ):
        taken = []
        for argument in arguments.split(","):
            if argument.strip() != "void":
                taken.append(in_python(re.sub(r"\w+\s*$", "", argument.strip())))
        yield name, returned, tuple(taken)


def test_every_function_of_the_header_is_declared_with_its_arguments():
    declared = {**_prototypes.RESULTS, **_prototypes.TEXTS}
    header = {name: taken for name, _, taken in functions()}
    assert len(header) > 100
    missing = set(header) - set(declared)
    assert not missing, f"declare in _prototypes.py: {sorted(missing)}"
    invented = set(declared) - set(header)
    assert not invented, f"not in the header: {sorted(invented)}"
    for name, taken in header.items():
        assert declared[name] == taken, (
            f"{name} takes {taken} by the header, {declared[name]} by _prototypes.py"
        )


def test_functions_return_what_the_header_says():
    for name, returned, _ in functions():
        assert (name in _prototypes.TEXTS) == (returned == "const char *"), name


def test_structs_have_the_headers_fields():
    found = {
        name: body for body, name in re.findall(r"typedef struct \{(.*?)\} (penny\w+);", HEADER, re.DOTALL)
    }
    assert set(found) == set(STRUCTS)
    lengths = {"PENNY_UNIQUE_ID_BYTES": 128, "PENNY_MESH_DIMS": 4}
    for name, body in found.items():
        fields = []
        for declaration in filter(str.strip, body.split(";")):
            text, field, length = re.match(
                r"\s*(.*?)(\w+)\s*(?:\[(\w+)\])?\s*$", declaration, re.DOTALL
            ).groups()
            kind = in_python(text)
            if length:
                kind *= lengths.get(length) or int(length)
            fields.append((field, kind))
        assert STRUCTS[name]._fields_ == fields, name


def test_enums_have_the_headers_numbers():
    found = {
        name: body for body, name in re.findall(r"typedef enum \{(.*?)\} (penny\w+);", HEADER, re.DOTALL)
    }
    assert set(found) == set(ENUMS)
    for name, body in found.items():
        numbers = {int(number) for number in re.findall(r"= (\d+)", body)}
        # The number of results and the widest reduction are bounds, not values.
        numbers -= {9} if name == "pennyResult_t" else {2147483647}
        assert {int(member) for member in ENUMS[name]} == numbers, name


def test_names_of_enums_are_the_headers():
    for name, enum in ENUMS.items():
        body = re.search(r"typedef enum \{([^{}]*?)\} " + name, HEADER, re.DOTALL).group(1)
        header = {
            re.sub(
                r"^(PENNY_(SIGNAL|CMP)_|penny(Group|Semaphore|Device|StatMem|Channel|Termination|Signal)?)",
                "",
                word,
            )
            .replace("_", "")
            .lower(): int(number)
            for word, number in re.findall(r"(\w+) = (\d+)", body)
        }
        for member in enum:
            key = member.name.replace("_", "").lower()
            assert header.get(key, header.get("device" + key)) == member, f"{name}: {member.name}"


def test_constants_are_the_headers():
    defined = dict(re.findall(r"#define (PENNY_\w+) (-?\d+)\s", HEADER))
    assert _structs.UNIQUE_ID_BYTES == int(defined["PENNY_UNIQUE_ID_BYTES"])
    assert _structs.SPLIT_NOCOLOR == int(defined["PENNY_SPLIT_NOCOLOR"])
    assert _structs.MESH_DIMS == int(defined["PENNY_MESH_DIMS"])
    assert _structs.MAILBOX_FLIT_BYTES == int(defined["PENNY_MAILBOX_FLIT_BYTES"])
    assert (
        tuple(int(defined[f"PENNY_{part}"]) for part in ("MAJOR", "MINOR", "PATCH"))
        == _structs.HEADER_VERSION
    )
    for struct in _structs._Versioned.__subclasses__():
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", struct.__name__).upper()
        assert int(defined[f"PENNY_{name}_MAGIC"]) == struct.MAGIC, name


def test_the_version_is_that_of_the_header_and_of_the_package():
    assert penny.version() == _structs.HEADER_VERSION
    assert penny.__version__ == ".".join(map(str, _structs.HEADER_VERSION))
    project = (ROOT / "python" / "pyproject.toml").read_text()
    assert f'version = "{penny.__version__}"' in project


def test_a_library_that_is_not_there_is_an_import_error_that_says_what_to_do(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import penny"],
        env=environment(PENNY_LIBRARY=str(tmp_path / "libpenny.so")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ImportError: penny finds no libpenny.so.0" in done.stderr
    assert str(tmp_path) in done.stderr and "pip install ./python" in done.stderr


def test_a_library_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(penny._library, "HEADER_VERSION", (7, 3, 0))
    with pytest.raises(ImportError, match=r"is Penny 0\.1, but this package was made for 7\.3"):
        penny._library.load()


def test_every_failure_has_an_exception_of_its_own():
    from penny._errors import error_for

    classes = {type(error_for(result, "")) for result in penny.Result if result > 1}
    assert len(classes) == len(penny.Result) - 2
    assert penny.PennyError not in classes
    assert error_for(penny.Result.TIMEOUT, "late").result is penny.Result.TIMEOUT
    assert issubclass(penny.TimeoutError, TimeoutError)
    assert issubclass(penny.RemoteError, ConnectionError)
    assert issubclass(penny.InvalidArgumentError, ValueError)
    assert os.path.exists(penny.lib.path)
