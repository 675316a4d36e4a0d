"""Digest of the sources that decide what a compiled kernel contains. Needs no CuTeDSL."""

from __future__ import annotations

import functools
import hashlib
import pathlib

# Not among what a kernel is compiled from.
_EXCLUDED = ("reference.py",)


@functools.cache
def source_digest() -> str:
    """SHA-256 (64 hexadecimal digits) of the Python files of this package and their paths in it."""
    root = pathlib.Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        name = path.relative_to(root).as_posix()
        if name in _EXCLUDED:
            continue
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
