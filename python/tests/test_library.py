"""The declarations in Python against include/penny.h; how the library is found."""

import os
import re
import subprocess
import sys

import pytest

import penny
from on_ranks import ROOT, environment
from penny import _enums, _prototypes, _structs
from penny._library import QUICK

HEADER = re.sub(r"/\*.*?\*/|//[^\n]*", "", (ROOT / "include" / "penny.h").read_text(), flags=re.DOTALL)

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


def test_the_declarations_are_those_that_the_header_gives(tmp_path):
    subprocess.run([sys.executable, str(ROOT / "python" / "generate.py"), str(tmp_path)], check=True)
    for name in ("_structs.py", "_prototypes.py"):
        written, kept = (
            (place / name).read_text() for place in (tmp_path, ROOT / "python" / "src" / "penny")
        )
        assert written == kept, f"{name} is not what the header says: run python python/generate.py"


def test_every_function_and_struct_of_the_header_is_declared():
    functions = set(re.findall(r"\b(penny\w+)\(", HEADER)) - set(
        re.findall(r"typedef .*\b(penny\w+)\(", HEADER)
    )
    assert len(functions) > 100
    assert functions == {*_prototypes.RESULTS, *_prototypes.TEXTS}
    structs = set(re.findall(r"typedef struct \{[^{}]*\} penny(\w+?)(?:_t)?;", HEADER))
    assert len(structs) > 10 and all(hasattr(_structs, name) for name in structs)
    assert QUICK < functions


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


def test_the_module_says_where_the_library_is():
    def told(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "penny", *arguments], env=environment(), capture_output=True, text=True
        )

    assert told("library").stdout == f"{penny.lib.path}\n"
    assert told("pkg-config").stdout.endswith("/penny/lib/pkgconfig\n")
    assert told().stdout.startswith(f"penny {penny.__version__}\nlibrary: {penny.lib.path}\n")
    assert told("nothing").returncode == 2
