"""What the compiler made of the casts in //kernels and of some of each family of fusions."""

from __future__ import annotations

import collections
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
            {"with_dact": True, "with_dbias": True, "activation": "dqgelu"},
            {"with_dact": True, "with_dbias": True, "activation": "dsrelu"},
        ),
    )
    if dtype == "bf16" or "with_act" not in fusion
]
# Of an element.
FUSED_MULTIPLY_ADDS = {"gelu": 1, "dgelu": 3, "dqgelu": 1}


@pytest.fixture(scope="module", params=architectures.ARCHITECTURES)
def kernels(request) -> tuple[Architecture, dict[str, list[str]]]:
    """An architecture, and the opcodes of some of its kernels."""
    architecture = architectures.get(request.param)
    images = [
        image
        for library in LIBRARIES
        if json.loads(library.with_suffix(".json").read_text())["architecture"] == request.param
        for image in cubins.find_cubins(library.read_bytes())
    ]
    chosen = {config.name for config in (*CASTS, *FUSIONS)}
    with ThreadPoolExecutor() as pool:
        usages = pool.map(nvidia_tools.resource_usage, images)
        wanted = [image for usage, image in zip(usages, images, strict=True) if chosen & set(usage)]
        opcodes = {
            name: [instruction.opcode for instruction in code.instructions]
            for codes in pool.map(nvidia_tools.machine_code, wanted)
            for name, code in codes.items()
        }
    assert chosen <= set(opcodes)
    return architecture, opcodes


def test_no_local_memory(kernels):
    """Would catch spills that the compiler's report leaves out."""
    for name, opcodes in kernels[1].items():
        assert not [opcode for opcode in opcodes if opcode.startswith(("LDL", "STL"))], name


def test_conversion_of_scales(kernels):
    """Would catch a hardware conversion that is not used."""
    architecture, codes = kernels
    for name, opcodes in codes.items():
        converts = any(re.match(r"F2FP\S*\.E8\.", opcode) for opcode in opcodes)
        assert converts == architecture.has_e8m0_conversion, name


def test_waits_for_the_kernel_before(kernels):
    """Would catch an access to memory that a kernel before it in the stream may still use, and a
    kernel after it that is held up until this one is done, or let start before this one was.
    """
    for name, opcodes in kernels[1].items():
        access = next(
            i for i, opcode in enumerate(opcodes) if re.match(r"(LDG|STG|REDG?|ATOMG?)\b", opcode)
        )
        assert "ACQBULK" in opcodes[:access], name
        assert opcodes.index("PREEXIT") > opcodes.index("ACQBULK"), name


def test_loads_come_first(kernels):
    """Would catch loads that wait for arithmetic, and inputs that are read more than once.

    Each kernel has two copies of its loads, one with predicates.
    """
    architecture, codes = kernels
    for name, opcodes in codes.items():
        loads = [
            nvidia_tools.loaded_bytes(opcode)
            for opcode in opcodes
            if nvidia_tools.loaded_bytes(opcode) or re.match(r"MUFU|F\w+2\b|[HF]MNMX|F2FP", opcode)
        ]
        config, shape = tuning.find(name, architecture)
        elements = shape.columns * shape.rows * (1 + config.with_dact)
        assert sum(loads) == 2 * elements * DTYPE_BYTES[config.dtype], name
        assert not any(itertools.dropwhile(bool, loads)), name


def test_wide_loads(kernels):
    """Would catch pieces of rows that whole tiles load in halves."""
    architecture, codes = kernels
    for name, opcodes in codes.items():
        config, shape = tuning.find(name, architecture)
        loads, rest = divmod(shape.columns * DTYPE_BYTES[config.dtype], 32)
        loads *= shape.rows * (1 + config.with_dact)
        wide = [code for code in opcodes if nvidia_tools.loaded_bytes(code) == 32]
        is_wide = architecture.has_32_byte_loads and not rest
        assert len(wide) == (loads if is_wide else 0), name


def test_arithmetic(kernels):
    """Would catch elements that are computed one at a time where an instruction takes two, and a
    product and a sum that became one rounding, or did not, on one architecture alone.
    """
    architecture, codes = kernels
    packed = architecture.has_packed_f32
    for name, opcodes in codes.items():
        config, shape = tuning.find(name, architecture)
        elements = shape.columns * shape.rows
        counts = collections.Counter(opcode.partition(".")[0] for opcode in opcodes)
        fused = {1: counts["FFMA"], 2: counts["FFMA2"]}
        expected = elements * FUSED_MULTIPLY_ADDS.get(config.activation, 0)
        assert fused == ({1: 0, 2: expected // 2} if packed else {1: expected, 2: 0}), name
        singles, pairs = (counts["FMUL" + suffix] + counts["FADD" + suffix] for suffix in ("", "2"))
        if packed:
            # What is left for single ones are the sums over the threads of a column.
            sums = shape.tile_rows // shape.rows - 1 if config.with_dbias else 0
            assert singles == sums * -(-shape.tile_columns // shape.threads), name
            assert 2 * pairs >= elements, name
        else:
            assert pairs == 0, name
