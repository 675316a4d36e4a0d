"""The packages of //kernels in PACKAGES, which hold SET."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from cutedsl import architectures
from cutedsl.config import select

# What a package of every configuration may weigh, and the CUDA runtime's share of it.
FULL_SIZE = 72_000_000
RUNTIME_SIZE = 1_000_000

SET = os.environ["SET"]
LIBRARIES = [path for path in map(Path, os.environ["PACKAGES"].split()) if path.suffix == ".so"]
MANIFESTS = [json.loads(path.with_suffix(".json").read_text()) for path in LIBRARIES]


def test_every_architecture_has_one():
    """Would catch a new architecture without a ready package."""
    served = [manifest["architecture"] for manifest in MANIFESTS]
    assert sorted(served) == sorted(architectures.ARCHITECTURES)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["name"])
def test_holds_its_set(manifest: dict):
    """Would catch a kernel that falls back to CUDA because nobody packaged it."""
    assert manifest["kernels"] == [config.name for config in select([SET])]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.stem)
def test_size(library: Path):
    """Would catch debug information, a runtime linked in whole, or kernels that grew too large."""
    content = library.read_bytes()
    size, compressed = len(content), len(zlib.compress(content))
    per_kernel = (FULL_SIZE - RUNTIME_SIZE) / len(select(["full"]))
    assert size <= RUNTIME_SIZE + len(select([SET])) * per_kernel
    assert compressed <= 0.3 * size
