"""A shard: the objects that one Bazel action compiles, in one file for the action that links them.

A package's configurations are dealt out to `count` shards; shard i gets every count-th one,
starting at i, so that neighbours (which take equally long) end up in different shards. The file is
a tar archive without anything that changes from run to run.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from cutedsl.config import QuantizeConfig


def deal(configs: Sequence[QuantizeConfig], index: int, count: int) -> Sequence[QuantizeConfig]:
    """The configurations of shard `index` of `count`; ValueError if there is no such shard."""
    if not 0 <= index < count:
        raise ValueError(f"there is no shard {index} of {count}")
    return configs[index::count]


def pack(objects: Iterable[Path], archive: Path) -> None:
    """Writes `archive` with `objects` in the given order, each under its file's name."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in objects:
            member = tarfile.TarInfo(path.name)
            member.size = path.stat().st_size
            with path.open("rb") as content:
                tar.addfile(member, content)


def unpack(archives: Iterable[Path], folder: Path) -> list[Path]:
    """Extracts the objects of all `archives` into `folder`; returns their paths, sorted."""
    for archive in archives:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    return sorted(folder.iterdir())
