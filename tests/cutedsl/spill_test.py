"""No kernel of the packages in PACKAGES spills registers, as the compiler reports."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cutedsl import architectures, tuning
from cutedsl.config import QuantizeConfig
from tools.kernel_report import cubins, nvidia_tools

LIBRARIES = [path for path in map(Path, os.environ["PACKAGES"].split()) if path.suffix == ".so"]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.stem)
def test_no_spills(library: Path):
    """Would catch a kernel whose registers do not suffice and go through memory instead."""
    usages = {}
    with ThreadPoolExecutor() as pool:
        for usage in pool.map(
            nvidia_tools.resource_usage, cubins.find_cubins(library.read_bytes())
        ):
            usages.update(usage)
    manifest = json.loads(library.with_suffix(".json").read_text())
    packaged = {
        shape.kernel_name(config)
        for config in map(QuantizeConfig.parse, manifest["kernels"])
        for shape in tuning.choose(config, architectures.get(manifest["architecture"]))
    }
    assert set(usages) == packaged  # not one that was not looked at
    assert {name: usage for name, usage in usages.items() if usage.spills} == {}
