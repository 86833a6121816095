"""Builds the library and the command `penny` with cargo, and puts them into the wheel; adds their source to the source distribution.

The wheel has in `penny/`: `lib/libpenny.so.0` (stripped), `lib/pkgconfig/penny.pc`, `include`; beside it the command. A source
distribution has the workspace in `rust`, so that wheels and source distributions are built from it as from a checkout.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("penny", "penny-cli")

# Cargo reads the manifests of all members of the workspace, also of those that are not built.
WORKSPACE = (
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "build.rs",
    "install.sh",
    "build",
    "src",
    "include",
    "examples",
    "bench",
    "cli",
    "compat",
    "ffi-tests",
)

# Hatch takes a folder once, and ffi-tests/die-points of a checkout has a link to this one.
LINKED = "ffi-tests/src/bin/victim"

# The prefix is found from the place of the file, because an environment may lie anywhere.
PKG_CONFIG = """prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib

Name: penny
Description: Collective communication between processes, over shared memory and libfabric
Version: {version}
Cflags: -I${{prefix}}/include
Libs: -L${{libdir}} -l:{soname} -Wl,-rpath,${{libdir}}
"""


class CargoHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatch calls it before it packs a wheel or a source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        # In a checkout the workspace is above this folder, in a source distribution below it.
        workspace = root / "rust" if (root / "rust" / "Cargo.toml").exists() else root.parent
        if self.target_name == "sdist":
            for name in (*WORKSPACE, LINKED) if workspace == root.parent else WORKSPACE:
                build_data["force_include"][str(workspace / name)] = f"rust/{name}"
            return
        built = build(workspace)
        number = self.metadata.version
        soname = f"libpenny.so.{number.split('.')[0]}"
        # It lives as long as the hook, which hatch keeps until the wheel is packed.
        self.folder = tempfile.TemporaryDirectory()
        package = root / "src" / "penny" if version == "editable" else Path(self.folder.name) / "penny"
        (package / "lib" / "pkgconfig").mkdir(parents=True, exist_ok=True)
        stripped(built / "libpenny.so", package / "lib" / soname)
        (package / "lib" / "pkgconfig" / "penny.pc").write_text(
            PKG_CONFIG.format(version=number, soname=soname)
        )
        headers = shutil.ignore_patterns("*.md")
        shutil.copytree(workspace / "include", package / "include", ignore=headers, dirs_exist_ok=True)
        if version != "editable":
            for name in ("LICENSE-MIT", "LICENSE-APACHE"):
                shutil.copy(workspace / name, package)
            (package / "THIRD-PARTY-LICENSES").write_text(licences(workspace))
            build_data["force_include"][str(package)] = "penny"
        command = Path(self.folder.name) / "command"
        stripped(built / "penny", command)
        build_data["shared_scripts"][str(command)] = "penny"
        build_data["pure_python"] = False
        # ctypes calls the library, so one wheel serves every Python; a release gives the wheel the tag of its C library.
        machine = os.environ.get("CARGO_BUILD_TARGET", platform.machine()).split("-")[0]
        build_data["tag"] = f"py3-none-linux_{machine}"


def build(workspace: Path) -> Path:
    """Builds for release, and returns the folder of what was built: the one that cargo has for everybody in a checkout."""
    chosen = [option for name in PACKAGES for option in ("--package", name)]
    command = ["cargo", "build", "--release", "--locked", *chosen]
    try:
        subprocess.run(command, cwd=workspace, check=True)
    except FileNotFoundError:
        raise RuntimeError(
            "the library is written in Rust, and there is no cargo: install https://rustup.rs"
        ) from None
    target = json.loads(metadata(workspace, "--no-deps"))["target_directory"]
    # Cargo puts what it builds for a named platform into a folder of that name.
    return Path(target) / os.environ.get("CARGO_BUILD_TARGET", "") / "release"


def metadata(workspace: Path, *options: str) -> bytes:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", *options]
    return subprocess.run(command, cwd=workspace, check=True, stdout=subprocess.PIPE).stdout


def stripped(source: Path, to: Path) -> None:
    """Copies a binary without its debug information."""
    shutil.copy(source, to)
    to.chmod(0o755)
    subprocess.run([os.environ.get("STRIP", "strip"), "--strip-unneeded", str(to)], check=True)


def licences(workspace: Path) -> str:
    """The licences of what the two binaries contain beside Penny."""
    told = json.loads(metadata(workspace, "--filter-platform", f"{platform.machine()}-unknown-linux-gnu"))
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    open_ids = [
        each for each, package in packages.items() if package["name"] in PACKAGES and not package["source"]
    ]
    seen = set(open_ids)
    while open_ids:
        for dependency in nodes[open_ids.pop()]["deps"]:
            linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                open_ids.append(dependency["pkg"])
    crates: list[str] = []
    texts: dict[str, list[str]] = {}
    for package in sorted((packages[each] for each in seen), key=lambda package: package["name"]):
        if package["source"]:
            name = f"{package['name']} {package['version']}"
            crates.append(f"{name}: {package['license']}")
            for path in sorted(Path(package["manifest_path"]).parent.iterdir()):
                if path.is_file() and path.name.upper().startswith(("LICEN", "COPY", "NOTICE")):
                    texts.setdefault(path.read_text(errors="replace"), []).append(name)
    parts = [f"{', '.join(names)}:\n\n{text}" for text, names in texts.items()]
    return f"\n{'-' * 80}\n".join(["\n".join(crates), *parts])
