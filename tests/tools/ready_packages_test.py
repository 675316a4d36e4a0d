"""The packages of //kernels."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from cutedsl import architectures
from cutedsl.config import select

# What a package of every configuration may weigh, and the CUDA runtime's share of it.
FULL_SIZE = 60_000_000
RUNTIME_SIZE = 1_000_000

PACKAGES = {
    path.stem.removeprefix("libkernels_"): path
    for path in map(Path, os.environ["PACKAGES"].split())
    if path.suffix == ".so"
}


def test_every_architecture_has_one():
    """Would catch a new architecture without a ready package."""
    assert set(PACKAGES) == set(architectures.ARCHITECTURES)


@pytest.mark.parametrize("architecture", PACKAGES)
def test_holds_the_casts(architecture: str):
    """Would catch a plain cast that falls back to CUDA because nobody packaged it."""
    described = json.loads(PACKAGES[architecture].with_suffix(".json").read_text())
    assert described["architecture"] == architecture
    assert described["kernels"] == [config.name for config in select(["cast"])]


@pytest.mark.parametrize("architecture", PACKAGES)
def test_size(architecture: str):
    """Would catch debug information, a runtime linked in whole, or kernels that grew too large."""
    content = PACKAGES[architecture].read_bytes()
    per_kernel = (FULL_SIZE - RUNTIME_SIZE) / len(select(["full"]))
    assert len(content) <= RUNTIME_SIZE + len(select(["cast"])) * per_kernel
    assert len(zlib.compress(content)) <= len(content) / 4
