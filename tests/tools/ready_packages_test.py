"""The packages of //kernels."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from cutedsl import architectures
from cutedsl.config import select

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
    """Would catch debug information, or a runtime linked in whole, in what users ship.

    1 MiB for the CUDA runtime and 50 KiB a kernel, which lets 1224 kernels fit into 60 MB.
    """
    content = PACKAGES[architecture].read_bytes()
    assert len(content) <= (1 << 20) + len(select(["cast"])) * 50 * 1024
    assert len(zlib.compress(content)) <= len(content) / 2
