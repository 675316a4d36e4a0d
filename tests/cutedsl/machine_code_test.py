"""What the compiler made of the casts in //kernels and of some of each family of fusions."""

from __future__ import annotations

import itertools
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cutedsl import architectures, tuning
from cutedsl.architectures import Architecture
from cutedsl.config import DTYPE_BYTES, QuantizeConfig, config_sets
from tools.kernel_report import cubins, nvidia_tools

LIBRARIES = [path for path in map(Path, os.environ["PACKAGES"].split()) if path.suffix == ".so"]

# To save time, not all kernels are read.
CASTS = [
    config
    for config in config_sets()["cast"]
    if config.dtype != "fp16" and config.fp8_dtype == "fp8_e4m3fn"
]
FUSIONS = [
    QuantizeConfig(dtype, "fp8_e4m3fn", rowwise, colwise, swizzled, with_amax=True, **fusion)
    for dtype, (rowwise, colwise, swizzled), fusion in itertools.product(
        ("bf16", "fp32"),
        ((True, False, False), (False, True, True), (True, True, False)),
        (
            {"with_dbias": True},
            {"with_act": True, "activation": "gelu"},
            {"with_act": True, "activation": "srelu"},
            {"with_dact": True, "activation": "dgelu"},
            {"with_dact": True, "with_dbias": True, "activation": "dgelu"},
        ),
    )
    if dtype == "bf16" or "with_act" not in fusion
]


@pytest.fixture(scope="module", params=architectures.ARCHITECTURES)
def kernels(request) -> tuple[Architecture, dict[QuantizeConfig, list[str]]]:
    """An architecture, and for each configuration the opcodes of its kernel."""
    architecture = architectures.get(request.param)
    images = [
        image
        for library in LIBRARIES
        if json.loads(library.with_suffix(".json").read_text())["architecture"] == request.param
        for image in cubins.find_cubins(library.read_bytes())
    ]
    chosen = [*CASTS, *FUSIONS]
    with ThreadPoolExecutor() as pool:
        by_name = {
            name: image
            for usage, image in zip(
                pool.map(nvidia_tools.resource_usage, images), images, strict=True
            )
            for name in usage
        }
        codes = pool.map(
            lambda config: nvidia_tools.machine_code(by_name[config.name]).instructions, chosen
        )
    opcodes = [[instruction.opcode for instruction in code] for code in codes]
    return architecture, dict(zip(chosen, opcodes, strict=True))


def test_no_local_memory(kernels):
    """Would catch spills that the compiler's report leaves out."""
    for config, opcodes in kernels[1].items():
        assert not [opcode for opcode in opcodes if opcode.startswith(("LDL", "STL"))], config.name


def test_conversion_of_scales(kernels):
    """Would catch a hardware conversion that is not used."""
    architecture, codes = kernels
    for config, opcodes in codes.items():
        converts = any(re.match(r"F2FP\S*\.E8\.", opcode) for opcode in opcodes)
        assert converts == architecture.has_e8m0_conversion, config.name


def test_loads_come_first(kernels):
    """Would catch loads that wait for arithmetic, and inputs that are read more than once.

    Each kernel has two copies of its loads, one with predicates.
    """
    architecture, codes = kernels
    for config, opcodes in codes.items():
        steps = [code for code in opcodes if re.match(r"LDG\.\S*128|MUFU|[HF]MNMX|F2FP", code)]
        loads = sum(step.startswith("LDG") for step in steps)
        shape = tuning.choose(config, architecture)
        elements = shape.columns * shape.rows * (1 + config.with_dact)
        assert loads == 2 * elements * DTYPE_BYTES[config.dtype] // 16, config.name
        assert all(step.startswith("LDG") for step in steps[:loads]), config.name
