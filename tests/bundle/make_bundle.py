"""Writes the archive of gpu_bundle. The same inputs give the same bytes."""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_MAIN_REPOSITORY = "_main"


def runfiles_path(short_path: str) -> str:
    """Where a file lies in a runfiles tree: repositories side by side."""
    if short_path.startswith("../"):
        return short_path.removeprefix("../")
    return f"{_MAIN_REPOSITORY}/{short_path}"


def select(entries: Iterable[str], exclude: list[str]) -> Iterator[tuple[str, Path]]:
    """Pairs of runfiles path and file, sorted, without what `exclude` matches."""
    files = {}
    for entry in entries:
        short_path, path = entry.split("\t")
        files[runfiles_path(short_path)] = Path(path)
    for name in sorted(files):
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in exclude):
            yield name, files[name]


def write(archive: Path, folder: str, files: Iterable[tuple[str, Path]], index: bytes) -> None:
    """Writes a compressed tar archive of `files`, below `folder`.

    Shared libraries are in a runfiles tree twice; the second becomes a hard link to the first.
    """
    first_of: dict[Path, str] = {}
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        member = tarfile.TarInfo(f"{folder}/bundle.json")
        member.size = len(index)
        tar.addfile(member, io.BytesIO(index))
        for name, path in files:
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            real = path.resolve()
            if real in first_of:
                member.type = tarfile.LNKTYPE
                member.linkname = first_of[real]
                tar.addfile(member)
                continue
            first_of[real] = member.name
            member.size = real.stat().st_size
            with real.open("rb") as content:
                tar.addfile(member, content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("--archive", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--program", action="append", default=[], dest="programs")
    parser.add_argument("--import", action="append", default=[], dest="imports")
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("--file", action="append", default=[], dest="files")
    args = parser.parse_args()
    programs = dict(program.split("=", 1) for program in args.programs)
    index = {
        "programs": {name: runfiles_path(path) for name, path in sorted(programs.items())},
        "imports": args.imports,
    }
    files = [(name, path) for name, path in select(args.files, args.exclude) if path != args.run]
    write(
        args.archive,
        args.name,
        [("run.py", args.run), *files],
        json.dumps(index, indent=2).encode() + b"\n",
    )


if __name__ == "__main__":
    main()
