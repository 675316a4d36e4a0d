"""Links compiled kernels into a kernel package: one shared library and its manifest.

A package is a table of kernels (generated C, see ffi_bridge/kernel_package_abi.h), the kernels'
objects, the CUDA error shim, and the static CUDA and CuTe runtimes; TVM-FFI stays a dependency, so
that a process has it once. It exports the kernels and the table, nothing else.

Compiler, flags and libraries come as a link recipe: JSON that the rule kernel_package_link_recipe
writes from the C++ toolchain. Its paths are relative to the folder commands run in.

As a program it is the Bazel action behind cutedsl_kernel_package.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutedsl import architectures
from cutedsl.config import QuantizeConfig, select
from tools.gen_kernels import manifest as manifests
from tools.gen_kernels import shards

GETTER = "cutedsl_quant_kernel_package"

# The same inputs must give the same bytes on every machine, whatever the toolchain's defaults are.
_COMPILE_FLAGS = ("-std=c11", "-O2", "-g0", "-fPIC", "-fvisibility=hidden")
_LINK_FLAGS = (
    "-shared",
    "-Wl,-Bsymbolic",
    "-Wl,-z,defs",
    "-Wl,-z,noexecstack",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
    "-Wl,--strip-all",
)


class PackageError(Exception):
    """A package could not be linked; the message holds what the compiler said."""


@dataclass(frozen=True)
class LinkRecipe:
    """How to compile and link for the target; see kernel_package_link_recipe."""

    compiler: str
    compile_flags: list[str]
    link_flags: list[str]
    environment: dict[str, str]
    source: str  # the error shim
    abi_header: str
    include_flags: list[str]
    libraries: list[str]
    library_flags: list[str]
    root: Path = field(default_factory=Path.cwd)  # commands run here

    @classmethod
    def load(cls, path: Path, root: Path) -> LinkRecipe:
        return cls(**json.loads(path.read_text(encoding="utf-8")), root=root)

    def run(self, *arguments: str | Path) -> None:
        """Runs the compiler; PackageError with its output if it fails."""
        command = [self.compiler, *map(str, arguments)]
        result = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment | {"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if result.returncode:
            raise PackageError(f"{self.compiler} failed ({result.returncode}):\n{result.stdout}")


def build_package(
    recipe: LinkRecipe,
    *,
    name: str,
    architecture: str,
    configs: Sequence[QuantizeConfig],
    objects: Sequence[Path],
    library: Path,
    manifest_path: Path,
    getter_alias: str | None = None,
) -> dict[str, Any]:
    """Links `objects`, which hold a kernel for each of `configs`.

    Writes the shared library and, after it, its manifest; returns the manifest.
    `getter_alias` is the suffix under which the package's getter is exported a second time.
    """
    configs = sorted(configs, key=lambda config: config.id)
    manifest = manifests.describe(
        name,
        architectures.get(architecture),
        configs,
        manifests.abi_version(recipe.root / recipe.abi_header),
    )
    getters = [GETTER] if getter_alias is None else [GETTER, f"{GETTER}_{getter_alias}"]
    library = library.absolute()
    with tempfile.TemporaryDirectory(prefix="kernel_package_") as scratch_name:
        scratch = Path(scratch_name)
        table = scratch / "table.c"
        table.write_text(table_source(configs, manifest, getters), encoding="utf-8")
        exports = scratch / "exports.lds"
        exports.write_text(version_script(configs, getters), encoding="utf-8")
        inputs = [path.absolute() for path in objects]
        for source in (table, Path(recipe.source)):
            inputs.append(scratch / (source.stem + ".o"))
            recipe.run(
                *recipe.compile_flags,
                *_COMPILE_FLAGS,
                f"-ffile-prefix-map={scratch}=.",
                *recipe.include_flags,
                "-c",
                source,
                "-o",
                inputs[-1],
            )
        # In a file, because a thousand objects can be more than a command line holds.
        response = scratch / "inputs.rsp"
        response.write_text("\n".join(f'"{path}"' for path in inputs), encoding="utf-8")
        recipe.run(
            *recipe.link_flags,
            *_LINK_FLAGS,
            f"-Wl,--version-script={exports}",
            f"-Wl,-soname,{library.name}",
            "-o",
            library,
            f"@{response}",
            "-Wl,--start-group",
            *recipe.libraries,
            "-Wl,--end-group",
            *recipe.library_flags,
        )
    described = manifests.describe_library(manifest, library)
    manifest_path.write_text(manifests.to_json(described), encoding="utf-8")
    return described


def table_source(
    configs: Sequence[QuantizeConfig], manifest: dict[str, Any], getters: Sequence[str]
) -> str:
    """The C source of the package's table; `configs` ascend by id."""
    declarations = "\n".join(
        f"extern int __tvm_ffi_{config.name}(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);"
        for config in configs
    )
    entries = "\n".join(
        f"    {{{config.id:#010x}u, __tvm_ffi_{config.name}}}," for config in configs
    )
    functions = "\n".join(
        f"EXPORT const CutedslQuantKernelPackage* {getter}(void) {{ return &package; }}"
        for getter in getters
    )
    # Numbers, because compilers only promise to take string literals of 4095 bytes.
    characters = ",".join(map(str, json.dumps(manifest).encode() + b"\0"))
    return f"""\
#include "ffi_bridge/kernel_package_abi.h"

#define EXPORT __attribute__((visibility("default")))

{declarations}

static const CutedslQuantPackagedKernel kernels[] = {{
{entries}
}};

static const char manifest[] = {{{characters}}};

static const CutedslQuantKernelPackage package = {{
    CUTEDSL_QUANT_KERNEL_ABI_VERSION, manifest, sizeof(kernels) / sizeof(kernels[0]), kernels}};

{functions}
"""


def version_script(configs: Sequence[QuantizeConfig], getters: Sequence[str]) -> str:
    """The linker script that exports the kernels and the getters and hides the rest."""
    exported = [f"__tvm_ffi_{config.name}" for config in configs] + list(getters)
    return "{ global: " + " ".join(f"{symbol};" for symbol in exported) + " local: *; };\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--config", action="append", required=True, dest="configs")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--getter-alias")
    parser.add_argument("shards", type=Path, nargs="+", help="from compile_worker")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="kernel_objects_") as scratch:
            build_package(
                LinkRecipe.load(args.recipe, Path.cwd()),
                name=args.name,
                architecture=args.arch,
                configs=select(args.configs),
                objects=shards.unpack(args.shards, Path(scratch)),
                library=args.library,
                manifest_path=args.manifest,
                getter_alias=args.getter_alias,
            )
    except (PackageError, ValueError) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
