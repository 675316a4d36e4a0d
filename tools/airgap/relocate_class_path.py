#!/usr/bin/env python3
"""Points the class path of a Bazel unpacked into PREFIX at the jars there.

Usage: relocate_class_path.py PREFIX

Debian's Bazel reads its class path from a text file of absolute paths, and the manifests of those
jars name further ones. All of them go into the file, below PREFIX; jars nobody names are removed.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path


def manifest_class_path(jar: Path) -> list[str]:
    """The Class-Path entries of a jar's manifest."""
    with zipfile.ZipFile(jar) as archive:
        if "META-INF/MANIFEST.MF" not in archive.namelist():
            return []
        manifest = archive.read("META-INF/MANIFEST.MF").decode()
    # A long line goes on in the next one after a blank.
    unfolded = manifest.replace("\r", "").replace("\n ", "")
    match = re.search(r"^Class-Path: (.*)$", unfolded, re.MULTILINE)
    return match[1].split() if match else []


def main() -> None:
    prefix = Path(sys.argv[1])
    listing = prefix / "usr/share/bazel/bazel_classpath_debian_depends.txt"

    def below_prefix(path: str) -> Path:
        return prefix / path.strip().lstrip("/")

    todo = [below_prefix(line) for line in listing.read_text(encoding="utf-8").splitlines()]
    jars: dict[Path, None] = {}
    for jar in todo:
        if jar in jars or not jar.exists():
            continue
        jars[jar] = None
        for entry in manifest_class_path(jar):
            todo.append(below_prefix(entry) if entry.startswith("/") else jar.parent / entry)
    listing.write_text("".join(f"{jar}\n" for jar in jars), encoding="utf-8")

    used = {jar.resolve() for jar in jars} | {Path(jar) for jar in jars}
    for file in (prefix / "usr/share/java").rglob("*"):
        if not file.is_dir() and file not in used and file.resolve() not in used:
            file.unlink()


if __name__ == "__main__":
    main()
