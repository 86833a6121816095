"""Builds libpenny.so with cargo and puts it into the package. Everything else is in pyproject.toml."""

import json
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


def build_library() -> Path:
    """The library as cargo builds it for release."""
    manifest = HERE.parent / "Cargo.toml"
    if not manifest.exists():
        raise SystemExit(
            "Penny's Rust source is not here: build the Python package inside a checkout of Penny"
        )
    if shutil.which("cargo") is None:
        raise SystemExit("Penny is written in Rust, and there is no cargo: install it from https://rustup.rs")
    command = ["cargo", "build", "--release", "--package=penny", "--lib", f"--manifest-path={manifest}"]
    told = subprocess.run(
        [*command, "--message-format=json-render-diagnostics"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    files = [name for line in told.splitlines() for name in json.loads(line).get("filenames") or []]
    return Path(next(name for name in files if Path(name).name == "libpenny.so"))


class BuildWithLibrary(build_py):
    """Copies the library beside the modules; for an editable install that is in the source tree."""

    def library(self) -> Path:
        return (HERE / "src" if self.editable_mode else Path(self.build_lib)) / "penny" / "libpenny.so"

    def run(self) -> None:
        super().run()
        place = self.library()
        place.parent.mkdir(parents=True, exist_ok=True)
        # A process may have the old file mapped, so it is replaced and not written over.
        shutil.copyfile(build_library(), place.with_suffix(".new"))
        place.with_suffix(".new").replace(place)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), str(self.library())]


class PlatformWheel(bdist_wheel):
    """The library is called by ctypes: one wheel serves every Python 3 of the platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    """There is a library in it, though none that setuptools has built."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=PlatformDistribution, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
