"""Reads what a shared library exports, needs and would search: just enough of 64-bit ELF."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_SHT_DYNAMIC = 6
_SHT_DYNSYM = 11
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 14, 15, 29


@dataclass(frozen=True)
class SharedLibrary:
    exported: frozenset[str]  # defined dynamic symbols
    imported: frozenset[str]  # undefined dynamic symbols that must be found
    needed: tuple[str, ...]
    soname: str | None
    search_path: str | None  # DT_RPATH or DT_RUNPATH


def read(path: Path) -> SharedLibrary:
    """The dynamic part of the library at `path`."""
    data = path.read_bytes()
    assert data[:5] == b"\x7fELF\x02", f"{path} is no 64-bit ELF file"
    (sections_at,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * entry_size) for i in range(count)
    ]

    def content(section: tuple[int, ...]) -> bytes:
        return data[section[4] : section[4] + section[5]]

    def text(strings: bytes, offset: int) -> str:
        return strings[offset : strings.index(b"\0", offset)].decode()

    exported, imported = set(), set()
    dynamic: dict[int, list[str]] = {}
    for section in sections:
        if section[1] == _SHT_DYNSYM:
            strings = content(sections[section[6]])
            for name, info, _, index, _, _ in struct.iter_unpack("<IBBHQQ", content(section)):
                is_weak = info >> 4 == 2
                if index:
                    exported.add(text(strings, name))
                elif name and not is_weak:
                    imported.add(text(strings, name))
        elif section[1] == _SHT_DYNAMIC:
            strings = content(sections[section[6]])
            for tag, value in struct.iter_unpack("<qQ", content(section)):
                if tag in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH):
                    dynamic.setdefault(tag, []).append(text(strings, value))
    paths = dynamic.get(_DT_RPATH, []) + dynamic.get(_DT_RUNPATH, [])
    return SharedLibrary(
        exported=frozenset(exported),
        imported=frozenset(imported),
        needed=tuple(dynamic.get(_DT_NEEDED, ())),
        soname=dynamic.get(_DT_SONAME, [None])[0],
        search_path=":".join(paths) or None,
    )
