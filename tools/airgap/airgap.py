#!/usr/bin/env python3
"""Makes the MODULE.bazel of a workspace resolvable without a network.

Usage: airgap.py PREFIX WORKSPACE

PREFIX is what setup_bazel.sh unpacked; it holds the modules that Debian packages. WORKSPACE is
only read. Below PREFIX/airgap this writes a registry and an rc file for the workspace, and prints
the path of the rc file. What is up to date is left alone, and files change in one step, so several
calls may run at once.

Modules that Bazel itself always needs are overridden, whatever version is asked for. Others that
Debian ships get an entry in the registry under each version that is asked for: to override a module
outside the graph is an error.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Named by Bazel's own MODULE.tools and never built here, so empty.
EMPTY_MODULES = ("apple_support", "buildozer", "protobuf", "zlib")

# Bazel's MODULE.tools uses this extension of buildozer for `bazel mod tidy`.
BUILDOZER_BINARY = """\
def _repo_impl(rctx):
    rctx.file("BUILD.bazel", "")
    rctx.file("buildozer.bzl", "BUILDOZER_LABEL = Label(\\"//:none\\")\\n")

_repo = repository_rule(implementation = _repo_impl)

def _impl(_mctx):
    _repo(name = "buildozer_binary")

_tag = tag_class(attrs = {"sha256": attr.string_dict(), "version": attr.string()})

buildozer_binary = module_extension(implementation = _impl, tag_classes = {"buildozer": _tag})
"""

# Debian's googletest is plain sources; these are the two labels that Bazel users know.
GOOGLETEST_MODULE = """\
module(name = "googletest")

bazel_dep(name = "rules_cc", version = "0.0.11")
"""

GOOGLETEST_BUILD = """\
load("@rules_cc//cc:cc_library.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "gtest",
    srcs = [
        "googlemock/src/gmock-all.cc",
        "googletest/src/gtest-all.cc",
    ],
    hdrs = glob([
        "googlemock/include/**/*.h",
        "googletest/include/**/*.h",
    ]),
    copts = ["-std=c++17"],
    includes = [
        "googlemock",
        "googlemock/include",
        "googletest",
        "googletest/include",
    ],
    linkopts = ["-pthread"],
    textual_hdrs = glob([
        "googlemock/src/*.cc",
        "googletest/src/*.cc",
        "googletest/src/*.h",
    ]),
)

cc_library(
    name = "gtest_main",
    srcs = ["googlemock/src/gmock_main.cc"],
    copts = ["-std=c++17"],
    deps = [":gtest"],
)
"""

MODULE_CALL = re.compile(r"^module\(.*?\)", re.MULTILINE | re.DOTALL)
BAZEL_DEP = re.compile(r"^bazel_dep\(([^)]*)\)", re.MULTILINE | re.DOTALL)
LOCAL_PATH_OVERRIDE = re.compile(r"^local_path_override\(([^)]*)\)", re.MULTILINE | re.DOTALL)


def write(path: Path, text: str) -> None:
    """Replaces a file in one step, and only if its content changes."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def string_argument(call: str, name: str) -> str | None:
    """The value of a string argument in the text between a call's parentheses."""
    match = re.search(rf'\b{name}\s*=\s*"([^"]*)"', call)
    return match[1] if match else None


def write_stand_ins(prefix: Path, modules: Path) -> None:
    """Writes the modules that Debian has no MODULE.bazel for."""
    for name in EMPTY_MODULES:
        write(modules / name / "MODULE.bazel", f'module(name = "{name}")\n')
        write(modules / name / "BUILD.bazel", "")
    write(modules / "buildozer" / "buildozer_binary.bzl", BUILDOZER_BINARY)
    googletest = modules / "googletest"
    for part in ("googletest", "googlemock"):
        if not (googletest / part).exists():
            googletest.mkdir(parents=True, exist_ok=True)
            copy = Path(tempfile.mkdtemp(dir=googletest)) / part
            shutil.copytree(
                prefix / "usr/src/googletest" / part,
                copy,
                ignore=shutil.ignore_patterns("BUILD*", "WORKSPACE*"),
            )
            try:
                copy.rename(googletest / part)
            except OSError:  # another call was faster
                shutil.rmtree(copy)
            copy.parent.rmdir()
    write(googletest / "MODULE.bazel", GOOGLETEST_MODULE)
    write(googletest / "BUILD.bazel", GOOGLETEST_BUILD)


def requested_modules(workspace: Path, known: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """Every (module, version) that the workspace and the modules it reaches ask for."""
    todo = [workspace]
    seen: set[Path] = set()
    while todo:
        folder = todo.pop()
        if folder in seen:
            continue
        seen.add(folder)
        text = (folder / "MODULE.bazel").read_text(encoding="utf-8")
        for call in LOCAL_PATH_OVERRIDE.findall(text):
            path = string_argument(call, "path")
            if path is not None and (folder / path / "MODULE.bazel").exists():
                todo.append((folder / path).resolve())
        for call in BAZEL_DEP.findall(text):
            name, version = string_argument(call, "name"), string_argument(call, "version")
            if name in known:
                todo.append(known[name])
                if version:
                    yield name, version


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    prefix, workspace = (Path(argument).resolve() for argument in sys.argv[1:])
    bazel = prefix / "usr/share/bazel"
    modules = prefix / "airgap/modules"
    own = prefix / "airgap/workspaces" / hashlib.sha256(str(workspace).encode()).hexdigest()[:16]

    write_stand_ins(prefix, modules)
    overridden = {name: modules / name for name in EMPTY_MODULES}
    overridden |= {
        "bazel_features": bazel / "tools/features",
        "bazel_skylib": bazel / "tools/skylib",
        "platforms": bazel / "tools/platforms",
    }
    rules = ("cc", "java", "license", "proto", "python")
    overridden |= {f"rules_{name}": bazel / "rules" / name for name in rules}
    served = {
        "googletest": modules / "googletest",
        "rules_pkg": bazel / "rules/pkg",
        "rules_shell": bazel / "rules/shell",
    }

    registry = own / "registry"
    for name, version in requested_modules(workspace, overridden | served):
        if name in served:
            entry = registry / "modules" / name / version
            text = (served[name] / "MODULE.bazel").read_text(encoding="utf-8")
            module = f'module(name = "{name}", version = "{version}")'
            write(entry / "MODULE.bazel", MODULE_CALL.sub(module, text, count=1))
            write(entry / "source.json", f'{{"type": "local_path", "path": "{served[name]}"}}\n')
    write(registry / "bazel_registry.json", "{}\n")

    flags = [f"registry=file://{registry}", "lockfile_mode=off", "noenable_workspace"]
    flags += [f"override_module={name}={path}" for name, path in sorted(overridden.items())]
    rc = own / "bazelrc"
    write(rc, f"# For {workspace}\n" + "".join(f"common --{flag}\n" for flag in flags))
    print(rc)


if __name__ == "__main__":
    main()
