"""Writes the BUILD files of a pip_site repository; run in its root after the wheels lie in site/.

It runs on the interpreter that ran pip and takes the parser of requirements from there, so that
nothing else needs to be installed.
"""

import csv
import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

SITE = "site"


@dataclass
class Distribution:
    """An installed wheel: its files, below the repository's root, and what it needs."""

    name: str
    files: list[str]
    requires: set[str] = field(default_factory=set)

    @property
    def label(self) -> str:
        return self.name.replace("-", "_")


def is_usable(path: str) -> bool:
    """Whether a recorded file exists and can be a Bazel label."""
    return (
        os.path.isfile(os.path.join(SITE, path))
        and not path.startswith("..")
        and not path.endswith(".pyc")
        and ":" not in path
        and " " not in path
    )


def read_distribution(info: Path, extras: dict[str, list[str]]) -> Distribution:
    """Reads one *.dist-info folder."""
    metadata = (info / "METADATA").read_text(encoding="utf-8").split("\n\n")[0]
    name = canonicalize_name(re.findall(r"^Name: (.*)$", metadata, re.MULTILINE)[0].strip())
    with (info / "RECORD").open(encoding="utf-8", newline="") as record:
        recorded = {os.path.normpath(row[0]) for row in csv.reader(record) if row}
    wanted = ["", *extras.get(name, [])]
    requires = set()
    for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE):
        requirement = Requirement(line)
        marker = requirement.marker
        if not marker or any(marker.evaluate({"extra": extra}) for extra in wanted):
            requires.add(canonicalize_name(requirement.name))
    files = [f"{SITE}/{path}" for path in sorted(recorded) if is_usable(path)]
    return Distribution(name, files, requires - {name})


def call(rule: str, **attributes: object) -> str:
    """One rule instance in Starlark; JSON strings and lists are Starlark as well."""
    lines = [f"    {name} = {json.dumps(value, indent=4)}," for name, value in attributes.items()]
    return "\n".join([f"{rule}(", *lines, ")\n"])


def main() -> None:
    options = json.loads(sys.argv[1])
    infos = sorted(Path(SITE).glob("*.dist-info"))
    found = [read_distribution(info, options["extras"]) for info in infos]
    distributions = {distribution.name: distribution for distribution in found}
    root = [
        'load("@rules_python//python:py_library.bzl", "py_library")\n',
        'package(default_visibility = ["//visibility:public"])\n',
    ]
    # One file can be recorded by several wheels.
    every_file = sorted({file for distribution in found for file in distribution.files})
    root.append(f"exports_files({json.dumps(every_file, indent=4)})\n")
    for distribution in found:
        extra_imports = options["extra_imports"].get(distribution.name, [])
        root.append(
            call(
                "py_library",
                name=distribution.label,
                srcs=[file for file in distribution.files if file.endswith(".py")],
                data=[file for file in distribution.files if not file.endswith(".py")],
                imports=[SITE, *(f"{SITE}/{path}" for path in extra_imports)],
                deps=sorted(
                    ":" + distributions[name].label
                    for name in distribution.requires
                    if name in distributions
                ),
            )
        )
        root.append(call("filegroup", name=distribution.label + "_files", srcs=distribution.files))
        package = Path(distribution.label)
        package.mkdir(exist_ok=True)
        aliases = {
            distribution.label: distribution.label,
            "pkg": distribution.label,
            "files": distribution.label + "_files",
        }
        (package / "BUILD.bazel").write_text(
            'package(default_visibility = ["//visibility:public"])\n\n'
            + "\n".join(
                call("alias", name=name, actual=f"//:{target}") for name, target in aliases.items()
            ),
            encoding="utf-8",
        )
    Path("BUILD.bazel").write_text("\n".join(root), encoding="utf-8")


if __name__ == "__main__":
    main()
